"""Responses with what only their records tell: the branch they were made on, the tools they called.

A response's branch is that of the record its figures are from. Its tools are those that the
records of its message call, in the same log: several records carry parts of one response, and
which of them has the figures says nothing about which has the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from turnlog.index.ids import OFFSET_BITS
from turnlog.questions.spending import every_response
from turnlog.records.responses import Response

if TYPE_CHECKING:
    import sqlite3

    from turnlog.index.connection import Index
    from turnlog.questions.periods import Period
    from turnlog.questions.usage_scan import UsageScan


class Traced(Response, frozen=True, gc=False):
    """A response, and what the index knows of its records."""

    branch: str | None = None
    tools: str | None = None
    """The different tools that it called, sorted and joined by ``+``; None if it called none."""


def every_traced(index: Index, period: Period) -> UsageScan:
    """Give every response of *period*, one by one, with its branch and its tools."""
    scan = every_response(index, period)
    db = index.db
    logs = {path: log for log, path in db.execute("SELECT id, path FROM logs")}
    branches = dict(
        db.execute(
            "SELECT records.id, name FROM records JOIN names ON names.id = branch"
            " WHERE records.id IN (SELECT record FROM messages)"
        )
    )
    tools = _tools(db)
    traced: list[Response] = []
    for each in scan.responses:
        log = logs[each.log]
        record = log << OFFSET_BITS | each.offset
        called = tools.get((log, each.message_id or record))
        named = "+".join(sorted(called)) if called else None
        traced.append(Traced(**asdict(each), branch=branches.get(record), tools=named))
    scan.responses = traced
    return scan


def _tools(db: sqlite3.Connection) -> dict[tuple[int, str | int], set[str]]:
    """Give the tools that each message of each log calls; a nameless one is known by its record."""
    found: dict[tuple[int, str | int], set[str]] = {}
    for record, message, tool in db.execute(
        "SELECT records.id, message, name FROM calls JOIN records ON records.id = calls.record"
        " JOIN names ON names.id = calls.tool"
    ):
        found.setdefault((record >> OFFSET_BITS, message or record), set()).add(tool)
    return found
