"""``turnlog restore``: what was kept, put back so that its agent goes on with it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, field

from turnlog.cli.hints import hint_of
from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    show_json,
    since_option,
    until_option,
)
from turnlog.errors import TurnlogError, UsageError
from turnlog.keep.restore.restorable import (
    Generation,
    Mirror,
    Restorable,
    all_mirrors,
    find_restorable,
    generations_of,
    mirrors,
)
from turnlog.keep.restore.restore import (
    Refused,
    Restored,
    RestoredFile,
    RestoreOutcome,
    note_restored,
    restore,
    restore_each,
    restore_rest,
    select_copies,
)

if TYPE_CHECKING:
    from turnlog.keep.restore.restore_files import Advance


class RestoreDocument(Struct, kw_only=True):
    """What `turnlog restore --json` prints."""

    restored: list[Restored] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    """Sessions that could not be restored, and why."""
    others: list[RestoredFile] = field(default_factory=list)
    """With --all: what belongs to no session alone, such as the prompts' history."""


class PartRow(Struct, kw_only=True):
    """A part of a session, and of which generations there are copies."""

    name: str
    size_bytes: int | None
    generations: list[int]


class RestorableRow(Struct, kw_only=True):
    """A session that can be restored."""

    id: str
    project: str | None
    title: str | None
    last_active_at: datetime | None
    home: str
    keeping: str
    """``kept`` if it is in its home as well, ``restorable`` if it is gone from there; ``live`` and
    ``gone`` if its copy is missing."""
    files: int
    size_bytes: int
    generations: list[Generation]
    parts: list[PartRow] | None = None
    """What it consists of, if it was asked for by name."""


class RestorableDocument(Struct, kw_only=True):
    """What `turnlog restore --list --json` prints."""

    sessions: list[RestorableRow]
    next: int | None = None


@click.command(
    name="restore",
    epilog="""\b
Examples:
  turnlog restore --list               which sessions can be restored
  turnlog restore 5f0c                 put that one back; then claude --resume finds it
  turnlog restore 5f0c --project .     the same, to go on in this directory
  turnlog restore --all                everything that is gone, after a home was lost
  turnlog restore --from ~/old/app --project ~/new/app   a project that has moved
  turnlog restore --since 30d --to ~/spare/.claude       into another home
  turnlog restore 5f0c --list          its generations and its parts
  turnlog restore 5f0c --generation 1 --to ~/then       as it was before it was rewritten
  turnlog restore 5f0c --replace       a log that was emptied or cut, made whole again
Exit code: 0 all is there, 1 not all of it or nothing was found, 2 a mistake, 3 a failure.""",
)
@click.argument("names", nargs=-1, metavar="[SESSION]...")
@home_option
@json_option
@csv_option
@click.option("--all", "everything", is_flag=True, help="All sessions, and all else that was kept.")
@click.option("--from", "worked_in", metavar="DIR", help="Sessions that worked in DIR or below it.")
@since_option
@until_option
@click.option(
    "--project",
    metavar="DIR",
    help="Where they go on from now on. Their directory under projects/ and the working "
    "directory in their records change, and nothing else.",
)
@click.option("--to", metavar="HOME", help="The home to restore into.  [default: its own]")
@click.option(
    "--generation",
    type=click.IntRange(min=1),
    help="What the log was before it was rewritten; --list shows which there are.",
)
@click.option("--only", metavar="NAME", help="One part of a session, as --list SESSION calls it.")
@click.option(
    "--replace",
    is_flag=True,
    help="Set a log aside that holds less than was kept, and put the kept copy in its place.",
)
@click.option("--partial", is_flag=True, help="Leave out what does not read back, not all of it.")
@click.option("--list", "is_list", is_flag=True, help="Show what can be restored; change nothing.")
def command(
    names: tuple[str, ...],
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    is_list: bool,
    everything: bool,
    worked_in: str | None,
    since: datetime | None,
    until: datetime | None,
    **how: Any,
) -> int:
    """Put kept sessions back to where their agent finds them.

    SESSION is the beginning of a session's id, or "latest". A file that is there and differs is
    never overwritten: then nothing of that session is written. A session that is archived and gone
    from its home is restored in the same way. --since and --until go by its latest record.

    With --replace, a log that lacks records of its kept copy becomes NAME.replaced-TIME, and the
    copy takes its place. Records that were appended after the loss follow it.
    """
    is_narrowed = any(each is not None for each in (worked_in, since, until))
    _check(names, everything=everything, is_narrowed=is_narrowed, is_list=is_list, **how)
    if as_csv and not is_list:
        raise UsageError("--csv is for --list", hint="--json tells what was restored")
    sessions, from_mirrors = _chosen(names, homes, worked_in, since, until)
    if is_list:
        return _list(sessions, with_parts=bool(names), as_json=as_json, as_csv=as_csv)
    sessions = select_copies(
        sessions, project=how["project"], generation=how["generation"], only=how["only"]
    )
    one = sessions[0] if len(names) == len(sessions) == 1 else None
    _check_one_project(sessions, how["project"])
    document = _restored(
        sessions, one, from_mirrors if everything else [], though_moved=bool(names), **how
    )
    if not any(how[name] for name in ("to", "project", "generation")):
        note_restored(document.restored)
    if as_json:
        show_json(document)
    else:
        from turnlog.cli.views.restore import show

        show(document, how["to"])
    return _exit_code(document)


def _check(
    names: tuple[str, ...],
    *,
    everything: bool,
    is_narrowed: bool,
    is_list: bool,
    generation: int | None,
    only: str | None,
    project: str | None,
    replace: bool,
    **_how: Any,
) -> None:
    """Refuse what contradicts itself before anything is read."""
    if names and (everything or is_narrowed):
        raise UsageError(
            "sessions are named one by one, or by --all, --from, --since and --until",
            hint="choose one way",
        )
    if everything and is_narrowed:
        raise UsageError(
            "--all is everything", hint="leave out --all, or --from, --since and --until"
        )
    if not (names or everything or is_narrowed or is_list):
        raise UsageError(
            "restore what?", hint="name a session, or say --all; --list shows what there is"
        )
    if replace and project is not None:
        raise UsageError(
            "--replace puts a log back in its own project", hint="leave out --project or --replace"
        )
    if (generation is not None or only is not None) and len(names) != 1 and not is_list:
        raise UsageError(
            "--generation and --only are of one session", hint="name the session, and only that"
        )


def _chosen(
    names: tuple[str, ...],
    homes: tuple[str, ...],
    worked_in: str | None,
    since: datetime | None,
    until: datetime | None,
) -> tuple[list[Restorable], list[Mirror]]:
    """Find the sessions that are meant, the one that was active last first."""
    from turnlog.formats import all_homes

    found_homes = all_homes(homes)
    among = mirrors(found_homes) if homes or not names else all_mirrors(found_homes)
    if names:
        found = [find_restorable(among, name) for name in names]
        return [copy for session in found for copy in session.everywhere], among
    sessions = [session for mirror in among for session in mirror.restorables]
    if worked_in is not None:
        places = {_text(os.path.abspath(worked_in)), _text(os.path.realpath(worked_in)), worked_in}
        sessions = [each for each in sessions if _is_within(each.project, places)]
    if since is not None:
        sessions = [each for each in sessions if each.last_active_at >= since]
    if until is not None:
        sessions = [each for each in sessions if each.last_active_at < until]
    return sorted(sessions, key=lambda each: each.recency, reverse=True), among


def _text(path: str) -> str:
    return path.encode(errors="replace").decode()


def _is_within(project: str | None, places: Iterable[str]) -> bool:
    if project is None:
        return False
    tops = [top for place in places if (top := place.rstrip("/\\"))]
    return any(project == top or project.startswith((top + "/", top + "\\")) for top in tops)


def _check_one_project(sessions: list[Restorable], project: str | None) -> None:
    """Refuse to have sessions of several projects go on in one directory."""
    if project is None or len(sessions) < 2:
        return
    worked_in = sorted({each.project for each in sessions if each.project is not None})
    tops = [each for each in worked_in if not _is_within(each, set(worked_in) - {each})]
    if len(tops) > 1:
        raise UsageError(
            f"these sessions worked in {len(tops)} projects, and --project names one",
            hint="say which project is meant with --from DIR",
        )


def _restored(
    sessions: list[Restorable],
    one: Restorable | None,
    all_of: list[Mirror],
    *,
    project: str | None,
    to: str | None,
    generation: int | None,
    only: str | None,
    partial: bool,
    replace: bool,
    though_moved: bool,
) -> RestoreDocument:
    from turnlog.cli.terminal.progress import progress

    document = RestoreDocument()
    size = 2 * sum(each.size_bytes for each in sessions)
    with progress("restoring", size) as advance:
        if one is not None:
            done = restore(
                one,
                to=to,
                project=project,
                generation=generation,
                only=only,
                partial=partial,
                replace=replace,
                advance=advance,
            )
            document.restored.append(done)
            return document
        for each in restore_each(
            sessions,
            to=to,
            project=project,
            generation=generation,
            partial=partial,
            replace=replace,
            though_moved=though_moved,
            advance=advance,
            hint_of=hint_of,
        ):
            if isinstance(each, Refused):
                document.refused.append(each)
            else:
                document.restored.append(each)
        _add_others(document, all_of, to, advance)
    return document


def _add_others(
    document: RestoreDocument, all_of: list[Mirror], to: str | None, advance: Advance
) -> None:
    for mirror in all_of:
        document.others += restore_rest(mirror, to=to, advance=advance)


def _exit_code(document: RestoreDocument) -> int:
    if document.refused or not (document.restored or document.others):
        return 1
    files = [file for each in document.restored for file in each.files] + document.others
    not_all = any(
        file.outcome in {RestoreOutcome.LEFT, RestoreOutcome.BROKEN} or file.detail is not None
        for file in files
    )
    return 1 if not_all or any(each.lacking for each in document.restored) else 0


def _list(sessions: list[Restorable], *, with_parts: bool, as_json: bool, as_csv: bool) -> int:
    if not with_parts:  # One that was named is listed whatever it is.
        sessions = [each for each in sessions if not each.is_subagent]
    rows = [_row(each, with_parts=with_parts) for each in sessions]
    if as_json:
        show_json(RestorableDocument(sessions=rows))
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv

        show_csv(RestorableRow, rows)
    else:
        from turnlog.cli.views.restore import show_list

        show_list(rows, with_parts=with_parts)
    return 0 if rows else 1


def _row(session: Restorable, *, with_parts: bool) -> RestorableRow:
    parts = None
    if with_parts:
        names = [*session.names, *(each for each in session.plans if each not in session.names)]
        parts = [_part_row(session, name) for name in sorted(names)]
    return RestorableRow(
        id=session.id,
        project=session.project,
        title=_title(session),
        last_active_at=session.last_active_at,
        home=session.mirror.home,
        keeping=session.keeping,
        files=len(session.names),
        size_bytes=session.size_bytes,
        generations=generations_of(session),
        parts=parts,
    )


def _part_row(session: Restorable, name: str) -> PartRow:
    copies = session.mirror.copies[name]
    known = copies[-1].known
    return PartRow(
        name=name,
        size_bytes=known.size_bytes if known is not None else None,
        generations=[copy.generation for copy in copies],
    )


def _title(session: Restorable) -> str | None:
    from turnlog.sessions.metadata import read_head_tail

    try:
        for name in session.mains[-1:]:
            return read_head_tail(session.mirror.newest(name).path).summary.title
    except (TurnlogError, OSError):
        pass
    return None
