"""Writing a session of the flat layout: a log that begins with ``system_init``, and two caches.

``ID.meta.json`` and the registry ``index.json`` say what the log says, in short. They are written
when the session is created, when it is closed, when a person sets something, and in between at the
first append after five seconds; whoever finds them old or gone rebuilds them from the logs. They
are written under the log's lock, so that the one which is written last has seen the most.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

from turnlog.formats.flat.registry import MetaFold, update_registry, write_meta
from turnlog.records.codec import encode
from turnlog.sessions.surroundings import Clock, utc_now
from turnlog.sessions.writing import Records, SessionWriter
from turnlog.storage.writer import LOCK_TIMEOUT, Durability, News

AUTOSAVE_S: Final = 5.0


class FlatWriter(SessionWriter):
    """Appends to a session of the flat layout; *model* is what a new log says at its head."""

    def __init__(
        self,
        path: Path,
        *,
        session_id: str,
        cwd: str | os.PathLike[str],
        root: Path | None = None,
        create: bool = True,
        model: str | None = None,
        durability: Durability = "fsync",
        lock_timeout: float | None = LOCK_TIMEOUT,
        clock: Clock = utc_now,
    ) -> None:
        self._model = model
        super().__init__(
            path,
            session_id=session_id,
            cwd=cwd,
            dialect="flat",
            root=root,
            create=create,
            durability=durability,
            lock_timeout=lock_timeout,
            clock=clock,
        )
        self._save()

    def _append(self, records: Records) -> list[str | None]:
        """Append *records* in one write; now and then, the caches follow."""
        uuids = super()._append(records)
        if time.monotonic() - self._saved >= AUTOSAVE_S:
            self._save()
        return uuids

    def _label(self, said: Records) -> None:
        super()._label(said)
        self._save()

    def _head(self) -> bytes:
        init = {"type": "system_init", "timestamp": round(self._clock().timestamp() * 1000)}
        init |= {"cwd": self.cwd} | ({"model": self._model} if self._model else {})
        return encode(init) + b"\n" + super()._head()

    def _leave(self) -> None:
        try:
            self._save()
        finally:
            super()._leave()

    def _save(self) -> None:
        """Write both caches from what the log says by now."""
        self._folded(MetaFold)
        self._append_after(self._save_after)
        self._saved = time.monotonic()

    def _save_after(self, news: News) -> tuple[dict[str, Any], ...]:
        self._take_news(news)
        fold = self._folds.get(MetaFold)
        if isinstance(fold, MetaFold):  # Else the log was replaced just now: the next time.
            meta = fold.meta(self.session_id)
            write_meta(self.path.parent, meta)
            update_registry(self.path.parent, meta)
        return ()
