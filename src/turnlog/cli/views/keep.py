"""What ``turnlog keep`` says: of one run, and of many while it watches.

``turnlog keep status``: one calm screen.

Keeping, offered where it is of use: the agents' own cleanup asks nobody.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec import Struct, field

from turnlog.cli.advanced.refresh import UnreadFile
from turnlog.cli.hints import hint_of
from turnlog.cli.options import show_json
from turnlog.text import inert, inert_json

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.errors import LogError
    from turnlog.keep.copies.keep import KeepRun
    from turnlog.keep.copies.status import HomeStatus, Installed, KeepStatus


_SHOWN = 5


class KeepDocument(Struct, kw_only=True):
    """What `turnlog keep --json` prints; with --watch, a line for each run."""

    at: datetime
    """When it was done."""
    elapsed_ms: int | None
    """How long it took; null with --watch."""
    files: int
    """Files that are worth keeping."""
    copied: int
    """Those of which a copy was made or added to."""
    sessions: list[str]
    """The sessions they belong to, also those of which only subagents' logs are left."""
    without_log: list[str]
    """Those of them that have no main log any more, and count in no list."""
    read_bytes: int
    """How much of them was new."""
    written_bytes: int
    """How large the copies are that were written, on disk."""
    begun_anew: list[str]
    """Files that were rewritten since they were kept; the copy of what they held stays."""
    problems: list[UnreadFile]
    """What could not be kept, and why."""


def document(run: KeepRun, elapsed_seconds: float | None = None) -> KeepDocument:
    """Return a run as a document."""
    return KeepDocument(
        at=datetime.now(UTC),
        elapsed_ms=None if elapsed_seconds is None else round(elapsed_seconds * 1000),
        files=run.files,
        copied=run.copied,
        sessions=run.sessions,
        without_log=run.without_log,
        read_bytes=run.read_bytes,
        written_bytes=run.written_bytes,
        begun_anew=run.begun_anew,
        problems=[UnreadFile(path=str(each.path), reason=each.reason) for each in run.problems],
    )


def show_run(run: KeepRun, elapsed_seconds: float) -> None:
    """Say what was kept, in a line or two."""
    from turnlog.cli.terminal.console import console, counted, log_name

    out = console()
    took = f"[dim]({elapsed_seconds:.1f} s)[/]"
    if not run.files:
        from turnlog.cli.terminal.empty_results import show_hint

        out.print("There is nothing to keep yet.")
        show_hint(out, ())  # One that is named is there.
    elif not run.copied:
        out.print(f"Nothing new; {counted(run.files, 'file')} looked at {took}")
    else:
        out.print(f"{_summary(run)} {took}")
        if run.without_log:
            count = counted(len(run.without_log), "session")
            out.print(f"[dim]and what is left of {count} whose main log is gone[/]")
    for path in run.begun_anew[:_SHOWN]:
        out.print(f"[yellow]rewritten since:[/] {log_name(path)} [dim](what it held stays kept)[/]")
    if len(run.begun_anew) > _SHOWN:
        out.print(f"[yellow]… and {len(run.begun_anew) - _SHOWN:,} more[/]")
    show_problems(run)


def show_problems(run: KeepRun) -> None:
    """Say on stderr what could not be kept."""
    for problem in run.problems[:_SHOWN]:
        click.echo(f"not kept: {inert(str(problem.path))}: {inert(problem.reason)}", err=True)
    if len(run.problems) > _SHOWN:
        click.echo(f"… and {len(run.problems) - _SHOWN:,} more (--json lists them)", err=True)


def _summary(run: KeepRun) -> str:
    from turnlog.cli.terminal.console import counted, size

    what = counted(run.copied, "file")
    if with_log := len(run.sessions) - len(run.without_log):
        what += f" of {counted(with_log, 'session')}"
    return f"Kept {what}: read {size(run.read_bytes)}, now {size(run.written_bytes)} on disk"


class Watched(Struct, kw_only=True):
    """Says what is kept while it is watched, each problem once."""

    as_json: bool
    quiet: bool
    problems: set[str] = field(default_factory=set)
    has_begun: bool = False

    def show(self, run: KeepRun) -> None:
        """Tell of a run."""
        fresh = [each for each in run.problems if str(each.path) not in self.problems]
        self.problems |= {str(each.path) for each in fresh}
        is_first, self.has_begun = not self.has_begun, True
        if self.as_json:
            if not self.quiet and (run.copied or fresh or is_first):
                sys.stdout.buffer.write(inert_json(msgspec.json.encode(document(run))) + b"\n")
                sys.stdout.flush()
            return
        for each in fresh:
            click.echo(f"not kept: {inert(str(each.path))}: {inert(each.reason)}", err=True)
        if run.copied and not self.quiet:
            click.echo(f"{datetime.now():%H:%M:%S}  {_summary(run)}")  # noqa: DTZ005 - For people.
        if is_first and not self.quiet and sys.stderr.isatty():
            click.echo("watching; Ctrl-C ends it", err=True)

    def tell(self, error: LogError) -> None:
        """Tell of a failure; it is tried again."""
        click.echo(f"error: {inert(error.message)}", err=True)
        if hint := hint_of(error):
            click.echo(f"hint: {inert(hint)}", err=True)


_LABEL = 12
_WHEN = {
    "claude": "at the end of each session",
    "systemd": "every hour, by systemd",
    "launchd": "every hour, by launchd",
    "cron": "every hour, by cron",
    "none": "every hour",
}


def show_status(homes: tuple[str, ...], *, as_json: bool) -> int:
    """Print how safekeeping stands; 1 if something is lost, or will be and is not kept."""
    from turnlog.keep.copies.status import keep_status

    now = datetime.now(UTC)
    status = keep_status(homes, now=now)
    if as_json:
        show_json(status)
    else:
        from turnlog.cli.terminal.console import console

        _show(console(), status, now)
    is_lost = any(home.missing for home in status.homes)
    return 1 if is_lost or any(not loss.is_kept for loss in status.losses) else 0


def _show(out: Console, status: KeepStatus, now: datetime) -> None:
    from turnlog.cli.terminal.console import safe

    if not status.homes:
        from turnlog.cli.terminal.empty_results import show_hint

        out.print("There is nothing to keep yet.")
        show_hint(out, ())  # One that is named is there.
        return
    _lines(out, "kept", _kept_lines(status))
    if len(status.homes) > 1:
        _lines(out, "of", [_home_line(home) for home in status.homes])
    _lines(out, "last run", _run_lines(status, now))
    _lines(out, "cleanup", _cleanup_lines(status))
    _lines(out, "by itself", _installed_lines(status))
    for problem in status.problems[:5]:
        out.print(f" [yellow]![/] {safe(problem)}", soft_wrap=True)
    if len(status.problems) > 5:
        out.print(f" [yellow]… and {len(status.problems) - 5:,} more (--json lists them)[/]")


def _lines(out: Console, label: str, lines: list[str]) -> None:
    from turnlog.cli.terminal.console import show_value

    for number, line in enumerate(lines):
        show_value(out, label if number == 0 else "", line, _LABEL)


def _kept_lines(status: KeepStatus) -> list[str]:
    from turnlog.cli.terminal.console import counted, size

    files, sessions = (
        sum(home.files for home in status.homes),
        sum(home.sessions for home in status.homes),
    )
    gone = sum(home.gone for home in status.homes)
    older = sum(home.older for home in status.homes)
    missing = sum(home.missing for home in status.homes)
    lost = f"[red]✗[/] {counted(missing, 'copy is', 'copies are')} missing: [cyan]turnlog verify[/]"
    if not files:
        return [lost] if missing else ["nothing yet: [cyan]turnlog keep[/]"]
    held, packed = (
        sum(home.size_bytes for home in status.homes),
        sum(home.packed_bytes for home in status.homes),
    )
    what = f"{counted(files, 'file')} of {counted(sessions, 'session')}"
    lines = [f"{what}, {size(held)} in {size(packed)} on disk"]
    if gone:
        lines.append(f"{counted(gone, 'session is', 'sessions are')} gone at the source")
    if older:
        lines.append(f"{counted(older, 'copy', 'copies')} of what files held before a rewriting")
    return [*lines, lost] if missing else lines


def _home_line(home: HomeStatus) -> str:
    from turnlog.cli.terminal.console import counted, short_path, size

    there = "" if home.is_there else " [yellow](gone)[/]"
    return (
        f"{short_path(home.home)}{there} [dim]{counted(home.sessions, 'session')},"
        f" {size(home.packed_bytes)}[/]"
    )


def _run_lines(status: KeepStatus, now: datetime) -> list[str]:
    from turnlog.cli.terminal.console import counted, size

    runs = [home.last_run_at for home in status.homes if home.is_there and home.last_run_at]
    copied = [home.last_kept_at for home in status.homes if home.last_kept_at]
    line = _ago(now, min(runs)) if runs else "never"
    if copied and _ago(now, max(copied)) != line:
        line += f"; something was copied {_ago(now, max(copied))}"
    behind = sum(home.behind_files for home in status.homes)
    changed = sum(home.behind_bytes for home in status.homes)
    if behind:
        sessions = sum(home.behind_sessions for home in status.homes)
        of = f" of {counted(sessions, 'session')}" if sessions else ""
        are, they = ("is", "it is") if behind == 1 else ("are", "they are")
        what = f"{counted(behind, 'file')}{of} {are} not kept as {they} now"
        return [line, f"[yellow]{what}[/] [dim]({size(changed)})[/]"]
    if runs and not changed:
        return [f"{line}; nothing has changed since"]
    return [line]


def _ago(now: datetime, then: datetime) -> str:
    from turnlog.cli.terminal.console import age

    return age(now, then).replace("now", "just now")


def _cleanup_lines(status: KeepStatus) -> list[str]:
    from turnlog.cli.terminal.console import counted
    from turnlog.keep.retention.agent_cleanup import LossCount

    periods = sorted({home.cleanup_days for home in status.homes if home.cleanup_days is not None})
    if not periods:
        return []
    days = " or ".join(f"{each:,}" for each in periods)
    within = f"{status.within_days:g} days"
    rule = f"Claude Code deletes what has not changed for {days} days"
    if not status.losses:
        return [rule, f"nothing of yours within the next {within}"]
    lost = [loss for loss in status.losses if not loss.is_kept]
    count = LossCount.of(status.losses)
    total = counted(count.sessions, "session")
    if count.subagents:
        total += f" and {counted(count.subagents, 'log')} of subagents"
    if not lost:
        return [rule, f"{total} within the next {within}, [green]all kept[/]"]
    those = "not" if len(lost) == len(status.losses) else f"{len(lost):,} of them not"
    command = "[cyan]turnlog keep[/]"
    return [rule, f"{total} within the next {within}, [red]{those} kept:[/] {command}"]


def _installed_lines(status: KeepStatus) -> list[str]:
    lines = [_installed_line(each) for each in status.installed]
    if any(each.state in ("missing", "outdated") for each in status.installed):
        lines.append("[dim]hint: turnlog keep --install sets it up[/]")
    return lines


def _installed_line(each: Installed) -> str:
    from turnlog.cli.terminal.console import safe, short_path

    when = _WHEN[each.kind]
    place = short_path(each.place) if each.place.startswith("/") else safe(each.place)
    notes = "".join(f" [yellow]({safe(note)})[/]" for note in each.notes)
    if each.state == "installed":
        return f"[green]✓[/] {when} [dim]({place})[/]{notes}"
    if each.state == "outdated":
        return f"[yellow]![/] {when}, but by another command [dim]({place})[/]{notes}"
    reason = f"not {when}" if each.state == "missing" else f"not {when}: {safe(each.reason)}"
    where = "" if each.kind == "none" else f" [dim]({place})[/]"
    return f"[dim]✗[/] {reason}{where}{notes}"


WITHIN_DAYS = 7


def offer_keeping(out: Console, names: tuple[str, ...]) -> None:
    """Say in two lines what will be lost, or that it could be; nothing if all is kept."""
    from turnlog.cli.options import command_line
    from turnlog.cli.terminal.console import counted, safe
    from turnlog.formats import find_homes
    from turnlog.formats.kept_copies import kept_place
    from turnlog.keep.retention.agent_cleanup import cleanup_period, losses

    periods = {home: period for home in find_homes(names) if (period := cleanup_period(home))}
    lost = [loss for loss in losses(periods, datetime.now(UTC), WITHIN_DAYS) if not loss.is_kept]
    command = command_line("turnlog keep", names)
    if lost:
        will = counted(len(lost), "log") + " will be deleted by Claude Code within"
        out.print(f"\n [yellow]![/] {will} {WITHIN_DAYS} days; this keeps a copy of all:")
        out.print(f"   {safe(command)}", soft_wrap=True)
    elif periods and not any(kept_place(home).is_dir() for home in periods):
        days = min(period.days for period in periods.values())
        out.print(f"\n [dim]hint: Claude Code deletes sessions after {days} days; to keep them:[/]")
        out.print(f"   {safe(command)}", soft_wrap=True)
