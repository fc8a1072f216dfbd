"""Plans: what was agreed before it was done, and which sessions it belongs to.

A home keeps plans as ``plans/NAME.md``. No record says for certain whose a plan is: a session's
slug may equal the name, an attachment may name the file, a record may carry the very text. So each
link says how it was found and is a hint; a plan may belong to many sessions, and a session to many
plans. Earlier versions are known where records carry a plan's text or the file history kept the
file; equal texts are one version, by sha256. A plan whose file is gone is still listed if its text
is known. All reading is tolerant; nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from turnlog.errors import TurnlogError
from turnlog.formats import Home, Problem, find_everywhere, plans
from turnlog.sessions.file_history import SessionFiles
from turnlog.sessions.plan_traces import PlanTrace, traces_of
from turnlog.sessions.restore import content_of
from turnlog.sessions.session import Session
from turnlog.storage.atomic_files import Unreadable, changed_at, read_file, text_of

LIMIT: Final = 4 * 1024 * 1024
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Hint(StrEnum):
    """Why a plan is taken to belong to a session."""

    PATH = "path"  # A record names the plan's file.
    CONTENT = "content"  # A record carries the plan's text.
    SLUG = "slug"  # The session's slug is the plan's name; slugs repeat.


class Origin(StrEnum):
    """Where a version's text was found."""

    FILE = "file"
    RECORD = "record"
    FILE_HISTORY = "file-history"


class PlanLink(Struct, frozen=True, kw_only=True):
    """A session that a plan seems to belong to."""

    session_id: str
    hint: Hint


class PlanVersion(Struct, frozen=True, kw_only=True):
    """One text that a plan had. *at* is when it was seen or kept."""

    sha256: str
    title: str | None
    text: str
    at: datetime | None
    origin: Origin
    session_id: str | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """A plan: its file, if there still is one, its versions, oldest first, and its sessions."""

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
        """The plan as its file has it; if that is gone, as it was known last."""
        here = [each for each in self.versions if each.origin is Origin.FILE]
        found = here or self.versions
        return found[-1].text if found else None


class _Gathered(Struct):
    """A plan while it is put together."""

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
        if known is None or not (newer or known.origin is Origin.FILE):
            self.versions[version.sha256] = version

    def link(self, session_id: str | None, hint: Hint) -> None:
        known = self.links.get(session_id or "")
        if session_id and (known is None or list(Hint).index(hint) < list(Hint).index(known)):
            self.links[session_id] = hint

    def plan(self) -> Plan:
        versions = tuple(sorted(self.versions.values(), key=lambda each: each.at or _LONG_AGO))
        titles = [each.title for each in versions if each.origin is Origin.FILE] or [
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
    """Give the first ``# `` heading of *text*; what stands in a code block is none."""
    fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif line.startswith("# ") and not fenced and line[2:].strip():
            return line[2:].strip()
    return None


def find_plans(homes: Iterable[Home], *, problems: list[Problem] | None = None) -> tuple[Plan, ...]:
    """Find the plans of *homes*, the one that changed last first."""
    homes = tuple(homes)
    problems = [] if problems is None else problems
    gathered: dict[str, _Gathered] = {}
    for home in homes:
        for path in plans(home, problems=problems):
            found = _from_file(path, home)
            # Two homes may each have a plan of one name; the second goes by its path.
            gathered[str(path) if path.stem in gathered else path.stem] = found
    traces: list[PlanTrace] = []
    for log in find_everywhere(homes, problems=problems):
        try:
            traces += traces_of(log)
        except (TurnlogError, OSError) as error:
            problems.append(Problem(log.path, str(error)))
    _take(gathered, traces)
    found_plans = (each.plan() for each in gathered.values())
    return tuple(sorted(found_plans, key=lambda plan: plan.changed_at or _LONG_AGO, reverse=True))


def with_kept_versions(plan: Plan, homes: Iterable[Home]) -> Plan:
    """Add the versions of the plan's file that the file history of its sessions kept."""
    homes = tuple(homes)
    gathered = _Gathered(plan.name, versions={each.sha256: each for each in plan.versions})
    for link in plan.sessions if plan.name is not None else ():
        try:
            session = Session.find(homes, link.session_id)
            files = SessionFiles.of(session)
        except (TurnlogError, OSError):
            continue  # The link was a hint; a session that cannot be read keeps no versions.
        for version in _kept_versions(files, f"{plan.name}.md"):
            gathered.add(replace(version, session_id=session.id))
    return replace(plan, versions=gathered.plan().versions)


def _kept_versions(files: SessionFiles, name: str) -> Iterator[PlanVersion]:
    for file in files.files.values():
        if not file.path.replace("\\", "/").endswith(f"/plans/{name}"):
            continue
        for version in file.versions:
            data = content_of(version, limit=LIMIT)
            if isinstance(data, bytes) and data:
                yield _version(data, version.kept_at, Origin.FILE_HISTORY, None)


def _from_file(path: Path, home: Home) -> _Gathered:
    # A name that is not UTF-8 is told as well as it can be; it is read here and nowhere else.
    where = text_of(os.fspath(home))
    found = _Gathered(text_of(path.stem), home=where, path=text_of(str(path)))
    data = read_file(path, limit=LIMIT)
    if isinstance(data, Unreadable):
        found.problem = data.reason
        return found
    found.changed_at = changed_at(path)
    found.add(_version(data, found.changed_at, Origin.FILE, None))
    return found


def _version(
    data: bytes, at: datetime | None, origin: Origin, session_id: str | None
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


def _take(gathered: dict[str, _Gathered], traces: list[PlanTrace]) -> None:
    """Give each trace to the plan it speaks of."""
    names: dict[str, list[_Gathered]] = {}
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
        version = _version(trace.text.encode(), trace.at, Origin.RECORD, trace.session_id)
        name = trace.file_name or trace.slug
        owner = texts.get(version.sha256) or next(iter(names.get(name or "", ())), None)
        if owner is None:
            # Its file is gone, or never was here: the text is all there is of this plan.
            key = name or version.title or version.sha256
            owner = gathered.setdefault(f"(gone) {key}", _Gathered(name))
        texts[version.sha256] = owner
        owner.add(version)
        owner.link(trace.session_id, Hint.CONTENT)
