"""A home with two sessions that have everything beside them, and ways to break the system."""

import errno
import json
import os
from contextlib import contextmanager

from turnlog.formats import Home

ID = "5f0c0000-aaaa-4aaa-8aaa-000000000001"
OTHER = "61aa0000-bbbb-4bbb-8bbb-000000000002"
PROJECT = "/home/ada/orchard"
KEY = "projects/-home-ada-orchard"
OLD = "2026-01-02T10:00:00.000Z"


def line(**fields):
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def said(session, text="Prune the pear tree", at=OLD, **more):
    message = {"role": "user", "content": text}
    fields = {"uuid": f"u-{text}", "timestamp": at, "cwd": PROJECT, "version": "2.1.200"}
    return line(type="user", sessionId=session, message=message, **(fields | more))


def put(home, name, data=b"", *, at=None):
    path = home.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    if at is not None:
        os.utime(path, (at, at))
    return path


def belongings(session=ID):
    """Every kind of file that belongs to a session of Claude Code, by name."""
    return {
        f"{KEY}/{session}/subagents/agent-a1.jsonl": said(session, "look", agentId="a1"),
        f"{KEY}/{session}/subagents/agent-a1.meta.json": b'{"agentType":"scout"}',
        f"{KEY}/{session}/tool-results/b1.txt": b"a long answer",
        f"{KEY}/agent-beside-{session[:4]}.jsonl": said(session, "beside", agentId="beside"),
        f"todos/{session}-agent-{session}.json": b"[]",
        f"todos/{session}-agent-a1.json": b"[]",
        f"tasks/{session}/1.json": b"{}",
        f"file-history/{session}/0123@v1": b"before",
        f"session-env/{session}/hook.sh": b"export A=1",
        f"{KEY}/{session}.jsonl": said(session) + said(session, "And the apple tree"),
    }


SHARED = {"plans/pruning.md": b"# Pruning", "history.jsonl": line(display="prune", timestamp=1)}


def make(home_path, *sessions):
    home = Home(home_path)
    for session in sessions or (ID, OTHER):
        for name, data in belongings(session).items():
            put(home, name, data, at=1_767_400_000)
    for name, data in SHARED.items():
        put(home, name, data)
    return home


def files(root):
    """Every file beneath *root*, by name, and its bytes; what a kill may leave unfinished aside."""
    return {
        os.path.relpath(os.path.join(directory, name), root): open_bytes(directory, name)
        for directory, _, names in os.walk(root)
        for name in names
        if not name.startswith(".turnlog-")
    }


def open_bytes(directory, name):
    path = os.path.join(directory, name)
    if not os.path.isfile(path) or os.path.islink(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def in_trash(own):
    """What lies in the trash, by the tree and the name it had."""
    found = {}
    for name, data in files(own / "trash").items() if (own / "trash").is_dir() else ():
        parts = name.split(os.sep)
        if len(parts) > 2 and parts[1] in {"home", "kept"} and not parts[-1].startswith("."):
            found.setdefault("/".join(parts[1:]), []).append(data)
    return found


class Broken(OSError):
    """What a test makes the system say."""


SYSTEM = ("rename", "replace", "link", "unlink", "rmdir", "mkdir", "open", "fsync", "fdatasync",
          "write")  # fmt: skip


@contextmanager
def fails_at(monkeypatch, number, *, names=SYSTEM):
    """Let the *number*-th of these calls fail, and all that follow, as if killed there.

    Gives a list of the calls that were made; it is longer than *number* if one failed.
    """
    calls = []
    with monkeypatch.context() as patch:
        for name in names:
            real = getattr(os, name)

            def one(*args, _real=real, _name=name, **more):
                calls.append(_name)
                if len(calls) >= number:
                    raise Broken(errno.EIO, "broken")
                return _real(*args, **more)

            patch.setattr(os, name, one)
        # Sets of functions that take descriptors know the real ones only; they were asked before.
        yield calls
