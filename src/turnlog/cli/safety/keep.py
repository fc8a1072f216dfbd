"""``turnlog keep``: copy sessions once or continuously."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.hints import hint_of
from turnlog.cli.options import home_option, json_option, poll_option, session_option, show_json
from turnlog.text import inert, inert_json

if TYPE_CHECKING:
    import threading

    from rich.console import Console

    from turnlog.api.homes import Home
    from turnlog.api.keep.copies import HomeStatus, KeepRun, KeepStatus
    from turnlog.errors import LogError

_HOOK_LIMIT_BYTES = 1024 * 1024
_SHOWN = 5
_LABEL = 12


@click.command(
    name="keep",
    epilog="""\b
Examples:
  turnlog keep                 copy new and changed files
  turnlog keep status          show what is kept and what is at risk
  turnlog keep --watch         copy files as they change, until Ctrl-C
  turnlog hooks install keep   run automatically from now on
Exit codes: 0 success, 1 something could not be kept, or will be lost, 2 usage
error, 3 failure.""",
)
@click.argument("what", required=False, type=click.Choice(["status"]), metavar="[status]")
@home_option
@json_option
@session_option
@click.option("--watch", is_flag=True, help="Keep copying changes until Ctrl-C.")
@poll_option
@click.option("--quiet", is_flag=True, help="Print only errors.")
@click.option(
    "--hook",
    is_flag=True,
    hidden=True,
    help="For the Claude Code hook: keep the session named on stdin, print nothing.",
)
def command(what: str | None, homes: tuple[str, ...], **options: Any) -> int:
    """Keep copies of sessions, so they outlive Claude Code's cleanup.

    Claude Code deletes sessions after 30 days. Kept copies are compressed and verified, and search
    and cost include them. The agents' own files are only read.
    """
    _check_options(what, options)
    if options["hook"]:
        return _keep_from_hook()
    as_json = options["as_json"]
    if what == "status":
        return _status(homes, as_json=as_json)
    from turnlog.api.homes import all_homes

    found = all_homes(homes)
    if options["watch"]:
        return _watch(found, options["poll"], quiet=options["quiet"], as_json=as_json)
    return _keep(found, options["session"], quiet=options["quiet"], as_json=as_json)


def _check_options(what: str | None, options: dict[str, Any]) -> None:
    modes = [f"--{name}" for name in ("watch", "hook") if options[name]]
    modes += [what] if what else []
    if len(modes) > 1:
        raise click.UsageError(f"{' and '.join(modes)} cannot be combined")
    mode = modes[0] if modes else ""
    for name, allowed in (
        ("poll", ("--watch",)),
        ("session", ("",)),
        ("quiet", ("", "--watch")),
    ):
        if options[name] and mode not in allowed:
            needed = " or ".join(filter(None, allowed))
            without = f"without {needed}" if not mode else f"with {mode}"
            raise click.UsageError(f"--{name} cannot be used {without}")


def _keep(homes: tuple[Home, ...], session: str | None, *, quiet: bool, as_json: bool) -> int:
    from turnlog.api.keep.copies import keep, keep_document
    from turnlog.cli.terminal.console import bar

    began = time.monotonic()
    with bar("keeping") as progress:
        run = keep(homes, session, progress=progress)
    elapsed = time.monotonic() - began
    if as_json:
        show_json(keep_document(run, elapsed))
    elif quiet:
        _show_problems(run)
    else:
        _show_run(run, elapsed)
    return 1 if run.problems else 0


def _show_run(run: KeepRun, elapsed_seconds: float) -> None:
    from turnlog.cli.terminal.console import console, counted, log_name, show_some

    out = console()
    took = f"[dim]({elapsed_seconds:.1f} s)[/]"
    if not run.files:
        _show_nothing(out)
    elif not run.copied:
        out.print(f"Nothing new in {counted(run.files, 'file')} {took}")
    else:
        out.print(f"{_summary(run)} {took}")
        if run.without_log:
            count = counted(len(run.without_log), "session")
            out.print(f"[dim]including subagent logs of {count} without a main log[/]")
    lines = [
        f"[yellow]rewritten:[/] {log_name(path)} [dim](the earlier copy stays)[/]"
        for path in run.begun_anew
    ]
    show_some(out, lines, _SHOWN)
    _show_problems(run)


def _show_nothing(out: Console) -> None:
    from turnlog.cli.terminal.empty_results import show_hint

    out.print("Nothing to keep yet.")
    show_hint(out, ())


def _show_problems(run: KeepRun) -> None:
    for problem in run.problems[:_SHOWN]:
        click.echo(f"not kept: {inert(str(problem.path))}: {inert(problem.reason)}", err=True)
    if len(run.problems) > _SHOWN:
        click.echo(f"… and {len(run.problems) - _SHOWN:,} more (--json lists all)", err=True)


def _summary(run: KeepRun) -> str:
    from turnlog.cli.terminal.console import counted, size

    what = counted(run.copied, "file")
    if with_log := len(run.sessions) - len(run.without_log):
        what += f" of {counted(with_log, 'session')}"
    return f"Kept {what}: {size(run.read_bytes)} read, {size(run.written_bytes)} on disk"


def _watch(homes: tuple[Home, ...], poll: float | None, *, quiet: bool, as_json: bool) -> int:
    import threading

    from turnlog.api.keep.copies import watch
    from turnlog.cli.terminal.console import bar

    stop = threading.Event()
    reporter = _WatchReporter(as_json=as_json, quiet=quiet)
    restore = _stop_on_signal(stop)
    try:
        with ExitStack() as first:  # Only the first run is long enough for a progress bar.
            progress = first.enter_context(bar("keeping"))

            def report(run: KeepRun) -> None:
                first.close()
                reporter.show(run)

            watch(
                homes,
                on_run=report,
                on_failure=reporter.show_error,
                stop=stop,
                poll=poll,
                progress=progress,
            )
    finally:
        restore()
    return 1 if reporter.problems else 0


class _WatchReporter:
    """Print the runs of ``keep --watch``, each problem once."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._as_json, self._quiet = as_json, quiet
        self._is_first = True
        self.problems: set[str] = set()

    def show(self, run: KeepRun) -> None:
        new = [problem for problem in run.problems if str(problem.path) not in self.problems]
        self.problems |= {str(problem.path) for problem in new}
        is_first, self._is_first = self._is_first, False
        if self._as_json:
            if not self._quiet and (run.copied or new or is_first):
                import msgspec

                from turnlog.api.keep.copies import keep_document

                data = msgspec.json.encode(keep_document(run))
                sys.stdout.buffer.write(inert_json(data) + b"\n")
                sys.stdout.flush()
            return
        for problem in new:
            click.echo(f"not kept: {inert(str(problem.path))}: {inert(problem.reason)}", err=True)
        if run.copied and not self._quiet:
            click.echo(f"{datetime.now():%H:%M:%S}  {_summary(run)}")  # noqa: DTZ005 - For people.
        if is_first and not self._quiet and sys.stderr.isatty():
            click.echo("watching for changes; press Ctrl-C to stop", err=True)

    def show_error(self, error: LogError) -> None:
        """Print an error; the run is tried again."""
        click.echo(f"error: {inert(error.message)}", err=True)
        if hint := hint_of(error):
            click.echo(f"hint: {inert(hint)}", err=True)


def _stop_on_signal(stop: threading.Event) -> Callable[[], None]:
    """Finish with a last run on SIGINT or SIGTERM; a second signal ends the process at once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(_signal: int, _frame: object) -> None:
        stop.set()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, on_signal)
    return restore


def _keep_from_hook() -> int:
    """Keep the session that Claude Code names on stdin; never fail.

    A child process does the work, so that it continues if Claude Code does not wait.
    """
    if sys.stdin.isatty():
        raise click.UsageError("--hook reads the input of a Claude Code hook from stdin")
    from turnlog.api.keep.copies import keep_ended_session

    data = sys.stdin.buffer.read(_HOOK_LIMIT_BYTES)
    if not hasattr(os, "fork"):
        keep_ended_session(data)
        return 0
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for fd in range(3):
                os.dup2(null, fd)
            keep_ended_session(data)
        os._exit(0)
    with suppress(OSError):
        os.waitpid(child, 0)
    return 0


def _status(homes: tuple[str, ...], *, as_json: bool) -> int:
    """Print what is kept; return 1 if something is lost, or will be."""
    from turnlog.api.keep.copies import keep_status

    now = datetime.now(UTC)
    status = keep_status(homes, now=now)
    if as_json:
        show_json(status)
    else:
        from turnlog.cli.terminal.console import console

        _show_status(console(), status, now)
    is_lost = any(home.missing for home in status.homes)
    return 1 if is_lost or any(not loss.is_kept for loss in status.losses) else 0


def _show_status(out: Console, status: KeepStatus, now: datetime) -> None:
    from turnlog.cli.terminal.console import safe, show_some, show_value

    if not status.homes:
        _show_nothing(out)
        return
    for label, lines in (
        ("kept", _kept_lines(status)),
        ("homes", [_home_line(home) for home in status.homes] if len(status.homes) > 1 else []),
        ("last run", _run_lines(status, now)),
        ("cleanup", _cleanup_lines(status)),
        ("automatic", _installed_lines(status)),
    ):
        for number, line in enumerate(lines):
            show_value(out, label if number == 0 else "", line, _LABEL)
    problems = [f"[yellow]![/] {safe(problem)}" for problem in status.problems]
    show_some(out, problems, _SHOWN, indent=" ", more="more (--json lists all)")


def _kept_lines(status: KeepStatus) -> list[str]:
    from turnlog.cli.terminal.console import counted, size

    def total(name: str) -> int:
        return sum(getattr(home, name) for home in status.homes)

    missing = counted(total("missing"), "copy is", "copies are")
    lost = [f"[red]✗[/] {missing} missing: [cyan]turnlog verify[/]"] if total("missing") else []
    if not total("files"):
        return lost or ["nothing yet: [cyan]turnlog keep[/]"]
    what = f"{counted(total('files'), 'file')} of {counted(total('sessions'), 'session')}"
    lines = [f"{what}, {size(total('size_bytes'))} in {size(total('packed_bytes'))} on disk"]
    if gone := total("gone"):
        lines.append(f"{counted(gone, 'session')} deleted at the source")
    if older := total("older"):
        lines.append(f"{counted(older, 'earlier generation')} of rewritten files")
    return [*lines, *lost]


def _home_line(home: HomeStatus) -> str:
    from turnlog.cli.terminal.console import counted, short_path, size

    gone = "" if home.is_there else " [yellow](gone)[/]"
    figures = f"{counted(home.sessions, 'session')}, {size(home.packed_bytes)}"
    return f"{short_path(home.home)}{gone} [dim]{figures}[/]"


def _run_lines(status: KeepStatus, now: datetime) -> list[str]:
    from turnlog.cli.terminal.console import counted, size

    runs = [home.last_run_at for home in status.homes if home.is_there and home.last_run_at]
    copied = [home.last_kept_at for home in status.homes if home.last_kept_at]
    line = _ago(now, min(runs)) if runs else "never"
    if copied and _ago(now, max(copied)) != line:
        line += f"; last copy {_ago(now, max(copied))}"
    behind = sum(home.behind_files for home in status.homes)
    changed = sum(home.behind_bytes for home in status.homes)
    if behind:
        sessions = sum(home.behind_sessions for home in status.homes)
        of = f" of {counted(sessions, 'session')}" if sessions else ""
        what = f"{counted(behind, 'new or changed file')}{of} not kept yet"
        return [line, f"[yellow]{what}[/] [dim]({size(changed)})[/]"]
    if runs and not changed:
        return [f"{line}; up to date"]
    return [line]


def _ago(now: datetime, then: datetime) -> str:
    from turnlog.cli.terminal.console import age

    return age(now, then).replace("now", "just now")


def _cleanup_lines(status: KeepStatus) -> list[str]:
    from turnlog.api.keep.copies import LossCount
    from turnlog.cli.terminal.console import counted

    periods = sorted({home.cleanup_days for home in status.homes if home.cleanup_days is not None})
    if not periods:
        return []
    days = " or ".join(f"{period:,}" for period in periods)
    within = f"within {status.within_days:g} days"
    rule = f"Claude Code deletes files that have not changed for {days} days"
    if not status.losses:
        return [rule, f"nothing will be deleted {within}"]
    lost = [loss for loss in status.losses if not loss.is_kept]
    count = LossCount.of(status.losses)
    total = counted(count.sessions, "session")
    if count.subagents:
        total += f" and {counted(count.subagents, 'subagent log')}"
    if not lost:
        return [rule, f"{total} will be deleted {within}, [green]all kept[/]"]
    which = "not" if len(lost) == len(status.losses) else f"{len(lost):,} of them not"
    return [rule, f"{total} will be deleted {within}, [red]{which} kept:[/] [cyan]turnlog keep[/]"]


def _installed_lines(status: KeepStatus) -> list[str]:
    from turnlog.cli.agents.hooks import place_line

    lines = [place_line(installed) for installed in status.installed]
    if any(installed.state in ("missing", "outdated") for installed in status.installed):
        lines.append("[dim]hint: turnlog hooks install keep sets it up[/]")
    return lines
