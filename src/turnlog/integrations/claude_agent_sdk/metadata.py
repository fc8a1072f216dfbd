"""What Claude Code keeps beside an agent's log: ``agent-ID.meta.json``.

The SDK sends it as an entry of type ``agent_metadata``, which stays in the log like any other. The
last one is also written where Claude Code looks for it when it goes on from the disk; and where
only Claude Code's own file tells, it is given to the SDK as that entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from turnlog.errors import TurnlogError
from turnlog.formats.kept_copies import kept_place
from turnlog.integrations.claude_agent_sdk.entries import Entry, entries_in
from turnlog.integrations.claude_agent_sdk.keys import Key, place
from turnlog.keep.catalog import find_copy
from turnlog.records.codec import encode
from turnlog.records.lenient_json import NotJson, loads
from turnlog.storage.atomic_files import put, read_file
from turnlog.storage.logger import logger
from turnlog.storage.sources import BrokenArchive, open_source

TYPE: Final = "agent_metadata"
_LIMIT: Final = 1024 * 1024


def is_metadata(entry: Entry) -> bool:
    """Return whether *entry* is no line of a log, but tells what agent it is the log of."""
    return entry.get("type") == TYPE


def last_metadata(entries: Sequence[Entry]) -> Entry | None:
    """Return the entry that tells about the agent as it is now: the last such one."""
    return next((entry for entry in reversed(entries) if is_metadata(entry)), None)


def as_metadata(meta: Entry) -> Entry:
    """Return the entry by which a store is told what stands in an agent's ``.meta.json``."""
    return {**as_file(meta), "type": TYPE}


def as_file(entry: Entry) -> Entry:
    """Return what such an entry says as the file has it."""
    return {key: value for key, value in entry.items() if key != "type"}


def note_metadata(root: Path, key: Key, appended: Sequence[Entry], *, is_known: bool) -> bool:
    """Write down beside an agent's log what was *appended* of its metadata; tell whether it is.

    Unless what the log held before *is_known* to be written down, that is made up for: an earlier
    writer may have been killed in between. The entries are saved whatever becomes of this.
    """
    assert key.meta is not None
    said = last_metadata(appended)
    path = place(root, key.meta)
    try:
        if said is None and not is_known and not path.exists():
            said = last_metadata(entries_in(place(root, key.name)))
        data = None if said is None else encode(as_file(said))
        if data is not None and read_file(path, limit=_LIMIT, follow=False) != data:
            put(root, key.meta.split("/"), [data], overwrite=True)
    except (OSError, TurnlogError) as error:
        logger.warning("%s: not written: %s", path, error)
        return False
    return True


def with_metadata(root: Path, key: Key, entries: list[Entry]) -> list[Entry]:
    """Return *entries*, behind the metadata of their agent if only its own file tells it."""
    if key.meta is None or not entries or last_metadata(entries) is not None:
        return entries
    known = _read(place(root, key.meta)) or _read(find_copy(kept_place(root), key.meta))
    return [as_metadata(known), *entries] if known else entries


def _read(path: Path) -> Entry | None:
    try:
        source = open_source(path)
        try:
            said = loads(source.read(_LIMIT))
        finally:
            source.close()
    except (TurnlogError, NotJson, BrokenArchive):  # It is missing, or tells nothing.
        return None
    return said if isinstance(said, dict) else None
