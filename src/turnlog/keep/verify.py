"""Verify every kept copy and archive by reading it again.

A copy is compared with its digest, and with its file if that still exists. Problems are: missing
(the catalog lists a copy that does not exist), altered (a copy differs from what was kept; the
affected bytes are listed), extra (a copy that no catalog lists) and stale (its file has other
contents, though size and mtime are equal). The parity of copies and files is reported as well and
is not a problem: the same, behind a file that has grown, of a file that was rewritten, of one that
is gone. Archives in the homes, mainly of flat stores, must decompress and match their session's
metadata.

Nothing is changed, except that stale copies are marked in the catalog, so that the next run makes
them again. What seems wrong is checked once more after concurrent changes are done.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct, field, structs

from turnlog.errors import BrokenCopy, LogError, NotFound, TurnlogError
from turnlog.formats import Home, Problem, is_session_id
from turnlog.formats.flat.format import COMPRESSED, is_flat_archive
from turnlog.formats.flat.meta import Meta, read_meta
from turnlog.formats.home_files import HomeFile, home_files, is_in_registry, log_in, owner_of
from turnlog.formats.log_file import META
from turnlog.keep.catalog import Catalogue, KeptFile, lock_mirror
from turnlog.keep.copies.reader import (
    Copy,
    describe_copy,
    file_begins_with,
    readable_parts,
    unpacked,
)
from turnlog.keep.restore.restorable import Mirror, mirrors
from turnlog.storage.compressed import DIGEST_BYTES, BrokenFrame, Frames, read_table
from turnlog.storage.sources import opened_regular


class VerifyProblem(StrEnum):
    """A problem with a copy or an archive."""

    MISSING = "missing"
    ALTERED = "altered"
    EXTRA = "extra"
    STALE = "stale"  # Its file has other contents, though size and mtime are equal.


class Parity(StrEnum):
    """How a copy compares to its file."""

    SAME = "same"
    BEHIND = "behind"  # The file has grown since.
    DIFFERS = "differs"  # The file was rewritten since; the next run begins a new generation.
    GONE = "gone"
    UNREADABLE = "unreadable"


class ByteRange(Struct, frozen=True, kw_only=True):
    """Bytes of a file that its copy cannot return; to the end, if there is no length."""

    offset: int
    length: int | None


class VerifyFinding(Struct, frozen=True, kw_only=True):
    """A problem that was found."""

    kind: VerifyProblem
    home: str
    name: str
    """The file it is a copy of, relative to its home."""
    path: str
    """The copy, or the archive."""
    generation: int | None = None
    session: str | None = None
    detail: str = ""
    ranges: list[ByteRange] = []


class ParityRow(Struct, frozen=True, kw_only=True):
    """A file that differs from its copy."""

    name: str
    parity: Parity
    session: str | None
    behind_bytes: int = 0


class HomeVerifyReport(Struct, kw_only=True):
    """The result for one home's copies and archives."""

    home: str
    is_there: bool
    copies: int = 0
    generations: int = 0
    """Copies of earlier generations."""
    archives: int = 0
    """Archives in the home itself."""
    size_bytes: int = 0
    packed_bytes: int = 0
    same: int = 0
    behind: int = 0
    behind_bytes: int = 0
    differs: int = 0
    gone: int = 0
    unkept: int = 0
    """Files of the home without a copy so far."""
    unkept_bytes: int = 0
    unlike: list[ParityRow] = field(default_factory=list)
    """Files that have grown, were rewritten or cannot be read since they were kept."""


class VerifyReport(Struct, kw_only=True):
    """Everything that was read, and the problems found."""

    homes: list[HomeVerifyReport] = field(default_factory=list)
    findings: list[VerifyFinding] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """What could not be checked."""


_ARCHIVES: Final = (".gz", ".zst")


def verify_archives(
    home: Home, files: list[HomeFile], report: HomeVerifyReport, advance: Advance
) -> Iterator[VerifyFinding]:
    """Verify the archives of a home: those of its flat store, and other compressed logs."""
    names = {file.name for file in files}
    for file in files:
        if file.name.endswith(META) and is_in_registry(file.name):
            found = _lost(file, names)
        elif file.name.endswith(_ARCHIVES) and (
            log_in(file.name) is not None or COMPRESSED in file.name.split("/")[:-1]
        ):
            report.archives += 1
            report.packed_bytes += file.size_bytes
            found = _altered(file, report, advance)
        else:
            continue
        if found is not None:
            kind, detail, ranges = found
            yield VerifyFinding(
                kind=kind,
                home=os.path.abspath(home),
                name=file.name,
                path=file.path,
                session=owner_of(file.name),
                detail=detail,
                ranges=ranges,
            )


def _altered(
    file: HomeFile, report: HomeVerifyReport, advance: Advance
) -> tuple[VerifyProblem, str, list[ByteRange]] | None:
    """Read an archive to its end; return what is wrong with it, if anything."""
    good = 0

    def count(data: bytes) -> None:
        nonlocal good
        good += len(data)
        advance(len(data))

    try:
        held = unpacked(Path(file.path), tee=count)
    except NotFound:
        return None  # Gone since it was listed: restored, or deleted.
    except BrokenCopy as error:
        return VerifyProblem.ALTERED, error.message, [ByteRange(offset=good, length=None)]
    except (LogError, OSError) as error:
        return VerifyProblem.ALTERED, f"it cannot be read: {error}", []
    report.size_bytes += held.size_bytes
    meta = _meta_of(file)
    if meta is None or not meta.is_archived or meta.digest in {None, held.digest}:
        return None
    detail = "it does not hold what its metadata say was archived"
    return VerifyProblem.ALTERED, detail, [ByteRange(offset=0, length=held.size_bytes)]


def _meta_of(archive: HomeFile) -> Meta | None:
    """Return the metadata of the session of an archive."""
    path = Path(archive.path)
    session_id = path.name.removesuffix(".gz").removesuffix(".zst").removesuffix(".jsonl")
    if not is_flat_archive(path) or not is_session_id(session_id):
        return None
    found = read_meta(path.parent.with_name(session_id + META))
    return found if isinstance(found, Meta) else None


def _lost(
    meta_file: HomeFile, names: set[str]
) -> tuple[VerifyProblem, str, list[ByteRange]] | None:
    """Return the problem if metadata describe an archive that does not exist."""
    stem = meta_file.name.removesuffix(META)
    above, _, session_id = stem.rpartition("/")
    places = (f"{stem}.jsonl", f"{above}/{COMPRESSED}/{session_id}.jsonl".lstrip("/"))
    if any(place + end in names for place in places for end in ("", *_ARCHIVES)):
        return None
    meta = read_meta(Path(meta_file.path))
    if not isinstance(meta, Meta) or not meta.is_archived:
        return None
    return VerifyProblem.MISSING, "its metadata say it was archived, but no archive is there", []


Advance = Callable[[int], None]
"""Called with the number of bytes processed."""


def bytes_to_verify(homes: Iterable[Home]) -> int:
    """Return how much there is to read, as far as catalogs know."""
    total = 0
    for mirror in mirrors(homes):
        kept = (copy.known for copies in mirror.copies.values() for copy in copies)
        total += sum(known.size_bytes for known in kept if known is not None)
    return total


def verify(homes: Iterable[Home], *, advance: Advance | None = None) -> VerifyReport:
    """Read every copy and archive of *homes*, and compare."""
    done = VerifyReport()
    step = advance or (lambda _done: None)
    for home in homes:
        report = HomeVerifyReport(home=os.path.abspath(home), is_there=os.path.isdir(home))
        files = list(home_files(home, problems=done.problems)) if report.is_there else []
        kept: set[str] = set()
        for mirror in mirrors((home,)):
            done.findings += _Home(mirror, report, step).verify()
            kept.update(mirror.copies)
        new = [file.size_bytes for file in files if file.name not in kept]
        report.unkept, report.unkept_bytes = len(new), sum(new)
        done.findings += verify_archives(home, files, report, step)
        if report.copies or report.archives or report.generations or report.is_there:
            done.homes.append(report)
    return done


class _Home:
    """The copies of one home."""

    def __init__(self, mirror: Mirror, report: HomeVerifyReport, advance: Advance) -> None:
        self._mirror = mirror
        self._report = report
        self._advance = advance

    def verify(self) -> Iterator[VerifyFinding]:
        suspects = []
        for copies in self._mirror.copies.values():
            for copy in copies:
                is_newest = copy is copies[-1]
                if self._check(copy) is not None:
                    suspects.append((copy, is_newest))
                elif (stale := self._count(copy, None, is_newest=is_newest)) is not None:
                    yield stale
        if suspects or _strangers(self._mirror):
            yield from self._look_again(suspects)

    def _look_again(self, suspects: list[tuple[Copy, bool]]) -> Iterator[VerifyFinding]:
        """Check again what seemed wrong: it may have been kept again meanwhile, or deleted.

        Concurrent changes are waited for: until then copies are newer than their catalog.
        """
        with contextlib.ExitStack() as held:
            with contextlib.suppress(LogError, OSError):  # A read-only place does not change.
                held.enter_context(lock_mirror(self._mirror.place))
            now = Mirror(self._mirror.home, self._mirror.place)
            strangers = _strangers(now)
            checked = [
                (each, self._check(each), is_newest)
                for copy, is_newest in suspects
                for each in now.copies.get(copy.name, [])[-1 if is_newest else 0 :]
                if is_newest or each.generation == copy.generation
            ]
        for copy, seems, is_newest in checked:
            found = self._count(copy, seems, is_newest=is_newest)
            if found is not None:
                yield found
        for copy in strangers:
            yield self._finding(VerifyProblem.EXTRA, copy, "no file of a home has this name")

    def _count(
        self, copy: Copy, found: VerifyFinding | None, *, is_newest: bool
    ) -> VerifyFinding | None:
        """Count a copy; return its problem, *found* or by comparison with its file."""
        report = self._report
        report.copies += is_newest
        report.generations += not is_newest
        if copy.known is None:
            return found
        report.size_bytes += copy.known.size_bytes
        report.packed_bytes += copy.known.packed_bytes
        if not is_newest:
            return found
        parity = self._compare(copy, copy.known)
        if found is None and parity is Parity.DIFFERS and self._seems_same(copy.known):
            return self._stale(copy, copy.known)
        if found is not None and parity in {Parity.SAME, Parity.BEHIND}:
            return structs.replace(found, detail=f"{found.detail}; the file itself is complete")
        return found

    def _check(self, copy: Copy) -> VerifyFinding | None:
        known = copy.known
        try:
            if known is None:
                kept = describe_copy(copy)
                self._advance(kept.size_bytes)
                detail = "it is not in the catalog; the next turnlog keep adds it"
                return self._finding(VerifyProblem.EXTRA, copy, detail)
            bad = list(self._bad_ranges(copy, known))
        except NotFound:
            return self._finding(
                VerifyProblem.MISSING, copy, "it is in the catalog, but does not exist"
            )
        except BrokenCopy as error:
            kind = VerifyProblem.ALTERED if known is not None else VerifyProblem.EXTRA
            return self._finding(kind, copy, error.message.removeprefix(f"{copy.path} "))
        except (LogError, OSError) as error:
            return self._finding(VerifyProblem.ALTERED, copy, f"it cannot be read: {error}")
        if not bad:
            return None
        lost = sum(each.length or 0 for each in bad)
        detail = f"{lost:,} of {known.size_bytes:,} bytes are not those that were kept"
        if any(each.length is None for each in bad):
            detail = f"it reads back only up to byte {bad[-1].offset:,}"
        return self._finding(VerifyProblem.ALTERED, copy, detail, bad)

    def _bad_ranges(self, copy: Copy, known: KeptFile) -> Iterator[ByteRange]:
        """Return the bytes of the file that its copy cannot return."""
        with opened_regular(copy.path) as fd:
            table = read_table(fd)
            if table is None:
                good = sum(map(len, readable_parts(copy.path)))
                self._advance(known.size_bytes)
                yield ByteRange(offset=min(good, known.size_bytes), length=None)
                return
            if table.size_bytes > known.size_bytes:
                describe_copy(copy)  # It has grown, or is something else.
                self._advance(known.size_bytes)
                return
            frames = Frames(fd, table)
            for number, frame in enumerate(table.frames):
                digest = known.digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]
                if not _holds(frames, number, digest):
                    yield ByteRange(offset=frame.start, length=frame.size_bytes)
                self._advance(frame.size_bytes)
            if table.size_bytes < known.size_bytes:
                yield ByteRange(offset=table.size_bytes, length=known.size_bytes - table.size_bytes)

    def _compare(self, copy: Copy, known: KeptFile) -> Parity:
        """Record how the copy compares to its file."""
        parity, behind_bytes = self._parity(copy, known)
        report = self._report
        report.same += parity is Parity.SAME
        report.gone += parity is Parity.GONE
        report.behind += parity is Parity.BEHIND
        report.behind_bytes += behind_bytes
        report.differs += parity in {Parity.DIFFERS, Parity.UNREADABLE}
        if parity not in {Parity.SAME, Parity.GONE}:
            report.unlike.append(
                ParityRow(
                    name=copy.name,
                    parity=parity,
                    session=_owner(copy),
                    behind_bytes=behind_bytes,
                )
            )
        return parity

    def _parity(self, copy: Copy, known: KeptFile) -> tuple[Parity, int]:
        try:
            with opened_regular(self._file(copy.name)) as fd:
                size = os.fstat(fd).st_size
                if size < known.size_bytes or not file_begins_with(fd, known):
                    return Parity.DIFFERS, 0
        except NotFound:
            return Parity.GONE, 0
        except (TurnlogError, OSError):
            return Parity.UNREADABLE, 0
        more = size - known.size_bytes
        return (Parity.BEHIND, more) if more else (Parity.SAME, 0)

    def _seems_same(self, known: KeptFile) -> bool:
        """Return whether keep would take a file for the one that was kept, by size and mtime."""
        try:
            now = os.stat(self._file(known.name))
        except OSError:
            return False
        is_of_then = known.is_doubted or known.mtime_ns == now.st_mtime_ns
        return is_of_then and known.size_bytes == now.st_size

    def _stale(self, copy: Copy, known: KeptFile) -> VerifyFinding | None:
        """Mark a stale copy to be made again; None if that has happened meanwhile."""
        try:
            if not known.is_doubted and not self._doubt(known):
                return None
            note = "the next turnlog keep makes it again"
        except (LogError, OSError) as error:
            note = f"it could not be marked to be made again: {error}"
        why = "its file has other contents, with the size and mtime that were kept"
        return self._finding(VerifyProblem.STALE, copy, f"{why}; {note}")

    def _doubt(self, known: KeptFile) -> bool:
        place = self._mirror.place
        with lock_mirror(place):
            catalogue = Catalogue.load(place)
            if catalogue.current.get(known.name) != known:
                return False
            catalogue.doubt([known.name])
            catalogue.save()
        return True

    def _file(self, name: str) -> str:
        return os.path.join(self._mirror.home, *name.split("/"))

    def _finding(
        self, kind: VerifyProblem, copy: Copy, detail: str, ranges: list[ByteRange] | None = None
    ) -> VerifyFinding:
        return VerifyFinding(
            kind=kind,
            home=self._report.home,
            name=copy.name,
            path=str(copy.path),
            generation=copy.generation,
            session=_owner(copy),
            detail=detail,
            ranges=ranges or [],
        )


def _strangers(mirror: Mirror) -> list[Copy]:
    """Return files in a mirror that look like copies of no kept file."""
    return [
        Copy(name=name, generation=generation or 1, path=path)
        for name, path, generation in mirror.lying()
        if name not in mirror.copies
    ]


def _holds(frames: Frames, number: int, digest: bytes) -> bool:
    try:
        return sha256(frames.unpacked(number)).digest() == digest
    except BrokenFrame:
        return False


def _owner(copy: Copy) -> str | None:
    return owner_of(copy.name) or (copy.known.session if copy.known is not None else None)
