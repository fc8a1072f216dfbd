"""What the owner of a server sets: ``[mcp]`` in config.toml.

    [mcp]
    scope = "all"               # every project, not only the one that the server was started in
    answer_bytes = 24000        # no answer is larger
    seconds = 20                # no answer takes longer

Only the owner sets these: no argument of a tool widens anything. A setting that cannot be read is
reported and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, structs

from turnlog.config import SettingProblem

Scope: TypeAlias = Literal["project", "all"]
LEAST_BYTES: Final = 4_000
MOST_BYTES: Final = 200_000
MOST_SECONDS: Final = 300


class Settings(Struct, frozen=True, kw_only=True):
    """The settings that hold."""

    scope: Scope = "project"
    answer_bytes: int = 24_000
    """No answer is larger, its frame included."""
    seconds: float = 20
    """No answer takes longer."""


def settings_from(said: Mapping[str, Any]) -> tuple[Settings, tuple[SettingProblem, ...]]:
    """Read the plain ``[mcp]`` table of a parsed config.toml."""
    settings, problems = Settings(), []
    for name, value in said.items():
        reason = _reason(name, value)
        if reason is None:
            settings = structs.replace(settings, **{name: value})
        else:
            problems.append(SettingProblem(f"mcp.{name}", reason))
    return settings, tuple(problems)


def _reason(name: str, value: Any) -> str | None:
    """Say why a setting cannot be used; None if it can."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match name:
        case "scope":
            return None if value in ("project", "all") else f'{value!r} is not "project" or "all"'
        case "answer_bytes":
            if isinstance(value, int) and is_number and LEAST_BYTES <= value <= MOST_BYTES:
                return None
            return f"{value!r} is no number of bytes from {LEAST_BYTES:,} to {MOST_BYTES:,}"
        case "seconds":
            if is_number and 1 <= value <= MOST_SECONDS:
                return None
            return f"{value!r} is no number of seconds from 1 to {MOST_SECONDS}"
        case _:
            return f"no such setting; there are {', '.join(Settings.__struct_fields__)}"
