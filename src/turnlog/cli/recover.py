"""``turnlog recover``: a session after a crash, made whole again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turnlog.cli.options import home_option, json_option, show_json, write_option

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.questions.catalog import SessionRow
    from turnlog.sessions.recover import Recovery


@click.command(
    name="recover",
    epilog="""\b
Examples:
  turnlog recover                   the sessions that crashed
  turnlog recover 5f0c              what is wrong with one
  turnlog recover 5f0c --write      mend it""",
)
@click.argument("name", metavar="SESSION", required=False)
@home_option
@json_option
@write_option
def command(name: str | None, homes: tuple[str, ...], *, as_json: bool, write: bool) -> int:
    """Mend a session after a crash, so that the program that wrote it can go on from it.

    Records on damaged lines are freed, a cut last line is sealed, missing parents are bridged.
    Nothing is thrown away: a log that has to be rewritten is kept as it was beside the new one.
    Without SESSION, the sessions whose writer died are listed.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.layout import all_homes, turnlog_home
    from turnlog.store import Store

    store = Store(all_homes(homes), turnlog_home())
    if name is None:
        return _list(store.crashed(), as_json=as_json)
    found = store.examine(name)
    if write and found.needed:
        # The session was named, and with it the home that it is mended in.
        home = store.session(found.id).main_logs[-1].home
        found = Store((home,), home.path).recover(found.id)
    if as_json:
        show_json(found)
    else:
        _show(found, write=write)
    return 1 if found.needed and not found.written else 0


def _list(rows: list[SessionRow], *, as_json: bool) -> int:
    if as_json:
        from turnlog.questions.catalog import SessionList

        show_json(SessionList(sessions=rows, next=None, total=len(rows)))
        return 1 if rows else 0
    from turnlog.cli.terminal import console, counted, safe, titled

    out = console()
    if not rows:
        out.print("[green]✓[/] No session has crashed.")
        return 0
    out.print(f"{counted(len(rows), 'session')} crashed:")
    for row in rows:
        out.print(f"  [bold]{safe(row.id[:8])}[/] {titled(row.title)}")
    out.print("[dim]hint: turnlog recover SESSION says what is wrong with one[/]")
    return 1


def _show(found: Recovery, *, write: bool) -> None:
    from turnlog.cli.terminal import console, short_path

    out = console()
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
        out.print("[dim]hint: --write mends it; nothing has been changed[/]")


def _lines(found: Recovery, *, done: bool) -> list[str]:
    """Say in words what there is to do, or what was done."""
    from turnlog.cli.terminal import counted

    lines = []
    if found.crashed:
        lines.append("its writer died without a goodbye")
    if found.salvaged:
        freed = "freed" if done else "to free"
        lines.append(f"{counted(found.salvaged, 'record')} on damaged lines {freed}")
    if found.torn:
        lines.append("the last line was cut short" + (", sealed off" if done else ""))
    if found.bridges:
        bridged = "bridged" if done else "to bridge"
        lines.append(f"{counted(len(found.bridges), 'missing parent')} {bridged}")
    return lines


def _show_notes(out: Console, found: Recovery) -> None:
    """Say what is as it should be, or beyond mending."""
    from turnlog.cli.terminal import counted

    if found.interrupted:
        out.print(f"[dim]{counted(len(found.interrupted), 'call')} had no result: interrupted[/]")
    if found.cycles:
        out.print(f"[yellow]![/] {counted(len(found.cycles), 'ring')} of parents, left as it is")
