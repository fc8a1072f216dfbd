"""``turnlog keep``: copies of everything, made now, continuously, or by themselves.

``turnlog keep --install`` and ``--uninstall``: shown, asked, done.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Literal

import click
from msgspec import Struct

from turnlog.cli.options import home_option, json_option, poll_option, session_option, show_json

if TYPE_CHECKING:
    import threading

    from rich.console import Console

    from turnlog.formats import Home
    from turnlog.formats.settings_changes import Deed, Step
    from turnlog.keep.copies.keep import KeepRun


_HOOK_LIMIT_BYTES = 1024 * 1024


@click.command(
    name="keep",
    epilog="""\b
Examples:
  turnlog keep                 keep what is new or has grown
  turnlog keep status          what is kept, and what is about to be deleted
  turnlog keep --watch         keep everything as it is written, until Ctrl-C
  turnlog keep --install       have it done by itself, from now on
  turnlog keep --uninstall     no longer; what is kept stays
Exit code: 0 done, 1 something could not be kept or set up, or is about to be lost, 2 a mistake,
3 a failure.""",
)
@click.argument("what", required=False, type=click.Choice(["status"]), metavar="[status]")
@home_option
@json_option
@session_option
@click.option("--watch", is_flag=True, help="Go on keeping what changes, until Ctrl-C.")
@poll_option
@click.option(
    "--install",
    is_flag=True,
    help="Set up a SessionEnd hook of Claude Code and an hourly run; shows them and asks first.",
)
@click.option("--uninstall", is_flag=True, help="Take away what --install set up.")
@click.option("--yes", is_flag=True, help="With --install and --uninstall: do not ask.")
@click.option("--quiet", is_flag=True, help="Print nothing but what went wrong.")
@click.option(
    "--hook",
    is_flag=True,
    help="For Claude Code's hook: keep the session that stdin tells of; print nothing.",
)
def command(what: str | None, homes: tuple[str, ...], **options: Any) -> int:
    """Keep copies of what agents did, so that it is there when their own files are not.

    Claude Code deletes sessions after 30 days. What is kept stays: compressed, verified, found by
    search and counted by cost like the rest. The agents' own files are only read. --poll belongs to
    --watch.
    """
    _check(what, options)
    if options["hook"]:
        return _from_hook()
    if what == "status":
        from turnlog.cli.views.keep import show_status

        return show_status(homes, as_json=options["as_json"])
    if options["install"] or options["uninstall"]:
        do = install if options["install"] else uninstall
        return do(homes, is_agreed=options["yes"], as_json=options["as_json"])
    from turnlog.formats import all_homes

    found = all_homes(homes)
    if options["watch"]:
        return _watch(found, options["poll"], quiet=options["quiet"], as_json=options["as_json"])
    return _keep(found, options["session"], quiet=options["quiet"], as_json=options["as_json"])


def _check(what: str | None, options: dict[str, Any]) -> None:
    """Refuse options that mean several things at once."""
    modes = [f"--{name}" for name in ("watch", "install", "uninstall", "hook") if options[name]]
    modes += [what] if what else []
    if len(modes) > 1:
        raise click.UsageError(f"{' and '.join(modes)} cannot be given together")
    mode = modes[0] if modes else ""
    for name, allowed in (
        ("yes", ("--install", "--uninstall")),
        ("poll", ("--watch",)),
        ("session", ("",)),
        ("quiet", ("", "--watch")),
    ):
        if options[name] and mode not in allowed:
            raise click.UsageError(f"--{name} means nothing here")


def _keep(homes: tuple[Home, ...], session: str | None, *, quiet: bool, as_json: bool) -> int:
    from turnlog.cli.index_access import bar
    from turnlog.cli.views.keep import document, show_problems, show_run
    from turnlog.keep.copies.keep import keep

    began = time.monotonic()
    with bar("keeping") as progress:
        run = keep(homes, sessions=_named(homes, session), progress=progress)
    elapsed = time.monotonic() - began
    if as_json:
        show_json(document(run, elapsed))
    elif quiet:
        show_problems(run)
    else:
        show_run(run, elapsed)
    return 1 if run.problems else 0


def _named(homes: tuple[Home, ...], name: str | None) -> frozenset[str | None] | None:
    """Return the one session to keep, by the beginning of its id."""
    if name is None:
        return None
    from turnlog.sessions.session import Session

    return frozenset({Session.find(homes, name).id})


def _watch(homes: tuple[Home, ...], poll: float | None, *, quiet: bool, as_json: bool) -> int:
    import threading

    from turnlog.cli.index_access import bar
    from turnlog.cli.views.keep import Watched
    from turnlog.keep.copies.watch import watch

    stop = threading.Event()
    shown = Watched(as_json=as_json, quiet=quiet)
    restore = _until_ended(stop)
    try:
        with ExitStack() as first:  # Only the first run may take so long that a bar is of use.
            progress = first.enter_context(bar("keeping"))

            def tell(run: KeepRun) -> None:
                first.close()
                shown.show(run)

            watch(
                homes,
                on_run=tell,
                on_failure=shown.tell,
                stop=stop,
                poll=poll,
                progress=progress,
            )
    finally:
        restore()
    return 1 if shown.problems else 0


def _until_ended(stop: threading.Event) -> Callable[[], None]:
    """Let Ctrl-C or a service's end lead to a last keeping; a second one ends it at once."""
    signals = [signal.SIGINT, signal.SIGTERM]
    before = {each: signal.getsignal(each) for each in signals}

    def ended(_signal: int, _frame: object) -> None:
        stop.set()
        restore()

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    for each in signals:
        signal.signal(each, ended)
    return restore


def _from_hook() -> int:
    """Keep the session that Claude Code says has ended; whatever happens, nobody is bothered.

    It is done by a process of its own, which goes on if Claude Code does not wait for this one.
    """
    if sys.stdin.isatty():
        raise click.UsageError("--hook reads what Claude Code tells its hooks on stdin")
    told = sys.stdin.buffer.read(_HOOK_LIMIT_BYTES)
    if not hasattr(os, "fork"):
        _keep_told(told)
        return 0
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.setsid()
            nowhere = os.open(os.devnull, os.O_RDWR)
            for fd in range(3):
                os.dup2(nowhere, fd)
            _keep_told(told)
        os._exit(0)
    with suppress(OSError):
        os.waitpid(child, 0)
    return 0


def _keep_told(told: bytes) -> None:
    from turnlog.errors import TurnlogError
    from turnlog.formats.supported import ended_session
    from turnlog.keep.copies.keep import keep

    session, homes = ended_session(told)
    if session is not None:
        with suppress(TurnlogError, OSError):
            keep(homes, sessions=frozenset({session}))


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
    from turnlog.keep.schedule import install_steps, passing_place, program

    steps = install_steps(homes)
    if as_json:
        return _as_document(steps, is_agreed=is_agreed)
    from turnlog.cli.terminal.console import console, short_path

    out = console()
    _show(out, steps, "already set up")
    if cache := passing_place(program()):
        out.print(f"[yellow]![/] turnlog runs from {short_path(cache)}, which may be cleaned up:")
        out.print("  [dim]install it for good first, with pipx or uv tool[/]")
    return _settle(out, steps, "Set this up?", is_agreed=is_agreed, done="Set up.")


def uninstall(homes: tuple[str, ...], *, is_agreed: bool, as_json: bool) -> int:
    """Take away what was set up, once somebody agreed."""
    from turnlog.keep.schedule import uninstall_steps

    steps = uninstall_steps(homes)
    if as_json:
        return _as_document(steps, is_agreed=is_agreed)
    from turnlog.cli.terminal.console import console

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
    from turnlog.cli.terminal.console import safe, short_path

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
    from turnlog.cli.terminal.console import safe, short_path
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
