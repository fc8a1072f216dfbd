"""``turnlog recover``: make crashed sessions resumable, and undo it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turnlog.cli.options import dry_run, home_option, json_option, show_json, yes_option

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.repair import Recovery, UndoneRecovery
    from turnlog.api.sessions.lists import SessionRow


@click.command(
    name="recover",
    epilog="""\b
Examples:
  turnlog recover                          list crashed sessions
  turnlog recover 5f0c                     show what would be repaired
  turnlog recover 5f0c --yes             repair it
  turnlog recover 5f0c --undo --yes      undo the repair""",
)
@click.argument("name", metavar="SESSION", required=False)
@home_option
@json_option
@click.option("--undo", "is_undoing", is_flag=True, help="Undo: restore the original.")
@yes_option
def command(
    name: str | None, homes: tuple[str, ...], *, as_json: bool, is_undoing: bool, yes: bool
) -> int:
    """Repair a session after a crash, so its agent can resume all of it.

    Separates records on damaged lines, ends a truncated last line, and replaces missing parents and
    results. If a log has to be rewritten, the original is kept next to it. A recovery that would
    move the main thread to an older end is rejected. Without SESSION, crashed sessions are listed.

    SESSION is the beginning of a session ID, or "latest".
    """
    from turnlog.api.homes import all_homes, turnlog_home
    from turnlog.api.repair import recover, undo_recovery
    from turnlog.api.store import Store

    found = all_homes(homes)
    if name is None:
        if is_undoing:
            from turnlog.errors import UsageError

            raise UsageError("--undo needs a session", hint="use turnlog recover SESSION --undo")
        return _list(Store(found, turnlog_home()).crashed(), as_json=as_json)
    if is_undoing:
        undone = undo_recovery(found, name, write=yes)
        if as_json:
            show_json(undone)
        else:
            _show_undone(undone)
        return 0 if undone.written else 1
    recovery = recover(found, name, write=yes)
    if as_json:
        show_json(recovery)
    else:
        _show(recovery, homes, write=yes)
    return 1 if recovery.lacking or (recovery.needed and not recovery.written) else 0


def _list(rows: list[SessionRow], *, as_json: bool) -> int:
    if as_json:
        from turnlog.api.sessions.lists import SessionList

        show_json(SessionList(sessions=rows, next=None, total=len(rows)))
        return 1 if rows else 0
    from turnlog.cli.terminal.console import console, counted, safe, titled

    out = console()
    if not rows:
        out.print("[green]✓[/] No crashed sessions.")
        return 0
    out.print(f"{counted(len(rows), 'session')} crashed:")
    for row in rows:
        out.print(f"  [bold]{safe(row.id[:8])}[/] {titled(row.title)}")
    out.print("[dim]hint: turnlog recover SESSION shows what would be repaired[/]")
    return 1


def _show(found: Recovery, homes: tuple[str, ...], *, write: bool) -> None:
    from turnlog.cli.terminal.console import console

    out = console()
    if found.lacking:
        from turnlog.cli.safety.restore import show_lacking

        show_lacking(out, found.lacking, found.id, homes)
        if not found.needed:
            return
    if not found.needed:
        out.print("[green]✓[/] Nothing to recover.")
        _show_notes(out, found)
        return
    _show_lines(out, _lines(found), done=found.written)
    _show_notes(out, found)
    _show_originals(out, found.originals)
    if not write:
        out.print(dry_run("repair it"))
    else:
        out.print(f"[dim]hint: to undo: turnlog recover {found.id[:8]} --undo --yes[/]")


def _show_undone(found: UndoneRecovery) -> None:
    from turnlog.cli.terminal.console import console, counted, safe

    out = console()
    if not found.needed:
        out.print("This session was not recovered: nothing to undo.")
        return
    done = found.written
    lines = [f"{counted(found.removed, 'line')} {'removed' if done else 'to remove'}"]
    if found.restored:
        restored = "restored" if done else "to restore"
        lines.append(f"{counted(len(found.restored), 'rewritten log')} {restored}")
    out.print(f"Recovery of {safe(found.recovered_at or 'unknown time')}:")
    _show_lines(out, lines, done=done)
    _show_originals(out, found.originals)
    if not done:
        out.print(dry_run("undo it"))


def _show_lines(out: Console, lines: list[str], *, done: bool) -> None:
    for line in lines:
        out.print(f"[green]✓[/] {line}" if done else f"[yellow]•[/] {line}")


def _show_originals(out: Console, paths: list[str]) -> None:
    from turnlog.cli.terminal.console import short_path

    for path in paths:
        out.print(f"[dim]original log: {short_path(path)}[/]", soft_wrap=True)


def _lines(found: Recovery) -> list[str]:
    """Return what was repaired, or would be, one line each."""
    from turnlog.cli.terminal.console import counted

    done = found.written
    replaced = "replaced" if done else "to replace"
    linked = f"{'linked' if done else 'to link'} to the record before"
    lines = []
    if found.crashed:
        lines.append("the process that wrote it crashed")
    if found.salvaged:
        verb = "recovered" if done else "to recover"
        lines.append(f"{counted(found.salvaged, 'record')} on damaged lines {verb}")
    if found.torn:
        lines.append("the last line was truncated" + ("; newline added" if done else ""))
    if found.bridges:
        lines.append(f"{counted(len(found.bridges), 'missing parent')} {replaced}")
    rings = sum(link.reason == "ring" for link in found.relinked)
    if rings:
        lines.append(f"{counted(rings, 'parent cycle')} {linked}")
    if starts := len(found.relinked) - rings:
        lines.append(f"{counted(starts, 'record')} without a parent in mid-log {linked}")
    if found.lost:
        lines.append(f"{counted(len(found.lost), 'lost result')} {replaced}")
    return lines


def _show_notes(out: Console, found: Recovery) -> None:
    from turnlog.cli.terminal.console import counted

    if found.interrupted:
        calls = counted(len(found.interrupted), "interrupted call")
        out.print(f"[dim]{calls} without a result[/]")
    if not found.written and any(link.is_prompt for link in found.relinked):
        out.print(
            "[yellow]![/] A prompt without a parent restarts the conversation. If you rewound to"
            " the start on purpose, do not recover this session."
        )
