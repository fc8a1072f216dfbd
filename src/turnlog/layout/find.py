"""Finding: all logs, or those of the one session a person means.

Owns the ways in: the logs of a home, of several homes, of a session named by a few typed
characters. It promises each log once, and for a session either that one or an error that says what
to type instead; it never guesses between two.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from turnlog.errors import AmbiguousSession, InvalidId, NotFound
from turnlog.layout.homes import Home
from turnlog.layout.search import LayoutName, LogFile, Search
from turnlog.layout.walk import Problem, Walk

__all__ = [
    "LATEST",
    "LayoutName",
    "LogFile",
    "Problem",
    "find_everywhere",
    "find_logs",
    "find_session",
]

LATEST = "latest"
_SHOWN = 5


def find_logs(home: Home, *, problems: list[Problem] | None = None) -> Iterator[LogFile]:
    """Give every log of *home*; what could not be read is added to *problems*."""
    return find_everywhere((home,), problems=problems)


def find_everywhere(
    homes: Iterable[Home], *, problems: list[Problem] | None = None
) -> Iterator[LogFile]:
    """Give every log of several homes, each once even where links make homes share directories."""
    walk = Walk(problems)
    found: set[str] = set()
    for home in homes:
        yield from Search(home, walk, found).logs()


def find_session(
    homes: Iterable[Home], text: str, *, problems: list[Problem] | None = None
) -> tuple[LogFile, ...]:
    """Give the logs of the session whose id begins with *text*: main logs first, then agents'.

    A whole id wins over longer ids that begin with it; "latest" is the session whose main log
    changed last. Several main logs come back where one session lies in several places (two homes,
    or a log beside its archive). Logs that do not tell their session by name are not among them.
    """
    if not text:
        raise InvalidId("an empty id names no session", hint="give the first characters of an id")
    homes = tuple(homes)
    sessions: dict[str, list[LogFile]] = {}
    for log in find_everywhere(homes, problems=problems):
        if log.session_id is not None:
            sessions.setdefault(log.session_id, []).append(log)
    if text == LATEST:
        chosen = _latest(sessions)
    elif text in sessions:
        chosen = text
    else:
        chosen = _only([each for each in sessions if each.startswith(text)], text)
    if chosen is None:
        raise _nothing(homes, text)
    return tuple(sorted(sessions[chosen], key=_order))


def _only(ids: list[str], text: str) -> str | None:
    if len(ids) <= 1:
        return ids[0] if ids else None
    ids.sort()
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    raise AmbiguousSession(
        f"{text!r} begins the ids of {len(ids)} sessions: {', '.join(ids[:_SHOWN])}{more}",
        hint="give more characters of the id",
    )


def _latest(sessions: dict[str, list[LogFile]]) -> str | None:
    mains = (log for logs in sessions.values() for log in logs if log.kind == "session")
    # The id settles a tie, so that the answer does not depend on the order of the disk.
    newest = max(((_changed_ns(log), log.session_id or "") for log in mains), default=None)
    return newest[1] if newest else None


def _changed_ns(log: LogFile) -> int:
    try:
        return os.stat(log.path).st_mtime_ns
    except OSError:
        return -1  # Gone since it was listed.


def _order(log: LogFile) -> tuple[bool, bool, str]:
    return log.kind != "session", log.compression is not None, str(log.path)


def _nothing(homes: tuple[Home, ...], text: str) -> NotFound:
    if not homes:
        return NotFound("there is no home to look in", hint="name one, such as ~/.claude")
    places = ", ".join(str(home.path) for home in homes[:_SHOWN])
    if text == LATEST:
        return NotFound(f"there are no sessions in {places}", hint="name another home")
    return NotFound(
        f"no session's id begins with {text[:80]!r}",
        hint=f"list the sessions to see their ids, or name another home (looked in {places})",
    )
