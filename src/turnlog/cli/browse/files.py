"""``turnlog files``: the files a session touched, and their kept versions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from turnlog.cli.options import force_option, report_options
from turnlog.cli.terminal.console import console, counted, safe, safe_text, short_path, size, when
from turnlog.cli.terminal.output import show_data, show_table
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.sessions.side_files import (
        DiffRow,
        FilesDocument,
        RestoredVersion,
        TouchedFileRow,
        Version,
    )


@click.command(
    name="files",
    epilog="""\b
Examples:
  turnlog files latest                         all files the session touched
  turnlog files 5f0c src/app.py                one file: versions and edits
  turnlog files 5f0c src/app.py --at 8b12      as it was at that message
  turnlog files 5f0c --at 8b12 --diff          changes since then
  turnlog files 5f0c app.py --at v1 --at v3 --diff    between two versions
  turnlog files 5f0c --at 8b12 --restore /tmp/then    restore them all
Exit codes: 0 success, 1 nothing found or a version is missing,
2 usage error, 3 failure.""",
)
@click.argument("name", metavar="SESSION")
@click.argument("path", metavar="[PATH]", required=False)
@report_options
@click.option(
    "--at",
    "ats",
    multiple=True,
    metavar="MESSAGE",
    help="State when MESSAGE was sent: the start of a record's uuid, or vN for one file. "
    "Twice with --diff: compare the two.",
)
@click.option("--diff", is_flag=True, help="Show the changes since MESSAGE, or all.")
@click.option(
    "--restore",
    "into",
    metavar="DIR",
    help="Write all files or PATH into DIR, as of --at or the last version. "
    "With PATH, DIR may be a file name.",
)
@force_option
@click.option("--raw", is_flag=True, help="Print the bytes of one file, unescaped.")
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
    force: bool,
    raw: bool,
) -> int:
    """List the files a session touched; show, compare or restore their kept versions.

    SESSION is the start of a session id, or "latest"; PATH may be the end of a path. Only --restore
    writes files.
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.side_files import TouchedFileRow, file_bytes, session_files

    _check(path, ats, diff=diff, into=into, raw=raw, is_table=as_json or as_csv)
    places = all_homes(homes)
    if raw and path is not None:
        data = file_bytes(places, name, path, ats[0] if ats else None)
        if isinstance(data, bytes):
            sys.stdout.buffer.write(data)
            return 0
        if data is not None:
            click.echo(f"error: the kept version cannot be read: {data.reason}", err=True)
        return 1
    document = session_files(places, name, path, at=ats, diff=diff, into=into, overwrite=force)
    if not show_data(document, TouchedFileRow, document.files, as_json=as_json, as_csv=as_csv):
        _show(document, one=path is not None, diff=diff)
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
    if len(ats) > (2 if diff else 1):
        most = "twice" if diff else "once"
        raise UsageError(f"--at was given {len(ats)} times", hint=f"give it at most {most}")
    if sum((diff, into is not None, raw)) > 1:
        raise UsageError("--diff, --restore and --raw are mutually exclusive", hint="choose one")
    if raw and (path is None or is_table):
        raise UsageError("--raw prints one file", hint="give a PATH, without --json and --csv")
    if into == "":
        raise UsageError("--restore needs a directory", hint="name one")
    if path is None and any(at[:1] == "v" and at[1:].isdigit() for at in ats):
        raise UsageError("vN is a version of one file", hint="give its PATH too")


def _exit_code(document: FilesDocument) -> int:
    if document.restored:
        return 0 if all(row.outcome in {"written", "absent"} for row in document.restored) else 1
    wrong = any(
        (row.version and row.version.problem) or (row.diff and row.diff.problem)
        for row in document.files
    )
    return 1 if wrong or not document.files else 0


_OUTCOMES = {
    "written": "[green]✓[/] written",
    "exists": "[yellow]exists; use --force[/]",
    "absent": "[dim]did not exist then[/]",
    "missing": "[red]✗ the kept version cannot be read[/]",
    "unsafe": "[red]✗ invalid file name[/]",
    "blocked": "[red]✗ its path contains a link or a file[/]",
}


def _show(document: FilesDocument, *, one: bool, diff: bool) -> None:
    out = console()
    if document.restored:
        for restored in document.restored:
            _show_restored(out, restored)
        return
    if not document.files:
        out.print("No files changed." if diff else "No files found.")
        out.print("[dim]hint: only edited files and files with kept versions are listed[/]")
    if not diff and not one and document.files:
        _show_list(document.files)
    for row in document.files:
        if diff:
            _show_diff(out, row, row.diff)
        elif one:
            _show_one(out, row)
    if document.strays and not diff:
        out.print(f"[dim]{counted(len(document.strays), 'kept version')} that no record names[/]")


def _show_list(files: Sequence[TouchedFileRow]) -> None:
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
    exists = not version.is_absent and not version.problem
    notes = (
        "did not exist" if version.is_absent else version.problem,
        "not tracked yet: first kept version" if row.is_inferred else "",
    )
    return {
        "version": f"v{'?' if version.number is None else version.number}",
        "kept": version.kept_at if exists else None,
        "size": size(version.size_bytes or 0) if exists else "",
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
        subagent = f" subagent {safe(edit.subagent)}" if edit.subagent else ""
        changed = "" if edit.added is None else f" [green]+{edit.added}[/] [red]-{edit.removed}[/]"
        out.print(f"  [cyan]{safe(edit.tool)}[/] [dim]{at}[/]{changed}{subagent}")


def _show_diff(out: Console, row: TouchedFileRow, diff: DiffRow | None) -> None:
    if diff is None:
        return
    if diff.problem:
        out.print(f"[bold]{safe(row.shown)}[/] [yellow]{safe(diff.problem)}[/]")
        return
    if not diff.text.startswith("---"):  # Single edits have no header.
        out.print(f"[bold]{safe(row.shown)}[/] [dim]edit by edit[/]")
    # Not splitlines: a form feed does not end a line.
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
