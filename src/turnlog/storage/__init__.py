"""Log files on disk: read, append, follow, validate, repair and compress lines of bytes.

``reader``, ``tail`` and ``scan`` read, ``writer`` and ``buffered_writer`` append, ``replace`` swaps
a log for a new version. Nothing here knows what a record means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A context manager that calls ``close`` at the end of its block."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
