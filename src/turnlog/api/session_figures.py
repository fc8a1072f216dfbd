"""One session in figures, and its newest records, as the index knows them."""

from __future__ import annotations

from turnlog.catalog.session_figures import (
    RecordPosition,
    SessionFigures,
    newest_records,
    placed_record,
    session_figures,
)

__all__ = [
    "RecordPosition",
    "SessionFigures",
    "newest_records",
    "placed_record",
    "session_figures",
]
