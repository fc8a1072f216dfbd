"""Claude Code's own dialect, which turnlog uses unchanged."""

from __future__ import annotations

from typing import Any

NAME = "claude"


def recognises(_fields: dict[str, Any]) -> bool:
    """Return True: this dialect is tried last and accepts everything."""
    return True


def to_house(fields: dict[str, Any]) -> dict[str, Any]:
    return fields


def from_house(fields: dict[str, Any]) -> dict[str, Any]:
    return fields
