"""``turnlog recover``: repair a session after a crash, or undo that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turnlog.cli.options import home_option, json_option, show_json, write_option

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.sessions import SessionRow
    from turnlog.api.store import Store
    from turnlog.sessions.recover import Recovery
    from turnlog.sessions.recover_undo import UndoneRecovery


@click.command(
    name="recover",
    epilog="""\b
Examples:
  turnlog recover                          the sessions that crashed
  turnlog recover 5f0c                     what is wrong with one
  turnlog recover 5f0c --write             repair it
  turnlog recover 5f0c --undo --write      take that back""",
)
@click.argument("name", metavar="SESSION", required=False)
@home_option
@json_option
@click.option("--undo", "is_undoing", is_flag=True, help="Put everything back as it was.")
@write_option
def command(
    name: str | None, homes: tuple[str, ...], *, as_json: bool, is_undoing: bool, write: bool
) -> int:
    """Repair a session after a crash, so that the program that wrote it can resume all of it.

    Records on damaged lines are separated, a cut last line is sealed, lost parents are replaced.
    Nothing is thrown away: a log that has to be rewritten is kept next to the new one. A recovery
    that would move the main thread to an older end is refused. Without SESSION, the sessions whose
    writer died are listed.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.api.store import Store
    from turnlog.formats import all_homes, turnlog_home
    from turnlog.keep.copies.shortfall import Shortfalls

    store = Store(all_homes(homes), turnlog_home())
    if name is None:
        if is_undoing:
            from turnlog.errors import UsageError

            raise UsageError("--undo needs a session", hint="turnlog recover SESSION --undo")
        return _list(store.crashed(), as_json=as_json)
    if is_undoing:
        return _undo(store, name, as_json=as_json, write=write)
    found = store.examine(name)
    logs = store.session(found.id).logs
    if write and found.needed:
        found = _at_home(store, found.id).recover(found.id)
    compare = Shortfalls()
    lost = [compare.of(log, is_suspect=True) for log in logs]
    found.lacking = sum(each.records for each in lost if each is not None)
    if as_json:
        show_json(found)
    else:
        _show(found, homes, write=write)
    return 1 if found.lacking or (found.needed and not found.written) else 0


def _at_home(store: Store, session_id: str) -> Store:
    """Open the home of a session for writing: the session was named, and with it its home."""
    from turnlog.api.store import Store

    home = store.session(session_id).main_logs[-1].home
    return Store((home,), home.path)


def _undo(store: Store, name: str, *, as_json: bool, write: bool) -> int:
    found = store.undo_recovery(name, write=False)
    if write and found.needed:
        found = _at_home(store, found.id).undo_recovery(found.id)
    if as_json:
        show_json(found)
    else:
        _show_undone(found)
    return 0 if found.written else 1


def _list(rows: list[SessionRow], *, as_json: bool) -> int:
    if as_json:
        from turnlog.api.sessions import SessionList

        show_json(SessionList(sessions=rows, next=None, total=len(rows)))
        return 1 if rows else 0
    from turnlog.cli.terminal.console import console, counted, safe, titled

    out = console()
    if not rows:
        out.print("[green]✓[/] No session has crashed.")
        return 0
    out.print(f"{counted(len(rows), 'session')} crashed:")
    for row in rows:
        out.print(f"  [bold]{safe(row.id[:8])}[/] {titled(row.title)}")
    out.print("[dim]hint: turnlog recover SESSION says what is wrong with one[/]")
    return 1


def _show(found: Recovery, homes: tuple[str, ...], *, write: bool) -> None:
    from turnlog.cli.terminal.console import console, short_path
    from turnlog.cli.views.restore import show_lacking

    out = console()
    if found.lacking:
        show_lacking(out, found.lacking, found.id, homes)
    if found.lacking and not found.needed:
        return
    if not found.needed:
        out.print("[green]✓[/] Nothing to recover.")
        _show_notes(out, found)
        return
    done = found.written
    for line in _lines(found, done=done):
        out.print(f"[green]✓[/] {line}" if done else f"[yellow]•[/] {line}")
    _show_notes(out, found)
    for path in found.originals:
        out.print(f"[dim]the log as it was: {short_path(path)}[/]", soft_wrap=True)
    if not write:
        out.print("[dim]hint: --write repairs it; nothing has been changed[/]")
    else:
        out.print(f"[dim]hint: turnlog recover {found.id[:8]} --undo --write takes it back[/]")


def _show_undone(found: UndoneRecovery) -> None:
    from turnlog.cli.terminal.console import console, counted, safe, short_path

    out = console()
    if not found.needed:
        out.print("This session has not been recovered: there is nothing to undo.")
        return
    done = found.written
    lines = [f"{counted(found.removed, 'line')} {'removed' if done else 'to remove'}"]
    if found.restored:
        restored = "restored" if done else "to restore"
        lines.append(f"{counted(len(found.restored), 'rewritten log')} {restored}")
    out.print(f"The recovery of {safe(found.recovered_at or 'an unknown time')}:")
    for line in lines:
        out.print(f"[green]✓[/] {line}" if done else f"[yellow]•[/] {line}")
    for path in found.originals:
        out.print(f"[dim]the log as it was: {short_path(path)}[/]", soft_wrap=True)
    if not done:
        out.print("[dim]hint: --write undoes it; nothing has been changed[/]")


def _lines(found: Recovery, *, done: bool) -> list[str]:
    """Say in words what there is to do, or what was done."""
    from turnlog.cli.terminal.console import counted

    lines = []
    if found.crashed:
        lines.append("its writer died without a goodbye")
    if found.salvaged:
        freed = "freed" if done else "to free"
        lines.append(f"{counted(found.salvaged, 'record')} on damaged lines {freed}")
    if found.torn:
        lines.append("the last line was cut short" + (", sealed off" if done else ""))
    if found.bridges:
        bridged = "replaced" if done else "to replace"
        lines.append(f"{counted(len(found.bridges), 'missing parent')} {bridged}")
    if found.relinked:
        linked = "linked" if done else "to link"
        where = "to the record before"
        rings = sum(link.reason == "ring" for link in found.relinked)
        if rings:
            lines.append(f"{counted(rings, 'ring')} of parents {linked} {where}")
        if starts := len(found.relinked) - rings:
            lines.append(
                f"{counted(starts, 'record')} without a parent in mid-log {linked} {where}"
            )
    if found.lost:
        replaced = "replaced" if done else "to replace"
        lines.append(f"{counted(len(found.lost), 'lost result')} {replaced}")
    return lines


def _show_notes(out: Console, found: Recovery) -> None:
    """Say what needs no recovery, or a decision."""
    from turnlog.cli.terminal.console import counted

    if found.interrupted:
        out.print(f"[dim]{counted(len(found.interrupted), 'call')} had no result: interrupted[/]")
    if not found.written and any(link.is_prompt for link in found.relinked):
        out.print(
            "[yellow]![/] A prompt without a parent starts the conversation again. If you went"
            " back to its start on purpose, do not recover this session."
        )
