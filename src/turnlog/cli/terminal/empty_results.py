"""What is said where nothing was found: that it was not, and what to try next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

# Options that leave something out, by the names of their values.
_FILTERS: Final = {
    "project": "--project",
    "since": "--since",
    "last": "--last",
    "until": "--until",
    "session": "--session",
    "model": "--model",
    "tool": "--tool",
    "tool_name": "--tool",
    "branch": "--branch",
    "git_branch": "--branch",
    "role": "--role",
    "tag": "--tag",
    "state": "--state",
    "text_in_title": "--title",
    "damaged": "--damaged",
    "with_subagents": "--with-subagents",
    "gone": "--gone",
    "orphans": "--orphans",
    "pattern": "--pattern",
}


def print_nothing_found(
    what: str, homes: Sequence[str], asked: Mapping[str, Any] | None = None, *, hint: str = ""
) -> None:
    """Say that no *what* was found in *homes*, and why that may be."""
    from turnlog.cli.terminal.console import console

    out = console()
    out.print(f"No {what} found.")
    show_hint(out, homes, asked, hint=hint)


def show_hint(
    out: Console, homes: Sequence[str], asked: Mapping[str, Any] | None = None, *, hint: str = ""
) -> None:
    """Say what to try where nothing was found."""
    from turnlog.cli.terminal.console import safe

    out.print(f"[dim]hint: {safe(hint_for(homes, asked or {}, hint))}[/]", soft_wrap=True)


def hint_for(homes: Sequence[str], asked: Mapping[str, Any], hint: str = "") -> str:
    """Return what to try: another home if there is no session, fewer filters if there are some."""
    elsewhere = "name the directory that holds them with --home"
    if not has_sessions(homes):
        return f"{_no_sessions(homes)}; {elsewhere}"
    if asked.get("unknown"):  # A name that nothing has; who asked the index knows.
        return str(asked["unknown"])
    given = [_FILTERS[name] for name in _FILTERS if asked.get(name)]
    if given:
        which = "; turnlog projects lists the directories" if asked.get("project") else ""
        return f"leave out {' or '.join(dict.fromkeys(given))}{which}"
    return hint or elsewhere


def _no_sessions(homes: Sequence[str]) -> str:
    """Return where there are none."""
    import os

    from turnlog.cli.terminal.console import from_user
    from turnlog.formats.home_paths import configured_homes, usual_homes

    configured = None if homes else configured_homes()
    if not configured:
        places = map(from_user, homes or usual_homes())
        return f"there are no sessions in {' or '.join(places)}"
    missing = [path for path in configured if not os.path.isdir(path)]
    if missing:
        return f"CLAUDE_CONFIG_DIR names {' and '.join(missing)}, which does not exist"
    return f"there are no sessions in {' and '.join(configured)}, which CLAUDE_CONFIG_DIR names"


def has_sessions(homes: Sequence[str]) -> bool:
    """Return whether there is any log to look into."""
    from turnlog.formats import all_homes, find_everywhere

    return next(iter(find_everywhere(all_homes(tuple(homes)))), None) is not None


def has_any(homes: Sequence[str], *names: str) -> bool:
    """Return whether some home has a file or directory of one of these names."""
    import os

    from turnlog.formats.home_paths import all_home_paths

    return any(
        os.path.exists(os.path.join(home, name)) for home in all_home_paths(homes) for name in names
    )
