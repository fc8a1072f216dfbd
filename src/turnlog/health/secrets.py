"""`turnlog secrets scan`: find the secrets in the logs, and where each of them occurs.

Every log is read once in pieces: all records, tool results, prompts, kept copies of deleted logs,
and lines that were moved to blobs. A secret is identified by its digest; neither it nor anything
from which it could be recovered is stored, returned or written.

Exports without masking are listed as places of a secret. The exporter notes them in turnlog's
journal: ``journal.note(EXPORTED, session_id, **export_fact(path, secrets))``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from turnlog.catalog.sessions import list_sessions
from turnlog.errors import TurnlogError
from turnlog.formats import (
    Home,
    LogFile,
    Problem,
    find_everywhere,
    history_log,
    journal_log,
    turnlog_home,
)
from turnlog.formats.projects import expand_path, is_within
from turnlog.records.codec import Envelope, decode_envelope
from turnlog.records.dates import instant
from turnlog.records.record_types import Marker
from turnlog.redact import NO_RULES, Rules, Secret, find_secrets
from turnlog.sessions.owners import anonymous_id
from turnlog.storage.atomic_files import size_at
from turnlog.storage.blobs import STUB, whole_line
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.sources import LINE_CAP, BrokenArchive, Splitter, open_source

EXPORTED: Final = "exported"
"""The journal's event for a session that was exported with its secrets."""
ID_DIGITS: Final = 16
MOST_SECRETS: Final = 10_000
"""Further secrets are only counted, so that memory is bounded."""


class ExportReached(Struct, frozen=True, kw_only=True, order=True):
    """An export without masking that contains a secret."""

    path: str
    at: datetime | None = None


class SecretRow(Struct, kw_only=True):
    """One secret, and where it occurs."""

    kind: str
    masked: str
    id: str | None
    """The start of its SHA-256, for the allow list; null if the secret could be guessed from it."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    times: int = 0
    sessions: list[str] = field(default_factory=list)
    projects: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    """Its logs, for secrets outside of sessions."""
    exports: list[ExportReached] = field(default_factory=list)


class SecretsDocument(Struct, kw_only=True):
    """The result of `turnlog secrets scan --json`."""

    secrets: list[SecretRow]
    next: int | None = None
    """Null: all are listed."""
    logs: int = 0
    size_bytes: int = 0
    """The uncompressed bytes read."""
    uncounted: int = 0
    """Occurrences of secrets beyond the limit."""
    problems: list[str] = field(default_factory=list)
    """What could not be read."""


def scan_secrets(
    homes: Iterable[Home],
    *,
    rules: Rules = NO_RULES,
    project: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    progress: Callable[[int, int], None] | None = None,
    problems: list[Problem] | None = None,
) -> SecretsDocument:
    """Return the secrets in all logs of *homes*, the most recently seen first.

    *project* selects sessions in that directory or below, *since* and *until* a range of records.
    *progress* is called with the bytes read and the total.
    """
    homes = tuple(homes)
    problems = [] if problems is None else problems
    rows = list_sessions(homes, archived=None, problems=problems).sessions
    scan = _Scan(rules, {row.id: row.project for row in rows}, project, since, until)
    places = list(_places(homes, problems))
    sizes = [size_at(path) for path, _ in places]
    done, total = 0, sum(sizes)
    for (path, log), size_bytes in zip(places, sizes, strict=True):
        if scan.wants(path, log):
            try:
                scan.read(path, log)
            except (TurnlogError, OSError) as error:
                problems.append(Problem(path, str(error)))
        done += size_bytes
        if progress is not None:
            progress(done, total)
    return scan.document(problems)


def export_fact(path: str | os.PathLike[str], secrets: Iterable[Secret]) -> dict[str, Any]:
    """Return the fields of the journal's event for an export that contains *secrets*."""
    digests = sorted({secret.digest[: 2 * ID_DIGITS] for secret in secrets})
    return {"path": os.path.abspath(path), "secrets": digests}


class _Known(Struct):
    """One secret while logs are read."""

    row: SecretRow
    sessions: set[str] = field(default_factory=set)
    projects: set[str] = field(default_factory=set)
    logs: set[str] = field(default_factory=set)


class _Scan:
    def __init__(
        self,
        rules: Rules,
        projects: dict[str, str | None],
        project: str | None,
        since: datetime | None,
        until: datetime | None,
    ) -> None:
        self._rules = rules
        self._projects = projects
        self._project = None if project is None else expand_path(project)
        self._since, self._until = since, until
        self._known: dict[str, _Known] = {}
        self._document = SecretsDocument(secrets=[])

    def wants(self, path: Path, log: LogFile | None) -> bool:
        """Return whether a log may match the filters, without reading it."""
        if self._since is not None:
            try:
                if os.stat(path).st_mtime < self._since.timestamp():
                    return False
            except OSError:
                return True  # Reading it will report the error.
        if self._project is None or log is None or log.session_id not in self._projects:
            return True
        return is_within(self._projects[log.session_id], self._project)

    def read(self, path: Path, log: LogFile | None) -> None:
        """Read one log in pieces."""
        self._document.logs += 1
        splitter = Splitter(cap=LINE_CAP)
        source = open_source(path)
        try:
            while chunk := source.read(splitter.chunk_bytes):
                self._document.size_bytes += len(chunk)
                first, block = splitter.feed_block(chunk)
                if isinstance(first, bytes):
                    self._search(first, path, log)
                elif first is not None:
                    self._report(path, f"a line of {first.length:,} bytes is too long to read")
                self._search(block, path, log)
            if not splitter.pending_too_long:
                self._search(splitter.pending, path, log)
        except BrokenArchive as error:
            self._report(path, str(error))
        finally:
            source.close()

    def document(self, problems: Iterable[Problem]) -> SecretsDocument:
        document = self._document
        exports = _exports()
        for digest, known in self._known.items():
            row = known.row
            row.sessions, row.projects = sorted(known.sessions), sorted(known.projects)
            row.logs = sorted(known.logs)
            row.exports = sorted(exports.get(digest[: 2 * ID_DIGITS], ()))
            document.secrets.append(row)
        document.secrets.sort(key=lambda row: (row.kind, row.masked))
        document.secrets.sort(key=_last_seen, reverse=True)
        document.problems += [f"{problem.path}: {problem.reason}" for problem in problems]
        return document

    def _search(self, block: bytes, path: Path, log: LogFile | None) -> None:
        """Add the secrets in *block*, which holds whole lines."""
        begin = end = -1
        envelope = Envelope()
        for secret in find_secrets(block, self._rules):
            if secret.start >= end:
                begin = block.rfind(b"\n", 0, secret.start) + 1
                end = block.find(b"\n", secret.start)
                end = len(block) if end < 0 else end
                decoded = decode_envelope(block[begin:end])
                envelope = decoded if isinstance(decoded, Envelope) else Envelope()
            self._add(secret, envelope, path, log)
        if STUB in block:
            for line in block.split(b"\n"):
                content = whole_line(path, line) if line.startswith(STUB) else line
                if isinstance(content, bytes) and content is not line:
                    self._search(content, path, log)

    def _add(self, secret: Secret, envelope: Envelope, path: Path, log: LogFile | None) -> None:
        at = instant(envelope.timestamp)
        if self._since is not None and (at is None or at < self._since):
            return
        if self._until is not None and (at is None or at >= self._until):
            return
        session = (log.session_id if log else None) or envelope.session_id
        if session is None and log is not None and log.kind == "day":
            session = anonymous_id(log)
        project = self._projects.get(session or "") or envelope.cwd
        if self._project is not None and not is_within(project, self._project):
            return
        known = self._known.get(secret.digest)
        if known is None:
            if len(self._known) >= MOST_SECRETS:
                self._document.uncounted += 1
                return
            id_ = None if secret.guessable else secret.digest[:ID_DIGITS]
            row = SecretRow(kind=secret.kind, masked=_short(secret.masked), id=id_)
            known = self._known[secret.digest] = _Known(row)
        row = known.row
        row.times += 1
        if at is not None:
            row.first_at = min(at, row.first_at or at)
            row.last_at = max(at, row.last_at or at)
        if session is not None:
            known.sessions.add(session)
        else:
            known.logs.add(os.fspath(path))
        if project is not None:
            known.projects.add(project)

    def _report(self, path: Path, reason: str) -> None:
        self._document.problems.append(f"{os.fspath(path)}: {reason}")


def _places(
    homes: Iterable[Home], problems: list[Problem]
) -> Iterator[tuple[Path, LogFile | None]]:
    """Yield every log, and the prompt histories, which belong to no session."""
    homes = tuple(homes)
    for log in find_everywhere(homes, problems=problems):
        yield log.path, log
    for home in homes:
        history = history_log(home)
        if history is not None:
            yield history, None


def _exports() -> dict[str, set[ExportReached]]:
    """Return the exports of each secret, by the start of its digest."""
    exports: dict[str, set[ExportReached]] = {}
    try:
        for item in read_log(journal_log(turnlog_home())):
            record = item.record if isinstance(item, Placed) else None
            if not isinstance(record, Marker) or record.event != EXPORTED:
                continue
            path, digests = record.fields.get("path"), record.fields.get("secrets")
            if isinstance(path, str) and isinstance(digests, list):
                reached = ExportReached(path=path, at=record.at)
                for digest in digests:
                    exports.setdefault(str(digest), set()).add(reached)
    except (TurnlogError, OSError):
        pass  # There is no journal, or only a part of it can be read.
    return exports


def _short(masked: str) -> str:
    """Remove what follows the mask of a private key."""
    mask, end, _ = masked.partition("]")
    return mask + end


def _last_seen(row: SecretRow) -> float:
    return row.last_at.timestamp() if row.last_at is not None else float("-inf")
