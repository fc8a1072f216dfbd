"""A base class for objects that are closed at the end of their ``with`` block."""

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
