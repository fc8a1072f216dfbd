"""The table that every benchmark adds its rows to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Row:
    """One thing measured: ours beside the peer's."""

    what: str
    ours: str
    peer: str
    ratio: str
    bar: str = ""
    met: bool | None = None


_HEADS = ("what", "ours", "peer", "ratio", "bar", "met")


def _cells(row: Row) -> tuple[str, ...]:
    met = "" if row.met is None else ("yes" if row.met else "NO")
    return row.what, row.ours, row.peer, row.ratio, row.bar, met


def as_text(rows: Sequence[Row]) -> str:
    table = [_HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(_HEADS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )


def as_markdown(rows: Sequence[Row]) -> str:
    lines = [f"| {' | '.join(_HEADS)} |", "|---|--:|--:|--:|:--|:--|"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows]
    return "\n".join(lines)


def percentile(values: Sequence[float], percent: int) -> float:
    """Give the value that *percent* of *values* do not exceed."""
    return median(values) if percent == 50 else quantiles(values, n=100)[percent - 1]


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"


def speed(size_bytes: int, seconds: float) -> str:
    return f"{size_bytes / seconds / 1e6:,.0f} MB/s"
