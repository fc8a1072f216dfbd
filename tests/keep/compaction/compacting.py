"""Sessions to compact, and all that can be seen of one, asked of the public session."""

from __future__ import annotations

import json
import uuid

from sessions.trees import answer, call, line, record
from sessions.trees import result as bare_result
from turnlog.formats import Home
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.reading.context import context_of, digests_of
from turnlog.sessions.reading.ranges import replay
from turnlog.sessions.session import Session
from turnlog.sessions.side_files.file_history import SessionFiles
from turnlog.sessions.side_files.plans import traces_of

ID = "77777777-dddd-4ddd-8ddd-777777777777"
LARGE = 300
"""What counts as a long line in these tests."""


def u(number):
    return str(uuid.UUID(int=number))


def written(home, *lines, session=ID, subagent=None):
    """Write a log of *lines*, bytes or records; give its path."""
    name = f"{session}/subagents/agent-{subagent}" if subagent else session
    path = home / "projects" / "-home-ada-orchard" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"".join(one if isinstance(one, bytes) else line(one) + b"\n" for one in lines)
    )
    return path


def found(home, session=ID):
    return Session.find((Home(home),), session)


def result(name, parent, call_id, text="done", **more):
    """A tool's answer to *call_id*, as long as *text* is."""
    fields = bare_result(name, parent, call_id, **more)
    fields["message"]["content"][0]["content"] = text
    return fields


def title(text, kind="ai-title", key="aiTitle"):
    return {"type": kind, key: text, "sessionId": ID}


def told(number, parent=None, **more):
    """A prompt with an instant and a directory."""
    at = f"2026-11-01T10:{number // 60:02}:{number % 60:02}.000Z"
    return record(u(number), parent, timestamp=at, cwd="/home/ada/orchard", **more)


USAGE = {"input_tokens": 3, "output_tokens": 40}


def spoken_by_subagent(number, parent, text, usage=USAGE):
    """A subagent's record."""
    fields = answer(u(number), parent, f"m{number}", {"type": "text", "text": text})
    fields["message"]["usage"] = usage
    at = f"2026-11-01T10:00:{number % 60:02}.000Z"
    return fields | {"isSidechain": True, "agentId": "a1", "timestamp": at, "sessionId": ID}


def echo(number, parent, said, **data):
    """Progress in the caller's log that repeats a subagent's record."""
    inner = {key: said[key] for key in ("type", "message", "uuid", "timestamp")}
    fields = record(u(number), parent, "progress", parentToolUseID="c1", toolUseID="agent_1")
    at = f"2026-11-01T10:00:{number % 60:02}.500Z"
    told = {"type": "agent_progress", "agentId": "a1", "message": inner, "prompt": ""}
    return fields | {"timestamp": at, "sessionId": ID, "data": told | data}


def task(name, parent):
    return answer(name, parent, "m-task", call("c1", "Task", prompt="look around"))


def seen(session):
    """All that can be seen of a session, places and counts of lines left out."""
    tree = session.tree
    echoes = {node.uuid for node in tree.nodes if node.type == "progress"}
    raws = {node.uuid: rec.raw for node, rec in session.records(tree.nodes)}
    nodes = [
        (node.uuid, node.parent and node.parent.uuid, node.is_prompt, raws[node.uuid])
        for node in tree.nodes
        if node.uuid not in echoes
    ]
    gaps = [(gap.node.uuid, gap.named, gap.reason, gap.bridged_to and gap.bridged_to.uuid)
            for gap in tree.gaps]  # fmt: skip
    context = context_of(tree, session.records)
    files = SessionFiles.of(session)
    life = session.facts.life
    summary = SessionSummary()  # All that was said; a title depends on how long the log is, too.
    for item in session.items():
        summary.take(item.record)
    return {
        "nodes": nodes,
        "gaps": gaps,
        "thread": names(session.thread),
        "whole thread": names(session.whole_thread),
        "turns": [(turn.prompt and turn.prompt.uuid, names(turn.nodes)) for turn in session.turns],
        "replay": replay(rec for _, rec in session.records(session.thread)),
        "whole replay": replay(rec for _, rec in session.records(session.whole_thread)),
        "context": (digested(context.digest), names(context.nodes), context.summarised),
        "digests": [digested(each) for each in digests_of(tree, session.records)],
        "title": session.metadata.title,
        "summary": [
            getattr(summary, name)
            for name in summary.__struct_fields__
            if name not in ("records", "models")
        ],
        "models": sorted(summary.models),
        "state": (session.metadata.state, session.metadata.crashed, life.ended_at, life.opened),
        "totals": session.totals,
        "subagents": [
            (subagent.id, subagent.spawn, subagent.how) for subagent in session.subagents
        ],
        "files": files.files,
        "messages": [(message, names_at(files, message)) for message in files.messages],
        "plans": [list(traces_of(log.path, log.session_id)) for log in session.logs],
    }


def names(nodes):
    return [node.uuid for node in nodes]


def names_at(files, message):
    return [(each.file.path, each.version, each.is_inferred) for each in files.at(message)]


def digested(digest):
    if digest is None:
        return None
    nodes = [node and node.uuid for node in (digest.node, digest.boundary, digest.until)]
    return digest.kind, digest.text, nodes, digest.named, digest.messages, names(digest.kept)


def lines_of(path):
    return path.read_bytes().split(b"\n")[:-1]


def types_of(path):
    return [json.loads(each)["type"] for each in lines_of(path)]
