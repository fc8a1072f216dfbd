"""A home with a session that has every kind of part, and what is kept of it."""

import json
import os
import shutil
import uuid
from datetime import UTC, datetime, timedelta

from turnlog.formats import Home, key_of
from turnlog.formats.kept_copies import kept_copy, kept_place
from turnlog.keep.copies.keep import keep
from turnlog.keep.restore.restorable import all_mirrors, find_restorable

ID = "77777777-aaaa-4aaa-8aaa-777777777777"
OTHER = "88888888-bbbb-4bbb-8bbb-888888888888"
PROJECT = "/home/ann/orchard"
SUBAGENT = "a1b2c3d"
PLAN = "quiet-apple-tree"


def line(**members):
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def conversation(session_id=ID, *, turns=3, cwd=PROJECT, start=0, parent=None, **more):
    """Lines of a log: prompts and answers, one below the other."""
    lines = []
    at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    for number in range(start, start + turns):
        for role in ("user", "assistant"):
            here = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{session_id}/{more}/{role}/{number}"))
            lines.append(
                line(
                    parentUuid=parent,
                    isSidechain="agentId" in more,
                    type=role,
                    message={"role": role, "content": f"{role} says apple number {number}, é"},
                    uuid=here,
                    timestamp=(at + timedelta(minutes=number)).isoformat().replace("+00:00", "Z"),
                    cwd=cwd,
                    sessionId=session_id,
                    version="2.1.200",
                    gitBranch="main",
                    slug=PLAN,
                    **more,
                )
            )
            parent = here
    return b"".join(lines)


def parts_of(session_id=ID, *, key=None, cwd=PROJECT):
    """Everything that a session leaves in a home, by name."""
    folder = f"projects/{key or key_of(cwd)}"
    return {
        f"{folder}/{session_id}.jsonl": conversation(session_id, cwd=cwd)
        + line(type="relocated", relocatedCwd=cwd + "/trees", sessionId=session_id)
        + b'{"type":"user","mess\n',
        f"{folder}/{session_id}/subagents/agent-{SUBAGENT}.jsonl": conversation(
            session_id, cwd=cwd + "/trees", agentId=SUBAGENT
        ),
        f"{folder}/{session_id}/subagents/agent-{SUBAGENT}.meta.json": b'{"agentType":"picker"}',
        f"{folder}/{session_id}/tool-results/toolu_1.txt": f"in {cwd}\n".encode() * 1000,
        f"todos/{session_id}-agent-{session_id}.json": b'[{"content":"pick","status":"pending"}]',
        f"tasks/{session_id}/1.json": b'{"id":"1","subject":"pick"}',
        f"tasks/{session_id}/.lock": b"",
        f"file-history/{session_id}/0a1b2c@v1": b"\x00\xff old bytes",
        f"session-env/{session_id}/hook-0.sh": b"export A=1\n",
    }


SHARED = {
    f"plans/{PLAN}.md": b"# Pick apples\n",
    "plans/another.md": b"# Not of this session\n",
    "history.jsonl": line(display="pick", timestamp=1_767_323_040_000, project=PROJECT),
}


def write_files(home, files):
    for name, data in files.items():
        path = home.joinpath(*name.split("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def files_in(home):
    """Every file of a home, by name."""
    return {
        path.relative_to(home).as_posix(): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


class Orchard:
    """A home under *place*, with a session and what is kept of it."""

    def __init__(self, place):
        self.home = place / "home of ann" / ".claude"
        self.files = parts_of() | SHARED
        self.main = f"projects/{key_of(PROJECT)}/{ID}.jsonl"
        write_files(self.home, self.files)

    def keep(self):
        run = keep([Home(self.home)])
        assert not run.problems
        return run

    def burn(self):
        shutil.rmtree(self.home)

    @property
    def place(self):
        return kept_place(self.home)

    def copy(self, name=None):
        return kept_copy(self.place, name or self.main)

    def session(self, text=ID):
        return find_restorable(all_mirrors([Home(self.home)]), text)

    def write(self, name, data):
        write_files(self.home, {name: data})
        path = self.home.joinpath(*name.split("/"))
        # Time has passed since it was kept, whatever the clock's steps are.
        os.utime(path, ns=(path.stat().st_mtime_ns + 10**9,) * 2)
