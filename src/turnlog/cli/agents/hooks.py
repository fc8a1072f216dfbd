"""``turnlog hooks``: what turnlog sets up in an agent's settings."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, Literal

import click

from turnlog.api.hooks import (
    HOOKS,
    HookName,
    Remove,
    Write,
    change_hooks,
    hooks_document,
    plan_hooks,
    temporary_place,
)
from turnlog.cli.options import dry_run, home_option, json_option, show_json, yes_option
from turnlog.cli.terminal.console import console, safe, short_path

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.hooks import Deed, Hook, Step
    from turnlog.api.keep.copies import Installed

Action = Literal["list", "install", "remove"]
_ABOUT: Final = {
    "keep": "Keep copies of sessions when they end, and every hour",
    "statusline": "Show costs and context in Claude Code's status line",
    "mcp": "Give agents access to past sessions",
}
_PLACES: Final = {
    "claude": "at the end of each session",
    "statusline": "in Claude Code's status line",
    "mcp": "in Claude Code, for all projects",
    "systemd": "every hour, by systemd",
    "launchd": "every hour, by launchd",
    "cron": "every hour, by cron",
    "none": "every hour",
}


@click.command(
    name="hooks",
    epilog="""\b
Examples:
  turnlog hooks                             list what is set up
  turnlog hooks install keep                show the changes, then ask
  turnlog hooks install statusline --yes    make the changes
  turnlog hooks install mcp --json          print settings of other programs
  turnlog hooks remove                      remove all; kept copies stay
Exit codes: 0 success, 1 something was declined or cannot be set up, 2 usage
error, 3 failure.""",
)
@click.argument(
    "action", type=click.Choice(["list", "install", "remove"]), default="list", metavar="[ACTION]"
)
@click.argument("names", type=click.Choice(HOOKS), nargs=-1, metavar="[keep] [statusline] [mcp]")
@home_option
@json_option
@yes_option
def command(
    action: Action,
    names: tuple[HookName, ...],
    homes: tuple[str, ...],
    *,
    as_json: bool,
    yes: bool,
) -> int:
    """List, install or remove what turnlog sets up for Claude Code.

    keep copies sessions at their end and every hour, statusline shows costs in the status line, and
    mcp gives agents access to past sessions. ACTION is list, install or remove; without names, it
    is about all three. Only turnlog's own settings are changed.
    """
    if action == "list" and yes:
        raise click.UsageError("--yes only works with install and remove")
    is_removed = action == "remove"
    hooks = plan_hooks(names, homes, is_removed=is_removed)
    is_refused = any(step.state == "refused" for hook in hooks for step in hook.steps)
    if as_json:
        if yes:
            change_hooks(hooks, homes, is_removed=is_removed)
        show_json(hooks_document(hooks, homes, done=yes, is_install=action == "install"))
        return 1 if is_refused and action != "list" else 0
    out = console()
    if action == "list":
        _show_list(out, hooks)
        return 0
    for hook in hooks:
        _show_steps(out, hook)
    if not is_removed and (cache := temporary_place()):
        out.print(f"[yellow]![/] turnlog runs from {short_path(cache)}, a temporary location:")
        out.print("  [dim]install it permanently first, with pipx or uv tool[/]")
    if not any(step.deeds for hook in hooks for step in hook.steps):
        if not is_refused:
            out.print("Nothing was set up." if is_removed else "Nothing to do.")
        return 1 if is_refused else 0
    deed = "remove this" if is_removed else "set this up"
    if not yes and not sys.stdin.isatty():
        out.print(dry_run(deed))
        return 1 if is_refused else 0
    if not yes and not click.confirm(f"{deed.capitalize()}?"):
        out.print("Nothing was changed.")
        return 1
    change_hooks(hooks, homes, is_removed=is_removed)
    out.print(f"[green]✓[/] {'Removed. Kept copies stay.' if is_removed else 'Set up.'}")
    return 1 if is_refused else 0


def _show_list(out: Console, hooks: list[Hook]) -> None:
    for hook in hooks:
        mark = "[green]✓[/]" if hook.state == "installed" else "[dim]✗[/]"
        out.print(f"{mark} [bold]{hook.name:<10}[/]  {_ABOUT[hook.name]}")
        for step in hook.steps:
            out.print(f"    {place_line(step)}", soft_wrap=True)
    missing = [hook.name for hook in hooks if hook.steps and hook.state in {"missing", "outdated"}]
    if missing:
        out.print(f"[dim]hint: turnlog hooks install {missing[0]} sets it up[/]")


def place_line(step: Step | Installed) -> str:
    """Return one line about a place: whether something is set up there."""
    what, place = _PLACES[step.kind], step.place
    place = short_path(place) if place.startswith("/") else safe(place)
    notes = "".join(f" [yellow]({safe(note)})[/]" for note in step.notes)
    if step.state == "installed":
        return f"[green]✓[/] {what} [dim]({place})[/]{notes}"
    if step.state == "outdated":
        return f"[yellow]![/] {what}, but with another command [dim]({place})[/]{notes}"
    reason = "" if step.state == "missing" else f": {safe(step.reason)}"
    where = "" if step.kind == "none" else f" [dim]({place})[/]"
    return f"[dim]✗[/] not {what}{reason}{where}{notes}"


def _show_steps(out: Console, hook: Hook) -> None:
    """Print the exact changes."""
    for step in hook.steps:
        place = short_path(step.place) if os.sep in step.place else safe(step.place)
        mark = "[red]✗[/]" if step.state == "refused" else "[bold]•[/]" if step.deeds else "✓"
        state = "" if step.deeds or step.state == "refused" else "unchanged, "
        where = "" if step.kind == "none" else f" [dim]({state}{place})[/]"
        what = _PLACES[step.kind]
        out.print(f"{mark} [bold]{hook.name}:[/] {what}{where}", soft_wrap=True)
        if step.reason:
            out.print(f"  {safe(step.reason)}", soft_wrap=True)
        if step.hint:
            out.print(f"  [dim]hint: {safe(step.hint)}[/]", soft_wrap=True)
        for deed in step.deeds:
            _show_deed(out, deed)
        for note in step.notes:
            out.print(f"  [yellow]{safe(note)}[/]", soft_wrap=True)
    if hook.steps:
        out.print()


def _show_deed(out: Console, deed: Deed) -> None:
    if isinstance(deed, Remove):
        out.print(f"  delete {short_path(deed.path)}", soft_wrap=True)
        return
    if isinstance(deed, Write):
        verb = "create" if deed.before is None else "change"
        out.print(f"  {verb} {short_path(deed.path)}", soft_wrap=True)
    else:
        out.print(f"  run    {safe(deed.line)}", soft_wrap=True)
    for line in deed.shown.splitlines():
        out.print(f"         [cyan]{safe(line)}[/]" if line else "", soft_wrap=True)
    if isinstance(deed, Write) and deed.copy_to is not None:
        out.print(f"  backup {short_path(deed.copy_to)}", soft_wrap=True)
