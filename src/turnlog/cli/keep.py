"""``turnlog keep``: copies of everything, made now, continuously, or by themselves."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.options import home_option, json_option, poll_option, session_option, show_json

if TYPE_CHECKING:
    import threading

    from turnlog.formats import Home
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
        from turnlog.cli.keep_status_shown import show_status

        return show_status(homes, as_json=options["as_json"])
    if options["install"] or options["uninstall"]:
        from turnlog.cli.keep_installed import install, uninstall

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
    from turnlog.cli.indexed import bar
    from turnlog.cli.keep_shown import document, show_problems, show_run
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
    """Give the one session to keep, by the beginning of its id."""
    if name is None:
        return None
    from turnlog.sessions.session import Session

    return frozenset({Session.find(homes, name).id})


def _watch(homes: tuple[Home, ...], poll: float | None, *, quiet: bool, as_json: bool) -> int:
    import threading

    from turnlog.cli.indexed import bar
    from turnlog.cli.keep_shown import Watched
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
    from turnlog.formats.claude_code.hooks import ended_session
    from turnlog.keep.copies.keep import keep

    session, homes = ended_session(told)
    if session is not None:
        with suppress(TurnlogError, OSError):
            keep(homes, sessions=frozenset({session}))
