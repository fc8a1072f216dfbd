"""A console for pipes and files: they have no width, so nothing is cut, wrapped or padded.

Rich draws tables as wide as their console, and fills every cell up to the width of its column, the
last one too. Whoever reads lines from a pipe wants all of a line and nothing behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from turnlog.cli.terminal.console import ENDLESS

if TYPE_CHECKING:
    from rich.console import Console


class PipeConsole(Console):
    """A console that is as wide as what it shows."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=True, emoji=False, soft_wrap=True, width=ENDLESS)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; of tables without the spaces at the ends of lines, texts as they are."""
        if not any(isinstance(each, Table) for each in objects):
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))
        self.file.flush()
