"""``turnlog keep status``: one calm screen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from turnlog.cli.options import show_json

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.keep.copies.status import HomeStatus, Installed, KeepStatus

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
        from turnlog.cli.terminal import console

        _show(console(), status, now)
    is_lost = any(home.missing for home in status.homes)
    return 1 if is_lost or any(not loss.is_kept for loss in status.losses) else 0


def _show(out: Console, status: KeepStatus, now: datetime) -> None:
    from turnlog.cli.terminal import safe

    if not status.homes:
        from turnlog.cli.nothing import show_hint

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
    from turnlog.cli.terminal import show_value

    for number, line in enumerate(lines):
        show_value(out, label if number == 0 else "", line, _LABEL)


def _kept_lines(status: KeepStatus) -> list[str]:
    from turnlog.cli.terminal import counted, size

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
    from turnlog.cli.terminal import counted, short_path, size

    there = "" if home.is_there else " [yellow](gone)[/]"
    return (
        f"{short_path(home.home)}{there} [dim]{counted(home.sessions, 'session')},"
        f" {size(home.packed_bytes)}[/]"
    )


def _run_lines(status: KeepStatus, now: datetime) -> list[str]:
    from turnlog.cli.terminal import counted, size

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
    from turnlog.cli.terminal import age

    return age(now, then).replace("now", "just now")


def _cleanup_lines(status: KeepStatus) -> list[str]:
    from turnlog.cli.terminal import counted
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
    if count.agents:
        total += f" and {counted(count.agents, 'log')} of agents"
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
    from turnlog.cli.terminal import safe, short_path

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
