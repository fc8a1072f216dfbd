"""The names of a session's files when it is restored to another project.

Without a new project the names stay. With one, the directory under ``projects/`` gets the new
project's key; agents that worked in a subdirectory of the old project move with it.
"""

from __future__ import annotations

import os
import unicodedata

from turnlog.errors import UsageError
from turnlog.formats import hash_of, key_of, project_hash, project_key
from turnlog.keep.copies.reader import Copy, readable_parts
from turnlog.keep.restore.relocate import Move, is_windows, new_project, project_in, split
from turnlog.keep.restore.restorable import Restorable, log_in, project_of


class NewPlaces:
    """Where the files of *session* go if it moves to *project*; None leaves them in place."""

    def __init__(
        self,
        session: Restorable,
        chosen: dict[str, Copy],
        project: str | os.PathLike[str] | None,
    ) -> None:
        self._chosen = chosen
        self._keys: dict[str | None, str] = {}
        self.project: str | None = None if project is None else new_project(project)
        self.move: Move | None = None
        if self.project is None:
            return
        if any(name.endswith((".gz", ".zst")) for name in session.mains):
            raise UsageError(
                f"session {session.id} is archived, and archives are never changed",
                hint="restore it without a project, unarchive it, then move it",
                cli_hint="restore it without --project, unarchive it, then move it",
            )
        old = next((found for name in session.mains if (found := self._project(name))), None)
        self.move = Move(old, self.project) if old is not None else None
        if session.key is not None:
            self._keys[session.key] = self._key(self.project, session.mains[0])

    def name(self, name: str) -> str:
        """Return the new name of the file *name*."""
        key = project_of(name)
        if self.project is None or key is None:
            return name
        if key not in self._keys:
            self._keys[key] = self._moved_key(key)
        parts = name.split("/")
        return "/".join((parts[0], self._keys[key], *parts[2:]))

    def of_log(self, name: str) -> Move | None:
        """Return how to relocate the lines of the file *name*; None if not a log, or it stays."""
        log = log_in(name)
        return self.move if log is not None and log.compression is None else None

    def _moved_key(self, key: str) -> str:
        """Return the new name of another project's directory with files of the session."""
        logs = [name for name in self._chosen if project_of(name) == key and log_in(name)]
        project = next((found for name in logs if (found := self._project(name))), None)
        moved = self.move.of(project) if self.move and project else project
        return key if moved is None or moved == project else key_of(_composed(moved))

    def _key(self, project: str, main: str) -> str:
        log = log_in(main)
        if log is not None and log.kind == "day":
            return hash_of(project) if is_windows(project) else project_hash(project)
        return key_of(project) if is_windows(project) else project_key(project)

    def _project(self, name: str) -> str | None:
        """Return the directory in which the log *name* was written."""
        # Damage is reported when all of it is read.
        chunks = readable_parts(self._chosen[name].path)
        return project_in((line for line, _ in split(chunks)), project_of(name))


def _composed(path: str) -> str:
    return unicodedata.normalize("NFC", path)
