"""Dialects: the formats in which different programs write the same records.

A dialect recognises its lines, converts their fields to Claude Code's shape, which turnlog uses,
and converts them back. To add one, add a file and a name below. Dialects are detected line by line,
since logs may mix them; Claude Code's own comes last because it accepts every line.
"""

from __future__ import annotations

from typing import Any

from turnlog.records.dialects.codex import CODEX
from turnlog.records.dialects.copilot import COPILOT
from turnlog.records.dialects.flat import FLAT
from turnlog.records.dialects.leftovers import Dialect as Dialect
from turnlog.records.dialects.orchestrator import ORCHESTRATOR

CLAUDE = Dialect(
    "claude",
    recognises=lambda _fields: True,
    to_house=lambda fields: fields,
    from_house=lambda fields: fields,
    usage_marks=(b'"usage"',),
)
DIALECTS = (CODEX, COPILOT, ORCHESTRATOR, FLAT, CLAUDE)
BY_NAME = {dialect.name: dialect for dialect in DIALECTS}


def dialect_of(fields: dict[str, Any]) -> Dialect:
    """Return the dialect of a line."""
    return next(dialect for dialect in DIALECTS if dialect.recognises(fields))
