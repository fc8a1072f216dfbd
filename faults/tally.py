"""What a run of faults found: one row per fault, one table for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_SHOWN = 3
_COLUMNS = (
    "fault",
    "runs",
    "acknowledged",
    "lost",
    "merged",
    "other violations",
    "skipped why",
)


@dataclass
class Tally:
    """One row. *lost* counts acknowledged records, *merged* records that nobody wrote like that."""

    fault: str
    runs: int = 0
    acknowledged: int = 0
    lost: int = 0
    merged: int = 0
    other: int = 0
    skipped: str = ""
    notes: list[str] = field(default_factory=list)

    def lose(self, what: str, count: int = 1) -> None:
        self.lost += count
        self._note(f"lost: {what}")

    def merge(self, what: str) -> None:
        self.merged += 1
        self._note(f"merged: {what}")

    def violate(self, what: str) -> None:
        self.other += 1
        self._note(what)

    def skip(self, why: str) -> Tally:
        self.skipped = f"{self.skipped}; {why}" if self.skipped else why
        return self

    @property
    def violations(self) -> int:
        return self.lost + self.merged + self.other

    @contextmanager
    def guarded(self, where: str) -> Iterator[None]:
        """Count whatever the checks themselves stumble over as a violation, and go on."""
        try:
            yield
        except Exception as error:
            self.violate(f"{where}: {type(error).__name__}: {error}")

    def _note(self, what: str) -> None:
        if what not in self.notes and len(self.notes) < 50:
            self.notes.append(what)


def table(tallies: Iterable[Tally]) -> str:
    """Give the one table, in plain text, and under it the first words on every violation."""
    tallies = list(tallies)
    rows = [_COLUMNS, *(_cells(tally) for tally in tallies), _total(tallies)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    ruler = "  ".join("-" * width for width in widths)
    text = [_line(rows[0], widths), ruler, *(_line(row, widths) for row in rows[1:-1])]
    text += [ruler, _line(rows[-1], widths)]
    for tally in tallies:
        text += [f"{tally.fault}: {note}" for note in tally.notes[:_SHOWN]]
        if len(tally.notes) > _SHOWN:
            text.append(f"{tally.fault}: … and {len(tally.notes) - _SHOWN} more kinds")
    return "\n".join(text)


def _cells(tally: Tally) -> tuple[str, ...]:
    numbers = (tally.runs, tally.acknowledged, tally.lost, tally.merged, tally.other)
    return (tally.fault, *(f"{number:,}" for number in numbers), tally.skipped or "-")


def _total(tallies: list[Tally]) -> tuple[str, ...]:
    total = Tally("all")
    for tally in tallies:
        total.runs += tally.runs
        total.acknowledged += tally.acknowledged
        total.lost += tally.lost
        total.merged += tally.merged
        total.other += tally.other
    skipped = sum(bool(tally.skipped) for tally in tallies)
    return (*_cells(total)[:-1], f"{skipped} rows" if skipped else "-")


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    first, *numbers, last = zip(cells, widths, strict=True)
    parts = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in numbers), last[0]]
    return "  ".join(parts).rstrip()
