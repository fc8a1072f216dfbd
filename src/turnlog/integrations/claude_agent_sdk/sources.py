"""What a Claude home on disk has to send to a session store, under the keys it has there.

Keys are those under which the SDK mirrors the same files: the directory's name, the session's id,
and beneath the session the path without its ending. What lies beside the logs (what tools gave,
todos, plans) belongs to the home and is not sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from turnlog.errors import NotFound, TurnlogError
from turnlog.formats import Home, LogFile, find_homes, find_logs, project_key, same_project_key
from turnlog.formats.walk import DirectoryWalk, Item, Problem
from turnlog.integrations.claude_agent_sdk.keys import LOG, OPAQUE, subpath_of
from turnlog.records.lenient_json import NotJson, loads
from turnlog.sessions.owners import owner_in
from turnlog.storage.atomic_files import READ_LIMIT
from turnlog.storage.sources import BrokenArchive, open_source

META: Final = ".meta.json"
"""How the file beside an agent's log ends that tells what agent it is."""
_KEPT: Final = ".zst"
NO_LOGS_IN: Final = frozenset({OPAQUE, "blobs", "tool-results"})
"""Directories of a session whose files are no logs, or bear other names than their own."""

SourceKey = tuple[str, str, str | None]
"""Project key, session and subpath; None for the main log."""


class ImportSource(Struct):
    """What is sent to one key. Several logs, where one lies beside its own archive."""

    logs: list[Path] = field(default_factory=list)
    meta: Path | None = None


def find_sources(
    home: str | os.PathLike[str],
    wanted: frozenset[str] | None,
    project: str | os.PathLike[str] | None,
    problems: list[Problem],
) -> dict[SourceKey, ImportSource]:
    """List what a home has of all sessions or those *wanted*, of all projects or that one."""
    key = None if project is None else project_key(project)
    (found,) = find_homes([home])
    noted: list[Problem] = []
    sources: dict[SourceKey, ImportSource] = {}
    directories: dict[tuple[str, str], set[Path]] = {}
    for log, session_id in _logs(found, key, noted):
        if wanted is None or session_id in wanted:
            name = str(log.project_key)
            place, inner = _place(log, session_id)
            sources.setdefault((name, session_id, inner), ImportSource()).logs.append(log.path)
            directories.setdefault((name, session_id), set()).add(place)
    missing = (wanted or frozenset()) - {session_id for _, session_id in directories}
    if missing:
        raise NotFound(
            f"no session {', '.join(sorted(missing))} in {os.fspath(found)}",
            hint="give whole ids; turnlog sessions --home DIR lists those that are there",
        )
    for (name, session_id), places in directories.items():
        beneath = [found for place in sorted(places) for found in _beneath(place, noted)]
        for inner, path in sorted(beneath, key=lambda found: found[1].suffix == _KEPT):
            _add(sources.setdefault((name, session_id, inner), ImportSource()), path)
    taken = {path for source in sources.values() for path in source.logs}
    problems += (each for each in dict.fromkeys(noted) if each.path not in taken)
    for source in sources.values():
        source.logs.sort(key=lambda path: (path.suffix != LOG, path))
    return dict(sorted(sources.items(), key=lambda each: (*each[0][:2], each[0][2] or "")))


def read_metadata(path: Path) -> dict[str, Any] | str:
    """Read the file beside an agent's log; give the reason if it cannot be read."""
    data = bytearray()
    try:
        source = open_source(path)
        try:
            while len(data) <= READ_LIMIT and (chunk := source.read(1 << 18)):
                data += chunk
        finally:
            source.close()
        value = loads(bytes(data)) if len(data) <= READ_LIMIT else None
    except (TurnlogError, OSError) as error:
        return str(error)
    except BrokenArchive as error:
        return f"does not unpack: {error}"
    except NotJson as error:
        return f"is no JSON: {error}"
    return value if isinstance(value, dict) else "is no JSON object"


def _logs(home: Home, key: str | None, problems: list[Problem]) -> Iterator[tuple[LogFile, str]]:
    """Return the logs of a home, each with the session that it belongs to."""
    for log in find_logs(home, problems=problems):
        if log.layout != "claude" or log.project_key is None:
            problems.append(Problem(log.path, f"in the layout {log.layout!r}: convert it first"))
        elif key is None or same_project_key(log.project_key, key):
            session_id = log.session_id or owner_in(log.path)
            if session_id is None:
                problems.append(Problem(log.path, "nothing tells whose agent this was"))
            else:
                yield log, session_id


def _place(log: LogFile, session_id: str) -> tuple[Path, str | None]:
    """Return where a session's other files lie, and what the log is called among them."""
    stem = log.path.name.partition(LOG)[0]
    if log.kind == "session":
        return log.path.parent / session_id, None
    if log.session_id is None:  # Early versions put agents' logs beside the sessions'.
        return log.path.parent / session_id, f"subagents/{stem}"
    place = log.path.parent
    while place.name != session_id:
        place = place.parent
    return place, "/".join((*log.path.relative_to(place).parent.parts, stem))


def _beneath(place: Path, problems: list[Problem]) -> Iterator[tuple[str, Path]]:
    """Return the logs and the agents' metadata beneath a session, whatever wrote them."""
    for item in DirectoryWalk(problems).files_beneath(str(place)):
        above = Path(item.path).relative_to(place).parent.parts
        stem = _stem(item)
        inner = "/".join((*above, stem))
        if above and above[0] == OPAQUE:
            inner = subpath_of(inner + LOG) or ""
        elif above and above[0] in NO_LOGS_IN:
            continue
        if stem and inner:
            yield inner, Path(item.path)


def _stem(item: Item) -> str:
    name = item.name.removesuffix(_KEPT)
    for ending in (LOG, META):
        if name.endswith(ending):
            return name.removesuffix(ending)
    return ""


def _add(source: ImportSource, path: Path) -> None:
    """Add what lies beneath a session. Of what is packed, and there unpacked, nothing is news."""
    is_packed = path.suffix == _KEPT
    if path.name.removesuffix(_KEPT).endswith(META):
        source.meta = (source.meta or path) if is_packed else path
    elif path not in source.logs and not (is_packed and source.logs):
        source.logs.append(path)
