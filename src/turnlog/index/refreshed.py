"""What a refresh found and did: told by whoever did it, here or in another process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from turnlog.index.asking import counts_of

if TYPE_CHECKING:
    from turnlog.layout import Problem

Stage = Literal["usage", "text"]
Progress = Callable[[int, int], None]
"""Told how many bytes of how many are done."""


class Refreshed(Struct, kw_only=True):
    """What a refresh found and did."""

    logs: int = 0
    """Logs that are there, and files beside them."""
    read: int = 0
    """Those that were read, whole or on from their bookmark."""
    read_bytes: int = 0
    replaced: list[str] = field(default_factory=list)
    """Logs that were read again from the start, since they were rewritten or replaced."""
    gone: list[str] = field(default_factory=list)
    """Logs that were found to be gone at their source."""
    forgotten: int = 0
    """Logs that were gone before, and which a rebuilt index knows no more."""
    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Tell whether the counts say it all."""
        return not (self.replaced or self.gone or self.forgotten or self.problems or self.notices)


def answer_of(done: Refreshed) -> str:
    """Write it as an answer to whoever asked for the refresh."""
    if done.is_plain:
        return f"done {done.logs} {done.read} {done.read_bytes}"
    import json  # noqa: PLC0415 - Seldom; it can tell any name of a file, also one that is no text.

    fields: dict[str, Any] = {name: getattr(done, name) for name in done.__struct_fields__}
    fields["problems"] = [(os.fspath(each.path), each.reason) for each in done.problems]
    return f"told {json.dumps(fields)}"


def refreshed_of(answer: str) -> Refreshed | None:
    """Read an answer; None if it is none."""
    counts = counts_of(answer)
    if counts is not None:
        return Refreshed(logs=counts[0], read=counts[1], read_bytes=counts[2])
    import json  # noqa: PLC0415 - Seldom.
    from pathlib import Path  # noqa: PLC0415

    from turnlog.layout import Problem  # noqa: PLC0415

    kind, _, text = answer.partition(" ")
    try:
        fields = json.loads(text) if kind == "told" else None
        if not isinstance(fields, dict):
            return None
        problems = [Problem(Path(path), reason) for path, reason in fields.pop("problems")]
        return Refreshed(**fields, problems=problems)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
