"""Dialects: the formats in which different programs write the same records.

A dialect is a module with four names: ``NAME``, ``recognises`` (whether a line is in this dialect),
``to_house`` (convert its fields to Claude Code's shape, which turnlog uses) and ``from_house``
(convert back). To add one, add a file and a line below. Dialects are detected line by line, since
logs may mix them; Claude Code's own comes last because it accepts every line.
"""

from __future__ import annotations

from typing import Any, Protocol

from turnlog.records.dialects import claude, flat, orchestrator


class Dialect(Protocol):
    """The interface of a dialect module."""

    NAME: str

    def recognises(self, fields: dict[str, Any], /) -> bool: ...
    def to_house(self, fields: dict[str, Any], /) -> dict[str, Any]: ...
    def from_house(self, fields: dict[str, Any], /) -> dict[str, Any]: ...


DIALECTS: tuple[Dialect, ...] = (orchestrator, flat, claude)
BY_NAME: dict[str, Dialect] = {dialect.NAME: dialect for dialect in DIALECTS}


def dialect_of(fields: dict[str, Any]) -> Dialect:
    """Return the dialect of a line."""
    return next(dialect for dialect in DIALECTS if dialect.recognises(fields))
