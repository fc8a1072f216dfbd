"""``turnlog keep --install`` and ``--uninstall``: shown, asked, done."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal

import click
from msgspec import Struct

from turnlog.cli.options import show_json

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.formats.settings_changes import Deed, Step

_WHEN = {
    "claude": "At the end of each session",
    "systemd": "Every hour, by systemd",
    "launchd": "Every hour, by launchd",
    "cron": "Every hour, by cron",
    "none": "Every hour",
}


class StepRow(Struct, kw_only=True):
    """What one place needs, or needed."""

    kind: Literal["claude", "systemd", "launchd", "cron", "none"]
    place: str
    state: Literal["installed", "outdated", "missing", "refused"]
    """How it was found."""
    command: str
    """What is run from there, or would be."""
    writes: list[str]
    removes: list[str]
    runs: list[str]
    reason: str
    hint: str
    notes: list[str]


class InstallDocument(Struct, kw_only=True):
    """What `turnlog keep --install --json` and `--uninstall --json` print."""

    steps: list[StepRow]
    done: bool
    """False if nothing was changed, since nobody agreed with --yes."""


def install(homes: tuple[str, ...], *, is_agreed: bool, as_json: bool) -> int:
    """Have keeping done by itself, once somebody agreed."""
    from turnlog.keep.schedule.install import install_steps, passing_place, program

    steps = install_steps(homes)
    if as_json:
        return _as_document(steps, is_agreed=is_agreed)
    from turnlog.cli.terminal import console, short_path

    out = console()
    _show(out, steps, "already set up")
    if cache := passing_place(program()):
        out.print(f"[yellow]![/] turnlog runs from {short_path(cache)}, which may be cleaned up:")
        out.print("  [dim]install it for good first, with pipx or uv tool[/]")
    return _settle(out, steps, "Set this up?", is_agreed=is_agreed, done="Set up.")


def uninstall(homes: tuple[str, ...], *, is_agreed: bool, as_json: bool) -> int:
    """Take away what was set up, once somebody agreed."""
    from turnlog.keep.schedule.install import uninstall_steps

    steps = uninstall_steps(homes)
    if as_json:
        return _as_document(steps, is_agreed=is_agreed)
    from turnlog.cli.terminal import console

    out = console()
    _show(out, steps, "left alone")
    if not steps:
        out.print("Nothing was set up.")
        return 0
    return _settle(
        out,
        steps,
        "Take this away?",
        is_agreed=is_agreed,
        done="Taken away. What is kept stays kept.",
    )


def _settle(out: Console, steps: list[Step], question: str, *, is_agreed: bool, done: str) -> int:
    from turnlog.formats.settings_changes import carry_out

    is_refused = any(step.state == "refused" for step in steps)
    if not any(step.deeds for step in steps):
        if not is_refused:
            out.print("Nothing to do.")
        return 1 if is_refused else 0
    if not is_agreed:
        if not sys.stdin.isatty():
            click.echo("Nothing was changed.")
            click.echo("hint: --yes does it without asking", err=True)
            return 1
        if not click.confirm(question):
            click.echo("Nothing was changed.")
            return 1
    for step in steps:
        carry_out(step)
    out.print(f"[green]✓[/] {done}")
    return 1 if is_refused else 0


def _as_document(steps: list[Step], *, is_agreed: bool) -> int:
    from turnlog.formats.settings_changes import carry_out

    for step in steps if is_agreed else ():
        carry_out(step)
    show_json(InstallDocument(steps=[_row(step) for step in steps], done=is_agreed))
    is_open = not is_agreed and any(step.deeds for step in steps)
    return 1 if is_open or any(step.state == "refused" for step in steps) else 0


def _row(step: Step) -> StepRow:
    from turnlog.formats.settings_changes import Remove, Run, Write

    return StepRow(
        kind=step.kind,
        place=step.place,
        state=step.state,
        command=step.command,
        writes=[str(deed.path) for deed in step.deeds if isinstance(deed, Write)],
        removes=[str(deed.path) for deed in step.deeds if isinstance(deed, Remove)],
        runs=[deed.line for deed in step.deeds if isinstance(deed, Run)],
        reason=step.reason,
        hint=step.hint,
        notes=list(step.notes),
    )


def _show(out: Console, steps: list[Step], settled: str) -> None:
    from turnlog.cli.terminal import safe, short_path

    for step in steps:
        place = short_path(step.place) if os.sep in step.place else safe(step.place)
        mark = "[red]✗[/]" if step.state == "refused" else "[bold]•[/]" if step.deeds else "✓"
        rest = "" if step.deeds or step.state == "refused" else f"{settled}, "
        where = "" if step.kind == "none" else f" [dim]({rest}{place})[/]"
        out.print(f"{mark} [bold]{_WHEN[step.kind]}[/]{where}", soft_wrap=True)
        if step.reason:
            out.print(f"  {safe(step.reason)}", soft_wrap=True)
        if step.hint:
            out.print(f"  [dim]hint: {safe(step.hint)}[/]", soft_wrap=True)
        for deed in step.deeds:
            _show_deed(out, deed)
        for note in step.notes:
            out.print(f"  [yellow]{safe(note)}[/]", soft_wrap=True)
    if steps:
        out.print()


def _show_deed(out: Console, deed: Deed) -> None:
    from turnlog.cli.terminal import safe, short_path
    from turnlog.formats.settings_changes import Remove, Write

    if isinstance(deed, Remove):
        out.print(f"  remove {short_path(deed.path)}", soft_wrap=True)
        return
    if isinstance(deed, Write):
        verb = "write " if deed.before is None else "change"
        out.print(f"  {verb} {short_path(deed.path)}", soft_wrap=True)
    else:
        out.print(f"  run    {safe(deed.line)}", soft_wrap=True)
    for line in deed.shown.splitlines():
        out.print(f"         [cyan]{safe(line)}[/]" if line else "", soft_wrap=True)
    if isinstance(deed, Write) and deed.copy_to is not None:
        out.print(f"  copy   as it is now: {short_path(deed.copy_to)}", soft_wrap=True)
