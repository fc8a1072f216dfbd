"""The tool ``past_files``: files that were touched, by whom, and their kept versions."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from turnlog.errors import NotFound, UsageError
from turnlog.index.connection import Index
from turnlog.index.ids import AGENT, microseconds
from turnlog.mcp.desk import Desk, Known
from turnlog.mcp.files_read import Touched, named_file, read_files, touched_files
from turnlog.mcp.naming import FileName, file_glob
from turnlog.mcp.paging import Answer
from turnlog.mcp.pointing import sparse, told_at
from turnlog.mcp.tool import Limit, OneSession, Page, Project, Since, Tool, Until
from turnlog.query.filters import projects_in
from turnlog.query.patterns import FileAccess, file_access
from turnlog.sessions.side_files.file_changes import shown_path
from turnlog.sessions.side_files.file_history import TouchedFile, Version
from turnlog.sessions.side_files.file_versions import content_of
from turnlog.storage.atomic_files import Unreadable

_PIECE: Final = 1_900
_MESSAGES: Final = 3
_LARGEST_BYTES: Final = 4 * 1024 * 1024
_WHO: Final = f"""
SELECT s.session, {AGENT}, fp.path, sum(f.action = 'read'), sum(f.action = 'edit'),
       sum(f.action = 'write'), sum(f.action = 'search'), max(r.at)
FROM touches AS f JOIN paths AS fp ON fp.id = f.path JOIN records AS r ON r.id = f.record
JOIN sessions AS s ON s.id = r.session JOIN logs AS l ON l.id = r.id >> 40
WHERE {{where}} GROUP BY 1, 2, f.path
ORDER BY max(r.at) DESC NULLS LAST, s.session, fp.path LIMIT :most OFFSET :offset
"""  # noqa: S608 - Ours.


def past_files(
    desk: Desk,
    page: Page,
    *,
    path: FileName = None,
    session: OneSession = None,
    version: Annotated[
        int | None,
        Field(
            description="With session and path: return the file's content in this kept version.",
            ge=1,
            le=1_000_000,
        ),
    ] = None,
    project: Project = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
) -> Answer:
    """List files that were read, edited and written, most used first.

    With `path`: the sessions and subagents that touched it. With `session`: its files and how
    many versions of each were kept. With both: every edit, and the kept versions (from before
    each edit).
    """
    if version is not None and (session is None or path is None):
        raise UsageError("a version is of one session's file", hint="give session and path too")
    if session is not None and (since or until or project):
        raise UsageError("session says it all", hint="leave out project, since and until")
    with desk.index() as index:
        if session is not None:
            one = _Session(desk, index, desk.session(index, session))
            if path is None:
                return one.listed(page, limit)
            return (
                one.edits(path, page, limit) if version is None else one.held(path, version, page)
            )
        asked: dict[str, Any] = {
            "since": desk.moment(since),
            "until": desk.moment(until),
            "project": desk.project(project),
        }
        if path is not None:
            return _who(index, path, asked, page, limit)
        found = file_access(index, limit=limit, offset=page.place, **asked)
        return Answer(
            noun="files",
            rows=[
                _row(each, file=each.file, sessions=each.sessions, last_at=told_at(each.last_at))
                for each in found.files
            ],
            offset=page.place,
            next=found.next,
        )


def _row(counted: FileAccess | Touched, **more: Any) -> dict[str, Any]:
    """Tell how often a file was touched; noughts are left out."""
    names = ("reads", "edits", "writes", "searches")
    counts = {name: getattr(counted, name) or None for name in names}
    last_at = more.pop("last_at")
    return sparse(more | counts | {"last_at": last_at})


def _who(index: Index, path: str, asked: dict[str, Any], page: Page, limit: int) -> Answer:
    """List the sessions and agents that touched a file."""
    where = "(" + " OR ".join(f"fp.path GLOB :glob{n}" for n in range(3)) + ")"
    values: dict[str, Any] = {f"glob{n}": each for n, each in enumerate(file_glob(path))}
    for name, sign in (("since", ">="), ("until", "<")):
        if asked[name] is not None:
            where += f" AND r.at {sign} :{name}"
            values[name] = microseconds(asked[name])
    if asked["project"] is not None:
        where += f" AND s.project IN {projects_in(index.db, asked['project'])}"
    values |= {"most": limit + 1, "offset": page.place}
    rows = index.db.execute(_WHO.format(where=where), values).fetchall()
    return Answer(
        noun="touched_by",
        rows=[
            _row(
                Touched(*row[2:]),
                session=row[0],
                agent=row[1],
                file=row[2],
                last_at=told_at(row[7]),
            )
            for row in rows[:limit]
        ],
        offset=page.place,
        next=page.place + limit if len(rows) > limit else None,
    )


class _Session:
    """The files of one session."""

    def __init__(self, desk: Desk, index: Index, known: Known) -> None:
        self._desk, self._index, self._known = desk, index, known

    def listed(self, page: Page, limit: int) -> Answer:
        """List all of them, those that were changed most first."""
        touched = touched_files(self._desk, self._index, self._known)
        files, notes = read_files(self._desk, self._index, self._known)
        kept = {file.path: len(file.versions) for file in files.files.values() if file.versions}
        every = [touched.get(path) or Touched(path) for path in touched.keys() | kept.keys()]
        every.sort(key=lambda each: (-each.edits - each.writes, -(each.last_at or 0), each.path))
        end = page.place + limit
        return Answer(
            about={"session": self._known.id, "total": len(every)},
            noun="files",
            rows=[
                _row(
                    each,
                    file=shown_path(each.path, self._known.project),
                    versions=kept.get(each.path),
                    last_at=told_at(each.last_at),
                )
                for each in every[page.place : end]
            ],
            offset=page.place,
            next=end if end < len(every) else None,
            notes=notes,
        )

    def edits(self, path: str, page: Page, limit: int) -> Answer:
        """List the edits of a file, and its kept versions."""
        file, notes = self._file(path)
        end = page.place + limit
        return Answer(
            about={
                "session": self._known.id,
                "file": file.shown,
                "versions": [_version(each) for each in file.versions],
                "edits_in_all": len(file.edits),
            },
            noun="edits",
            rows=[
                sparse(
                    {
                        "record": edit.uuid,
                        "agent": edit.agent_id,
                        "at": told_at(edit.at),
                        "tool": edit.tool,
                        "added": edit.added,
                        "removed": edit.removed,
                    }
                )
                for edit in file.edits[page.place : end]
            ],
            offset=page.place,
            next=end if end < len(file.edits) else None,
            notes=notes,
            rest="turns(session, record) shows what an edit changed.",
        )

    def held(self, path: str, number: int, page: Page) -> Answer:
        """Give the content of a kept version, in pieces."""
        file, notes = self._file(path)
        found = [each for each in file.versions if each.number == number]
        if not found:
            known = ", ".join(str(each.number) for each in file.versions if each.number) or "none"
            raise NotFound(f"no version {number} of the file was kept", hint=f"there are: {known}")
        data = content_of(found[-1], limit=_LARGEST_BYTES)
        if isinstance(data, Unreadable):
            raise NotFound(
                f"version {number} cannot be read: {data.reason}", hint="ask for another"
            )
        text = self._desk.mask(data.decode("utf-8", "replace"))
        pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
        return Answer(
            about={"session": self._known.id, "file": file.shown} | _version(found[-1]),
            noun="pieces",
            rows=[{"text": each} for each in pieces[page.place :]],
            offset=page.place,
            notes=notes,
        )

    def _file(self, path: str) -> tuple[TouchedFile, list[str]]:
        files, notes = read_files(self._desk, self._index, self._known, path)
        return named_file(files, path), notes


def _version(version: Version) -> dict[str, Any]:
    return sparse(
        {
            "version": version.number,
            "kept_at": told_at(version.kept_at),
            "size_bytes": version.size_bytes,
            "is_absent": version.is_absent or None,
            "problem": version.problem,
            "at_records": list(version.messages[:_MESSAGES]),
        }
    )


FILES = Tool(past_files, title="Files in past sessions")
