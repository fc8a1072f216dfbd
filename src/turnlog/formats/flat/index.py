"""``index.json``, the registry of a flat store: its sessions, newest first.

    {"sessions": [{"id": …, "createdAt": …, "lastActiveAt": …, "title": …, "messageCount": …, …}]}

Reading never raises for the file's content; it reports problems. Keys of other programs, in the
registry or in a session's entry, are kept.
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
    """Unknown keys, and known ones with an invalid value."""


class Registry(Struct, frozen=True, kw_only=True):
    """The content of the registry, and its problems."""

    entries: tuple[RegistryEntry, ...] = ()
    problem: str | None = None
    more: Fields = field(default_factory=dict)

    @property
    def listed(self) -> tuple[RegistryEntry, ...]:
        """The sessions to list: those that are not archived."""
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
    """Return the registry's entry of a session."""
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
    """Return the registry in the object read from its file."""
    if isinstance(found, Unreadable):
        return Registry(problem=found.reason)
    listed = found.fields.get("sessions")
    if not isinstance(listed, list):
        return Registry(problem="no list of sessions", more=found.fields)
    entries: dict[str, RegistryEntry] = {}
    odd = 0
    for item in listed:
        known, more = part(item, _FIELDS) if isinstance(item, dict) else ({}, {})
        if "id" in known:
            entries.setdefault(known["id"], RegistryEntry(**known, more=more))
        else:
            odd += 1
    problem = f"{odd:,} of {len(listed):,} are no sessions" if odd else None
    return Registry(entries=_sorted(entries.values()), problem=problem, more=found.fields)


def index_fields(entries: Iterable[RegistryEntry], more: Fields) -> Fields:
    """Return a registry as JSON fields; *more* is the rest of the file."""
    sessions = {"sessions": [_wire(entry) for entry in _sorted(entries)]}
    # Existing keys keep their position.
    return more | sessions if "sessions" in more else sessions | more


def _sorted(entries: Iterable[RegistryEntry]) -> tuple[RegistryEntry, ...]:
    """Sort newest first, undated ones last; the id breaks ties."""
    by_id = sorted(entries, key=lambda entry: entry.id)
    return tuple(sorted(by_id, key=_recency, reverse=True))


def _recency(entry: RegistryEntry) -> tuple[bool, datetime]:
    at = entry.last_active_at
    if at is None:
        return False, datetime.min.replace(tzinfo=UTC)
    # Milliseconds, as on disk: anything finer is lost when the file is read again.
    return True, at.replace(microsecond=at.microsecond // 1000 * 1000)


def _wire(entry: RegistryEntry) -> Fields:
    fields: Fields = {}
    for key, (name, _) in _FIELDS.items():
        value = getattr(entry, name)
        value = iso(value) if isinstance(value, datetime) else value
        # A value that could not be read is kept as it was.
        value = entry.more.get(key, value)
        if value is not None or key != "title":
            fields[key] = value
    return fields | unknown_keys(entry)


def unknown_keys(entry: RegistryEntry) -> Fields:
    """Return the keys of *entry* that only another program knows."""
    return {key: value for key, value in entry.more.items() if key not in _FIELDS}
