"""What the lists from the index share: sessions, their usage, conditions and pages.

Conditions and orders are our own SQL; values from callers are always bound. SQLite cuts the page
and counts the whole list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from turnlog.errors import UsageError
from turnlog.formats import supported
from turnlog.index.connection import Index
from turnlog.index.ids import microseconds
from turnlog.text import utf8_safe

COUNTERS: Final = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
"""The tokens that responses used, by the names that every report has for them."""


def _sql(layouts: set[str]) -> str:
    return "(" + ", ".join(f"'{name}'" for name in sorted(layouts)) + ")"


SHARED_LAYOUTS: Final = _sql(supported.shared_layouts())
"""The layouts of sessions that share their logs, as SQL."""

REGISTRY_LAYOUTS: Final = _sql(supported.registry_layouts())
"""The layouts of sessions that may be archived in place, as SQL."""

LISTED: Final = f"""
listed AS (
    SELECT sessions.*, projects.path AS place,
        sessions.gone_at IS NOT NULL OR sessions.path = '' AS is_gone,
        coalesce(last_active_at, (
            SELECT nullif(text_mtime_ns, 0) / 1000 FROM logs WHERE logs.path = sessions.path
        )) AS active_at,
        CASE WHEN sessions.layout IN {SHARED_LAYOUTS} THEN (
            SELECT coalesce(sum(length + 1), 0) FROM records WHERE records.session = sessions.id
        ) ELSE size_bytes END AS bytes
    FROM sessions LEFT JOIN projects ON projects.id = sessions.project
)"""  # noqa: S608 - Ours.
"""Every session, with the columns of the list.

Without a dated record, the mtime of the file is used. A session that shares its logs has the bytes
of its own lines.
"""

IS_THERE: Final = "NOT is_sidechain AND NOT is_gone"
"""True for sessions with a main log that begins with a record of their own.

If only the logs of subagents, or rows in the index, are left, the session counts as gone.
"""

PICO: Final = 10**12
"""Picodollars in a dollar. Up to nine million dollars they fit into SQLite's integers."""

JOIN_PAID: Final = " LEFT JOIN paid ON paid_by = listed.session AND paid_in = listed.home"

_SUMS: Final = ", ".join(f"sum({each}) AS {each}" for each in COUNTERS)


def session_costs_sql(which: str = "") -> str:
    """Return SQL for the usage of each session; *which* is a condition on its messages.

    A copy of a session in another home is another session: a response counts for the home with the
    record that counts.
    """
    # For all of them one pass over the messages is faster than hopping along the index on sessions.
    session = "session" if which else "+session"
    return f"""
paid AS (
    SELECT name AS paid_by, logs.home AS paid_in, sum(messages) AS messages, {_SUMS},
        sum({" + ".join(COUNTERS)}) AS tokens
    FROM (
        SELECT session, record >> 40 AS log, sum(part = '') AS messages, {_SUMS}
        FROM messages WHERE {which or "true"} GROUP BY {session}, record >> 40
    ) AS each_log JOIN names ON names.id = each_log.session JOIN logs ON logs.id = each_log.log
    GROUP BY name, logs.home
)"""  # noqa: S608 - Ours.


class ListConditions:
    """The conditions of a list, and their values."""

    def __init__(self) -> None:
        self._conditions = ["true"]
        self.values: list[Any] = []

    def keep(self, condition: str, *values: Any) -> None:
        """Keep only rows for which *condition* is true."""
        self._conditions.append(condition)
        self.values += map(utf8_safe, values)

    def keep_word(self, word: str, columns: Sequence[str], *, is_masked: bool) -> None:
        """Keep rows in which one of *columns* has *word* as a part, in capitals or not.

        SQLite decides about ASCII, and the function is_part about everything else: also about a
        text with a NUL, where length ends.
        """
        is_plain = word.isascii() and 0 < len(word) < _LONGEST_PART and "\0" not in word
        if is_masked or not is_plain:
            self.keep(
                f"({' OR '.join(f'is_part(?, {each})' for each in columns)})",
                *(word for _ in columns),
            )
            return
        like = "%" + re.sub("([%_!])", r"!\1", word) + "%"
        tests = (
            f"{each} LIKE ? ESCAPE '!'"
            f" OR (length(CAST({each} AS BLOB)) <> length({each}) AND is_part(?, {each}))"
            for each in columns
        )
        self.keep(f"({' OR '.join(tests)})", *(value for _ in columns for value in (like, word)))

    def keep_period(self, since: datetime | None, until: datetime | None) -> None:
        """Keep sessions that were active at *since* or later, and before *until*."""
        for each in (since, until):
            if each is not None and each.tzinfo is None:
                raise UsageError(f"{each} has no time zone", hint="use an aware datetime")
        if since is not None:
            self.keep("active_at >= ?", microseconds(since))
        if until is not None:
            self.keep("coalesce(started_at, active_at) < ?", microseconds(until))

    @property
    def where(self) -> str:
        """All conditions, as SQL."""
        return " AND ".join(self._conditions)


class ListPage:
    """Some rows of a list, by the names of their columns, and how many it has in all.

    Without a *total*, the last column has it.
    """

    def __init__(
        self,
        index: Index,
        query: str,
        values: list[Any],
        limit: int | None,
        offset: int,
        *,
        total: int | None = None,
    ) -> None:
        if offset < 0 or (limit is not None and limit < 0):
            raise UsageError("limit and offset must not be negative", hint="use 0 or more")
        bounds = (min(_MOST if limit is None else limit, _MOST), min(offset, _MOST))
        found = index.db.execute(f"{query} LIMIT ? OFFSET ?", (*values, *bounds))
        names = [column[0] for column in found.description]
        self.rows = [dict(zip(names, row, strict=True)) for row in found]
        if total is not None:
            self.total = total
        elif self.rows or not (offset or limit == 0):
            self.total = int(self.rows[0][names[-1]]) if self.rows else 0
        else:  # Beyond the last row, the count has to be queried.
            first = index.db.execute(f"{query} LIMIT 1", values).fetchone()
            self.total = int(first[-1]) if first else 0
        end = offset + len(self.rows)
        self.next = end if end < self.total else None


def order_by(sort: str, sorts: Mapping[str, str], *, is_rising: bool) -> str:
    """Return the order *sort* as SQL; unknown values come last either way."""
    if sort not in sorts:
        raise UsageError(f"invalid sort order: {sort!r}", hint=f"use one of {', '.join(sorts)}")
    return f"{sorts[sort]} IS NULL, {sorts[sort]} {'ASC' if is_rising else 'DESC'}"


def tokens_of(row: object) -> int:
    """Return the sum of all token counters of a row."""
    return sum(getattr(row, each) for each in COUNTERS)


def models_in(stored: str) -> dict[str, int]:
    """Return a session's models with their numbers of records, without synthetic ones.

    Not by SQLite, which cuts a name at a NUL.
    """
    found: dict[str, int] = msgspec.json.decode(stored)
    return {name: count for name, count in found.items() if not name.startswith("<")}


_LONGEST_PART: Final = 1_000
# Larger than any table.
_MOST: Final = 2**62
