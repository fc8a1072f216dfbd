"""``turnlog compact``: the logs of a session made smaller, and made what they were again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turnlog.cli.options import home_option, json_option, line_cap, show_json, write_option

if TYPE_CHECKING:
    from turnlog.keep.compaction.compact import Compaction
    from turnlog.keep.compaction.undo import CompactionUndo
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
    progress that repeats what stands in an agent's own log. Every view of the session is worked
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
        from turnlog.cli.compact_shown import show_compaction

        show_compaction(done, write=write)
    return 0


def _undo(session: Session, *, as_json: bool, write: bool) -> int:
    from turnlog.keep.compaction.undo import undo

    done = undo(session, write=write, cap=line_cap())
    if as_json:
        show_json(_undo_document(done))
    else:
        from turnlog.cli.compact_shown import show_undoing

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
    agent: str | None
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
    agent: str | None
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
                agent=log.agent_id,
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
                agent=log.agent_id,
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
