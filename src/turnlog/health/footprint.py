"""Everything that turnlog has made outside the agents' homes, and its entries in their settings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from turnlog.formats import FORMATS, Home, find_homes
from turnlog.formats.settings_changes import Remove, Step
from turnlog.keep.schedule import uninstall_steps

Kind = Literal["data", "hook", "timer", "statusline", "mcp"]

_DATA: Final = {
    "config.toml": "your settings",
    "kept": "copies of sessions, maybe the only ones left",
    "trash": "deleted sessions that can still be restored",
    "projects": "sessions that your programs wrote; no other copy",
    "sessions": "sessions that your programs wrote; no other copy",
    "journal.jsonl": "pins, deletions and archives",
    "journal.witness.json": "checksum of the journal",
    "index": "search index; rebuilt when needed",
    "prices.json": "price table; rebuilt when needed",
    "statusline": "status line figures; rebuilt when needed",
}
"""What turnlog has in its data directory: what cannot be rebuilt first."""
_OF_HOMES: Final = frozenset({"projects", "sessions"})
_HOOKS: Final = "turnlog hooks remove"


class OwnFile(Struct, kw_only=True, frozen=True):
    """A file or directory that turnlog made, or an entry of its own in another program's file."""

    kind: Kind
    path: str
    what: str
    size_bytes: int | None
    """With everything below it; None for an entry in a file of another program."""
    remove: str
    """The shell command that removes it; "" if it cannot be read."""


class Footprint(Struct, kw_only=True, frozen=True):
    """The output of `turnlog doctor --where --json`."""

    data_directory: str
    size_bytes: int
    """Of turnlog's files in the data directory."""
    remove_data: str
    """The shell command that removes all of them; "" if there are none."""
    files: list[OwnFile]


def find_footprint(own: Path, homes: Sequence[Home]) -> Footprint:
    """Return what turnlog has in its data directory *own*, and in the settings of *homes*."""
    # A data directory that is also an agent's home has the agent's sessions.
    agents = {os.path.realpath(home) for home in find_homes()}
    foreign = _OF_HOMES if os.path.realpath(own) in agents else frozenset()
    data = list(_data_files(own, [name for name in _DATA if name not in foreign]))
    parts = [each.path for each in data]
    if data and not foreign and set(os.listdir(own)) <= _DATA.keys():
        parts = [str(own)]
    return Footprint(
        data_directory=str(own),
        size_bytes=sum(each.size_bytes or 0 for each in data),
        remove_data=shlex.join(("rm", "-r", *parts)) if parts else "",
        files=[*data, *_settings_files(homes)],
    )


def _data_files(own: Path, names: Sequence[str]) -> Iterator[OwnFile]:
    for name in names:
        path = own / name
        if os.path.lexists(path):
            yield OwnFile(
                kind="data",
                path=str(path),
                what=_DATA[name],
                size_bytes=_size(path),
                remove=shlex.join(("rm", *(["-r"] if path.is_dir() else []), str(path))),
            )


def _settings_files(homes: Sequence[Home]) -> Iterator[OwnFile]:
    """Yield what runs turnlog automatically, and its entries in the settings of *homes*."""
    for step in uninstall_steps([home.path for home in homes]):
        yield from _scheduled(step)
    entries = (entry for home in homes for each in FORMATS for entry in each.settings_entries(home))
    for entry in dict.fromkeys(entries):
        command = shlex.join(entry.remove) or f"{_HOOKS} statusline --yes"
        if entry.directory:
            command = f"cd {shlex.quote(entry.directory)} && {command}"
        yield OwnFile(
            kind="mcp" if entry.remove else "statusline",
            path=entry.path,
            what=f"{entry.key}: " + ("the MCP server" if entry.remove else "the status line"),
            size_bytes=None,
            remove=command,
        )


def _scheduled(step: Step) -> Iterator[OwnFile]:
    command = f"{_HOOKS} keep --yes"
    kind: Kind = "hook" if step.kind == "claude" else "timer"
    if step.state == "refused":
        yield OwnFile(
            kind=kind,
            path=step.place,
            what=f"cannot be checked: {step.reason}",
            size_bytes=None,
            remove="",
        )
        return
    what = "hook: keeps a session when it ends"
    if kind == "timer":
        what = f"{step.kind}: keeps sessions every hour"
    files = [deed.path for deed in step.deeds if isinstance(deed, Remove)]
    # A hook is an entry in the agent's settings; a timer has files of its own, except in crontab.
    for path in files if kind == "timer" and files else [Path(step.place)]:
        yield OwnFile(
            kind=kind,
            path=str(path),
            what=what,
            size_bytes=None if path not in files else _size(path),
            remove=command,
        )


def _size(path: Path) -> int:
    """Return the size of a file, or of all files below a directory; links are not followed."""
    if not path.is_dir() or path.is_symlink():
        return _file_size(path)
    return sum(
        _file_size(os.path.join(directory, name))
        for directory, _, names in os.walk(path)
        for name in names
    )


def _file_size(path: str | os.PathLike[str]) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:  # It was deleted in the meantime.
        return 0
