"""Compactions: where a context grew too long and was replaced by a summary of it.

A compaction is a record that is marked as such a summary. The record above it says, in newer logs,
whether the program or a person asked for it, and how many tokens the context had; what no record
says is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from turnlog.index.connection import Index
from turnlog.index.ids import OFFSET_BITS
from turnlog.index.texts import TextKind
from turnlog.insights.scope import Evidence, Places, Scope, conditions, first_text
from turnlog.records.record import System


class ContextCompaction(NamedTuple):
    """A summary that took the place of a context."""

    record: int
    session: int | None
    at: int | None
    trigger: str | None
    """auto or manual, as the log says it."""
    tokens: int | None
    """How many the context had."""


class Compactions(Struct, kw_only=True):
    """How often contexts were replaced by summaries."""

    compactions: int
    automatic: int
    manual: int
    sessions: int
    average_tokens: int | None
    """Of the contexts before, where the log tells."""


def compactions_of(index: Index, asked: Scope) -> list[ContextCompaction]:
    """Find the compactions of the period, in the order of logs and places."""
    where, values = conditions(index, asked)
    rows = index.db.execute(
        "SELECT DISTINCT r.id, r.session, r.at, r.parent FROM texts AS t"  # noqa: S608
        " JOIN records AS r ON r.id = t.record"
        " WHERE t.kind = ? AND t.id >= ? AND r.type ="
        f" (SELECT id FROM names WHERE name = 'user') AND {where} ORDER BY r.id",
        (int(TextKind.SUMMARY), first_text(asked), *values),
    ).fetchall()
    return [
        ContextCompaction(record, session, at, *_told(index, record, parent))
        for record, session, at, parent in rows
    ]


def compaction_figures(found: Sequence[ContextCompaction]) -> Compactions:
    """Add compactions up."""
    sizes = [each.tokens for each in found if each.tokens is not None]
    return Compactions(
        compactions=len(found),
        automatic=sum(each.trigger == "auto" for each in found),
        manual=sum(each.trigger == "manual" for each in found),
        sessions=len({each.session for each in found}),
        average_tokens=round(sum(sizes) / len(sizes)) if sizes else None,
    )


def explain_compactions(index: Index, found: Iterable[ContextCompaction]) -> list[Evidence]:
    """Describe compactions."""
    places = Places(index)
    rows = []
    for each in found:
        figures = {} if each.tokens is None else {"tokens": each.tokens}
        rows.append(places.behind(*each[:3], each.trigger or "not known who asked", **figures))
    return rows


def _told(index: Index, record: int, parent: Any) -> tuple[str | None, int | None]:
    """Read what the boundary above a summary says of it."""
    if parent is None:
        return None, None
    row = index.db.execute(
        "SELECT id, length FROM records WHERE uuid = ? AND type ="
        " (SELECT id FROM names WHERE name = 'system') ORDER BY id >> ? <> ?, id LIMIT 1",
        (parent, OFFSET_BITS, record >> OFFSET_BITS),
    ).fetchone()
    boundary = None if row is None else index.record(*row)
    said = boundary.compact_metadata if isinstance(boundary, System) else None
    if not isinstance(said, dict):
        return None, None
    trigger, tokens = said.get("trigger"), said.get("preTokens")
    is_count = isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0
    return trigger if isinstance(trigger, str) else None, tokens if is_count else None
