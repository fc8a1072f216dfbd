"""A log and what its place tells: what every search of this room gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from pathlib import Path

    from turnlog.layout.homes import Home
    from turnlog.layout.names import Compression, LogKind

LayoutName: TypeAlias = Literal["claude", "dated", "flat"]


class LogFile(Struct, frozen=True):
    """A log and what its place tells about it.

    *session_id* is None where only records can tell: for an agent's log that lies beside the
    sessions, and for a day's log, which several sessions share. *project_key* is the name of the
    directory under projects/ (a hash in the dated layout).
    """

    path: Path
    home: Home
    layout: LayoutName
    kind: LogKind
    session_id: str | None
    agent_id: str | None
    project_key: str | None
    compression: Compression | None
    is_kept: bool = False
    """It is gone at its source: *path* is that of turnlog's own copy."""
