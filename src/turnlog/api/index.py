"""The index: opened to be asked, refreshed first."""

from __future__ import annotations

from turnlog.index.connection import Index, open_fresh

__all__ = ["Index", "open_fresh"]
