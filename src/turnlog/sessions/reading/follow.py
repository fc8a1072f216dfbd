"""Follow a session as it grows: its main log and its subagents', including new ones.

    for followed in follow_session(store.session("latest")):
        print(followed.record)

Records of one log come in order and once: if a log is replaced by one that repeats some of its
records, as a repair does, only new ones are returned. Logs are polled a few times a second and
never changed.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import structs

from turnlog.formats import LogFile, read_name, subagent_logs_near
from turnlog.records.annotations import session_of
from turnlog.records.damage import Damage
from turnlog.records.record import Record
from turnlog.sessions.owners import anonymous_id, heads_a_log, owner_in
from turnlog.sessions.session import Session
from turnlog.storage.atomic_files import size_at
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.tail import LogFollower, Restart

_POLL_SECONDS: Final = 0.2
# New logs are searched less often than known ones are polled: it takes a walk.
_LOOKS_A_WALK: Final = 5


class FollowedItem(NamedTuple):
    """An item and the log it is in."""

    item: Placed | Damage | Restart
    log: LogFile

    @property
    def record(self) -> Record | None:
        """The record; None for damage, or where a log was replaced."""
        return self.item.record if isinstance(self.item, Placed) else None

    @property
    def agent_id(self) -> str | None:
        """The subagent whose log it is in; None for the main one."""
        return self.log.agent_id


def follow_session(
    session: Session,
    *,
    from_start: bool = False,
    stop: threading.Event | None = None,
    poll_seconds: float = _POLL_SECONDS,
) -> Iterator[FollowedItem]:
    """Yield what is appended to *session* from now on, until *stop* is set.

    With *from_start*, yield the current contents of its logs first.
    """
    following = _Following(session, from_start=from_start)
    return following.items(stop or threading.Event(), poll_seconds)


class _Following:
    """Polls all logs of a session, and searches for new ones."""

    def __init__(self, session: Session, *, from_start: bool) -> None:
        self._id = session.id
        self._main = session.main_logs[-1] if session.main_logs else None
        self._strangers: set[Path] = set()
        self._looks = 0
        logs = session.read_logs
        # An archive does not grow: it is read once, or not at all.
        self._archives = [log for log in logs if log.compression and from_start]
        self._logs: dict[Path, _FollowedLog] = {}
        for log in (*logs, *self._new_logs({log.path for log in logs})):
            if log.compression is None:
                past_bytes = 0 if from_start else size_at(log.path)
                self._logs[log.path] = _FollowedLog(log, self._id, past_bytes)

    def items(self, stop: threading.Event, poll_seconds: float) -> Iterator[FollowedItem]:
        for log in self._archives:
            yield from (FollowedItem(item, log) for item in read_log(log.path))
        while True:
            found = self._look()
            yield from found
            if found and not stop.is_set():
                continue  # There may be more at once.
            if stop.wait(poll_seconds):
                return

    def _look(self) -> list[FollowedItem]:
        if self._looks % _LOOKS_A_WALK == 0:
            for log in self._new_logs(set(self._logs)):
                self._logs[log.path] = _FollowedLog(log, self._id, past_bytes=0)
        self._looks += 1
        return [each for log in self._logs.values() for each in log.look()]

    def _new_logs(self, known: set[Path]) -> Iterator[LogFile]:
        """Return the session's logs that are not *known*: subagents', or of another day."""
        main = self._main
        if main is None:
            return
        if main.kind == "day":
            for path in _neighbours(main.path, "day"):
                if path not in known:
                    yield structs.replace(main, path=path)
            return
        for path in subagent_logs_near(main.path, self._id):
            if path not in known:
                yield _subagent_log(main, path)
        # Older programs put subagents' logs next to the main one; their records name the session.
        for path in _neighbours(main.path, "subagent"):
            if path not in known and path not in self._strangers:
                owner = owner_in(path)
                if owner == self._id:
                    yield _subagent_log(main, path)
                elif owner is not None:
                    self._strangers.add(path)


class _FollowedLog:
    """One log, whose records are returned once.

    *past_bytes* were in it already: lines complete by then are not returned.
    """

    def __init__(self, log: LogFile, session_id: str, past_bytes: int) -> None:
        self._log = log
        self._session_id = session_id
        self._past_bytes = past_bytes
        self._follower = LogFollower(log.path)
        self._seen: Counter[int] = Counter()
        self._again: Counter[int] = Counter()
        self._waiting: list[FollowedItem] = []
        if past_bytes:
            # Read now, so that a replacement of the log is noticed.
            while items := self._follower.look():
                self._waiting += self._new(items)

    def look(self) -> list[FollowedItem]:
        """Return what was added since the last look."""
        if self._waiting:
            found, self._waiting = self._waiting, []
            return found
        while items := self._follower.look():
            if found := self._new(items):
                return found
        self._again.clear()  # It was read completely: what follows is new.
        return []

    def _new(self, items: list[Placed | Damage | Restart]) -> list[FollowedItem]:
        return [FollowedItem(item, self._log) for item in items if self._is_new(item)]

    def _is_new(self, item: Placed | Damage | Restart) -> bool:
        if isinstance(item, Restart):
            self._again, self._seen = self._seen + self._again, Counter()
            self._past_bytes = 0
            return True
        # All that must be remembered of an item.
        mark = hash(item.record.raw if isinstance(item, Placed) else (item.reason, item.length))
        self._seen[mark] += 1
        if self._again[mark] > 0:
            self._again[mark] -= 1
            return False
        return item.offset + item.length >= self._past_bytes and self._is_mine(item)

    def _is_mine(self, item: Placed | Damage) -> bool:
        """Return whether an item belongs to the session: days' logs are shared."""
        if self._log.kind != "day" or not isinstance(item, Placed):
            return True
        if heads_a_log(item.record):
            return False
        return (session_of(item.record) or anonymous_id(self._log)) == self._session_id


def _subagent_log(main: LogFile, path: Path) -> LogFile:
    name = read_name(path.name)
    agent_id = name.id if name is not None else None
    return structs.replace(main, path=path, kind="subagent", agent_id=agent_id, compression=None)


def _neighbours(main: Path, kind: str) -> Iterator[Path]:
    """Return the plain logs of a *kind* in the main log's directory."""
    try:
        names = sorted(os.listdir(main.parent))
    except OSError:
        return
    for text in names:
        name = read_name(text)
        if name is not None and name.kind == kind and name.compression is None:
            yield main.parent / text
