"""Copy a session to another layout: ``claude``, ``dated`` or ``flat``.

Nothing is lost, and the source is not changed. Lines are copied as they are, except where the
program that reads the new log would not understand them (see `translate`). Converting back,
directly or through the third layout, restores the original lines byte for byte, with what was added
meanwhile. An id that is not valid in the new layout becomes a UUID, always the same one. Subagents'
logs and their ``agent-ID.meta.json`` are copied too. Todos, plans, prompts, tool results and file
history belong to the home and stay. Damage is counted, not copied.

A log gets its name only when it is complete and on disk, the main one last. In days' logs, which
others share, a kill may leave a beginning; converting again continues after it. Ids and project
names from a log's first line are validated before they become part of a path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field

from turnlog.errors import FormatTooNew, InvalidId, LogError, UsageError
from turnlog.formats import Format, Home, LogFile, find_logs, format_named, is_session_id
from turnlog.formats.flat.registry import note_log
from turnlog.formats.log_file import LayoutName, subagent_log_near, subagent_meta
from turnlog.records.annotations import FORMAT, format_marker, with_note
from turnlog.records.codec import encode
from turnlog.records.record_types import Marker
from turnlog.sessions.convert import translate
from turnlog.sessions.convert.carry import CarriedLines, Carrier, CarryOrigin, SourceLog
from turnlog.sessions.convert.translate import uuid_of
from turnlog.sessions.owners import anonymous_id, day_of, share_out
from turnlog.sessions.session import Session
from turnlog.sessions.writing.open import system_init
from turnlog.sessions.writing.writer import WRITER
from turnlog.storage.atomic_files import Unreadable, failure, open_file, put, read_file
from turnlog.storage.scan import FoundLines
from turnlog.storage.writer import LogWriter

_NAME_MAX: Final = 255


class Destination:
    """The paths of one session in the layout of *form* under *root*.

    *project* is its directory; *is_named* means that the user named it, and then it applies even if
    the session returns to its original layout.
    """

    def __init__(
        self, root: Path, form: Format, origin: CarryOrigin, project: str, *, is_named: bool
    ) -> None:
        self.root = root
        self.form = form
        keeps_id = origin.layout == form.name or form.accepts_id(origin.id)
        self.id = origin.id if keeps_id else uuid_of(origin.id)
        self.only_day = _day_in(origin) if form.shares_logs else None
        """The only day of a session whose records have no id: it is called HASH/DATE."""
        self._goes_home = not is_named or self.only_day is not None
        self._project = _project_name(form, project, self._known(origin))

    def log(self, day: date) -> Path:
        """Return the path of the main log; if sessions share logs, of the one of *day*."""
        if self.form.shares_logs:
            path = self.form.day_log(self.root, os.sep, self.only_day or day)
        else:
            path = self.form.new_log(self.root, os.sep, self.id)
        if self.form.project_directory is None:
            return path
        return path.parent.with_name(self._project) / path.name

    def subagent_log(self, agent_id: str, inner: Iterable[str], origin: CarryOrigin) -> Path:
        """Return the path of a subagent's log, in the subdirectories *inner* of its session's."""
        name = self.id if is_session_id(self.id) else uuid_of(self.id)
        main = self.log(date.min)
        known = self._known(origin)
        if known is not None:  # Subagents may have another project than their session.
            main = main.parent.with_name(_project_name(self.form, "", known)) / main.name
        nested = subagent_log_near(main, name, agent_id)
        if origin.is_beside and origin.layout == self.form.name:
            return main.with_name(nested.name)
        return nested.parent.joinpath(*inner, nested.name)

    def standing(self) -> list[LogFile]:
        """Return the main logs that the session already has there."""
        if not self.root.is_dir():
            return []
        found = find_logs(Home(self.root))
        logs = [log for log in found if log.layout == self.form.name and log.kind != "subagent"]
        if not self.form.shares_logs:
            return [log for log in logs if log.session_id == self.id]
        if self.only_day is not None:
            logs = [log for log in logs if anonymous_id(log) == self.id]
        elif is_session_id(self.id):  # Otherwise it may have several spellings.
            logs = [log for log in logs if _mentions(log.path, self.id.encode())]
        return share_out(logs).get(self.id, [])

    def _known(self, origin: CarryOrigin) -> str | None:
        """Return the name of the original project directory of a log."""
        at_home = origin.layout == self.form.name and self.form.project_directory is not None
        return origin.project if at_home and self._goes_home else None


def subagent_logs_of(session: Session) -> Iterator[tuple[LogFile, tuple[str, ...]]]:
    """Return the subagents' logs, each with its subdirectories of ``subagents``.

    Two logs of one subagent are two logs, even if one directory would have to hold both.
    """
    taken: set[tuple[str | None, ...]] = set()
    for log in session.subagent_logs:
        inner = _inner(session.id, log)
        if (*inner, log.agent_id) in taken:
            inner = (f"copy-{len(taken)}", *inner)
        taken.add((*inner, log.agent_id))
        yield log, inner


def _inner(session_id: str, log: LogFile) -> tuple[str, ...]:
    parts = log.path.parts
    for number in range(len(parts) - 3, -1, -1):
        if log.session_id is not None and parts[number : number + 2] == (session_id, "subagents"):
            return parts[number + 2 : -1]
    return ()


def _day_in(origin: CarryOrigin) -> date | None:
    project, _, day = origin.id.rpartition("/")
    is_shared = format_named(origin.layout).shares_logs
    if not is_shared or not project or project != origin.project:
        return None
    try:
        return date.fromisoformat(day)
    except ValueError:
        return None


def _project_name(form: Format, path: str, known: str | None) -> str:
    """Return the name of the project's directory: the original one, or one made from its path."""
    if known is not None:
        if known.startswith(".") or set(known) & set("/\\\0") or not 0 < len(known) <= _NAME_MAX:
            raise InvalidId(
                f"{known[:80]!r} cannot be the name of a project's directory",
                hint="it comes from the first line of the log; name the project instead",
            )
        return known
    try:
        if os.path.isabs(path):
            return form.project_name(path)
    except ValueError:
        pass
    return form.project_name(path, is_here=False)


def _mentions(path: Path, name: bytes) -> bool:
    with FoundLines(path, name) as lines:
        return any(True for _ in lines)


DialectChoice = Literal["keep", "native"]

_BATCH_BYTES: Final = 8 * 1024 * 1024


class Converted(Struct, kw_only=True):
    """The result of a conversion. Counts include all logs, also agents'."""

    id: str
    layout: LayoutName
    paths: list[Path] = field(default_factory=list)
    """The new path of the main log; in the dated layout, of the logs of its days."""
    records: int = 0
    rewritten: int = 0
    """Records that were translated to another dialect; each keeps its original in a note."""
    damage: int = 0
    """Damaged ranges of the source, which were not copied."""
    subagents: int = 0


def convert(
    session: Session,
    root: str | os.PathLike[str],
    layout: LayoutName,
    *,
    dialect: DialectChoice = "keep",
    project: str | os.PathLike[str] | None = None,
) -> Converted:
    """Copy *session* to *layout* under *root*.

    With the dialect ``native``, records are translated to the layout's own dialect as far as
    possible; for ``claude`` they always are. *project* is the session's directory, if its records
    have none or another one.
    """
    form = format_named(layout)
    if dialect not in ("keep", "native"):
        raise UsageError(f"no choice called {dialect!r}", hint="keep or native")
    session.main_log  # noqa: B018 - Raises if it is lost.
    return _Conversion(session, _absolute(root), form, dialect, project).run()


class _Conversion:
    """One conversion, from planning the paths to writing the files."""

    def __init__(
        self,
        session: Session,
        root: Path,
        form: Format,
        dialect: DialectChoice,
        project: str | os.PathLike[str] | None,
    ) -> None:
        self._session = session
        self._form = form
        self._dialect = dialect
        self._main = SourceLog(session, session.main_logs)
        self._began_at, cwd, self._model = _look_over(self._main)
        named = None if project is None else str(_absolute(project))
        self._cwd = named or cwd or os.getcwd()
        origin = self._main.origin
        self._to = Destination(root, form, origin, self._cwd, is_named=named is not None)
        self._path = self._to.log(self._began_at.date())
        self._stays: dict[SourceLog, bool] = {}
        self._done = Converted(id=self._to.id, layout=form.name)

    def run(self) -> Converted:
        existing = self._to.standing()
        written = self._check(existing) if existing else 0
        for log, inner in subagent_logs_of(self._session):
            self._carry_subagent(log, inner)
        if self._form.shares_logs:
            self._write_days(written, existing)
        else:
            self._write_log(self._path, self._main)
            self._done.paths.append(self._path)
        if self._form.has_registry:
            note_log(self._path, self._to.id)
        return self._done

    def _exists(self, path: Path) -> UsageError:
        return UsageError(
            f"session {self._to.id} exists in the layout {self._form.name}: {path}",
            hint="name another directory to convert it into",
        )

    # -- lines --------------------------------------------------------------------------------

    def _lines(self, source: SourceLog) -> Iterator[CarriedLines]:
        """Yield the lines of the new log."""
        marked = not self._comes_home_as_it_was(source)
        carrier = self._carrier(source, is_marked=marked)
        originals = source.originals()
        if marked:
            head = [source.origin.head(self._to.id, self._cwd, source.agent_id)]
            if self._form.has_registry and source.agent_id is None:
                first = next(originals, None)
                if first is not None and first.record.type == "system_init":
                    yield carrier.carry(first)
                else:
                    head.insert(0, self._system_init())
                    originals = chain(() if first is None else (first,), originals)
            yield CarriedLines(head, is_made=True)
        yield from map(carrier.carry, originals)

    def _carrier(self, source: SourceLog, *, is_marked: bool) -> Carrier:
        shares = self._form.shares_logs and source.agent_id is None
        return Carrier(
            source.origin,
            self._translator(source),
            shared_by=self._to.id if shares else None,
            is_nameless=self._to.only_day is not None,
            is_home=source.origin.layout == self._form.name and self._dialect == "keep",
            is_marked=is_marked,
        )

    def _translator(self, source: SourceLog) -> translate.Translator | None:
        if self._form.dialect == "claude":
            return translate.ClaudeTranslator(
                session_id=self._to.id,
                former_id=self._main.origin.id,
                cwd=self._cwd,
                began_at=self._began_at,
                agent_id=source.agent_id,
            )
        is_native = self._dialect == "native"
        return translate.NativeTranslator(self._form.dialect) if is_native else None

    def _comes_home_as_it_was(self, source: SourceLog) -> bool:
        """Return whether all lines can return to the original layout unchanged, without a head."""
        if source.origin.layout != self._form.name:
            return False
        if not source.is_converted and self._dialect == "keep":
            return True
        if source not in self._stays:
            carrier = self._carrier(source, is_marked=False)
            self._stays[source] = all(
                carrier.carry(each).lines == [each.line] for each in source.originals()
            )
        return self._stays[source]

    def _system_init(self) -> bytes:
        """Return the first line of a flat log."""
        return with_note(encode(system_init(self._began_at, self._cwd, self._model)), part=True)

    # -- writing ------------------------------------------------------------------------------

    def _carry_subagent(self, log: LogFile, inner: Iterable[str]) -> None:
        source = SourceLog(self._session, (log,))
        path = self._to.subagent_log(log.agent_id or "", inner, source.origin)
        self._write_log(path, source)
        self._done.subagents += 1
        data = read_file(subagent_meta(log.path))
        if not isinstance(data, Unreadable):
            self._put(subagent_meta(path), (data,))

    def _write_log(self, path: Path, source: SourceLog) -> None:
        seen = _Counts()
        self._put(path, _ended(self._lines(source), seen))
        self._count(source, seen)

    def _put(self, path: Path, data: Iterable[bytes]) -> None:
        """Write a file that must not exist yet, or only as left by an earlier attempt."""
        try:
            put(self._to.root, path.relative_to(self._to.root).parts, data, overwrite=False)
        except FileExistsError:
            if path == self._path or not _holds(path, data):
                raise self._exists(path) from None
        except LogError:
            raise
        except OSError as error:
            raise failure(error, path) from None

    def _count(self, source: SourceLog, seen: _Counts) -> None:
        self._done.records += seen.records
        self._done.rewritten += seen.rewritten
        self._done.damage += source.damage

    # -- days ---------------------------------------------------------------------------------

    def _check(self, existing: list[LogFile]) -> int:
        """Count the lines an earlier attempt left; raise if there are others.

        A kill leaves a beginning. All of the lines, or anything else, is an existing session.
        """
        where = self._path.parent
        if not self._form.shares_logs or any(
            log.path.parent != where or log.compression for log in existing
        ):
            raise self._exists(existing[0].path)
        ours = (line for carried in self._lines(self._main) for line in carried.lines)
        count = 0
        for item in Session(self._to.id, existing).items():
            if next(ours, None) != item.record.raw:
                raise self._exists(existing[0].path)
            count += 1
        if next(ours, None) is None:
            raise self._exists(existing[0].path)
        return count

    def _write_days(self, written: int, existing: list[LogFile]) -> None:
        """Append to the logs of the lines' days, after what is *written*.

        A line never goes to an earlier day than the one before it, whatever its timestamp: read day
        by day, the lines keep their order.
        """
        seen = _Counts()
        at_home = self._comes_home_as_it_was(self._main)
        lines = islice(self._dated(seen, existing), written, None)
        head = b"" if at_home else format_marker(WRITER)
        paths = dict.fromkeys(log.path for log in existing)
        for path, group in groupby(lines, key=itemgetter(0)):
            with LogWriter(path, head=head, root=self._to.root) as log:
                for batch in _batches(line for _, line in group):
                    log.append_lines(batch)
            paths[path] = None
        self._done.paths.extend(paths)
        self._count(self._main, seen)

    def _dated(self, seen: _Counts, existing: list[LogFile]) -> Iterator[tuple[Path, bytes]]:
        """Yield each line and the log of its day."""
        day = max((self._began_at.date(), *(date.fromisoformat(day_of(log)) for log in existing)))
        path = self._to.log(day)
        for carried in self._lines(self._main):
            seen.take(carried)
            if carried.at is not None and carried.at.date() > day:
                day = carried.at.date()
                path = self._to.log(day)
            yield from ((path, line) for line in carried.lines)


class _Counts(Struct):
    """Counts what is copied."""

    records: int = 0
    rewritten: int = 0

    def take(self, carried: CarriedLines) -> None:
        self.records += not carried.is_made
        self.rewritten += carried.is_told


def _look_over(source: SourceLog) -> tuple[datetime, str | None, str | None]:
    """Return the session's start, directory and model, read from as little as needed."""
    began_at, cwd, model = None, source.origin.cwd, None
    for number, original in enumerate(source.originals()):
        record = original.record
        if number < 3 and isinstance(record, Marker) and (record.format or 0) > FORMAT:
            raise FormatTooNew(
                f"{source.logs[0].path} has format {record.format}, which this turnlog cannot copy",
                path=source.logs[0].path,
                hint="upgrade turnlog: pip install -U turnlog",
            )
        began_at = began_at or record.at
        cwd = cwd or getattr(record, "cwd", None)
        named = getattr(record, "model", None)
        model = model or (named if named and not named.startswith("<") else None)
        if began_at and cwd and model:
            break
    return began_at or source.changed_at, cwd, model


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(os.path.expanduser(path)))


def _ended(carried: Iterable[CarriedLines], seen: _Counts) -> Iterator[bytes]:
    for each in carried:
        seen.take(each)
        yield from (line + b"\n" for line in each.lines)


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size_bytes = 0
    for line in lines:
        batch.append(line)
        size_bytes += len(line)
        if size_bytes >= _BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def _holds(path: Path, data: Iterable[bytes]) -> bool:
    """Return whether the file at *path* contains exactly *data*."""
    file = open_file(path)
    if isinstance(file, Unreadable):
        return False
    with file:
        return all(file.read(len(piece)) == piece for piece in data) and not file.read(1)
