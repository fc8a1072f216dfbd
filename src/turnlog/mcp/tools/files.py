"""The tool ``past_files``: files that sessions read or changed, and their backed up versions.

Only records about files are read: snapshots, and the edits of one file.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field

from turnlog.api.index import SUBAGENT, Index, microseconds
from turnlog.api.query import FileAccess, file_access, projects_in
from turnlog.api.sessions.side_files import (
    FileTraces,
    SessionFiles,
    TouchedFile,
    Unreadable,
    Version,
    content_of,
    shown_path,
    whole_path,
    with_kept_files,
)
from turnlog.errors import NotFound, UsageError
from turnlog.mcp.context import KnownSession, ToolContext
from turnlog.mcp.pages import ToolAnswer
from turnlog.mcp.tool import (
    FileName,
    Limit,
    OneSession,
    PageStart,
    Project,
    Since,
    Tool,
    Until,
    file_glob,
    instant_text,
    sparse,
)

_SOME: Final = 5
MOST_SNAPSHOTS: Final = 1_000
MOST_EDITS: Final = 500
"""At most this many snapshots, and edits of one file, are read: the latest."""
_SNAPSHOTS: Final = (
    "SELECT id, length FROM records WHERE session = ? AND type IN (SELECT id FROM names WHERE name"
    " IN ('file-history-snapshot', 'file-history-delta', 'file-history')) ORDER BY id DESC LIMIT ?"
)
_TOUCHES: Final = """
SELECT p.path, sum(f.action = 'read'), sum(f.action = 'edit'), sum(f.action = 'write'),
       sum(f.action = 'search'), max(r.at)
FROM records AS r CROSS JOIN touches AS f ON f.record = r.id JOIN paths AS p ON p.id = f.path
WHERE r.session = ? GROUP BY f.path
"""
_EDITS: Final = f"""
SELECT r.id, r.length, c.result, {SUBAGENT}
FROM records AS r CROSS JOIN touches AS f ON f.record = r.id
JOIN calls AS c ON c.record = f.record AND c.block = f.block
JOIN paths AS p ON p.id = f.path JOIN logs AS l ON l.id = r.id >> 40
WHERE r.session = ? AND f.action IN ('edit', 'write') AND c.is_error = 0
AND (p.path GLOB ? OR p.path GLOB ? OR p.path GLOB ?) ORDER BY r.id DESC LIMIT ?
"""  # noqa: S608 - Ours.


class Touched(NamedTuple):
    """How often calls of a session used a file."""

    path: str
    reads: int = 0
    edits: int = 0
    writes: int = 0
    searches: int = 0
    last_at: int | None = None


class FilesRead(NamedTuple):
    """The files of a session, and notes about what was left out."""

    files: SessionFiles
    notes: list[str]


def touched_files(ctx: ToolContext, index: Index, session: KnownSession) -> dict[str, Touched]:
    """Count how often the calls of a session used each file, by absolute path."""
    files: dict[str, Touched] = {}
    for row in index.db.execute(_TOUCHES, (session.number,)):
        counts = Touched._make(row)
        # Mask first: a normalized path may hide what identifies a secret in it.
        path = whole_path(ctx.mask(counts.path), session.project)
        before = files.get(path, Touched(path))
        last_at = max(
            (at for at in (before.last_at, counts.last_at) if at is not None), default=None
        )
        files[path] = Touched(
            path,
            before.reads + counts.reads,
            before.edits + counts.edits,
            before.writes + counts.writes,
            before.searches + counts.searches,
            last_at,
        )
    return files


def read_files(
    ctx: ToolContext, index: Index, session: KnownSession, path: str | None = None
) -> FilesRead:
    """Read the versions of a session's files, and the edits of the file at *path*."""
    traces = FileTraces(project=session.project)
    notes: list[str] = []
    snapshots = index.db.execute(_SNAPSHOTS, (session.number, MOST_SNAPSHOTS + 1)).fetchall()
    if len(snapshots) > MOST_SNAPSHOTS:
        notes.append(f"only the latest {MOST_SNAPSHOTS:,} snapshots were read")
    for number, length in reversed(snapshots[:MOST_SNAPSHOTS]):
        ctx.deadline.check()
        record = index.record(number, length)
        if record is not None:
            traces.see(record)
    if path is not None:
        _read_edits(index, session, path, traces, notes)
    return FilesRead(with_kept_files(traces, session.home, session.id), notes)


def _read_edits(
    index: Index, session: KnownSession, path: str, traces: FileTraces, notes: list[str]
) -> None:
    rows: list[Any] = index.db.execute(
        _EDITS, (session.number, *file_glob(path), MOST_EDITS + 1)
    ).fetchall()
    if len(rows) > MOST_EDITS:
        notes.append(f"only the latest {MOST_EDITS:,} edits were read")
    # A record may hold several calls or results; read it once.
    subagents: dict[int, str | None] = {}
    for number, _, result, subagent in rows[:MOST_EDITS]:
        subagents |= {number: subagent, result: subagent}
    for number in sorted(subagents):
        record = index.record(number)
        if record is not None:
            traces.see(record, subagents[number])


def named_file(files: SessionFiles, path: str) -> TouchedFile:
    """Return the only file that matches *path*: a path, the end of one, or a pattern."""
    matches = [
        each
        for each in files.files.values()
        if any(fnmatchcase(each.path, glob) for glob in file_glob(path))
    ]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise NotFound(
            f"the session kept or changed no file {path[:200]!r}",
            hint="`past_files` with session lists those it touched",
        )
    some = ", ".join(each.shown for each in matches[:_SOME])
    raise UsageError(f"{path[:200]!r} matches {len(matches)} files", hint=f"use one of {some}")


_PIECE: Final = 1_900
_MESSAGES: Final = 3
_LARGEST_BYTES: Final = 4 * 1024 * 1024
_TOUCHED_BY: Final = f"""
SELECT s.session, {SUBAGENT}, fp.path, sum(f.action = 'read'), sum(f.action = 'edit'),
       sum(f.action = 'write'), sum(f.action = 'search'), max(r.at)
FROM touches AS f JOIN paths AS fp ON fp.id = f.path JOIN records AS r ON r.id = f.record
JOIN sessions AS s ON s.id = r.session JOIN logs AS l ON l.id = r.id >> 40
WHERE {{where}} GROUP BY 1, 2, f.path
ORDER BY max(r.at) DESC NULLS LAST, s.session, fp.path LIMIT :most OFFSET :offset
"""  # noqa: S608 - Ours.


def past_files(
    ctx: ToolContext,
    page: PageStart,
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
) -> ToolAnswer:
    """List files that were read, edited and written, most used first.

    With `path`: the sessions and subagents that touched it. With `session`: its files and how
    many versions of each were kept. With both: every edit, and the kept versions (from before
    each edit).
    """
    if version is not None and (session is None or path is None):
        raise UsageError("version requires session and path", hint="pass all three")
    if session is not None and (since or until or project):
        raise UsageError(
            "session cannot be combined with these filters",
            hint="leave out project, since and until",
        )
    with ctx.index() as index:
        if session is not None:
            one = _Session(ctx, index, ctx.session(index, session))
            if path is None:
                return one.listed(page, limit)
            return (
                one.edits(path, page, limit)
                if version is None
                else one.content(path, version, page)
            )
        options: dict[str, Any] = {
            "since": ctx.moment(since),
            "until": ctx.moment(until),
            "project": ctx.project(project),
        }
        if path is not None:
            return _touched_by(index, path, options, page, limit)
        access = file_access(index, limit=limit, offset=page.place, **options)
        return ToolAnswer(
            noun="files",
            rows=[
                _row(
                    each, file=each.file, sessions=each.sessions, last_at=instant_text(each.last_at)
                )
                for each in access.files
            ],
            offset=page.place,
            next=access.next,
        )


def _row(counted: FileAccess | Touched, **more: Any) -> dict[str, Any]:
    """Return the counts of a file without zeros."""
    names = ("reads", "edits", "writes", "searches")
    counts = {name: getattr(counted, name) or None for name in names}
    last_at = more.pop("last_at")
    return sparse(more | counts | {"last_at": last_at})


def _touched_by(
    index: Index, path: str, options: dict[str, Any], page: PageStart, limit: int
) -> ToolAnswer:
    """List the sessions and subagents that touched a file."""
    where = "(" + " OR ".join(f"fp.path GLOB :glob{n}" for n in range(3)) + ")"
    values: dict[str, Any] = {f"glob{n}": each for n, each in enumerate(file_glob(path))}
    for name, sign in (("since", ">="), ("until", "<")):
        if options[name] is not None:
            where += f" AND r.at {sign} :{name}"
            values[name] = microseconds(options[name])
    if options["project"] is not None:
        where += f" AND s.project IN {projects_in(index.db, options['project'])}"
    values |= {"most": limit + 1, "offset": page.place}
    rows = index.db.execute(_TOUCHED_BY.format(where=where), values).fetchall()
    return ToolAnswer(
        noun="touched_by",
        rows=[
            _row(
                Touched(*row[2:]),
                session=row[0],
                subagent=row[1],
                file=row[2],
                last_at=instant_text(row[7]),
            )
            for row in rows[:limit]
        ],
        offset=page.place,
        next=page.place + limit if len(rows) > limit else None,
    )


class _Session:
    """The files of one session."""

    def __init__(self, ctx: ToolContext, index: Index, known: KnownSession) -> None:
        self._ctx, self._index, self._known = ctx, index, known

    def listed(self, page: PageStart, limit: int) -> ToolAnswer:
        """List all files, the most changed first."""
        touched = touched_files(self._ctx, self._index, self._known)
        files, notes = read_files(self._ctx, self._index, self._known)
        kept = {file.path: len(file.versions) for file in files.files.values() if file.versions}
        every = [touched.get(path) or Touched(path) for path in touched.keys() | kept.keys()]
        every.sort(key=lambda each: (-each.edits - each.writes, -(each.last_at or 0), each.path))
        end = page.place + limit
        return ToolAnswer(
            about={"session": self._known.id, "total": len(every)},
            noun="files",
            rows=[
                _row(
                    each,
                    file=shown_path(each.path, self._known.project),
                    versions=kept.get(each.path),
                    last_at=instant_text(each.last_at),
                )
                for each in every[page.place : end]
            ],
            offset=page.place,
            next=end if end < len(every) else None,
            notes=notes,
        )

    def edits(self, path: str, page: PageStart, limit: int) -> ToolAnswer:
        """List the edits of a file, and its kept versions."""
        file, notes = self._file(path)
        end = page.place + limit
        return ToolAnswer(
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
                        "subagent": edit.agent_id,
                        "at": instant_text(edit.at),
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
            rest="`session_turns` with session and record shows what an edit changed.",
        )

    def content(self, path: str, number: int, page: PageStart) -> ToolAnswer:
        """Return the content of a version, in pieces."""
        file, notes = self._file(path)
        matches = [each for each in file.versions if each.number == number]
        if not matches:
            known = ", ".join(str(each.number) for each in file.versions if each.number) or "none"
            raise NotFound(f"no version {number} of the file", hint=f"versions: {known}")
        data = content_of(matches[-1], limit=_LARGEST_BYTES)
        if isinstance(data, Unreadable):
            raise NotFound(
                f"version {number} cannot be read: {data.reason}", hint="try another version"
            )
        text = self._ctx.mask(data.decode("utf-8", "replace"))
        pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
        return ToolAnswer(
            about={"session": self._known.id, "file": file.shown} | _version(matches[-1]),
            noun="pieces",
            rows=[{"text": each} for each in pieces[page.place :]],
            offset=page.place,
            notes=notes,
        )

    def _file(self, path: str) -> tuple[TouchedFile, list[str]]:
        files, notes = read_files(self._ctx, self._index, self._known, path)
        return named_file(files, path), notes


def _version(version: Version) -> dict[str, Any]:
    return sparse(
        {
            "version": version.number,
            "kept_at": instant_text(version.kept_at),
            "size_bytes": version.size_bytes,
            "is_absent": version.is_absent or None,
            "problem": version.problem,
            "at_records": list(version.messages[:_MESSAGES]),
        }
    )


FILES = Tool(past_files, title="Files in past sessions")
