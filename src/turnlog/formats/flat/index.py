"""What stands in ``index.json``, the registry of a flat store: its sessions, newest first.

    {"sessions": [{"id": …, "createdAt": …, "lastActiveAt": …, "title": …, "messageCount": …, …}]}

Reading never raises for what stands there; it says what is wrong. Keys that other programs put in,
into the registry or a session's entry, are kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct, field

from turnlog.formats import flat_index
from turnlog.formats.flat.files import Fields, JsonFile, read_object
from turnlog.formats.flat.meta import Meta, Table, count, flag, part, text
from turnlog.records.timestamps import instant, iso
from turnlog.storage.atomic_files import Unreadable


class RegistryEntry(Struct, frozen=True, kw_only=True):
    """One session in the registry."""

    id: str
    created_at: datetime | None = None
    last_active_at: datetime | None = None
    title: str | None = None
    message_count: int = 0
    is_archived: bool = False
    more: Fields = field(default_factory=dict)
    """Keys that are not known, and known ones whose value is not what they should hold."""


class Registry(Struct, frozen=True, kw_only=True):
    """What the registry says, and what is wrong with it."""

    entries: tuple[RegistryEntry, ...] = ()
    problem: str | None = None
    more: Fields = field(default_factory=dict)

    @property
    def listed(self) -> tuple[RegistryEntry, ...]:
        """The sessions that a list shows: those that are not archived."""
        return tuple(entry for entry in self.entries if not entry.is_archived)


_FIELDS: Final[Table] = {
    "id": ("id", text),
    "createdAt": ("created_at", instant),
    "lastActiveAt": ("last_active_at", instant),
    "title": ("title", text),
    "messageCount": ("message_count", count),
    "isArchived": ("is_archived", flag),
}


def entry_of(meta: Meta) -> RegistryEntry:
    """Return what the registry says of a session."""
    return RegistryEntry(
        id=meta.session_id,
        created_at=meta.created_at,
        last_active_at=meta.last_active_at,
        title=meta.title,
        message_count=meta.message_count,
        is_archived=meta.is_archived,
    )


def read_index(directory: str | os.PathLike[str]) -> Registry:
    """Read the registry of the flat store at *directory*; what cannot be read is a problem."""
    return index_from(read_object(flat_index(directory)))


def index_from(found: JsonFile | Unreadable) -> Registry:
    """Read a registry from the object that was found in its file."""
    if isinstance(found, Unreadable):
        return Registry(problem=found.reason)
    listed = found.fields.get("sessions")
    if not isinstance(listed, list):
        return Registry(problem="no list of sessions", more=found.fields)
    entries: dict[str, RegistryEntry] = {}
    odd = 0
    for item in listed:
        said, more = part(item, _FIELDS) if isinstance(item, dict) else ({}, {})
        if "id" in said:
            entries.setdefault(said["id"], RegistryEntry(**said, more=more))
        else:
            odd += 1
    problem = f"{odd:,} of {len(listed):,} are no sessions" if odd else None
    return Registry(entries=_sorted(entries.values()), problem=problem, more=found.fields)


def index_fields(entries: Iterable[RegistryEntry], more: Fields) -> Fields:
    """Return a registry as its file holds it; *more* is what else stands there."""
    sessions = {"sessions": [_wire(entry) for entry in _sorted(entries)]}
    # What was there keeps its place.
    return more | sessions if "sessions" in more else sessions | more


def _sorted(entries: Iterable[RegistryEntry]) -> tuple[RegistryEntry, ...]:
    """Newest first, those that nobody knows last; the id settles a tie."""
    by_id = sorted(entries, key=lambda entry: entry.id)
    return tuple(sorted(by_id, key=_recency, reverse=True))


def _recency(entry: RegistryEntry) -> tuple[bool, datetime]:
    at = entry.last_active_at
    if at is None:
        return False, datetime.min.replace(tzinfo=UTC)
    # Milliseconds, as on disk: what is finer is not there when the file is read again.
    return True, at.replace(microsecond=at.microsecond // 1000 * 1000)


def _wire(entry: RegistryEntry) -> Fields:
    said: Fields = {}
    for key, (name, _) in _FIELDS.items():
        value = getattr(entry, name)
        value = iso(value) if isinstance(value, datetime) else value
        # What could not be read is not known better either: it stays.
        value = entry.more.get(key, value)
        if value is not None or key != "title":
            said[key] = value
    return said | unknown_keys(entry)


def unknown_keys(entry: RegistryEntry) -> Fields:
    """Return the keys of *entry* that only another program knows."""
    return {key: value for key, value in entry.more.items() if key not in _FIELDS}
