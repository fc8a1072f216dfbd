"""What a refresh found and did."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

if TYPE_CHECKING:
    from turnlog.formats import Problem

Stage = Literal["usage", "text"]
Progress = Callable[[int, int], None]
"""Called with the bytes processed so far and the bytes in all."""


class RefreshResult(Struct, kw_only=True):
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
        """Return whether there is nothing to report but the counts."""
        return not (self.replaced or self.gone or self.forgotten or self.problems or self.notices)
