"""A session whose records are buffered in memory and written together.

    with BufferedSession(store.create(project=".")) as session:
        session.append(turnlog.build.user("How many apples?"))  # Returns at once.

This is the weakest durability and must be chosen explicitly: a crash loses up to five seconds. An
orderly end loses nothing, and where no handler could save a record it is written at once: see
``turnlog.storage.buffered_writer``. A record gets its uuid and timestamp when it is accepted, and
its parent when it is written, after what others wrote is known. ``totals`` and ``metadata`` write
what waits first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from turnlog.records.record import Record
from turnlog.sessions.metadata import Metadata
from turnlog.sessions.totals import SessionTotals
from turnlog.sessions.writing.writer import SessionWriter
from turnlog.storage.buffered_writer import EVERY_SECONDS, MAX_BYTES, MAX_RECORDS, Buffer


class BufferedSession:
    """Collects records and passes them to *writer* every *every_seconds*, or if many wait.

    Threads may share one. If saving fails, the records keep waiting and the next call raises.
    """

    def __init__(
        self,
        writer: SessionWriter,
        *,
        every_seconds: float = EVERY_SECONDS,
        max_records: int = MAX_RECORDS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._writer = writer
        self._limits = (every_seconds, max_records, max_bytes)
        self._buffer: Buffer[dict[str, Any]] = Buffer(
            writer.append_many,
            path=writer.path,
            every_seconds=every_seconds,
            max_records=max_records,
            max_bytes=max_bytes,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r})"

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._writer.session_id

    @property
    def agent_id(self) -> str | None:
        """The subagent's id, if it writes a subagent's log."""
        return self._writer.agent_id

    @property
    def path(self) -> Path:
        """The path of the log."""
        return self._writer.path

    @property
    def waiting(self) -> int:
        """The number of records not yet on disk."""
        return len(self._buffer)

    @property
    def totals(self) -> SessionTotals:
        """Current usage and cost of the session, including its agents."""
        self.flush()
        return self._writer.totals

    @property
    def metadata(self) -> Metadata:
        """Current metadata of the session."""
        self.flush()
        return self._writer.metadata

    def append(self, record: Record | Mapping[str, Any]) -> str | None:
        """Accept *record*, to be written soon; return its uuid."""
        return self.append_many((record,))[0]

    def append_many(self, records: Iterable[Record | Mapping[str, Any]]) -> list[str | None]:
        """Accept *records*; return their uuids. On an error, none was accepted."""
        made, size_bytes = self._writer.stamped(records)
        self._buffer.take([line for lines in made for line in lines], size_bytes)
        return [each[0].get("uuid") for each in made]

    def update(
        self, *, title: str | None = None, tag: str | None = None, pinned: bool | None = None
    ) -> None:
        """Set title and tag; durable on return, with everything that waited."""
        self.flush()
        self._writer.update(title=title, tag=tag, pinned=pinned)

    def mark(self, event: str, **more: Any) -> None:
        """Append a record of turnlog's own, after everything that waited."""
        self.flush()
        self._writer.mark(event, **more)

    def subagent(self, agent_id: str | None = None) -> BufferedSession:
        """Start a subagent, whose records are buffered too."""
        every_seconds, max_records, max_bytes = self._limits
        return BufferedSession(
            self._writer.subagent(agent_id),
            every_seconds=every_seconds,
            max_records=max_records,
            max_bytes=max_bytes,
        )

    def flush(self) -> None:
        """Return when everything accepted so far is on disk."""
        self._buffer.flush()

    def close(self, *, archive: bool = False) -> None:
        """Save what waits, then close the session. If saving fails, it stays open."""
        self._buffer.close(lambda: self._writer.close(archive=archive))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # After an exception the session looks crashed, but its records are there.
        self._buffer.close(lambda: self._writer.__exit__(kind, error, trace))
