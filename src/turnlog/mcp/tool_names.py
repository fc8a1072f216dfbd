"""Names of tools: our own, as the server's owner prefixes them; others' and files, as agents ask.

They become SQL or a pattern in which nothing else means anything, so that no name that is asked for
can take long to look for.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from turnlog.errors import UsageError

ToolName: TypeAlias = Annotated[
    str | None,
    Field(
        description="Tool names: Bash, or Edit,Write, or mcp__github__*.",
        min_length=1,
        max_length=200,
    ),
]
FileName: TypeAlias = Annotated[
    str | None,
    Field(
        description="Path, end of a path, or pattern: *.py, */src/*.",
        min_length=1,
        max_length=1000,
    ),
]
_MOST_STARS: Final = 3
_OURS: Final = re.compile(
    "`((?:search|query)_history|list_sessions|session_(?:overview|turns)"
    "|past_(?:calls|errors|files|costs|insights))`"
)


def spelled(text: str, prefix: str) -> str:
    """Return *text* with *prefix* before the name of each of our tools in backquotes."""
    return _OURS.sub(rf"`{prefix}\1`", text) if prefix else text


def listed(value: Any) -> Any:
    """Take one name, or several with commas between them, for the list that is meant."""
    return [each.strip() for each in value.split(",")] if isinstance(value, str) else value


def tool_pattern(names: str | None) -> str | None:
    """Write names of tools as the regular expression that means just them, in capitals or not."""
    if names is None:
        return None
    wanted = [each.strip() for each in names.split(",") if each.strip()]
    if not wanted:
        raise UsageError("no tool is named", hint="say a name, such as Bash")
    if names.count("*") > _MOST_STARS:
        raise UsageError(f"{names!r} has too many stars", hint=f"{_MOST_STARS} are allowed")
    each = "|".join(".*".join(map(re.escape, name.split("*"))) for name in wanted)
    return rf"(?is)\A(?:{each})\Z"


def file_glob(name: str) -> list[str]:
    """Write the name of a file as the patterns of SQLite's GLOB that mean it."""
    if name.count("*") > _MOST_STARS:
        raise UsageError(f"{name!r} has too many stars", hint=f"{_MOST_STARS} are allowed")
    plain = re.sub(r"[\[?]", lambda found: f"[{found[0]}]", name)
    return [plain, f"*/{plain}", f"*\\{plain}"]
