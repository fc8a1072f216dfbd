"""Which log holds the session that a program calls by some name.

Programs name sessions as they like: ``user_123``, an e-mail address, a path. A name that is a
session id already, and cannot be taken for another on any file system, is the id. Every other name
has an id made from it, a UUID of version 5; names of that form are never ids themselves, so nobody
can name somebody else's session. The log's head keeps the name as it was given.

A session lies where it was begun, whatever project it is opened for later. One that is archived, or
gone with a copy kept, is read from there and put back before it is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from uuid import UUID, uuid5

from turnlog.api.session import KeptSession
from turnlog.errors import UsageError
from turnlog.formats import Home, LogName, claude_log, is_uuid, read_name
from turnlog.formats.find import LATEST
from turnlog.formats.kept_copies import copy_roots, kept_place

_NAMES: Final = UUID("0b8f3f0e-6a35-4c57-9d0c-2f6f1f6f8a41")
_LONGEST: Final = 512
_VERSION_AT: Final = 14


def id_of(name: str) -> str:
    """Return the session id that *name* stands for."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST:
        raise UsageError(
            f"a session's name is a text of 1 to {_LONGEST} characters",
            hint='such as "user_123"; without a name all users would share one session',
        )
    # Lone surrogates have no form in UTF-8, but are part of a name if somebody says so.
    return name if is_id(name) else str(uuid5(_NAMES, name.encode(errors="surrogatepass").hex()))


def is_id(name: str) -> bool:
    """Return whether *name* can be a session's id as it is."""
    if name != name.lower() or name == LATEST:  # Some file systems do not tell A from a.
        return False
    if is_uuid(name) and name[_VERSION_AT] == "5":
        return False
    return read_name(f"{name}.jsonl") == LogName("session", name, None)


class SessionPlace:
    """Where the log of one session lies, or will lie."""

    def __init__(self, root: Path, project: str, session_id: str) -> None:
        self.root = root
        self._new = claude_log(root, project, session_id)
        self._id = session_id
        self._found: Path | None = None

    def to_read(self) -> Path | None:
        """Return the log, packed or not; None if there is none."""
        found = self._at_home()
        if found is None:
            kept = self._kept()
            found = kept.path if kept is not None else None
        return found

    def to_write(self) -> Path:
        """Return the log where it can be appended to; it may not be there yet."""
        found = self._at_home()
        if found is None and (kept := self._kept()) is not None:
            kept.unarchive()
            found = kept.path
        return found or self._new

    def _at_home(self) -> Path | None:
        for path in (self._found, self._new):
            if path is not None and path.is_file():
                self._found = path
                return path
        projects = self._new.parent.parent
        others = sorted(projects.glob(f"*/{self._new.name}"))
        self._found = next((path for path in others if _is_log(path)), None)
        return self._found

    def _kept(self) -> KeptSession | None:
        """Find the session among what is kept of it; its home is searched only if something is."""
        roots = copy_roots(kept_place(self.root)).values()
        mirrors = [root / self._new.parent.parent.name for root in roots]
        beside = any(path for each in mirrors for path in each.glob(f"*/{self._new.name}*"))
        packed = any(self._new.parent.parent.glob(f"*/{self._new.name}.*"))
        if not (beside or packed):
            return None
        found = KeptSession.find_exactly((Home(self.root),), self._id)
        return found if found is not None and found.main_logs else None


def _is_log(path: Path) -> bool:
    return path.is_file() and not path.parent.name.startswith(".")
