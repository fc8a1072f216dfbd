"""Export sessions: which ones, as which text, and into files that are never overwritten unasked."""

from __future__ import annotations

import getpass
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from turnlog.api.arguments import Period
from turnlog.api.homes import Home, Problem
from turnlog.api.index import Index
from turnlog.api.sessions.lists import list_indexed
from turnlog.errors import TurnlogError, UsageError
from turnlog.formats import FORMATS
from turnlog.redact import Pseudonyms
from turnlog.sessions.convert.convert import subagent_logs_of
from turnlog.sessions.session import Session
from turnlog.sessions.totals import usual_prices
from turnlog.storage.atomic_files import failure, put

__all__ = [
    "Session",
    "failure",
    "pseudonyms_here",
    "session_ids",
    "sessions_of",
    "subagent_logs_of",
    "usual_prices",
    "write_file",
]


def pseudonyms_here() -> Pseudonyms:
    """Return pseudonyms that know the names of this machine and its user already."""
    try:
        user = [getpass.getuser()]
    except (OSError, KeyError):  # Without an account, as in some containers.
        user = []
    return Pseudonyms(user, [platform.node()])


def session_ids(homes: Sequence[Home], names: Iterable[str]) -> list[str]:
    """Return the ids of the sessions of *names*, each once."""
    return list(dict.fromkeys(Session.find(homes, name).id for name in names))


def sessions_of(
    index: Index, period: Period, *, sidechains: bool = False
) -> tuple[list[str], list[Problem]]:
    """Return the ids of the sessions of *period*, and the logs that could not be read.

    Logs of subagents without a session are included if *sidechains* is true.
    """
    rows = list_indexed(
        index,
        project=period.project,
        since=period.since,
        until=period.until,
        archived=None,
        sidechains=sidechains,
        detailed=0,
    ).sessions
    return list(dict.fromkeys(row.id for row in rows)), list(_unread(index, period))


def _unread(index: Index, period: Period) -> Iterator[Problem]:
    """Return the logs that the index could not read and that may belong to *period*.

    Their mtime and their directory stand in for their records.
    """
    query = (
        "SELECT path, problem FROM logs WHERE problem IS NOT NULL AND gone_at IS NULL"
        " AND kind IN ('session', 'subagent', 'day') ORDER BY path"
    )
    for path, reason in index.db.execute(query):
        if period.project is not None:
            found = (each.project_name(period.project, is_here=False) for each in FORMATS)
            names = tuple(name for name in found if name)
            if not any(part.startswith(names) for part in Path(path).parts):
                continue
        with suppress(OSError):
            changed_at = datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
            if period.since is None or changed_at >= period.since:
                yield Problem(Path(path), reason)


def write_file(
    path: Path, pieces: Iterable[bytes], *, force: bool, root: Path | None = None
) -> int:
    """Write *pieces* to *path*, all or nothing, and return its size.

    Directories are made below *root* only. Raises UsageError if the file exists, unless *force*.
    """
    path = path.absolute()
    root = root.absolute() if root else path.parent
    try:
        return put(root, path.relative_to(root).parts, pieces, overwrite=force)
    except FileExistsError:
        raise UsageError(
            f"{path} exists", hint="pass force=True to replace it", code="file-exists"
        ) from None
    except TurnlogError:
        raise
    except OSError as error:
        raise failure(error, path) from None
