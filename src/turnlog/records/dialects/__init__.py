"""The ways in which programs write the same records.

A dialect is one module with four names: ``NAME``, ``recognises`` (is this line mine?), ``to_house``
(its fields in Claude Code's shape, which is the house's) and ``from_house`` (the way back). A
fourth dialect is one more file and one more line below. Dialects are told apart line by line, since
mixed logs exist; Claude Code's own comes last because it takes whatever is left.
"""

from __future__ import annotations

from typing import Any, Protocol

from turnlog.records.dialects import claude, flat, orchestrator


class Dialect(Protocol):
    """What a dialect module offers."""

    NAME: str

    def recognises(self, fields: dict[str, Any], /) -> bool: ...
    def to_house(self, fields: dict[str, Any], /) -> dict[str, Any]: ...
    def from_house(self, fields: dict[str, Any], /) -> dict[str, Any]: ...


DIALECTS: tuple[Dialect, ...] = (orchestrator, flat, claude)
BY_NAME: dict[str, Dialect] = {dialect.NAME: dialect for dialect in DIALECTS}


def dialect_of(fields: dict[str, Any]) -> Dialect:
    """Return which dialect a line is written in."""
    return next(dialect for dialect in DIALECTS if dialect.recognises(fields))
