"""What a session's records say about files: snapshots of kept versions, and edits.

Claude Code takes a snapshot with every prompt: the version of each tracked file when the prompt was
sent. A file that is edited for the first time is added to the current turn's snapshot, with its
content before the edit, by another snapshot record or, in newer versions, a delta. Edits come from
the results of calls that write files.

Only records are read, and none is trusted: a value of another shape is counted, and a path is only
text until it is made safe.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
from datetime import datetime
from types import ModuleType
from typing import Any, Final

from msgspec import Struct, field

from turnlog.records.dates import instant
from turnlog.records.record import (
    Call,
    FileHistory,
    FileHistoryDelta,
    FileHistorySnapshot,
    Linked,
    Record,
    Result,
    Spoken,
    User,
)
from turnlog.storage.atomic_files import text_of

# The argument of each call that names the file it writes.
WRITERS: Final = {
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "Write": "file_path",
    "NotebookEdit": "notebook_path",
}
OUTSIDE: Final = "outside-the-project"
_WINDOWS: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_@-][A-Za-z0-9_.@-]{0,254}")
_NUMBER: Final = re.compile(r"(.+)@v([0-9]{1,9})")


class Kept(Struct, frozen=True, kw_only=True):
    """What a record says about one kept version. Without *name* the file did not exist then."""

    name: str | None = None
    number: int | None = None
    kept_at: datetime | None = None
    problem: str | None = None

    @property
    def is_absent(self) -> bool:
        return self.name is None and self.problem is None


class Snapshot(Struct, kw_only=True):
    """The version of each file when a message was sent; paths as in the log."""

    message_id: str
    taken_at: datetime | None = None
    files: dict[str, Kept] = field(default_factory=dict)


class Edit(Struct, frozen=True, kw_only=True):
    """A call that wrote a file, and what it changed if the log says so."""

    tool: str
    uuid: str | None
    agent_id: str | None
    at: datetime | None
    added: int | None = None
    removed: int | None = None
    patch: str = ""


class FileTraces(Struct):
    """What the logs of one session say about files, collected record by record."""

    project: str | None = None
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    edits: list[tuple[str, Edit]] = field(default_factory=list)
    parents: dict[str, str | None] = field(default_factory=dict)
    times: dict[str, str | int | float | None] = field(default_factory=dict)
    odd: int = 0
    """Snapshot records of an unexpected shape."""
    _asked: dict[str, tuple[str, str]] = field(default_factory=dict)

    def see(self, record: Record, agent_id: str | None = None) -> None:
        """Collect what *record* says about files."""
        match record:
            case FileHistorySnapshot():
                self._see_snapshot(record)
            case FileHistoryDelta():
                self._see_delta(record)
            case FileHistory(path=str() as path):
                self._edited(path, record.operation or "edit", record, agent_id, None)
            case Call(call_id=str() as call_id, name=str() as name):
                self._see_call(call_id, name, record.input)
            case Result(call_id=str() as call_id):
                self._see_result(call_id, record, agent_id, is_error=bool(record.is_error))
            case Spoken():
                for call in record.calls:
                    self._see_call(call.id, call.name, call.input)
                for result in record.results:
                    failed = bool(result.is_error)
                    self._see_result(result.tool_use_id, record, agent_id, is_error=failed)
        if isinstance(record, Linked):
            if self.project is None and agent_id is None:
                self.project = text_of(record.cwd)
            if record.uuid is not None:
                self.parents[record.uuid] = record.parent_uuid or record.logical_parent_uuid
                self.times[record.uuid] = record.timestamp

    def _see_snapshot(self, record: FileHistorySnapshot) -> None:
        value = record.snapshot if isinstance(record.snapshot, dict) else {}
        message_id = text_of(value.get("messageId")) or text_of(record.message_id)
        files = value.get("trackedFileBackups")
        if message_id is None or not isinstance(files, dict):
            self.odd += 1
            return
        taken_at = instant(value.get("timestamp"))
        found = self.snapshots.setdefault(
            message_id, Snapshot(message_id=message_id, taken_at=taken_at)
        )
        found.files.update((text_of(path) or "", _kept(kept)) for path, kept in files.items())

    def _see_delta(self, record: FileHistoryDelta) -> None:
        message_id = text_of(record.snapshot_message_id) or text_of(record.message_id)
        path = text_of(record.tracking_path)
        if message_id is None or path is None:
            self.odd += 1
            return
        found = self.snapshots.setdefault(
            message_id, Snapshot(message_id=message_id, taken_at=record.at)
        )
        # What is in the snapshot is from when the message was sent, and stays.
        found.files.setdefault(path, _kept(record.backup))

    def _see_call(self, call_id: str, name: str, arguments: Any) -> None:
        key = WRITERS.get(name)
        path = text_of(arguments.get(key)) if key and isinstance(arguments, dict) else None
        if path is not None:
            self._asked[call_id] = (name, path)

    def _see_result(
        self, call_id: str, record: Spoken, agent_id: str | None, *, is_error: bool
    ) -> None:
        call = self._asked.pop(call_id, None)
        result = record.tool_use_result if isinstance(record, User) else None
        result = result if isinstance(result, dict) else {}
        path = text_of(result.get("filePath"))
        if is_error or (call is None and (path is None or "structuredPatch" not in result)):
            return
        tool, wanted = call or (text_of(result.get("type")) or "edit", "")
        self._edited(path or wanted, tool, record, agent_id, result)

    def _edited(
        self, path: str, tool: str, record: Linked, agent_id: str | None, result: Any
    ) -> None:
        hunks = result.get("structuredPatch") if result else None
        patch = "".join(map(_hunk, hunks)) if isinstance(hunks, list) else ""
        lines = patch.splitlines()
        content = text_of(result.get("content")) if result else None
        if not lines and content is not None:  # A new file has no patch: all of it was added.
            added: int | None = len(content.splitlines())
            removed: int | None = 0
        else:
            known = isinstance(hunks, list)
            added = sum(line.startswith("+") for line in lines) if known else None
            removed = sum(line.startswith("-") for line in lines) if known else None
        self.edits.append(
            (
                text_of(path) or "",
                Edit(
                    tool=text_of(tool) or "edit",
                    uuid=text_of(record.uuid),
                    agent_id=agent_id,
                    at=record.at,
                    added=added,
                    removed=removed,
                    patch=patch,
                ),
            )
        )


def number_of(name: str) -> tuple[str, int] | None:
    """Return N of HASH@vN, the name of a kept version; None for other names."""
    found = _NUMBER.fullmatch(name)
    return (found[1], int(found[2])) if found else None


def whole_path(path: str, project: str | None) -> str:
    """Return *path* as it was on the machine that wrote the log: absolute if possible."""
    flavour = _flavour(path, project)
    found: str = flavour.normpath(flavour.join(project or "", path))
    return found


def shown_path(path: str, project: str | None) -> str:
    """Return an absolute path for display: relative to the project, if it is inside."""
    flavour = _flavour(path, project)
    inside = project is not None and path.startswith(project.rstrip("\\/") + str(flavour.sep))
    return path[len((project or "").rstrip("\\/")) + 1 :] if inside else path


def safe_parts(path: str, project: str | None) -> tuple[str, ...] | None:
    """Return the relative path under which *path* may be restored anywhere; None if unsafe.

    Files outside the project go under a separate directory. No result can climb out.
    """
    flavour = _flavour(path, project)
    shown = shown_path(path, project)
    drive, rest = flavour.splitdrive(shown)
    split = re.split(r"[\\/]", rest) if flavour is ntpath else rest.split("/")
    parts = [part for part in split if part not in {"", ".", ".."}]
    if shown == path and (flavour.isabs(path) or ".." in split or project is not None):
        parts = [OUTSIDE, *re.findall(r"\w+", drive), *parts] if parts else []
    if not parts or any(_is_unsafe(part) for part in parts):
        return None
    return tuple(parts)


def _is_unsafe(part: str) -> bool:
    separators = {os.sep, os.altsep, "\0"} - {None}
    # On Windows, a colon names a drive or a stream of another file.
    return any(mark in part for mark in separators if mark) or (os.name == "nt" and ":" in part)


def _flavour(path: str, project: str | None) -> ModuleType:
    windows = _WINDOWS.match(path) or (project is not None and _WINDOWS.match(project))
    return ntpath if windows else posixpath


def _kept(value: Any) -> Kept:
    if not isinstance(value, dict):
        return Kept(problem="its record has another shape")
    name, number = value.get("backupFileName"), value.get("version")
    number = number if isinstance(number, int) and not isinstance(number, bool) else None
    kept_at = instant(value.get("backupTime"))
    if name is not None and not (isinstance(name, str) and _PLAIN_NAME.fullmatch(name)):
        return Kept(number=number, kept_at=kept_at, problem="its record names no kept version")
    return Kept(name=name, number=number, kept_at=kept_at)


def _hunk(hunk: Any) -> str:
    """Return a hunk of a result in unified diff format."""
    lines = hunk.get("lines") if isinstance(hunk, dict) else None
    if not isinstance(lines, list):
        return ""
    values = [hunk.get(key) for key in ("oldStart", "oldLines", "newStart", "newLines")]
    numbers = [value if isinstance(value, int) else 0 for value in values]
    head = "@@ -{},{} +{},{} @@\n".format(*numbers)
    texts = (text for text in map(text_of, lines) if text is not None)
    return head + "".join(f"{text}\n" for text in texts)
