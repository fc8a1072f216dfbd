"""A session whose records wait in memory and reach the disk together.

    with BufferedSession(store.create(project=".")) as session:
        session.append(turnlog.build.user("How many apples?"))  # Returns at once.

This is the weakest durability, chosen by name: a crash loses up to five seconds. An orderly end
loses nothing, and where no handler would save a record it is saved at once: see
``turnlog.storage.buffered_writer``. A record gets its uuid and its time when it is taken,
its parent when it is written: then it is known what others wrote. Whatever asks for the session as
it is, ``totals`` or ``metadata``, saves what waits first.
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
    """Gathers records and hands them to *writer* every *every_seconds*, or sooner when many.

    Threads may share one. If saving fails the records keep waiting, and the next call tells.
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
        """The agent's, if it writes an agent's log."""
        return self._writer.agent_id

    @property
    def path(self) -> Path:
        """Where the log lies."""
        return self._writer.path

    @property
    def waiting(self) -> int:
        """How many records are not on disk yet."""
        return len(self._buffer)

    @property
    def totals(self) -> SessionTotals:
        """What the session used and what it cost by now, its agents included."""
        self.flush()
        return self._writer.totals

    @property
    def metadata(self) -> Metadata:
        """What is known of the session by now."""
        self.flush()
        return self._writer.metadata

    def append(self, record: Record | Mapping[str, Any]) -> str | None:
        """Take *record*; give its uuid. It reaches the disk soon."""
        return self.append_many((record,))[0]

    def append_many(self, records: Iterable[Record | Mapping[str, Any]]) -> list[str | None]:
        """Take *records*; give their uuids. An error means that none was taken."""
        made, size_bytes = self._writer.stamped(records)
        self._buffer.take([line for lines in made for line in lines], size_bytes)
        return [each[0].get("uuid") for each in made]

    def update(
        self, *, title: str | None = None, tag: str | None = None, pinned: bool | None = None
    ) -> None:
        """Set what a person sets; it is durable on return, and so is all that waited."""
        self.flush()
        self._writer.update(title=title, tag=tag, pinned=pinned)

    def mark(self, event: str, **more: Any) -> None:
        """Leave a mark of turnlog's own in the log, behind all that waited."""
        self.flush()
        self._writer.mark(event, **more)

    def agent(self, agent_id: str | None = None) -> BufferedSession:
        """Begin an agent, whose records wait as these do."""
        every_seconds, max_records, max_bytes = self._limits
        return BufferedSession(
            self._writer.agent(agent_id),
            every_seconds=every_seconds,
            max_records=max_records,
            max_bytes=max_bytes,
        )

    def flush(self) -> None:
        """Return when everything taken so far is on disk."""
        self._buffer.flush()

    def close(self, *, archive: bool = False) -> None:
        """Save what waits, then close the session. If saving fails it stays open."""
        self._buffer.close(lambda: self._writer.close(archive=archive))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # After an exception the session looks like one that crashed, but what it said is there.
        self._buffer.close(lambda: self._writer.__exit__(kind, error, trace))
