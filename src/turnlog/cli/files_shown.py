"""How ``turnlog files`` looks on a terminal. Every text from a file is made inert first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnlog.cli.terminal import console, counted, safe, safe_text, short_path, size, when

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.cli.files import DiffRow, FileRow, FilesDocument
    from turnlog.sessions.side_files.file_history import Version
    from turnlog.sessions.side_files.file_versions import RestoredVersion

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


def _show_list(files: Sequence[FileRow]) -> None:
    """Draw a row for each file: as it was at a record, or what became of it in all."""
    from turnlog.cli.query_shown import show_table

    if any(row.version is not None for row in files):
        rows = [{"file": row.shown, **_facts_then(row)} for row in files]
        columns = ["file", "version", "kept", "size", "note"]
    else:
        rows = [{"file": row.shown, **_facts(row)} for row in files]
        columns = ["file", "edits", "added", "removed", "versions", "note"]
    if not any(row["note"] for row in rows):
        columns.remove("note")
    show_table(columns, rows)


def _facts(row: FileRow) -> dict[str, object]:
    missing = sum(version.problem is not None for version in row.versions)
    return {
        "edits": len(row.edits) or None,
        "added": sum(edit.added or 0 for edit in row.edits) if row.edits else None,
        "removed": sum(edit.removed or 0 for edit in row.edits) if row.edits else None,
        "versions": len(row.versions) or None,
        "note": f"{missing:,} cannot be read" if missing else "",
    }


def _facts_then(row: FileRow) -> dict[str, object]:
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


def _show_one(out: Console, row: FileRow) -> None:
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
        whose = f" agent {safe(edit.agent)}" if edit.agent else ""
        changed = "" if edit.added is None else f" [green]+{edit.added}[/] [red]-{edit.removed}[/]"
        out.print(f"  [cyan]{safe(edit.tool)}[/] [dim]{at}[/]{changed}{whose}")


def _show_diff(out: Console, row: FileRow, diff: DiffRow | None) -> None:
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
