"""Sessions of a session store, written to a Claude home so that ``claude --resume`` finds them.

The store may be any object with the SDK's methods. Main logs go to ``projects/KEY/ID.jsonl``, the
others beneath ``projects/KEY/ID/``; what tells about an agent goes to the ``.meta.json`` beside its
log. First every file of a session is looked at, then it is written, the main log last: a session is
there only when all of it is. See ``claude_placing`` for what happens to files that are there.

Subpaths come from somebody's store. Those that could leave the session's directory, or that no file
can be called, are skipped and reported.
"""

from __future__ import annotations

import ntpath
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from anyio import to_thread
from msgspec import Struct, field

from turnlog.errors import NotFound, UsageError
from turnlog.integrations.claude_agent_sdk.export_files import (
    Differs,
    ExportedFile,
    ExportOutcome,
    LogPart,
    MetadataPart,
    Part,
)
from turnlog.integrations.claude_agent_sdk.importer import check_home, check_store, named_sessions
from turnlog.integrations.claude_agent_sdk.keys import LOG, check_project_key, read_key
from turnlog.integrations.claude_agent_sdk.metadata import as_file, is_metadata, last_metadata
from turnlog.integrations.claude_agent_sdk.sources import META, NO_LOGS_IN

_NAME_BYTES: Final = 255 - len(META)
_SHOWN: Final = 5


class SkippedExport(Struct, kw_only=True):
    """What a store has and a home cannot hold, and why."""

    session: str
    subpath: str | None
    reason: str


class Exported(Struct, kw_only=True):
    """What an export did."""

    home: str
    files: list[ExportedFile] = field(default_factory=list)
    skipped: list[SkippedExport] = field(default_factory=list)

    @property
    def added(self) -> int:
        """How many records, and files about agents, were written."""
        return sum(file.added for file in self.files)


async def export_sessions(
    store: Any,
    home: str | os.PathLike[str],
    *,
    project_key: str,
    sessions: Iterable[str] | None = None,
    overwrite: bool = False,
) -> Exported:
    """Write the sessions that *store* has under *project_key* to *home*: all, or those named.

    A log that stands there and differs raises UsageError before a file of its session is written;
    with *overwrite* it is replaced, and kept beside.
    """
    check_store(store, "load")
    check_home(home)
    check_project_key(project_key)
    place = _place(home)
    done = Exported(home=str(place))
    named = None if sessions is None else named_sessions(sessions)
    for session_id in sorted(named) if named is not None else await _listed(store, project_key):
        try:
            read_key({"project_key": project_key, "session_id": session_id})
        except UsageError as error:
            if named is not None:
                raise
            done.skipped.append(_skipped(session_id, None, error.message))
            continue
        parts = await _parts(store, project_key, session_id, done)
        if parts:
            write = partial(_write, place, session_id, parts, overwrite=overwrite)
            done.files += await to_thread.run_sync(write)
        elif named is not None:
            raise NotFound(
                f"the store has no session {session_id} under {project_key!r}",
                hint="list_sessions tells which it has",
            )
    return done


async def _listed(store: Any, project_key: str) -> list[str]:
    listed = await _asked(store, "list_sessions", project_key)
    if listed is None:
        raise UsageError(
            f"a {type(store).__name__} cannot list its sessions",
            hint="name those to export: sessions=[…]",
        )
    return sorted({each["session_id"] for each in listed})


async def _asked(store: Any, method: str, argument: Any) -> Any:
    """Ask a store for what not every store tells; None if this one does not."""
    ask = getattr(store, method, None)
    if not callable(ask):
        return None
    try:
        return await ask(argument)
    except NotImplementedError:  # Inherited from the SDK, to say just that.
        return None


async def _parts(store: Any, project_key: str, session_id: str, done: Exported) -> list[Part]:
    """Return all files of a session, the main log last."""
    key = {"project_key": project_key, "session_id": session_id}
    above = ("projects", project_key)
    parts: list[Part] = []
    subpaths = await _asked(store, "list_subkeys", dict(key))
    if subpaths is None:
        done.skipped.append(_skipped(session_id, None, "the store cannot list what lies beneath"))
    for subpath in sorted(subpaths or ()):
        if why := _why_unsafe(subpath):
            done.skipped.append(_skipped(session_id, subpath, why))
            continue
        entries = await store.load(key | {"subpath": subpath}) or []
        *inner, name = subpath.split("/")
        within = (*above, session_id, *inner)
        lines = [entry for entry in entries if not is_metadata(entry)]
        if lines:
            parts.append(LogPart((*within, name + LOG), lines))
        if (told := last_metadata(entries)) is not None:
            parts.append(MetadataPart((*within, name + META), as_file(told)))
    main = await store.load(dict(key))
    if main:
        parts.append(LogPart((*above, session_id + LOG), main))
    return parts


def _place(home: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(os.path.expanduser(home)))


def _write(
    home: Path, session_id: str, parts: list[Part], *, overwrite: bool
) -> list[ExportedFile]:
    """Look at all files of a session, then write those that are not there."""
    differing = []
    outcomes: list[ExportOutcome | None] = []
    for part in parts:
        try:
            outcomes.append(part.look(home))
        except Differs as error:
            outcomes.append(None)
            differing.append(f"{home.joinpath(*part.parts)} {error}")
    if differing and not overwrite:
        raise _in_the_way(session_id, differing, "nothing of it was written")
    try:
        return [
            part.told(outcome)
            if outcome is ExportOutcome.THERE
            else part.write(home, overwrite=overwrite)
            for part, outcome in zip(parts, outcomes, strict=True)
        ]
    except Differs as error:
        raise _in_the_way(session_id, [str(error)], "it changed in this moment") from None


def _in_the_way(session_id: str, differing: list[str], state: str) -> UsageError:
    more = len(differing) - _SHOWN
    told = "; ".join(differing[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    return UsageError(
        f"session {session_id} was not exported: {told}",
        hint=f"{state}; export to another home, or with overwrite=True (what is there is kept)",
    )


def _why_unsafe(subpath: str) -> str:
    """Return why no log beneath a session can be called *subpath*; nothing if one can."""
    if not isinstance(subpath, str) or not subpath:
        return "it is empty"
    if "\0" in subpath or "\\" in subpath or ntpath.splitdrive(subpath)[0]:
        return "it could mean another place"
    *above, _ = parts = subpath.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return "it could mean another place"
    if any(part.endswith((LOG, META)) for part in above):
        return "a log may have the name of its directory"
    if parts[0] in NO_LOGS_IN:
        return "other things lie there"
    try:
        if max(len(part.encode()) for part in parts) > _NAME_BYTES:
            return "it is longer than a file's name may be"
    except UnicodeEncodeError:
        return "no file can have this name"
    return ""


def _skipped(session_id: str, subpath: str | None, reason: str) -> SkippedExport:
    return SkippedExport(session=session_id, subpath=subpath, reason=reason)
