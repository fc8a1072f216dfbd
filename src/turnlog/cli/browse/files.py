"""``turnlog files``: which files a session touched, and how they were.

How ``turnlog files`` looks on a terminal. Every text from a file is made inert first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from turnlog.cli.options import csv_option, home_option, json_option, show_json
from turnlog.cli.terminal.console import console, counted, safe, safe_text, short_path, size, when
from turnlog.errors import UsageError
from turnlog.sessions.side_files.file_history import (
    FileAt,
    RestoredVersion,
    SessionFiles,
    TouchedFile,
    Version,
    VersionOutcome,
    content_of,
    diff_of,
    restore,
    restore_all,
)
from turnlog.storage.atomic_files import text_of

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.sessions.side_files.file_history import RestoredVersion, Version


class EditRow(Struct, kw_only=True):
    """A call that wrote a file; *record* is the one that holds its result."""

    tool: str
    record: str | None
    subagent: str | None
    at: datetime | None
    added: int | None
    removed: int | None


class DiffRow(Struct, kw_only=True):
    """How two versions of a file differ, or what each edit changed where none were kept."""

    text: str
    added: int
    removed: int
    problem: str | None


class TouchedFileRow(Struct, kw_only=True):
    """A file that a session touched. *version* is the one it had at the message asked for."""

    path: str
    shown: str
    versions: list[Version]
    edits: list[EditRow]
    version: Version | None = None
    is_inferred: bool = False
    content: str | None = None
    diff: DiffRow | None = None


class FilesDocument(Struct, kw_only=True):
    """What `turnlog files --json` prints."""

    session: str
    project: str | None
    files: list[TouchedFileRow]
    strays: list[Version]
    """Kept versions that no record speaks of."""
    restored: list[RestoredVersion]
    odd: int
    """Snapshot records of a shape nobody expects."""
    next: int | None = None


@click.command(
    name="files",
    epilog="""\b
Examples:
  turnlog files latest                         every file the session touched
  turnlog files 5f0c src/app.py                one of them, with its versions and edits
  turnlog files 5f0c src/app.py --at 8b12      how it was when that message was sent
  turnlog files 5f0c --at 8b12 --diff          what changed since then
  turnlog files 5f0c app.py --at v1 --at v3 --diff    between two versions
  turnlog files 5f0c --at 8b12 --restore /tmp/then    all files as they were then
Exit code: 0 done, 1 nothing was found or a wanted version is missing, 2 a mistake, 3 a failure.""",
)
@click.argument("name", metavar="SESSION")
@click.argument("path", metavar="[PATH]", required=False)
@home_option
@json_option
@csv_option
@click.option(
    "--at",
    "ats",
    multiple=True,
    metavar="MESSAGE",
    help="As it was when MESSAGE was sent: the beginning of a record's uuid, or of one file, vN. "
    "Twice with --diff: between the two.",
)
@click.option("--diff", is_flag=True, help="Show what changed: since MESSAGE, else all of it.")
@click.option(
    "--restore",
    "into",
    metavar="DIR",
    help="Write the files into DIR, all or PATH; without --at, as they were kept last. "
    "With PATH, DIR may name the file to write.",
)
@click.option("--overwrite", is_flag=True, help="Let --restore replace files that exist.")
@click.option("--raw", is_flag=True, help="Print the file's own bytes, whatever they are.")
def command(
    name: str,
    path: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    ats: tuple[str, ...],
    diff: bool,
    into: str | None,
    overwrite: bool,
    raw: bool,
) -> int:
    """Show which files a session touched; show, compare or restore their kept versions.

    SESSION is the beginning of a session's id, or "latest"; PATH may be the end of a path.
    Nothing is written but by --restore, which needs a place and replaces no file there unless
    told to.
    """
    from turnlog.formats import all_homes
    from turnlog.sessions.session import Session

    _check(path, ats, diff=diff, into=into, raw=raw, is_table=as_json or as_csv)
    session = Session.find(all_homes(homes), name)
    files = SessionFiles.of(session)
    chosen = [files.find(path)] if path is not None else list(files.files.values())
    if raw:
        return _raw(files, chosen[0], ats)
    document = FilesDocument(
        session=session.id,
        project=files.project,
        files=[_file_row(file) for file in chosen],
        strays=[] if path else [_told(each) for each in files.strays],
        restored=[],
        odd=files.odd,
    )
    if into is not None:
        document.restored = _restore(files, path, ats, into, overwrite=overwrite)
    elif diff:
        _add_diffs(document, files, chosen, ats)
    elif ats:
        _add_state(document, files, chosen, ats[0], content=path is not None)
    if as_json:
        show_json(document)
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv

        show_csv(TouchedFileRow, document.files)
    else:
        show(document, one=path is not None, diff=diff)
    return _exit_code(document)


def _check(
    path: str | None,
    ats: tuple[str, ...],
    *,
    diff: bool,
    into: str | None,
    raw: bool,
    is_table: bool,
) -> None:
    """Refuse what contradicts itself before anything is read."""
    if len(ats) > (2 if diff else 1):
        many = "two" if diff else "one"
        raise UsageError(f"--at is given {len(ats)} times", hint=f"{many} at most")
    if sum((diff, into is not None, raw)) > 1:
        raise UsageError("--diff, --restore and --raw exclude each other", hint="choose one")
    if raw and (path is None or is_table):
        raise UsageError(
            "--raw prints one file's bytes", hint="name its PATH, without --json and --csv"
        )
    if into == "":
        raise UsageError("--restore needs a place", hint="name a directory")
    if path is None and any(at[:1] == "v" and at[1:].isdigit() for at in ats):
        raise UsageError("vN is the version of one file", hint="name its PATH too")


def _raw(files: SessionFiles, file: TouchedFile, ats: tuple[str, ...]) -> int:
    found = files.version_at(file, ats[0] if ats else None)
    data = content_of(found.version) if found is not None else b""
    if isinstance(data, bytes):
        sys.stdout.buffer.write(data)
        return 0 if found is not None and not found.version.is_absent else 1
    click.echo(f"error: the kept version cannot be read: {data.reason}", err=True)
    return 1


def _restore(
    files: SessionFiles, path: str | None, ats: tuple[str, ...], into: str, *, overwrite: bool
) -> list[RestoredVersion]:
    at = ats[0] if ats else None
    if path is not None:
        return [restore(files, path, at, into, overwrite=overwrite)]
    return list(restore_all(files, at, into, overwrite=overwrite))


def _add_diffs(
    document: FilesDocument, files: SessionFiles, chosen: list[TouchedFile], ats: tuple[str, ...]
) -> None:
    """Add to each file how it changed; files that did not are left out."""
    rows: list[TouchedFileRow] = []
    for row, file in zip(document.files, chosen, strict=True):
        old = files.version_at(file, ats[0]) if ats else None
        new = files.version_at(file, ats[1] if len(ats) > 1 else None)
        first = old.version if old else file.versions[0] if file.versions else None
        if new is not None and first is not None and (ats or len(file.versions) > 1):
            found = diff_of(first, new.version, file.shown)
            row.diff = DiffRow(
                text=found.text, added=found.added, removed=found.removed, problem=found.problem
            )
        elif not ats:
            # Nothing to compare: what the edits themselves tell, one after the other.
            row.diff = DiffRow(
                text="".join(edit.patch for edit in file.edits),
                added=sum(edit.added or 0 for edit in file.edits),
                removed=sum(edit.removed or 0 for edit in file.edits),
                problem=None,
            )
        if row.diff is not None and (row.diff.text or row.diff.problem):
            rows.append(row)
    document.files = rows


def _add_state(
    document: FilesDocument,
    files: SessionFiles,
    chosen: list[TouchedFile],
    at: str,
    *,
    content: bool,
) -> None:
    """Add to each file the version it had, and for one file what it held."""
    states: dict[str, FileAt] = {}
    if content:
        found = files.version_at(chosen[0], at)
        states = {chosen[0].path: found} if found else {}
    else:
        states = {each.file.path: each for each in files.at(at)}
    document.files = [row for row in document.files if row.path in states]
    for row in document.files:
        state = states[row.path]
        row.version = _told(state.version)
        row.is_inferred = state.is_inferred
        if content and not state.version.is_absent:
            data = content_of(state.version)
            if isinstance(data, bytes):
                row.content = data.decode("utf-8", "replace")
            else:
                row.version = replace(row.version, problem=data.reason)


def _exit_code(document: FilesDocument) -> int:
    if document.restored:
        done = {VersionOutcome.WRITTEN, VersionOutcome.ABSENT}
        return 0 if all(row.outcome in done for row in document.restored) else 1
    wrong = any(
        (row.version and row.version.problem) or (row.diff and row.diff.problem)
        for row in document.files
    )
    return 1 if wrong or not document.files else 0


def _file_row(file: TouchedFile) -> TouchedFileRow:
    return TouchedFileRow(
        path=file.path,
        shown=file.shown,
        versions=[_told(each) for each in file.versions],
        edits=[
            EditRow(
                tool=edit.tool,
                record=edit.uuid,
                subagent=edit.agent_id,
                at=edit.at,
                added=edit.added,
                removed=edit.removed,
            )
            for edit in file.edits
        ],
    )


def _told(version: Version) -> Version:
    """Return *version* with a name and place that JSON can hold, whatever the disk calls them."""
    return replace(version, name=text_of(version.name), path=text_of(version.path))


_OUTCOMES = {
    "written": "[green]✓[/] written",
    "exists": "[yellow]exists; --overwrite replaces it[/]",
    "absent": "[dim]did not exist then[/]",
    "missing": "[red]✗ the kept version cannot be read[/]",
    "unsafe": "[red]✗ no file can have this name here[/]",
    "blocked": "[red]✗ the way leads through a link or a file[/]",
}


def show(found: FilesDocument, *, one: bool, diff: bool) -> None:
    """Draw what was asked for: what was restored, how files differ, one file or all of them."""
    out = console()
    if found.restored:
        for restored in found.restored:
            _show_restored(out, restored)
        return
    if not found.files:
        out.print("No files changed." if diff else "No files found.")
        out.print("[dim]hint: only files that were edited, or of which versions were kept[/]")
    if not diff and not one and found.files:
        _show_list(found.files)
    for row in found.files:
        if diff:
            _show_diff(out, row, row.diff)
        elif one:
            _show_one(out, row)
    if found.strays and not diff:
        out.print(f"[dim]{counted(len(found.strays), 'kept version')} that no record speaks of[/]")


def _show_list(files: Sequence[TouchedFileRow]) -> None:
    """Draw a row for each file: as it was at a record, or what became of it in all."""
    from turnlog.cli.terminal.output import show_table

    if any(row.version is not None for row in files):
        rows = [{"file": row.shown, **_facts_then(row)} for row in files]
        columns = ["file", "version", "kept", "size", "note"]
    else:
        rows = [{"file": row.shown, **_facts(row)} for row in files]
        columns = ["file", "edits", "added", "removed", "versions", "note"]
    if not any(row["note"] for row in rows):
        columns.remove("note")
    show_table(columns, rows)


def _facts(row: TouchedFileRow) -> dict[str, object]:
    missing = sum(version.problem is not None for version in row.versions)
    return {
        "edits": len(row.edits) or None,
        "added": sum(edit.added or 0 for edit in row.edits) if row.edits else None,
        "removed": sum(edit.removed or 0 for edit in row.edits) if row.edits else None,
        "versions": len(row.versions) or None,
        "note": f"{missing:,} cannot be read" if missing else "",
    }


def _facts_then(row: TouchedFileRow) -> dict[str, object]:
    version = row.version
    if version is None:
        return {"note": ""}
    there = not version.is_absent and not version.problem
    notes = (
        "did not exist" if version.is_absent else version.problem,
        "not tracked yet: taken as first kept" if row.is_inferred else "",
    )
    return {
        "version": f"v{'?' if version.number is None else version.number}",
        "kept": version.kept_at if there else None,
        "size": size(version.size_bytes or 0) if there else "",
        "note": "; ".join(filter(None, notes)),
    }


def _show_one(out: Console, row: TouchedFileRow) -> None:
    if row.version is not None:
        if row.content is not None:
            out.print(safe_text(row.content), end="" if row.content.endswith("\n") else "\n")
        else:
            out.print(f"{safe(row.shown)} {_version(row.version)}")
        return
    out.print(f"[bold]{safe(row.shown)}[/]")
    for version in row.versions:
        messages = f"{safe(version.messages[0][:8])}" if version.messages else "?"
        more = f" and {len(version.messages) - 1} more" if len(version.messages) > 1 else ""
        out.print(f"  {_version(version)} [dim]at {messages}{more}[/]")
    for edit in row.edits:
        at = when(edit.at)
        whose = f" subagent {safe(edit.subagent)}" if edit.subagent else ""
        changed = "" if edit.added is None else f" [green]+{edit.added}[/] [red]-{edit.removed}[/]"
        out.print(f"  [cyan]{safe(edit.tool)}[/] [dim]{at}[/]{changed}{whose}")


def _show_diff(out: Console, row: TouchedFileRow, diff: DiffRow | None) -> None:
    if diff is None:
        return
    if diff.problem:
        out.print(f"[bold]{safe(row.shown)}[/] [yellow]{safe(diff.problem)}[/]")
        return
    if not diff.text.startswith("---"):  # Edits, one by one: they have no head of their own.
        out.print(f"[bold]{safe(row.shown)}[/] [dim]edit by edit[/]")
    # A line ends at a newline and nowhere else, or a form feed could begin one of its own.
    for line in diff.text.removesuffix("\n").split("\n"):
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        text = safe_text(line)
        out.print(f"[{colour}]{text}[/]" if colour else text)


def _show_restored(out: Console, row: RestoredVersion) -> None:
    detail = f" [dim]({safe(row.detail)})[/]" if row.detail else ""
    where = short_path(row.target) if row.target else safe(row.path)
    out.print(f"{where} {_OUTCOMES[row.outcome.value]}{detail}", soft_wrap=True)


def _version(version: Version) -> str:
    number = f"v{version.number}" if version.number is not None else "v?"
    if version.is_absent:
        return f"[dim]{number} did not exist[/]"
    if version.problem:
        return f"{number} [red]{safe(version.problem)}[/]"
    at = f" {when(version.kept_at)}" if version.kept_at else ""
    return f"{number}[dim]{at} {size(version.size_bytes or 0)}[/]"
