"""Keep copies of every home's files, whatever happens to the files later.

A file that only grew is compressed from where its copy ends. One that was rewritten, or shrank,
begins a new generation, and the copy of the old one stays. Unchanged files, by size and mtime, are
not opened; all others are read and compared. The files themselves are only read.

Copies are made in batches: written to temporary files, read back and compared, synced, and only
then renamed over the old ones; then the catalog is updated. A kill at any moment leaves complete
copies and, at worst, temporary files and an outdated catalog, which the next full run cleans up.

If a file does not fit on the disk, smaller ones are still kept; then StorageFull is raised.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct, field, structs

from turnlog.errors import LogError, StorageFull
from turnlog.formats import Home, Problem
from turnlog.formats.home_files import (
    HomeFile,
    home_files,
    is_main_log,
    log_beside,
    log_in,
    owner_at,
    owner_of,
)
from turnlog.formats.home_paths import kept_path
from turnlog.formats.kept_copies import copy_roots, generation_copy, kept_copy
from turnlog.keep.catalog import (
    HOME,
    LOCK_TIMEOUT,
    Catalogue,
    adopt_all,
    lock_mirror,
    note_home,
    note_run,
)
from turnlog.keep.copies.copy_file import (
    NewCopy,
    NotKept,
    discard,
    make_copy,
    place_all,
    refused_name,
    sweep,
    sweep_beneath,
)
from turnlog.keep.copies.reader import Copy, begins_with
from turnlog.keep.copies.shortfall import has_every_record
from turnlog.sessions.owners import is_subagent_log, owner_in
from turnlog.storage.atomic_files import failure, make_directory

_WORKERS: Final = 2
_AHEAD: Final = 128  # Files copied while those before them are synced.
# Files per batch: many syncs at once cost little more than one.
_BATCH_FILES: Final = 128
_BATCH_BYTES: Final = 64 * 1024 * 1024

Sessions = frozenset[str | None]
"""Session ids; None is for files that belong to no session."""
Progress = Callable[[int, int], None]
"""Called with the number of bytes done and the total."""


class KeepRun(Struct, kw_only=True):
    """What was checked, and what was copied."""

    files: int = 0
    """Files worth keeping."""
    copied: int = 0
    """Files whose copy was made or extended."""
    sessions: list[str] = field(default_factory=list)
    """The sessions of those files."""
    without_log: list[str] = field(default_factory=list)
    """Sessions without a main log: only agents' logs, todos and the like are left."""
    read_bytes: int = 0
    """How many bytes of them were new."""
    written_bytes: int = 0
    begun_anew: list[str] = field(default_factory=list)
    """Files that were rewritten since they were kept: a new generation began."""
    problems: list[Problem] = field(default_factory=list)
    """What could not be kept, and why."""


def keep(
    homes: Iterable[Home],
    *,
    sessions: Sessions | None = None,
    progress: Progress | None = None,
    lock_timeout: float = LOCK_TIMEOUT,
) -> KeepRun:
    """Copy what is new or grew in *homes*; with *sessions*, only their files.

    None among them is for files of no session. Raises StorageFull, after keeping the rest, if
    there is not enough space for everything.
    """
    run = KeepRun()
    room = _Room()
    found = []
    for home in homes:
        if os.path.isdir(home):
            unseen: list[Problem] = []
            files = list(home_files(home, problems=unseen))
            run.files += len(files)
            run.problems += unseen
            found.append((home, files, not unseen))
    steps = _Steps(progress)
    for home, files, is_whole in found:
        place = Path(kept_path(os.fspath(home), to_keep=True))
        if files or place.is_dir():
            with lock_mirror(place, lock_timeout):
                look = _HomeListing(home, place, files, sessions, is_whole and sessions is None)
                _keep_home(look, run, steps=steps, room=room)
    room.check()
    mains: dict[str | None, str] = {
        owner_of(each.name): each.path
        for _, files, _ in found
        for each in files
        if is_main_log(each.name)
    }
    owners = sorted(set(run.sessions))
    run.without_log = [each for each in owners if each not in mains]
    run.sessions = [
        each for each in owners if each not in mains or not is_subagent_log(mains[each])
    ]
    return run


class _Steps:
    """The progress of a run."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self.done = self.total = 0

    def take(self, count: int) -> None:
        self.done += count
        if self._progress is not None:
            self._progress(self.done, self.total)


class _Room:
    """What did not fit. Nothing as large is tried again, so a full disk is noticed early."""

    def __init__(self) -> None:
        self._left_out: list[str] = []
        self._smallest_bytes = math.inf
        self._place = Path()
        self._errno: int | None = None

    def make_copy(self, file: HomeFile, catalogue: Catalogue) -> NewCopy | NotKept:
        """Make a copy, if it may fit."""
        if file.size_bytes < self._smallest_bytes:
            try:
                return make_copy(file, catalogue)
            except OSError as error:
                if not isinstance(failure(error, catalogue.place), StorageFull):
                    raise
                self._smallest_bytes = min(self._smallest_bytes, file.size_bytes)
                self._place, self._errno = catalogue.place, error.errno
        self._left_out.append(file.path)
        return NotKept("there is no room for a copy of it")

    @property
    def is_enough(self) -> bool:
        return not self._left_out

    def check(self) -> None:
        """Raise if something was left out."""
        count = len(self._left_out)
        if count:
            what = f"copies of {count:,} files, such as" if count > 1 else "a copy of"
            raise StorageFull(
                f"no room for {what} {min(self._left_out)}",
                path=self._place,
                errno=self._errno,
                hint="make room and try again; all the rest is kept",
            )


class _HomeListing(Struct):
    """The files of a home found by a run; *is_whole* if no others can exist."""

    home: Home
    place: Path
    files: list[HomeFile]
    sessions: Sessions | None
    is_whole: bool


def _keep_home(look: _HomeListing, run: KeepRun, *, steps: _Steps, room: _Room) -> None:
    place, files, sessions = look.place, look.files, look.sessions
    catalogue = Catalogue.load(place)
    todo = list(changed_files(files, catalogue, sessions))
    steps.total += sum(file.size_bytes for file in todo)
    try:
        if files or not place.joinpath(HOME).exists():
            note_home(place, os.path.realpath(look.home))
        is_behind = not catalogue.is_sound
        roots = copy_roots(place).values()
        for file in todo:  # Files that exist already are not taken for gone.
            if any(os.path.lexists(kept_copy(root, file.name)) for root in roots):
                catalogue.claim(file.name)
        if sessions is None:
            sweep_beneath(place)
        else:
            sweep((place, *(_target(catalogue, file).parent for file in todo)))
        if sessions is None or is_behind:
            is_behind |= adopt_all(catalogue, but={file.name for file in todo})
        unsynced: set[Path] = set()
        with (
            closing(_made(todo, catalogue, steps, room, unsynced)) as made,
            closing(_batches(made)) as batches,
        ):
            for batch in batches:
                _take(batch, catalogue, run, unsynced)
        if look.is_whole:
            is_behind |= catalogue.note_found({file.name for file in files}, datetime.now(UTC))
        if is_behind:
            catalogue.save()
        if sessions is None and room.is_enough:
            note_run(place, datetime.now(UTC))
    except LogError:
        raise
    except OSError as error:
        raise failure(error, place) from None


def changed_files(
    files: Iterable[HomeFile], catalogue: Catalogue, sessions: Sessions | None = None
) -> Iterator[HomeFile]:
    """Return the files whose copies are not up to date, by size and mtime."""
    for file in files:
        if sessions is not None and owner_of_file(file) not in sessions:
            continue
        if not catalogue.has_all_of(file.name, file.size_bytes, file.mtime_ns):
            yield file


def _made(
    todo: list[HomeFile], catalogue: Catalogue, steps: _Steps, room: _Room, unsynced: set[Path]
) -> Generator[tuple[HomeFile, NewCopy | NotKept], None, None]:
    """Yield the copies in order, several made at a time.

    Directories that got new entries are added to *unsynced*.
    """
    waiting: deque[tuple[HomeFile, Future[NewCopy | NotKept]]] = deque()
    with ThreadPoolExecutor(_WORKERS) as workers:
        try:
            for file in todo:
                waiting.append((file, _begun(file, catalogue, room, workers, unsynced)))
                if len(waiting) > _AHEAD:
                    yield _one(waiting, steps)
            while waiting:
                yield _one(waiting, steps)
        finally:
            left = [job for _, job in waiting if not job.cancel()]
            done = [job.result() for job in left if job.exception() is None]
            discard(one for one in done if isinstance(one, NewCopy))


def _begun(
    file: HomeFile,
    catalogue: Catalogue,
    room: _Room,
    workers: ThreadPoolExecutor,
    unsynced: set[Path],
) -> Future[NewCopy | NotKept]:
    try:
        catalogue.claim(file.name)
        make_directory(_target(catalogue, file).parent, unsynced)
    except OSError as error:
        refusal = refused_name(error)
        if refusal is None:
            raise
        refused: Future[NewCopy | NotKept] = Future()
        refused.set_result(refusal)
        return refused
    return workers.submit(room.make_copy, file, catalogue)


def _target(catalogue: Catalogue, file: HomeFile) -> Path:
    return kept_copy(catalogue.root_of(file.name), file.name)


def _one(
    waiting: deque[tuple[HomeFile, Future[NewCopy | NotKept]]], steps: _Steps
) -> tuple[HomeFile, NewCopy | NotKept]:
    file, job = waiting.popleft()
    made = job.result()
    steps.take(file.size_bytes)
    return file, made


def _batches(
    made: Iterable[tuple[HomeFile, NewCopy | NotKept]],
) -> Generator[list[tuple[HomeFile, NewCopy | NotKept]], None, None]:
    batch: list[tuple[HomeFile, NewCopy | NotKept]] = []
    try:
        for each in made:
            batch.append(each)
            size = sum(one.written_bytes for _, one in batch if isinstance(one, NewCopy))
            if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
                full, batch = batch, []
                yield full
        if batch:
            full, batch = batch, []
            yield full
    finally:
        discard(one for _, one in batch if isinstance(one, NewCopy))


def _take(
    batch: list[tuple[HomeFile, NewCopy | NotKept]],
    catalogue: Catalogue,
    run: KeepRun,
    unsynced: set[Path],
) -> None:
    """Commit the copies of a batch and record them."""
    copies = [(file, one) for file, one in batch if isinstance(one, NewCopy)]
    run.problems += [
        Problem(Path(file.path), one.why) for file, one in batch if isinstance(one, NotKept)
    ]
    place_all([one for _, one in copies], catalogue, frozenset(unsynced))
    unsynced.clear()
    now = datetime.now(UTC)
    contained: list[Path] = []
    for file, one in copies:
        if one.is_blocked:
            run.problems.append(Problem(Path(file.path), "a directory has the name of its copy"))
            continue
        owner = owner_of_file(file)
        catalogue.current[file.name] = structs.replace(
            one.kept, kept_at=now, session=None if owner == owner_of(file.name) else owner
        )
        if one.is_placed:
            run.copied += 1
            run.read_bytes += one.read_bytes
            run.written_bytes += one.written_bytes
            run.sessions += [owner] if owner is not None else []
        if one.damage:
            run.problems.append(Problem(one.target, f"it was made again: {one.damage}"))
        elif one.replaces is not None:
            run.begun_anew.append(file.path)
            if log_in(file.name) is not None:
                # While the earlier contents are known: a rewritten log may have lost records.
                is_whole = has_every_record(catalogue, file.name)
                kept = structs.replace(catalogue.current[file.name], is_whole=is_whole)
                catalogue.current[file.name] = kept
            held = _drop_held(catalogue, file.name)
            root = catalogue.root_of(file.name)
            contained += [generation_copy(root, each, file.name) for each in held]
    catalogue.save()
    for path in contained:
        path.unlink(missing_ok=True)


def _drop_held(catalogue: Catalogue, name: str) -> list[int]:
    """Remove earlier generations that the newest begins with from the catalog; return them.

    A file that alternates between two states must not fill the disk.
    """
    kept, older = catalogue.current[name], catalogue.older.get(name, [])
    newest = Copy(name=name, generation=kept.generation, path=catalogue.copy_of(kept), known=kept)
    held = [each.generation for each in older if begins_with(newest, each)]
    older[:] = [each for each in older if each.generation not in held]
    return held


def owner_of_file(file: HomeFile) -> str | None:
    """Return the session of a file, by its name or by the records of a log."""
    log = log_beside(file.name)
    if log is None:
        return owner_at(file.name, file.path)
    return owner_in(Path(file.path).with_name(log.rpartition("/")[2]))
