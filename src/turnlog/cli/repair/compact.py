"""``turnlog compact``: the logs of a session made smaller, and made what they were again.

How a compaction, and its undoing, look on a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct
from rich.table import Table

from turnlog.cli.options import home_option, json_option, line_cap, show_json, write_option
from turnlog.cli.terminal.console import console, counted, safe, short_path, size
from turnlog.keep.compaction.rules import Rule

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.keep.compaction.compact import Compaction
    from turnlog.keep.compaction.undo import CompactionUndo, UndoneLog
    from turnlog.sessions.session import Session


@click.command(
    name="compact",
    epilog="""\b
Examples:
  turnlog compact 5f0c             show what would be saved
  turnlog compact 5f0c --write     do it
  turnlog compact 5f0c --undo      show what would be put back; --write does it
Exit code: 0 done or nothing to do; 1 a moved line cannot be put back; 2 a mistake; 3 a failure.""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
@write_option
@click.option(
    "--blobs/--no-blobs",
    default=None,
    help="Move long results of tools to files beside the log, which turnlog follows and Claude "
    "Code does not: it resumes such a session without them until --undo.  "
    "[default: only in turnlog's own home]",
)
@click.option("--undo", "is_undoing", is_flag=True, help="Put everything back as it was.")
def command(
    name: str,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    write: bool,
    blobs: bool | None,
    is_undoing: bool,
) -> int:
    """Make a session's logs smaller without changing anything you or an agent see of it.

    What goes: lines that stand in the log twice, titles and modes that later ones replace, and
    progress that repeats what stands in a subagent's own log. Every view of the session is worked
    out before and after and compared, and the log as it was stays beside the new one. A session
    that is running is left alone.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.formats import all_homes
    from turnlog.sessions.session import Session

    session = Session.find(all_homes(homes), name)
    if is_undoing:
        return _undo(session, as_json=as_json, write=write)
    from turnlog.keep.compaction.compact import compact

    done = compact(session, write=write, blobs=blobs, cap=line_cap())
    if as_json:
        show_json(_document(done))
    else:
        show_compaction(done, write=write)
    return 0


def _undo(session: Session, *, as_json: bool, write: bool) -> int:
    from turnlog.keep.compaction.undo import undo

    done = undo(session, write=write, cap=line_cap())
    if as_json:
        show_json(_undo_document(done))
    else:
        show_undoing(done, write=write)
    return 1 if done.lost else 0


class CompactRule(Struct, kw_only=True):
    """What one rule takes out of a log."""

    rule: str
    lines: int
    size_bytes: int
    blob_bytes: int


class CompactLeftOut(Struct, kw_only=True):
    """A rule that was not applied to a log, since it would have changed some views."""

    rule: str
    views: list[str]


class CompactLog(Struct, kw_only=True):
    """What was, or would be, done to one log."""

    path: str
    subagent: str | None
    written: bool
    size_bytes: int
    new_size_bytes: int
    blob_bytes: int
    saved_bytes: int
    rules: list[CompactRule]
    left_out: list[CompactLeftOut]
    original: str | None


class CompactDocument(Struct, kw_only=True):
    """What `turnlog compact --json` prints."""

    session: str
    written: bool
    blobs: bool
    size_bytes: int
    saved_bytes: int
    logs: list[CompactLog]


class UndoLog(Struct, kw_only=True):
    """What was, or would be, put back into one log."""

    path: str
    subagent: str | None
    written: bool
    size_bytes: int
    new_size_bytes: int
    lines: int
    blobs: int
    originals: list[str]
    lost: list[str]


class UndoDocument(Struct, kw_only=True):
    """What `turnlog compact --undo --json` prints."""

    session: str
    written: bool
    logs: list[UndoLog]


def _document(done: Compaction) -> CompactDocument:
    return CompactDocument(
        session=done.session,
        written=done.written,
        blobs=done.blobs,
        size_bytes=done.size_bytes,
        saved_bytes=done.saved_bytes,
        logs=[
            CompactLog(
                path=log.path,
                subagent=log.agent_id,
                written=log.written,
                size_bytes=log.size_bytes,
                new_size_bytes=log.size_bytes - sum(each.size_bytes for each in log.savings),
                blob_bytes=sum(each.blob_bytes for each in log.savings),
                saved_bytes=log.saved_bytes,
                rules=[
                    CompactRule(
                        rule=each.rule.value,
                        lines=each.lines,
                        size_bytes=each.size_bytes,
                        blob_bytes=each.blob_bytes,
                    )
                    for each in log.savings
                ],
                left_out=[
                    CompactLeftOut(rule=each.rule.value, views=each.views) for each in log.left_out
                ],
                original=log.original,
            )
            for log in done.logs
        ],
    )


def _undo_document(done: CompactionUndo) -> UndoDocument:
    return UndoDocument(
        session=done.session,
        written=done.written,
        logs=[
            UndoLog(
                path=log.path,
                subagent=log.agent_id,
                written=log.written,
                size_bytes=log.size_bytes,
                new_size_bytes=log.new_size_bytes,
                lines=log.lines,
                blobs=log.blobs,
                originals=log.originals,
                lost=log.lost,
            )
            for log in done.logs
        ],
    )


_SHOWN: Final = 5
_MEANING: Final = {
    Rule.DUPLICATES: "lines that stand there twice",
    Rule.STATES: "titles and modes replaced since",
    Rule.ECHOES: "progress told in a subagent's log",
    Rule.BLOBS: "long results, moved to blobs",
}


def show_compaction(done: Compaction, *, write: bool) -> None:
    """Say what was, or would be, saved, rule by rule."""
    out = console()
    logs = counted(len(done.logs), "log")
    out.print(f"[bold]{safe(done.session)}[/]  [dim]{logs}, {size(done.size_bytes)}[/]")
    _left_out(out, done)
    if not done.needed:
        out.print("  [green]✓[/] nothing to gain")
        return
    out.print(_table(done))
    share = 100 * done.saved_bytes / max(1, done.size_bytes)
    left = size(done.size_bytes - done.saved_bytes)
    saved = f"{size(done.saved_bytes)} ({share:.1f}%), {left} are left"
    if not write:
        out.print(f"  would save {saved}")
        out.print("[dim]hint: nothing was changed; --write does it[/]")
        return
    out.print(f"  [green]✓[/] saved {saved}; every view of the session is as it was")
    originals = [log.original for log in done.logs if log.original is not None]
    for path in originals[:_SHOWN]:
        out.print(f"  [dim]the log as it was: {short_path(path)}[/]", soft_wrap=True)
    if len(originals) > _SHOWN:
        out.print(f"  [dim]… and {len(originals) - _SHOWN:,} more beside the subagents' logs[/]")
    them = "it" if len(originals) == 1 else "them"
    out.print(f"[dim]hint: --undo puts all back; removing {them} gains the room, and ends that[/]")


def show_undoing(done: CompactionUndo, *, write: bool) -> None:
    """Say what was, or would be, put back."""
    out = console()
    out.print(f"[bold]{safe(done.session)}[/]  [dim]{counted(len(done.logs), 'log')}[/]")
    back = [log for log in done.logs if log.needed]
    for log in back[:_SHOWN]:
        out.print(f"  {short_path(log.path)}", soft_wrap=True)
        out.print(f"    {_back(log)}")
    if len(back) > _SHOWN:
        out.print(f"  [dim]… and {len(back) - _SHOWN:,} more logs[/]")
    for log in done.logs:
        for why in log.lost[:_SHOWN]:
            out.print(f"  [red]✗[/] {short_path(log.path)}: {safe(why)}", soft_wrap=True)
    if not back and not done.lost:
        out.print("  [green]✓[/] nothing was taken out of it")
    elif back and not write:
        out.print("[dim]hint: nothing was changed; --write does it[/]")
    _still_there(out, [path for log in done.logs if log.written for path in log.originals])
    if done.lost:
        out.print("[dim]hint: a kept copy may have the blob: turnlog restore SESSION[/]")


def _still_there(out: Console, originals: list[str]) -> None:
    """Say what was put back and lies there still: to undo removes nothing, as nothing else does."""
    for path in originals[:_SHOWN]:
        out.print(f"  [dim]still there: {short_path(path)}[/]", soft_wrap=True)
    if len(originals) > _SHOWN:
        out.print(f"  [dim]… and {len(originals) - _SHOWN:,} more[/]")
    if originals:
        it = "it" if len(originals) == 1 else "them"
        out.print(f"[dim]hint: removing {it} gains the room; the log holds all of {it} again[/]")


def _back(log: UndoneLog) -> str:
    """Return where the lines of a log come back from."""
    sources = ((log.lines, "the log as it was"), (log.blobs, "blobs"))
    parts = [f"{counted(count, 'line')} from {name}" for count, name in sources if count]
    sizes = f"{size(log.size_bytes)} become {size(log.new_size_bytes)}"
    if log.written:
        return f"[green]✓[/] {' and '.join(parts)} put back: {sizes}"
    return f"{' and '.join(parts)} would be put back: {sizes}"


def _table(done: Compaction) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2))
    table.add_column("what goes", no_wrap=True)
    for title in ("lines", "log", "in blobs"):
        table.add_column(title, justify="right", no_wrap=True)
    for rule in Rule:
        found = [each for log in done.logs for each in log.savings if each.rule is rule]
        if found:
            blobs = sum(each.blob_bytes for each in found)
            table.add_row(
                _MEANING[rule],
                f"{sum(each.lines for each in found):,}",
                f"-{size(sum(each.size_bytes for each in found))}",
                f"+{size(blobs)}" if blobs else "",
            )
    return table


def _left_out(out: Console, done: Compaction) -> None:
    for log in done.logs:
        for each in log.left_out:
            views = safe(", ".join(each.views))
            out.print(
                f"  [yellow]![/] {short_path(log.path)}: {_MEANING[each.rule]} stay, since these "
                f"would look different: {views}",
                soft_wrap=True,
            )
