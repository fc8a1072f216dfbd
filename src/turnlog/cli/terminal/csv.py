"""Answers as comma-separated values, for spreadsheets and programs.

The columns are the keys that ``--json`` has for a row, in the same order, also when there is no
row.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec

from turnlog.export.csv_cells import cell


def show_csv(
    kind: type[msgspec.Struct], rows: Sequence[msgspec.Struct], *, more: int | None = None
) -> None:
    """Print *rows*, which are of *kind* unless they say otherwise; *more* is left to fetch."""
    names = (type(rows[0]) if rows else kind).__struct_fields__
    show_csv_cells(names, ([getattr(row, name) for name in names] for row in rows))
    note_truncation(more)


def show_csv_rows(
    names: Sequence[str], rows: Iterable[Mapping[str, Any]], *, more: int | None = None
) -> None:
    """Print rows that are mappings."""
    show_csv_cells(names, ([row.get(name) for name in names] for row in rows))
    note_truncation(more)


def show_csv_cells(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print rows that are cells already."""
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow([cell(name) for name in names])
    writer.writerows([cell(value) for value in row] for row in rows)
    sys.stdout.buffer.write(held.getvalue().encode("utf-8", "replace"))


def note_truncation(following: int | None) -> None:
    """Say on stderr that the list was cut: a spreadsheet would not show it."""
    if following is not None:
        click.echo(
            f"note: there are more; --limit 0 gives all, --offset {following} the next", err=True
        )
