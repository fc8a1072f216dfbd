"""Plans of a home, and the sessions they belong to.

A home keeps plans as ``plans/NAME.md``. No record names the owner of a plan for certain: a
session's slug may equal the name, an attachment may name the file, a record may contain the text.
So each link is a hint and says how it was found. Earlier versions are known where records contain a
plan's text or the file history kept the file; equal texts are one version, by SHA-256. A plan whose
file is gone is listed if its text is known. Nothing is written.

Logs are searched for a few keys, and only matching lines are decoded, so a gigabyte is scanned at
the speed of a byte search. Damaged lines are ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from turnlog.errors import TurnlogError
from turnlog.formats import Home, Problem, find_everywhere, plans
from turnlog.formats.home_files import text_patterns
from turnlog.records.codec import decode
from turnlog.records.record import Attachment, Linked, User
from turnlog.sessions.session import Session
from turnlog.sessions.side_files.file_history import SessionFiles, content_of
from turnlog.storage.atomic_files import Unreadable, changed_at, read_file, text_of
from turnlog.storage.sources import BrokenArchive, Splitter, open_source

_KEYS: Final = (b'"planContent"', b'"planFilePath"', b'"plan"')
_SLUG: Final = re.compile(rb'"slug"\s*:\s*"([^"\\]*)"')


class PlanTrace(Struct, frozen=True, kw_only=True):
    """What one record says about a plan: its session's slug, the plan's file, its text."""

    session_id: str | None
    at: datetime | None
    slug: str | None = None
    file_name: str | None = None
    """The file's name without directory and suffix, as plans are named."""
    text: str | None = None


def traces_of(path: Path, session_id: str | None) -> Iterator[PlanTrace]:
    """Yield what the records of a session in the log at *path* say about plans."""
    seen: set[bytes] = set()
    for line in _lines(path):
        slug = _SLUG.search(line)
        is_new = slug is not None and slug[1] not in seen
        if not is_new and not any(key in line for key in _KEYS):
            continue
        if slug is not None:
            seen.add(slug[1])
        record = decode(line)
        trace = _trace(record, session_id) if isinstance(record, Linked) else None
        if trace is not None:
            yield trace


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a log that contain one of the keys."""
    source = open_source(path)
    splitter = Splitter()
    try:
        while chunk := source.read(splitter.chunk_bytes):
            first, block = splitter.feed_block(chunk)
            if isinstance(first, bytes):
                yield first
            if _is_of_interest(block):
                yield from filter(_is_of_interest, block.split(b"\n"))
    except BrokenArchive:
        pass  # What could be decompressed was read; `turnlog check` reports the rest.
    finally:
        source.close()
    if splitter.pending_length and not splitter.pending_too_long:
        yield splitter.pending


def _is_of_interest(data: bytes) -> bool:
    return b'"slug"' in data or any(key in data for key in _KEYS)


def _trace(record: Linked, session_id: str | None) -> PlanTrace | None:
    file_path: Any = None
    text: str | None = None
    if isinstance(record, Attachment) and isinstance(record.attachment, dict):
        file_path = record.attachment.get("planFilePath")
        text = text_of(record.attachment.get("planContent"))
    elif isinstance(record, User):
        result = record.tool_use_result if isinstance(record.tool_use_result, dict) else {}
        text = text_of(record.plan_content) or text_of(result.get("plan"))
        # Many results have a file path; it is a plan's only if there is a plan.
        file_path = result.get("filePath") if "plan" in result else None
    slug = text_of(record.slug)
    name = _file_name(file_path)
    if slug is None and name is None and not text:
        return None
    return PlanTrace(
        session_id=session_id or text_of(record.session_id),
        at=record.at,
        slug=slug,
        file_name=name,
        text=text or None,
    )


def _file_name(path: Any) -> str | None:
    # The path may come from another machine, with other separators.
    text = text_of(path)
    return re.split(r"[\\/]", text)[-1].removesuffix(".md") or None if text else None


LIMIT: Final = 4 * 1024 * 1024
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Hint(StrEnum):
    """Why a plan is linked to a session."""

    PATH = "path"  # A record names the plan's file.
    CONTENT = "content"  # A record contains the plan's text.
    SLUG = "slug"  # The session's slug is the plan's name; slugs repeat.


class PlanSource(StrEnum):
    """Where a version's text was found."""

    FILE = "file"
    RECORD = "record"
    FILE_HISTORY = "file-history"


class PlanLink(Struct, frozen=True, kw_only=True):
    """A session that a plan seems to belong to."""

    session_id: str
    hint: Hint


class PlanVersion(Struct, frozen=True, kw_only=True):
    """One text of a plan. *at* is when it was seen or kept."""

    sha256: str
    title: str | None
    text: str
    at: datetime | None
    origin: PlanSource
    session_id: str | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """A plan: its file if it exists, its versions, oldest first, and its sessions."""

    name: str | None
    title: str | None
    home: str | None
    path: str | None
    changed_at: datetime | None = None
    versions: tuple[PlanVersion, ...] = ()
    sessions: tuple[PlanLink, ...] = ()
    problem: str | None = None

    @property
    def text(self) -> str | None:
        """The plan's text in its file; if that is gone, the last known one."""
        here = [each for each in self.versions if each.origin is PlanSource.FILE]
        found = here or self.versions
        return found[-1].text if found else None


class _PlanBuilder(Struct):
    """A plan under construction."""

    name: str | None
    home: str | None = None
    path: str | None = None
    changed_at: datetime | None = None
    problem: str | None = None
    versions: dict[str, PlanVersion] = field(default_factory=dict)
    links: dict[str, Hint] = field(default_factory=dict)

    def add(self, version: PlanVersion) -> None:
        known = self.versions.get(version.sha256)
        # The file's own version stays; among the others the earliest mention is the true one.
        newer = known is not None and (known.at or _LONG_AGO) <= (version.at or _LONG_AGO)
        if known is None or not (newer or known.origin is PlanSource.FILE):
            self.versions[version.sha256] = version

    def link(self, session_id: str | None, hint: Hint) -> None:
        known = self.links.get(session_id or "")
        if session_id and (known is None or list(Hint).index(hint) < list(Hint).index(known)):
            self.links[session_id] = hint

    def plan(self) -> Plan:
        versions = tuple(sorted(self.versions.values(), key=lambda each: each.at or _LONG_AGO))
        titles = [each.title for each in versions if each.origin is PlanSource.FILE] or [
            each.title for each in versions
        ]
        return Plan(
            name=self.name,
            title=titles[-1] if titles else None,
            home=self.home,
            path=self.path,
            changed_at=self.changed_at or (versions[-1].at if versions else None),
            versions=versions,
            sessions=tuple(
                PlanLink(session_id=each, hint=hint) for each, hint in sorted(self.links.items())
            ),
            problem=self.problem,
        )


def title_of(text: str) -> str | None:
    """Return the first ``# `` heading of *text*, ignoring code blocks."""
    fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif line.startswith("# ") and not fenced and line[2:].strip():
            return line[2:].strip()
    return None


def find_plans(homes: Iterable[Home], *, problems: list[Problem] | None = None) -> tuple[Plan, ...]:
    """Return the plans of *homes*, most recently changed first."""
    homes = tuple(homes)
    problems = [] if problems is None else problems
    gathered: dict[str, _PlanBuilder] = {}
    for home in homes:
        for path in plans(home, problems=problems):
            found = _from_file(path, home)
            # Two homes may each have a plan of one name; the second is keyed by its path.
            gathered[str(path) if path.stem in gathered else path.stem] = found
    traces: list[PlanTrace] = []
    for log in find_everywhere(homes, problems=problems):
        try:
            traces += traces_of(log.path, log.session_id)
        except (TurnlogError, OSError) as error:
            problems.append(Problem(log.path, str(error)))
    _take(gathered, traces)
    found_plans = (each.plan() for each in gathered.values())
    return tuple(sorted(found_plans, key=lambda plan: plan.changed_at or _LONG_AGO, reverse=True))


def with_kept_versions(plan: Plan, homes: Iterable[Home]) -> Plan:
    """Add the versions of the plan's file in the file history of its sessions."""
    homes = tuple(homes)
    gathered = _PlanBuilder(plan.name, versions={each.sha256: each for each in plan.versions})
    for link in plan.sessions if plan.name is not None else ():
        try:
            session = Session.find(homes, link.session_id)
            files = SessionFiles.of(session)
        except (TurnlogError, OSError):
            continue  # The link was a hint; an unreadable session has no versions.
        for version in _kept_versions(files, plan.name or ""):
            gathered.add(replace(version, session_id=session.id))
    return replace(plan, versions=gathered.plan().versions)


def _kept_versions(files: SessionFiles, name: str) -> Iterator[PlanVersion]:
    names = tuple("/" + pattern.replace("*", name) for pattern in text_patterns("plan"))
    for file in files.files.values():
        if not file.path.replace("\\", "/").endswith(names):
            continue
        for version in file.versions:
            data = content_of(version, limit=LIMIT)
            if isinstance(data, bytes) and data:
                yield _version(data, version.kept_at, PlanSource.FILE_HISTORY, None)


def _from_file(path: Path, home: Home) -> _PlanBuilder:
    # A name that is not UTF-8 is only displayed: replace what cannot be encoded.
    where = text_of(os.fspath(home))
    found = _PlanBuilder(text_of(path.stem), home=where, path=text_of(str(path)))
    data = read_file(path, limit=LIMIT)
    if isinstance(data, Unreadable):
        found.problem = data.reason
        return found
    found.changed_at = changed_at(path)
    found.add(_version(data, found.changed_at, PlanSource.FILE, None))
    return found


def _version(
    data: bytes, at: datetime | None, origin: PlanSource, session_id: str | None
) -> PlanVersion:
    text = data.decode("utf-8", "replace")
    return PlanVersion(
        sha256=sha256(data).hexdigest(),
        title=title_of(text),
        text=text,
        at=at,
        origin=origin,
        session_id=session_id,
    )


def _take(gathered: dict[str, _PlanBuilder], traces: list[PlanTrace]) -> None:
    """Add each trace to the plan it mentions."""
    names: dict[str, list[_PlanBuilder]] = {}
    for each in gathered.values():
        names.setdefault(each.name or "", []).append(each)
    texts = {digest: each for each in gathered.values() for digest in each.versions}
    for trace in traces:
        for plan in names.get(trace.file_name or "", ()) if trace.file_name else ():
            plan.link(trace.session_id, Hint.PATH)
        for plan in names.get(trace.slug or "", ()) if trace.slug else ():
            plan.link(trace.session_id, Hint.SLUG)
        if trace.text is None:
            continue
        version = _version(trace.text.encode(), trace.at, PlanSource.RECORD, trace.session_id)
        name = trace.file_name or trace.slug
        owner = texts.get(version.sha256) or next(iter(names.get(name or "", ())), None)
        if owner is None:
            # Its file is gone or never was here: the text is all there is of this plan.
            key = name or version.title or version.sha256
            owner = gathered.setdefault(f"(gone) {key}", _PlanBuilder(name))
        texts[version.sha256] = owner
        owner.add(version)
        owner.link(trace.session_id, Hint.CONTENT)
