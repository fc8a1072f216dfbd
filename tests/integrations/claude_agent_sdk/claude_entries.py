"""Entries as the SDK sends them, and what every test of the store needs."""

from __future__ import annotations

import uuid

PROJECT = "-home-ada-orchard"
SESSION = "5f0c3a52-8f0e-4c55-9d3e-0b4f8a2f6d10"
KEY = {"project_key": PROJECT, "session_id": SESSION}
AGENT = {**KEY, "subpath": "subagents/agent-a1b2c3"}


def uuid_number(number):
    """A stable uuid."""
    return str(uuid.UUID(int=(4 << 76) | (2 << 62) | number))


def prompt(number, text=None, **more):
    """What a person said, as Claude Code writes it."""
    return {
        "type": "user",
        "uuid": uuid_number(number),
        "parentUuid": uuid_number(number - 1) if number else None,
        "sessionId": SESSION,
        "timestamp": f"2026-10-05T08:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
        "cwd": "/home/ada/orchard",
        "version": "2.1.0",
        "isSidechain": False,
        "message": {"role": "user", "content": text or f"Prune tree number {number}."},
        **more,
    }


def answer(number, text=None):
    """What the model answered, with its usage."""
    return prompt(
        number,
        type="assistant",
        requestId=f"req_{number}",
        message={
            "id": f"msg_{number}",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "content": [{"type": "text", "text": text or f"Tree {number} is pruned."}],
            "usage": {"input_tokens": 100, "output_tokens": 20},
        },
    )


def talk(count, start=0):
    """A conversation of *count* records."""
    return [(answer if n % 2 else prompt)(n) for n in range(start, start + count)]


def log_of(root, key):
    """Where the log of a key with a plain subpath must lie."""
    inner = key.get("subpath")
    session = root / "projects" / key["project_key"] / key["session_id"]
    return session / f"{inner}.jsonl" if inner else session.with_name(f"{session.name}.jsonl")
