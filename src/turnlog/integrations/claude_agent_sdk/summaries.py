"""Session summaries: folded while entries are appended, and cached in files.

    summaries/PROJECT/SESSION.summary     a checksum, then the state on the next line

The fold is the SDK's own and is imported when first needed; an append in a process without it
leaves the fold to the next listing. A file has a bookmark: how much of the log it covers, and a
fingerprint of those bytes. Records appended since are folded in when it is read. A file that is
lost, stale, altered or from another SDK version is rebuilt. So it need not be synced.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from turnlog.errors import TurnlogError, UsageError
from turnlog.integrations.claude_agent_sdk.entries import Entries, Entry
from turnlog.integrations.claude_agent_sdk.find import FoundLog, look_at
from turnlog.integrations.claude_agent_sdk.keys import Key, place
from turnlog.records.codec import encode
from turnlog.records.lenient_json import loads
from turnlog.storage.atomic_files import Folder, Unreadable, read_file
from turnlog.storage.sources import Seekable, fingerprint_by, open_source

DIRECTORY: Final = "summaries"
_SDK: Final = "claude_agent_sdk"
_NEARLY: Final = 1024 * 1024  # The most that an append reads of other processes' records.
_OFTEN: Final = 64 * 1024

Fold = Callable[[Any, Any, Any], Any]


class _State(Struct, frozen=True, kw_only=True):
    """A summary and its bookmark."""

    folded_by: str
    data: dict[str, Any] | None = None
    offset: int = 0
    """The end of the last line it covers."""
    fingerprint: str = ""
    """Fingerprint of the bytes before *offset*."""
    size_bytes: int = -1
    mtime_ns: int = -1
    """Size and mtime of a log that is covered completely; if unchanged, it is not read again."""


class SessionSummaryFile:
    """The summary of one session."""

    def __init__(self, root: Path, key: Key) -> None:
        self.key = key
        self._root = root
        self._path = place(root, key.name)
        self._name = f"{key.session}.summary"
        self._state: _State | None = None
        self._kept_to = 0

    def forget(self) -> None:
        """Discard the state in memory."""
        self._state = None
        self._kept_to = 0

    def take(self, entries: list[Entry], start: int, end: int) -> None:
        """Fold in entries just appended, from *start* to *end* of the log. Never raises."""
        if end <= start or _SDK not in sys.modules:
            self.forget()
            return
        try:
            state = self._state
            if state is None or state.offset != start:
                state = self._known(start)
            if state is None:
                return
            if state.offset == start:
                data = self._folded(state.data, entries)
                self._state = msgspec.structs.replace(state, data=data, offset=end)
            else:
                self._state, _ = self._read_on(state, self._path)
            # Writing the file on every append would cost more than it saves.
            if self._state.offset - self._kept_to >= _OFTEN:
                log = look_at(self._path)
                is_whole = log is not None and log.size_bytes == self._state.offset
                self._keep(self._state, self._path, log if is_whole else None)
        except (TurnlogError, OSError):
            self.forget()

    def of(self, found: FoundLog) -> dict[str, Any]:
        """Return the up-to-date summary of a log, and cache it."""
        state = self._stored()
        is_same = (state.size_bytes, state.mtime_ns) == (found.size_bytes, found.mtime_ns)
        if is_same and state.data is not None:
            return state.data
        if not self._is_of(state, found.path):
            state = self._nothing()
        state, rest = self._read_on(state, found.path)
        is_whole = not rest and (found.is_packed or state.offset == found.size_bytes)
        with contextlib.suppress(TurnlogError, OSError):  # The next call folds again.
            self._keep(state, found.path, found if is_whole else None)
        # A line without a newline counts, but is not cached.
        return self._folded(state.data, rest)

    def _read_on(self, state: _State, path: Path) -> tuple[_State, list[Entry]]:
        """Fold in the rest of the log; also return the entry after the last newline."""
        data = state.data
        with Entries(path, state.offset) as entries:
            for batch in entries.batches():
                data = self._folded(data, batch)
            rest, offset = entries.rest(), entries.offset
        return msgspec.structs.replace(state, data=data, offset=offset), rest

    def remove(self) -> None:
        """Delete the cached summary."""
        self.forget()
        with (
            contextlib.suppress(OSError),
            Folder.beneath(self._root, (DIRECTORY, self.key.project), make=False) as folder,
        ):
            folder.remove(self._name)

    def _known(self, start: int) -> _State | None:
        """Return a state that covers *start* bytes or slightly fewer, or None."""
        state = self._stored() if start else self._nothing()
        if not self._is_of(state, self._path):
            state = self._nothing()
        self._kept_to = state.offset
        return state if 0 <= start - state.offset <= _NEARLY else None

    def _nothing(self) -> _State:
        return _State(folded_by=_fold_and_version()[1])

    def _stored(self) -> _State:
        """Return the cached state; an empty one if it is unusable."""
        nothing = self._nothing()
        path = self._root / DIRECTORY / self.key.project / self._name
        kept = read_file(path, follow=False)
        if isinstance(kept, Unreadable):
            return nothing
        digest, _, body = kept.partition(b"\n")
        if digest != _digest(body):
            return nothing
        try:
            state = msgspec.convert(loads(body), _State)
        except (ValueError, RecursionError):
            return nothing
        return state if state.folded_by == nothing.folded_by else nothing

    def _is_of(self, state: _State, path: Path) -> bool:
        """Return True if the log starts with the bytes that *state* covers."""
        if state.offset == 0:
            return state.data is None
        return bool(state.fingerprint) and _fingerprint(path, state.offset) == state.fingerprint

    def _keep(self, state: _State, path: Path, whole: FoundLog | None) -> None:
        """Cache *state*; *whole* is the log if the state covers all of it."""
        state = msgspec.structs.replace(
            state,
            fingerprint=_fingerprint(path, state.offset),
            size_bytes=whole.size_bytes if whole else -1,
            mtime_ns=whole.mtime_ns if whole else -1,
        )
        body = encode(msgspec.structs.asdict(state))
        with (
            Folder.beneath(self._root, (DIRECTORY, self.key.project)) as folder,
            folder.replacing(self._name, overwrite=True) as (fd, _),
            os.fdopen(fd, "wb") as file,
        ):
            file.write(_digest(body) + b"\n" + body)
        self._kept_to = state.offset

    def _folded(self, data: dict[str, Any] | None, entries: list[Entry]) -> dict[str, Any]:
        fold, _ = _fold_and_version()
        said = self.key.as_dict()
        before = None if data is None else {**_AS_SUMMARY, **said, "data": data}
        try:
            folded = fold(before, said, entries)
        except Exception:  # noqa: BLE001 - The SDK's fold may raise anything: skip that entry.
            if len(entries) == 1:
                return data or {}
            for entry in entries:
                data = self._folded(data, [entry])
            return data or {}
        found: dict[str, Any] = folded["data"]
        return found


_AS_SUMMARY: Final = {"mtime": 0}


def _fold_and_version() -> tuple[Fold, str]:
    try:
        from claude_agent_sdk import (  # noqa: PLC0415 - Slow to import.
            __version__,
            fold_session_summary,
        )
    except ImportError:
        raise UsageError(
            "summaries need claude-agent-sdk, which is not installed",
            hint="pip install claude-agent-sdk",
        ) from None
    return fold_session_summary, __version__


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()


def _fingerprint(path: Path, size_bytes: int) -> str:
    """Return the fingerprint of the first bytes of a log; empty if it is shorter."""
    source = open_source(path)
    try:
        if not isinstance(source, Seekable) or source.size_bytes < size_bytes:
            return ""
        return fingerprint_by(source.read_at, size_bytes).hex()
    finally:
        source.close()
