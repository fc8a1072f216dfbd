"""Claude Code's own dialect: the house's shape as it is."""

from __future__ import annotations

from typing import Any

NAME = "claude"


def recognises(_fields: dict[str, Any]) -> bool:
    """Take everything: this dialect is asked last."""
    return True


def to_house(fields: dict[str, Any]) -> dict[str, Any]:
    return fields


def from_house(fields: dict[str, Any]) -> dict[str, Any]:
    return fields
