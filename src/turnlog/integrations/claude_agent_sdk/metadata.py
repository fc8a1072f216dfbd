"""Metadata of subagents: ``agent-ID.meta.json`` next to a log.

The SDK sends it as an entry of type ``agent_metadata``, which stays in the log. The latest one is
also written to the file that Claude Code reads. If only that file exists, it is returned to the
SDK as an entry.
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
    """Return True if *entry* is the metadata of a subagent."""
    return entry.get("type") == TYPE


def last_metadata(entries: Sequence[Entry]) -> Entry | None:
    """Return the last metadata entry, or None."""
    return next((entry for entry in reversed(entries) if is_metadata(entry)), None)


def as_metadata(meta: Entry) -> Entry:
    """Return the entry for the content of a ``.meta.json`` file."""
    return {**as_file(meta), "type": TYPE}


def as_file(entry: Entry) -> Entry:
    """Return the content of a ``.meta.json`` file for an entry."""
    return {key: value for key, value in entry.items() if key != "type"}


def note_metadata(root: Path, key: Key, appended: Sequence[Entry], *, is_known: bool) -> bool:
    """Write the metadata in *appended* to its file; return True if the file is up to date.

    Unless *is_known*, metadata that was in the log before is written, too: an earlier writer may
    have been killed in between. Failures are logged; the entries are saved in any case.
    """
    assert key.meta is not None
    entry = last_metadata(appended)
    path = place(root, key.meta)
    try:
        if entry is None and not is_known and not path.exists():
            entry = last_metadata(entries_in(place(root, key.name)))
        data = None if entry is None else encode(as_file(entry))
        if data is not None and read_file(path, limit=_LIMIT, follow=False) != data:
            put(root, key.meta.split("/"), [data], overwrite=True)
    except (OSError, TurnlogError) as error:
        logger.warning("%s: not written: %s", path, error)
        return False
    return True


def with_metadata(root: Path, key: Key, entries: list[Entry]) -> list[Entry]:
    """Return *entries*, preceded by the metadata file if they contain no metadata."""
    if key.meta is None or not entries or last_metadata(entries) is not None:
        return entries
    known = _read(place(root, key.meta)) or _read(find_copy(kept_place(root), key.meta))
    return [as_metadata(known), *entries] if known else entries


def _read(path: Path) -> Entry | None:
    try:
        source = open_source(path)
        try:
            value = loads(source.read(_LIMIT))
        finally:
            source.close()
    except (TurnlogError, NotJson, BrokenArchive):  # Missing or unreadable.
        return None
    return value if isinstance(value, dict) else None
