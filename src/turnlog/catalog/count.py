"""The number of sessions: every command that counts them calls this, or lists them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress

from turnlog.catalog.indexed_sessions import list_indexed
from turnlog.catalog.sessions import list_sessions
from turnlog.formats import Home
from turnlog.index.connection import Index


def count_sessions(homes: Iterable[Home], index: Index | None = None) -> int:
    """Return the number of sessions in plain lists.

    These have a main log of their own, in a home or as a kept copy, and are not archived. Without
    an *index*, the logs are read.
    """
    if index is not None:
        with suppress(sqlite3.Error):  # A broken index is reported elsewhere.
            return list_indexed(index, gone=False, limit=0).total
    return list_sessions(homes, limit=0).total
