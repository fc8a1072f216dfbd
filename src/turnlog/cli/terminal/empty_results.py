"""What is printed when nothing was found: that, and what to try next."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from turnlog.api.homes import all_home_paths, all_homes, configured_homes, has_logs, usual_homes
from turnlog.cli.terminal.console import console, from_user, safe

if TYPE_CHECKING:
    from rich.console import Console

# Filter options, by the names of their values.
_FILTERS: Final = {
    "project": "--project",
    "since": "--since",
    "until": "--until",
    "session": "--session",
    "model": "--model",
    "tool": "--tool",
    "branch": "--branch",
    "tag": "--tag",
    "words": "words",
    "is": "--is",
    "pattern": "--pattern",
}


def print_nothing_found(
    what: str, homes: Sequence[str], filters: Mapping[str, Any] | None = None, *, hint: str = ""
) -> None:
    """Print that no *what* was found in *homes*, and what to try."""
    out = console()
    out.print(f"No {what} found.")
    show_hint(out, homes, filters, hint=hint)


def show_hint(
    out: Console, homes: Sequence[str], filters: Mapping[str, Any] | None = None, *, hint: str = ""
) -> None:
    """Print what to try when nothing was found."""
    out.print(f"[dim]hint: {safe(hint_for(homes, filters or {}, hint))}[/]", soft_wrap=True)


def hint_for(homes: Sequence[str], filters: Mapping[str, Any], hint: str = "") -> str:
    """Return what to try: --home if there is no session at all, else fewer filters, else *hint*."""
    elsewhere = "name the directory that holds them with --home"
    if not has_sessions(homes):
        return f"{_no_sessions(homes)}; {elsewhere}"
    if filters.get("unknown"):  # Names that do not exist, as the index knows.
        return str(filters["unknown"])
    used = [_FILTERS[name] for name in _FILTERS if filters.get(name)]
    if used:
        projects = "; turnlog projects lists the directories" if filters.get("project") else ""
        return f"leave out {' or '.join(dict.fromkeys(used))}{projects}"
    return hint or elsewhere


def _no_sessions(homes: Sequence[str]) -> str:
    configured = None if homes else configured_homes()
    if not configured:
        places = map(from_user, homes or usual_homes())
        return f"there are no sessions in {' or '.join(places)}"
    missing = [path for path in configured if not os.path.isdir(path)]
    if missing:
        return f"CLAUDE_CONFIG_DIR names {' and '.join(missing)}, which does not exist"
    return f"there are no sessions in {' and '.join(configured)} (from CLAUDE_CONFIG_DIR)"


def has_sessions(homes: Sequence[str]) -> bool:
    """Return whether there is any log."""
    return has_logs(all_homes(tuple(homes)))


def has_any(homes: Sequence[str], *names: str) -> bool:
    """Return whether some home has a file or directory with one of these names."""
    return any(
        os.path.exists(os.path.join(home, name)) for home in all_home_paths(homes) for name in names
    )
