"""Appending to a session: records take their place in the tree as they are written.

A caller says what was said; uuid, parent, time, directory, branch and version are filled in where
they are missing. The parent is the last record of the thread at the moment of writing, also if
another process wrote it: it is looked up under the log's lock. A record with a uuid that the log
has already is not written again, so an append whose outcome is unknown may be repeated.

The first append of a writer leaves the mark ``opened`` with this process, ``close`` the mark
``ended``; between them the session is running or, if the process is gone, crashed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import msgspec

from turnlog import __version__
from turnlog.errors import NotFound, UsageError
from turnlog.log.handle import LOCK_TIMEOUT
from turnlog.log.reader import Placed, scan_log
from turnlog.log.tail import read_last
from turnlog.log.writer import Durability, LogWriter, News
from turnlog.records.codec import Envelope, encode
from turnlog.records.format import format_marker
from turnlog.records.instants import iso
from turnlog.records.loose import loads
from turnlog.records.record import Linked, Record
from turnlog.sessions.surroundings import git_branch, git_commit, process

WRITER: Final = f"turnlog {__version__}"

# Types whose records stand in the tree; all others only say whose session they belong to.
TREE_TYPES: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
# How far back the tip of a log is looked for before it is read from the start.
_LOOK_BACK: Final = 200


class SessionWriter:
    """Appends to one log of a session: the main one, or an agent's if *agent_id* is given."""

    def __init__(
        self,
        path: Path,
        *,
        session_id: str,
        cwd: str | os.PathLike[str],
        agent_id: str | None = None,
        root: Path | None = None,
        create: bool = True,
        durability: Durability = "fsync",
        lock_timeout: float | None = LOCK_TIMEOUT,
    ) -> None:
        self.path = path
        self.session_id = session_id
        self.agent_id = agent_id
        self.cwd = os.path.abspath(cwd)
        self._branch = git_branch(Path(self.cwd)) or ""
        head = format_marker(
            WRITER,
            sessionId=session_id,
            agentId=agent_id,
            cwd=self.cwd,
            gitCommit=git_commit(Path(self.cwd)),
        )
        self._log = LogWriter(
            path,
            create=create,
            durability=durability,
            head=head,
            lock_timeout=lock_timeout,
            root=root,
        )
        self._tip: str | None = None
        self._uuids: set[str] | None = None
        self._fresh: set[str] = set()
        self._opened = False
        self._find_tip()

    @property
    def tip(self) -> str | None:
        """The uuid of the record that the next one will follow."""
        return self._tip

    def append(self, record: Record | Mapping[str, Any]) -> str | None:
        """Append one record; give its uuid, or None if records of its type have none."""
        return self.append_many((record,))[0]

    def append_many(self, records: Iterable[Record | Mapping[str, Any]]) -> list[str | None]:
        """Append *records* in one write, each the parent of the next."""
        given = list(records)
        uuids: list[str | None] = []

        def decide(news: News) -> list[Record | Mapping[str, Any]]:
            self._take_news(news)
            lines: list[Record | Mapping[str, Any]] = [] if self._opened else [self._mark("opened")]
            for record in given:
                placed, is_new = self._placed(record)
                uuids.append(placed.get("uuid"))
                if is_new:
                    lines.append(placed)
            return lines

        before = self._tip
        try:
            self._log.append_after(decide)
        except BaseException:
            self._tip = before
            self._fresh.clear()
            raise
        self._opened = True
        if self._uuids is not None:
            self._uuids |= self._fresh
        self._fresh.clear()
        return uuids

    def close(self) -> None:
        """Say goodbye, if anything was said, and close the log."""
        if self._opened:
            self._log.append(self._mark("ended"))
            self._opened = False
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After an exception the session did not end well, and must not look as if it had.
        if kind is None:
            self.close()
        else:
            self._log.close()

    def _placed(self, record: Record | Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Give *record* its place in the tree; tell whether the log lacks it."""
        said = record.fields or _unsaid(record) if isinstance(record, Record) else dict(record)
        kind = said.get("type")
        if not isinstance(kind, str) or not kind:
            raise UsageError("a record needs a type", hint='such as {"type": "user", …}')
        self._check_session(said)
        if "uuid" in said and self._has(said["uuid"]):
            return said, False
        if kind not in TREE_TYPES:
            stamp = {"timestamp": iso(datetime.now(UTC))} if kind == "queue-operation" else {}
            return {**said, "sessionId": self.session_id, **stamp, **said}, True
        placed: dict[str, Any] = {
            "parentUuid": self._tip,
            "isSidechain": self.agent_id is not None,
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.session_id,
            "version": __version__,
            "gitBranch": self._branch,
        }
        if self.agent_id is not None:
            placed["agentId"] = self.agent_id
        placed |= said
        placed.setdefault("uuid", str(uuid4()))
        placed.setdefault("timestamp", iso(datetime.now(UTC)))
        self._tip = placed["uuid"]
        self._fresh.add(placed["uuid"])
        return placed, True

    def _check_session(self, said: Mapping[str, Any]) -> None:
        named = said.get("sessionId")
        if named is not None and named != self.session_id:
            raise UsageError(
                f"a record of session {named} does not belong to session {self.session_id}",
                hint="leave sessionId out, or fork the other session",
            )

    def _has(self, uuid: Any) -> bool:
        if self._uuids is None:  # Nobody asked so far: most writers leave uuids to us.
            self._uuids = {
                item.uuid
                for item in scan_log(self.path)
                if isinstance(item, Envelope) and item.uuid is not None
            }
        return uuid in self._uuids or uuid in self._fresh

    def _find_tip(self) -> None:
        try:
            recent = read_last(self.path, _LOOK_BACK)
        except NotFound:
            return
        for item in recent:
            if isinstance(item, Placed):
                self._see(item.record)
        # Without a tip among the last records, the first append reads the log from its start.
        if recent and self._tip is not None:
            # What comes behind the last line seen is news, also if it came while we looked.
            last = recent[-1]
            unfinished = last.offset + last.length >= self.path.stat().st_size
            self._log.seen = last.offset + (0 if unfinished else last.length + 1)

    def _take_news(self, news: News) -> None:
        if news.restarted:
            self._tip, self._uuids = None, None
        for item in news.items:
            if isinstance(item, Placed):
                self._see(item.record)

    def _see(self, record: Record) -> None:
        if not isinstance(record, Linked) or record.uuid is None:
            return
        if self._uuids is not None:
            self._uuids.add(record.uuid)
        mine = record.is_sidechain == (self.agent_id is not None)
        if mine and record.type in TREE_TYPES and not record.is_meta:
            self._tip = record.uuid

    def _mark(self, event: str) -> dict[str, Any]:
        mark = {
            "type": "turnlog",
            "event": event,
            "sessionId": self.session_id,
            "timestamp": iso(datetime.now(UTC)),
        }
        return mark | {"process": msgspec.to_builtins(process())}


def _unsaid(record: Record) -> dict[str, Any]:
    """Give the fields of a record that never was a line."""
    found: dict[str, Any] = loads(encode(record))
    return found
