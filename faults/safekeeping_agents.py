"""Agents that work while their sessions are kept, archived, let go of and compacted.

Some write through turnlog, in two layouts, and resume what they wrote; some are strangers who open
the log, append a line and close it again, and know no lock. Of those, one says that it runs, as
Claude Code does. Every record bears an instant long ago, and most logs are given an old time, so
that nothing but being alive keeps a session from going. A record is acknowledged once it is written
and its uuid stands in a file.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from turnlog.api.store import open_store
from turnlog.errors import LogLocked, NotFound
from turnlog.sessions.environment import process
from turnlog.sessions.writing import build
from turnlog.sessions.writing.writer import SessionWriter

from .child import Tell
from .safekeeping_world import PROJECT, said

_LONG_AGO = "2024-02-03T04:05:06.789Z"
_OLD = 1_707_000_000
_PAUSE = 0.01


class Acks:
    """What was acknowledged: one file, one write each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, session: str, uuid: str) -> None:
        os.write(self._fd, f"{session} {uuid}\n".encode())

    def all(self) -> dict[str, str]:
        """Give every acknowledged record, and the session that it belongs to."""
        pairs = (line.split(" ") for line in self._path.read_text().splitlines())
        return {uuid: session for session, uuid in pairs}


class Agent:
    """One process that works on one session after the other until *until*."""

    def __init__(self, home: Path, acks: Acks, name: str, until: float) -> None:
        self.home = home
        self.acks = acks
        self.name = name
        self.until = until
        self.rng = random.Random(name)
        self._written = 0
        self._sessions: list[str] = []

    def is_on(self) -> bool:
        return time.monotonic() < self.until

    def new_id(self) -> str:
        found = str(UUID(int=self.rng.getrandbits(128), version=4))
        self._sessions.append(found)
        return found

    def uuid(self) -> str:
        self._written += 1
        return f"{self.name}#{self._written}"

    def pause(self) -> None:
        time.sleep(self.rng.random() * _PAUSE)

    # -- through turnlog --------------------------------------------------------------------

    def through_turnlog(self, layout: str, tell: Tell) -> None:
        """Create sessions, resume some of them, append to them, close them."""
        store = open_store(self.home)
        while self.is_on():
            try:
                if self._sessions and self.rng.random() < 0.5:
                    session = self.rng.choice(self._sessions)
                    writer = store.resume(session)
                else:
                    session = self.new_id()
                    writer = store.create(project=PROJECT, layout=layout, session_id=session)
            except (NotFound, LogLocked):
                continue  # It is in the trash, or somebody holds it this moment.
            self._work(writer, session, tell)

    def _work(self, writer: SessionWriter, session: str, tell: Tell) -> None:
        mine = []
        with writer:
            for _ in range(self.rng.randint(1, 20)):
                uuid = self.uuid()
                record = build.user(f"{uuid} grinds {'o' * self.rng.randint(0, 900)}")
                try:
                    writer.append(record | {"uuid": uuid, "timestamp": _LONG_AGO})
                except LogLocked:
                    continue  # Not acknowledged.
                except NotFound:
                    if mine:
                        raise
                    writer.abandon()
                    return  # It was archived or deleted before anything said that it is open.
                self.acks.note(session, uuid)
                mine.append(uuid.encode())
                self.pause()
            path = writer.path
            data = path.read_bytes() if path.exists() else b""
            if gone := [uuid for uuid in mine if b'"%b"' % uuid not in data]:
                tell("touched", f"a live session: {len(gone)} of {len(mine)} records of {path}")
        if path.exists():
            self._age(path)

    def _age(self, path: Path) -> None:
        try:
            os.utime(path, (_OLD, _OLD))
        except FileNotFoundError:
            return

    # -- without --------------------------------------------------------------------------------

    def as_stranger(self, *, says_so: bool, tell: Tell) -> None:
        """Append lines to logs without any lock, as programs do that know nothing of turnlog."""
        directory = self.home / "projects" / "-srv-mill"
        directory.mkdir(parents=True, exist_ok=True)
        told = self.home / "sessions" / f"{os.getpid()}.json"
        while self.is_on():
            session = self.rng.choice(self._sessions[-3:]) if self._may_go_on() else self.new_id()
            if says_so:
                self._say_so(told, session)
                time.sleep(0.05)  # As long as a program takes to start.
            path = directory / f"{session}.jsonl"
            before = path.read_bytes() if says_so and path.exists() else b""
            mine = self._append(path, session)
            if says_so and not _holds(path, before, mine):
                tell("touched", f"a session that says it runs: {path}")
            if says_so:
                told.unlink()

    def _may_go_on(self) -> bool:
        return bool(self._sessions) and self.rng.random() < 0.6

    def _append(self, path: Path, session: str) -> list[bytes]:
        mine = []
        for number in range(self.rng.randint(1, 12)):
            uuid = self.uuid()
            line = said(session, number, uuid=uuid, parentUuid=None)
            if number % 3 == 2:
                title = {"type": "ai-title", "aiTitle": uuid, "sessionId": session}
                line += json.dumps(title, separators=(",", ":")).encode() + b"\n"
            with open(path, "ab", buffering=0) as log:
                log.write(line)
            self.acks.note(session, uuid)
            mine.append(uuid.encode())
            if number % 2:
                self._age(path)
            self.pause()
        return mine

    def _say_so(self, told: Path, session: str) -> None:
        me = process(os.getpid())
        started = me.started if me is not None else None
        told.parent.mkdir(exist_ok=True)
        words = {"pid": os.getpid(), "sessionId": session, "procStart": started}
        told.write_text(json.dumps(words))


def _holds(path: Path, before: bytes, mine: list[bytes]) -> bool:
    data = path.read_bytes() if path.exists() else b""
    return data.startswith(before) and all(b'"%b"' % uuid in data for uuid in mine)


def works(home: Path, acks: Acks, until: float) -> list[Callable[[Tell], None]]:
    """Give the work of eight agents."""

    def agent(name: str) -> Agent:
        return Agent(home, acks, name, until)

    found: list[Callable[[Tell], None]] = []
    for number, layout in enumerate(("claude", "claude", "claude", "flat", "flat")):
        name = f"{layout}{number}"
        found.append(lambda tell, n=name, at=layout: agent(n).through_turnlog(at, tell))
    for name, says_so in (("stranger0", False), ("stranger1", False), ("runs", True)):
        found.append(lambda tell, n=name, so=says_so: agent(n).as_stranger(says_so=so, tell=tell))
    return found
