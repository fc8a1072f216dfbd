"""What can be restored: sessions with kept copies, their files and their generations.

It is determined from the copies on disk, and from the catalog where that knows more; so it also
works if the catalog or the home itself is lost. Names that do not belong in a home are ignored: a
catalog cannot make turnlog write an agent's settings.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final

from msgspec import Struct

from turnlog.errors import AmbiguousSession, NotFound, TurnlogError
from turnlog.formats import Format, Home, LogFile, find_logs
from turnlog.formats.find import LATEST
from turnlog.formats.flat.format import COMPRESSED, archives_of, is_flat_archive
from turnlog.formats.home_files import is_home_file, log_in, owner_at, project_of, text_patterns
from turnlog.formats.kept_copies import kept_place, name_of_copy
from turnlog.keep.catalog import Catalogue, home_of, kept_homes
from turnlog.keep.copies.reader import Copy, begins_with, describe_copy
from turnlog.keep.restore.relocate import project_in, split
from turnlog.sessions.owners import is_subagent_log, owner_in, share_out
from turnlog.sessions.side_files.plans import traces_of
from turnlog.storage.sources import open_source
from turnlog.storage.tail import read_ends

_HEAD_BYTES: Final = 1024 * 1024
_SHOWN: Final = 5


class Mirror:
    """What is kept of one home: every copy, by the name of its file."""

    def __init__(self, home: str, place: Path) -> None:
        self.home = home
        self.place = place
        self.catalogue = Catalogue.load(place)

    @cached_property
    def copies(self) -> dict[str, list[Copy]]:
        """The copies of each file, oldest generation first."""
        found: dict[str, dict[int, Copy]] = {}
        catalogue = self.catalogue
        newest = {name: catalogue.copy_of(kept) for name, kept in catalogue.current.items()}
        for name, kept in catalogue.older.items():
            for each in kept:
                path = catalogue.copy_of(each)
                copy = Copy(name=name, generation=each.generation, path=path, known=each)
                found.setdefault(name, {})[each.generation] = copy
        for name, path, generation in self.lying():
            if generation is None:
                newest.setdefault(name, path)
            else:
                copy = Copy(name=name, generation=generation, path=path)
                found.setdefault(name, {}).setdefault(generation, copy)
        for name, path in newest.items():
            before = found.setdefault(name, {})
            known = self.catalogue.current.get(name)
            if known is not None and known.generation in before:
                known = None  # Renamed already: the current copy is not recorded yet.
            number = known.generation if known else max(before, default=0) + 1
            before[number] = Copy(name=name, generation=number, path=path, known=known)
        return {
            name: [copies[number] for number in sorted(copies)]
            for name, copies in sorted(found.items())
            if is_home_file(name, found)
        }

    def lying(self) -> Iterator[tuple[str, Path, int | None]]:
        """Yield the copies on disk, listed or not, with their generation."""
        for copy, path in self.catalogue.copies():
            if self.catalogue.known_name(copy, path) == copy.name:
                yield copy.name, path, copy.generation

    @cached_property
    def owners(self) -> dict[str, str]:
        """The session of each file, by name; files of none or several are left out."""
        found = {}
        for name, copies in self.copies.items():
            noted = (each.known.session for each in copies if each.known is not None)
            owner = next(filter(None, noted), None) or owner_at(name, copies[-1].path)
            if owner is None and _kind(name) == "subagent":
                owner = owner_in(copies[-1].path)
            if owner is not None:
                found[name] = owner
        return found

    @cached_property
    def sessions(self) -> dict[str, Restorable]:
        """The sessions with a kept main log, by id."""
        parts: dict[str, list[str]] = {}
        for name, owner in self.owners.items():
            parts.setdefault(owner, []).append(name)
        days: dict[str | None, list[LogFile]] = {}
        for name in self.copies:
            log = log_in(name)
            if log is not None and log[1].kind == "day":
                days.setdefault(project_of(name), []).append(self._day(name, log[0]))
        for of_project in days.values():
            for session_id, logs in share_out(of_project).items():
                paths = (log.path.relative_to(self.place).as_posix() for log in logs)
                parts.setdefault(session_id, []).extend(map(name_of_copy, paths))
        found: dict[str, Restorable] = {}
        for session_id, names in parts.items():
            if copies := self._copies_of(session_id, names):
                found[session_id], *copies[0].elsewhere = copies
        return found

    @property
    def restorables(self) -> list[Restorable]:
        """Every copy of every session: an id may have a log in several projects."""
        return [copy for session in self.sessions.values() for copy in session.everywhere]

    def _copies_of(self, session_id: str, names: list[str]) -> list[Restorable]:
        """Return a session's copies, one per directory with a main log, most recently active first.

        A log that was moved leaves a copy at its old place; that one is left out.
        """
        mains = {name: _directory(name) for name in names if _is_main(name, session_id)}
        copies = []
        for directory in sorted(set(mains.values())):
            others = {name for name in mains if mains[name] != directory}
            keys = {project_of(name) for name in others} - {None}
            own = [each for each in names if each not in others and project_of(each) not in keys]
            copies.append(Restorable(session_id, self, own))
        copies.sort(key=lambda each: each.at_last, reverse=True)
        return [each for each in copies if not any(map(each.was_moved_to, copies))]

    @cached_property
    def in_home(self) -> dict[str, str]:
        """Main logs in the home that are not kept, by session id."""
        found = find_logs(Home(Path(self.home)))
        mains = (log for log in found if log.kind == "session" and not log.is_kept)
        within = os.path.abspath(self.home)
        return {
            log.session_id: str(log.path)
            for log in mains
            if log.session_id is not None
            and Path(os.path.relpath(log.path, within)).as_posix() not in self.copies
        }

    @property
    def rest(self) -> list[str]:
        """Files that belong to no single session: plans, prompts, leftovers.

        What a session left in a project from which it was moved is not included.
        """
        taken = {name for session in self.restorables for name in session.names}

        def is_left(name: str) -> bool:
            session = self.sessions.get(self.owners.get(name, ""))
            if session is None:
                return False
            return project_of(name) not in {None, *(each.key for each in session.everywhere)}

        return [name for name in self.copies if name not in taken and not is_left(name)]

    def newest(self, name: str) -> Copy:
        return self.copies[name][-1]

    def _day(self, name: str, form: Format) -> LogFile:
        return LogFile(
            path=self.newest(name).path,
            home=Home(self.place),
            layout=form.name,
            kind="day",
            session_id=None,
            agent_id=None,
            project_key=project_of(name),
            compression="zst",
        )


class Restorable:
    """A copy of a session. *names* are its files in the home, in one project."""

    def __init__(self, session_id: str, mirror: Mirror, names: list[str]) -> None:
        self.id = session_id
        self.mirror = mirror
        self.elsewhere: list[Restorable] = []
        """The session's copies in other projects, if this one is the first of them."""
        mains = [name for name in names if _is_main(name, session_id)]
        self.mains = sorted(self._as_it_was_last(mains))
        """Its main log, or its days' logs."""
        self.key = project_of(self.mains[0]) if self.mains else None
        taken = set(mains) - set(self.mains)
        is_archived = not any(name.endswith(".jsonl") for name in self.mains)
        for name in names:  # The log's other files were archived or unarchived with it.
            packed = archives_of(name).intersection(names)
            taken |= {name} if packed and is_archived else packed
        self.names = [name for name in names if name not in taken]

    @property
    def everywhere(self) -> list[Restorable]:
        """The copy itself, and those in other projects."""
        return [self, *self.elsewhere]

    @cached_property
    def bases(self) -> list[Restorable]:
        """The kept sessions whose logs it continues without repeating them, the nearest first."""
        found: dict[str, Restorable] = {}
        session: Restorable | None = self
        while session is not None and session.id not in found:
            found[session.id] = session
            session = session.base
        return list(found.values())[1:]

    @property
    def base(self) -> Restorable | None:
        """The kept session whose log it continues without repeating it, or None."""
        for name in self.mains:
            log = log_in(name)
            base = log[0].base_of(self.mirror.newest(name).path) if log is not None else None
            if base is not None:
                return self.mirror.sessions.get(base.session_id)
        return None

    @property
    def at_last(self) -> tuple[bool, int, str]:
        """The sort key for copies of one session: existing first, then by mtime.

        A renamed project directory leaves a log with the same mtime.
        """
        return any(map(self._is_there, self.mains)), self.changed_ns, self.mains[0]

    def was_moved_to(self, other: Restorable) -> bool:
        """Return whether this copy was gone before *other*, which holds everything in it."""
        gone_at = self._gone_at
        if gone_at is None or (other._gone_at is not None and other._gone_at <= gone_at):
            return False
        if len(self.mains) != 1 or len(other.mains) != 1:
            return False
        known = self.mirror.newest(self.mains[0]).known
        return known is not None and begins_with(self.mirror.newest(other.mains[0]), known)

    @property
    def _gone_at(self) -> datetime | None:
        """Return when its main logs were first found missing; None if they may exist."""
        known = [self.mirror.newest(name).known for name in self.mains]
        times = [each.gone_at for each in known if each is not None and each.gone_at is not None]
        return max(times) if len(times) == len(self.mains) else None

    def _as_it_was_last(self, mains: list[str]) -> list[str]:
        """Of a log and its archive, return the existing one, or the one changed last.

        An archive has the mtime of its contents, and the kept copy of its log may be older.
        """
        logs = [name for name in mains if name.endswith(".jsonl")]
        archives = [name for name in mains if name not in logs]
        if not (logs and archives) or any(map(self._is_there, logs)):
            return logs or archives
        is_later = max(map(self._changed_ns, archives)) > max(map(self._changed_ns, logs))
        return archives if is_later or any(map(self._is_there, archives)) else logs

    def _changed_ns(self, name: str) -> int:
        copy = self.mirror.newest(name)
        if copy.known is not None and copy.known.mtime_ns:
            return copy.known.mtime_ns
        try:
            return copy.path.stat().st_mtime_ns
        except OSError:
            return 0

    @property
    def changed_ns(self) -> int:
        """The newest mtime of its main log, according to its copies."""
        return max(self._changed_ns(name) for name in self.mains)

    def _is_there(self, name: str) -> bool:
        return os.path.exists(os.path.join(self.mirror.home, *name.split("/")))

    @property
    def moved_to(self) -> str | None:
        """The path of its main log in its home, if it differs from the kept one."""
        return None if all(map(self._is_there, self.mains)) else self.mirror.in_home.get(self.id)

    @property
    def archive(self) -> str | None:
        """The path of its archive in its home, a flat store, if that is what exists."""
        path = self.moved_to
        return path if path is not None and is_flat_archive(path) else None

    @property
    def is_gone(self) -> bool:
        """Whether one of its main logs is nowhere in its home any more."""
        return not all(map(self._is_there, self.mains)) and self.moved_to is None

    @property
    def keeping(self) -> str:
        """How safe it is, as lists show it; a catalog may outlive its copies."""
        copies = (self.mirror.newest(name) for name in self.mains)
        if all(os.path.isfile(copy.path) for copy in copies):
            return "restorable" if self.is_gone else "kept"
        return "gone" if self.is_gone else "live"

    @property
    def size_bytes(self) -> int:
        """The size of its files, as far as the catalog knows."""
        copies = (self.mirror.newest(name).known for name in self.names)
        return sum(known.size_bytes for known in copies if known is not None)

    @cached_property
    def project(self) -> str | None:
        """Its directory, from its log; None if unknown."""
        for name in self.mains:
            with contextlib.suppress(TurnlogError, OSError):
                found = project_in(_head(self.mirror.newest(name).path), project_of(name))
                if found is not None:
                    return found
        return None

    @cached_property
    def last_active_at(self) -> datetime:
        """When it was last active; without timestamps, when its log changed."""
        times = []
        for name in self.mains:
            with contextlib.suppress(TurnlogError, OSError):
                ends = read_ends(self.mirror.newest(name).path)
                times += [each.at for each in (*ends.head, *ends.tail) if each.at is not None]
        return max(times, default=datetime.fromtimestamp(self.changed_ns / 1e9, UTC))

    @property
    def recency(self) -> tuple[datetime, int, str]:
        """The sort key by activity; copying or renaming a log does not count."""
        return self.last_active_at, self.changed_ns, self.id

    @property
    def is_subagent(self) -> bool:
        """Whether its main log is a subagent's, which lists leave out."""
        newest = self.mirror.newest(self.mains[0])
        return _kind(newest.name) == "session" and is_subagent_log(newest.path)

    @property
    def plans(self) -> list[str]:
        """The kept plans that its records mention."""
        found: dict[str, None] = {}
        patterns = text_patterns("plan")
        for name in self.names:
            if _kind(name) is None or name.endswith((".gz", ".zst")):
                continue
            copy = self.mirror.newest(name)
            try:
                describe_copy(copy)  # Raises for a bomb.
                for trace in traces_of(copy.path, self.id):
                    stems = filter(None, (trace.file_name, trace.slug))
                    names = (each.replace("*", stem) for stem in stems for each in patterns)
                    found |= dict.fromkeys(names)
            except (TurnlogError, OSError):
                continue  # Reported when its copy is restored.
        return [name for name in found if name in self.mirror.copies]


def _directory(name: str) -> str:
    """Return the directory of the log *name*; for an archive, that of its log."""
    directory = name.rpartition("/")[0]
    is_packed = name.endswith((".gz", ".zst"))
    return directory.removesuffix(COMPRESSED).rstrip("/") if is_packed else directory


def mirrors(homes: Iterable[Home]) -> list[Mirror]:
    """Return the mirrors of those *homes* that have copies."""
    places = ((os.path.realpath(home), kept_place(home)) for home in homes)
    return [Mirror(home_of(place) or home, place) for home, place in places if place.is_dir()]


def all_mirrors(homes: Iterable[Home]) -> list[Mirror]:
    """Return the mirrors of *homes*, and then of every other home."""
    found = mirrors(homes)
    known = {mirror.place for mirror in found}
    return [*found, *(Mirror(home, place) for home, place in kept_homes() if place not in known)]


def find_restorable(among: Iterable[Mirror], text: str) -> Restorable:
    """Return the session whose id begins with *text*, or the ``latest``: its latest copy.

    Only the first mirror that has one is used.
    """
    for mirror in among:
        sessions = mirror.sessions
        if text == LATEST and sessions:
            return max(sessions.values(), key=lambda each: each.recency)
        if text in sessions:
            return sessions[text]
        ids = sorted(each for each in sessions if each.startswith(text)) if text else []
        if len(ids) > 1:
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            raise AmbiguousSession(
                f"{text!r} begins the ids of {len(ids)} sessions: {', '.join(ids[:_SHOWN])}{more}",
                hint="give more characters of the id",
            )
        if ids:
            return sessions[ids[0]]
    raise NotFound(
        f"no session is kept whose id begins with {text[:80]!r}",
        hint="list the sessions that can be restored",
        code="not-kept",
    )


def _is_main(name: str, session_id: str) -> bool:
    log = log_in(name)
    return log is not None and (log[1].kind == "day" or log[1].id == session_id)


def _kind(name: str) -> str | None:
    log = log_in(name)
    return log[1].kind if log is not None else None


def _head(path: Path) -> Iterator[bytes]:
    """Return the first lines of a log, as many as one read returns."""
    source = open_source(path)
    try:
        data = source.read(_HEAD_BYTES)
    finally:
        source.close()
    yield from (line for line, _ in split((data,)))


class Generation(Struct, kw_only=True):
    """A copy of a session's main log, to choose from."""

    generation: int
    size_bytes: int
    kept_at: datetime | None
    is_newest: bool


def generations_of(session: Restorable) -> list[Generation]:
    """Return the generations of a session's main log, oldest first."""
    found: dict[int, Generation] = {}
    for name in session.mains:
        copies = session.mirror.copies[name]
        for copy in copies:
            known = copy.known
            found[copy.generation] = Generation(
                generation=copy.generation,
                size_bytes=known.size_bytes if known else 0,
                kept_at=known.kept_at if known else None,
                is_newest=copy is copies[-1],
            )
    return [found[number] for number in sorted(found)]
