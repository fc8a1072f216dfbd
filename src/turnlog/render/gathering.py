"""Many sessions by their ids, found in one walk over the homes; and all that their logs say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from turnlog.errors import TurnlogError
from turnlog.formats import Home, LogFile, find_everywhere
from turnlog.formats.find import in_reading_order
from turnlog.records.damage import Damage
from turnlog.sessions.dated import share_out
from turnlog.sessions.head_tail import last_heard
from turnlog.sessions.owners import owner_in
from turnlog.sessions.session import Session
from turnlog.storage.blobs import whole_line
from turnlog.storage.scan import find_lines


def gather(homes: Iterable[Home], ids: Sequence[str]) -> Iterator[Session]:
    """Give the sessions called *ids*, in that order; those without any log are left out.

    A session may have lost its main log and still have its agents'.
    """
    wanted = set(ids)
    found: dict[str, list[LogFile]] = {}
    days: list[LogFile] = []
    for log in find_everywhere(homes):
        if log.kind == "day":
            days.append(log)
            continue
        owner = log.session_id or (owner_in(log.path) if log.kind == "agent" else None)
        if owner in wanted:
            found.setdefault(str(owner), []).append(log)
    for session_id, logs in share_out(days).items() if days else ():
        if session_id in wanted:
            found.setdefault(session_id, []).extend(logs)
    for name in ids:
        if name in found:
            yield Session(name, in_reading_order(found[name], last_heard))


def known_lines(sessions: Iterable[Session]) -> Iterator[bytes]:
    """Give every line of every log of *sessions*, for those who look for what is a secret there."""
    for session in sessions:
        for log in session.logs:
            with suppress(TurnlogError, OSError):  # Who renders it tells that.
                for _, found in find_lines(log.path, b"{"):
                    line = found if isinstance(found, Damage) else whole_line(log.path, found)
                    if not isinstance(line, Damage):
                        yield line
