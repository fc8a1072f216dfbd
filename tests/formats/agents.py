"""A small home of every agent whose sessions turnlog reads, with the truth about it.

An agent is added by a function that writes such a home. Everything in ``test_agents`` then holds
for it, or is missing from the table in the docs.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from codex_world import write_world
from turnlog.formats import format_named
from turnlog.formats.format import Format

ONE, TWO = "5a1e0000-aaaa-4aaa-8aaa-00000000000a", "5a1e0000-aaaa-4aaa-8aaa-00000000000b"


class Truth(NamedTuple):
    """What is in a written home."""

    prompts: dict[str, list[str]]
    """What a person typed, by session, without what a session took over from another."""
    counters: Counter | None
    """The usage of all sessions; None if turnlog does not count that agent's."""


class Agent(NamedTuple):
    """An agent, the versions whose sessions were read, and what writes a small home of it."""

    format: Format
    versions: str
    write: Callable[[Path], Truth]


def write_claude_code(home):
    usage = {
        "input_tokens": 7,
        "output_tokens": 30,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 1000,
    }
    prompts = {ONE: ["Where is the ladder?", "Which shed?"], TWO: ["Is it going to rain?"]}
    project = home / "projects" / "-srv-orchard"
    project.mkdir(parents=True)
    for session_id, asked in prompts.items():
        lines, parent = [], None
        for number, prompt in enumerate(asked):
            place = {"sessionId": session_id, "cwd": "/srv/orchard", "version": "2.1.207"}
            at = f"2026-10-05T09:3{number}:00.000Z"
            answer = {"id": f"msg_{session_id[-1]}{number}", "role": "assistant"}
            answer |= {"type": "message", "model": "claude-sonnet-4-5-20250929", "usage": usage}
            for kind, message in (
                ("user", {"role": "user", "content": prompt}),
                ("assistant", answer | {"content": [{"type": "text", "text": "In the barn."}]}),
                ("assistant", answer | {"content": [{"type": "text", "text": "I think."}]}),
            ):
                uuid = f"{session_id[:-4]}{len(lines):04}"
                link = {"uuid": uuid, "parentUuid": parent, "timestamp": at, "type": kind}
                lines.append(json.dumps(link | place | {"message": message}))
                parent = uuid
        (project / f"{session_id}.jsonl").write_text("\n".join(lines) + "\n")
    counted = Counter(messages=1, input=7, output=30, cache_write_5m=200, cache_read=1000)
    return Truth(prompts, Counter({name: count * 3 for name, count in counted.items()}))


def write_codex(home):
    world = write_world(home)
    prompts = {each.id: each.prompts for each in world.rollouts if each.spawned_by is None}
    return Truth(prompts, world.counters)


def write_copilot(home):
    prompts = {ONE: ["Which tree is the oldest?", "Prune it"], TWO: ["Count the hens"]}
    for session_id, asked in prompts.items():
        context = {"cwd": "/srv/orchard", "branch": "main"}
        start = {"sessionId": session_id, "copilotVersion": "0.0.407", "context": context}
        events = [("session.start", start)]
        for number, prompt in enumerate(asked):
            call = {"toolCallId": f"call_{number}", "name": "bash", "arguments": {"command": "ls"}}
            said = {"messageId": f"m{number}", "content": "Let me look.", "toolRequests": [call]}
            done = {"toolCallId": call["toolCallId"], "success": True}
            events += [
                ("user.message", {"content": prompt, "attachments": []}),
                ("assistant.turn_start", {"turnId": str(number)}),
                ("assistant.message", said),
                ("tool.execution_start", {"toolCallId": call["toolCallId"], "toolName": "bash"}),
                ("tool.execution_complete", done | {"result": {"content": "an old pear"}}),
                (
                    "assistant.message",
                    {"messageId": f"a{number}", "content": "The pear by the gate."},
                ),
            ]
        lines, parent = [], None
        for number, (kind, data) in enumerate(events):
            at = f"2026-10-05T09:30:{number:02}.000Z"
            event = {"type": kind, "data": data, "id": f"{session_id[:-4]}{number:04}"}
            lines.append(json.dumps(event | {"timestamp": at, "parentId": parent}))
            parent = event["id"]
        directory = home / "session-state" / session_id
        directory.mkdir(parents=True)
        (directory / "events.jsonl").write_text("\n".join(lines) + "\n")
        (directory / "workspace.yaml").write_text("cwd: /srv/orchard\n")
    return Truth(prompts, None)


AGENTS = (
    Agent(format_named("claude"), "1.0.44 to 2.1.207", write_claude_code),
    Agent(format_named("codex"), "0.118 to 0.169", write_codex),
    Agent(format_named("copilot"), "0.0.407", write_copilot),
)
