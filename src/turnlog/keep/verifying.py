"""Verifying: every kept copy and archive is read again and compared.

It is compared with its digest, and with the file that it is a copy of if that is still there. Found
wrong is what is missing (the catalogue knows a copy that is not there), altered (a copy does not
read back as what was kept; which bytes of the file that concerns is told, the others can be used),
extra (a copy that no catalogue knows) or stale (its file holds something else, though size and time
say that it does not). How copies stand to the files of the home is told beside it and is no fault:
the same, behind a file that has grown, of a file that was rewritten since, of one that is gone.

Nothing is changed, but that the catalogue is told of stale copies, so that the next keeping makes
them anew. Whoever keeps or deletes copies meanwhile is noticed: what seems wrong is looked at once
more when that is done, with the catalogue of that moment.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

from msgspec import structs

from turnlog.errors import BrokenCopy, LogError, NotFound, TurnlogError
from turnlog.formats import Home
from turnlog.formats.home_files import home_files, owner_of
from turnlog.keep.catalogue import Catalogue, KeptFile
from turnlog.keep.copying import LOCK_TIMEOUT, turn
from turnlog.keep.reading import Copy, as_it_lies, file_begins_with, what_is_left
from turnlog.keep.restorable import Mirror, mirrors
from turnlog.keep.verified import (
    Finding,
    HomeVerified,
    Kind,
    Parity,
    ParityRow,
    Range,
    Verified,
)
from turnlog.keep.verifying_archives import verify_archives
from turnlog.storage.compressed import DIGEST_BYTES
from turnlog.storage.frames import BrokenFrame, Frames, read_table
from turnlog.storage.sources import open_regular

Advance = Callable[[int], None]
"""Told of bytes that were worked through, whenever some were."""


def bytes_to_verify(homes: Iterable[Home]) -> int:
    """Tell how much there is to read, as far as catalogues know."""
    total = 0
    for mirror in mirrors(homes):
        kept = (copy.known for copies in mirror.copies.values() for copy in copies)
        total += sum(known.size_bytes for known in kept if known is not None)
    return total


def verify(homes: Iterable[Home], *, advance: Advance | None = None) -> Verified:
    """Read every copy and archive of *homes*, and compare."""
    done = Verified()
    step = advance or (lambda _done: None)
    for home in homes:
        report = HomeVerified(home=os.path.abspath(home), is_there=os.path.isdir(home))
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

    def __init__(self, mirror: Mirror, report: HomeVerified, advance: Advance) -> None:
        self._mirror = mirror
        self._report = report
        self._advance = advance

    def verify(self) -> Iterator[Finding]:
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

    def _look_again(self, suspects: list[tuple[Copy, bool]]) -> Iterator[Finding]:
        """Look at what seemed wrong as it is now: it may have been kept anew meanwhile, or deleted.

        Whoever is changing the copies is let finish: till then they are ahead of their catalogue.
        """
        with self._held():
            now = Mirror(self._mirror.home, self._mirror.place)
            strangers = _strangers(now)
            checked = [
                (each, self._check(each), is_newest)
                for copy, is_newest in suspects
                for each in _same(copy, now.copies.get(copy.name, []), is_newest=is_newest)
            ]
        for copy, seems, is_newest in checked:
            found = self._count(copy, seems, is_newest=is_newest)
            if found is not None:
                yield found
        for copy in strangers:
            yield self._finding(Kind.EXTRA, copy, "no file of a home is called that")

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the mirror, if that can be done: where nobody may write, nobody changes copies."""
        with contextlib.ExitStack() as held:
            with contextlib.suppress(LogError, OSError):
                held.enter_context(turn(self._mirror.place, LOCK_TIMEOUT))
            yield

    def _count(self, copy: Copy, found: Finding | None, *, is_newest: bool) -> Finding | None:
        """Take note of a copy; give what is wrong with it, *found* or as its file tells."""
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
            return structs.replace(found, detail=f"{found.detail}; the file itself is whole")
        return found

    def _check(self, copy: Copy) -> Finding | None:
        known = copy.known
        try:
            if known is None:
                kept = as_it_lies(copy)
                self._advance(kept.size_bytes)
                detail = "the catalogue does not know it; the next keeping takes it over"
                return self._finding(Kind.EXTRA, copy, detail)
            bad = list(self._bad_ranges(copy, known))
        except NotFound:
            return self._finding(Kind.MISSING, copy, "the catalogue knows it, but it is not there")
        except BrokenCopy as error:
            kind = Kind.ALTERED if known is not None else Kind.EXTRA
            return self._finding(kind, copy, error.message.removeprefix(f"{copy.path} "))
        except (LogError, OSError) as error:
            return self._finding(Kind.ALTERED, copy, f"it cannot be read: {error}")
        if not bad:
            return None
        lost = sum(each.length or 0 for each in bad)
        detail = f"{lost:,} of {known.size_bytes:,} bytes are not those that were kept"
        if any(each.length is None for each in bad):
            detail = f"it reads back only up to byte {bad[-1].offset:,}"
        return self._finding(Kind.ALTERED, copy, detail, bad)

    def _bad_ranges(self, copy: Copy, known: KeptFile) -> Iterator[Range]:
        """Give the bytes of the file that its copy does not give back."""
        fd = open_regular(copy.path)
        try:
            table = read_table(fd)
            if table is None:
                good = sum(map(len, what_is_left(copy.path)))
                self._advance(known.size_bytes)
                yield Range(offset=min(good, known.size_bytes), length=None)
                return
            if table.size_bytes > known.size_bytes:
                as_it_lies(copy)  # It has grown, or is something else.
                self._advance(known.size_bytes)
                return
            frames = Frames(fd, table)
            for number, frame in enumerate(table.frames):
                if not _holds(frames, number, _digest(known, number)):
                    yield Range(offset=frame.start, length=frame.size_bytes)
                self._advance(frame.size_bytes)
            if table.size_bytes < known.size_bytes:
                yield Range(offset=table.size_bytes, length=known.size_bytes - table.size_bytes)
        finally:
            os.close(fd)

    def _compare(self, copy: Copy, known: KeptFile) -> Parity:
        """Note how the copy stands to its file."""
        parity, behind_bytes = self._parity(copy, known)
        report = self._report
        match parity:
            case Parity.SAME:
                report.same += 1
            case Parity.GONE:
                report.gone += 1
            case Parity.BEHIND:
                report.behind += 1
                report.behind_bytes += behind_bytes
            case _:
                report.differs += 1
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
            fd = open_regular(self._file(copy.name))
        except NotFound:
            return Parity.GONE, 0
        except (TurnlogError, OSError):
            return Parity.UNREADABLE, 0
        try:
            size = os.fstat(fd).st_size
            if size < known.size_bytes or not file_begins_with(fd, known):
                return Parity.DIFFERS, 0
            more = size - known.size_bytes
            return (Parity.BEHIND, more) if more else (Parity.SAME, 0)
        except OSError:
            return Parity.UNREADABLE, 0
        finally:
            os.close(fd)

    def _seems_same(self, known: KeptFile) -> bool:
        """Tell whether keeping would take a file for the one that was kept, by size and time."""
        try:
            now = os.stat(self._file(known.name))
        except OSError:
            return False
        is_of_then = known.is_doubted or known.mtime_ns == now.st_mtime_ns
        return is_of_then and known.size_bytes == now.st_size

    def _stale(self, copy: Copy, known: KeptFile) -> Finding | None:
        """Have a copy made anew that keeping would not look at; None if that was done meanwhile."""
        try:
            if not known.is_doubted and not self._doubt(known):
                return None
            told = "the next keeping makes it anew"
        except (LogError, OSError) as error:
            told = f"the next keeping could not be told: {error}"
        why = "its file holds something else, with the size and the time that were kept"
        return self._finding(Kind.STALE, copy, f"{why}; {told}")

    def _doubt(self, known: KeptFile) -> bool:
        place = self._mirror.place
        with turn(place, LOCK_TIMEOUT):
            catalogue = Catalogue.load(place)
            if catalogue.current.get(known.name) != known:
                return False
            catalogue.doubt([known.name])
            catalogue.save()
        return True

    def _file(self, name: str) -> str:
        return os.path.join(self._mirror.home, *name.split("/"))

    def _finding(
        self, kind: Kind, copy: Copy, detail: str, ranges: list[Range] | None = None
    ) -> Finding:
        return Finding(
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
    """Give what lies in a mirror like a copy, and is none of any file that is kept."""
    return [
        Copy(name=name, generation=generation or 1, path=path)
        for name, path, generation in mirror.lying()
        if name not in mirror.copies
    ]


def _same(copy: Copy, now: list[Copy], *, is_newest: bool) -> list[Copy]:
    """Give what took a copy's place among those that there are *now* of its file, if anything."""
    return now[-1:] if is_newest else [each for each in now if each.generation == copy.generation]


def _holds(frames: Frames, number: int, digest: bytes) -> bool:
    try:
        return sha256(frames.unpacked(number)).digest() == digest
    except BrokenFrame:
        return False


def _digest(known: KeptFile, number: int) -> bytes:
    return known.digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]


def _owner(copy: Copy) -> str | None:
    return owner_of(copy.name) or (copy.known.session if copy.known is not None else None)
