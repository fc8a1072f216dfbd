"""Archives of a flat store: ``compressed/ID.jsonl.gz``, with the files of ``ID/``.

    compress every file ─► read it back ─► sync, rename ─► record it ─► remove the log, the rest

Everything is compressed and verified before anything is removed, so every file is complete at one
of its two places at every moment. The log is removed first: from then on the session is its
archive, and archiving again removes what a kill leaves. Unarchiving goes the other way round, the
log last. If both exist the log wins, so a session is never seen in halves. A lock lets one process
per store archive or unarchive.

An archive always has the same bytes. Blobs are compressed already and are copied as they are.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from turnlog.errors import BrokenCopy, NotFound, UsageError
from turnlog.formats import flat_meta, looks_like_log
from turnlog.formats.flat.files import hold_directory, set_aside
from turnlog.formats.flat.format import COMPRESSED
from turnlog.formats.flat.meta import LiveMeta, Meta, find_log, read_meta
from turnlog.formats.flat.registry import update_registry, write_meta
from turnlog.formats.walk import DirectoryWalk
from turnlog.keep.copies import reader
from turnlog.keep.copies.copy_file import HOUR, sweep
from turnlog.keep.file_moves import Spot, locked, remove_empty
from turnlog.storage.atomic_files import Unreadable
from turnlog.storage.sources import open_source
from turnlog.storage.system import sync, write_all

_LEVEL: Final = 6
_GZIP: Final = 31  # zlib's code for gzip's format, without a name and a time in the header.
_PIECE_BYTES: Final = 1024 * 1024


class FlatFile(NamedTuple):
    """A file of a session: its name in the store, and its archive's name."""

    plain: str
    packed: str

    @property
    def is_blob(self) -> bool:
        return self.plain == self.packed.removeprefix(f"{COMPRESSED}/")


class FlatArchive(NamedTuple):
    """What a session's archive holds, all files together, and its log alone."""

    main: reader.Content
    files: int
    size_bytes: int
    packed_bytes: int
    was_archived: bool


def ratio(packed_bytes: int, size_bytes: int) -> float | None:
    """Return the compressed size divided by the original size; None for an empty file."""
    return round(packed_bytes / size_bytes, 4) if size_bytes else None


def place_of(log: Path) -> Path:
    """Return the flat store of a log or archive."""
    return log.parent.parent if log.parent.name == COMPRESSED else log.parent


# -- packing --------------------------------------------------------------------------------


def archive_flat(directory: Path, session_id: str, when_held: Callable[[], None]) -> FlatArchive:
    """Compress a session of the flat store at *directory*, verify it, and remove the originals.

    *when_held* is called while its logs are locked; it raises if the session must stay.
    """
    with contextlib.ExitStack() as held:
        held.enter_context(hold_directory(directory / COMPRESSED))
        _sweep(directory, session_id)
        main = FlatFile(f"{session_id}.jsonl", f"{COMPRESSED}/{session_id}.jsonl.gz")
        files = [*_side_files(directory, session_id), main]
        plain = [each for each in files if Spot(directory, each.plain).status() is not None]
        held.enter_context(reader.typed(directory / main.packed))
        for each in plain:
            if looks_like_log(each.plain.rpartition("/")[2]):
                held.enter_context(locked(Spot(directory, each.plain)))
        when_held()
        proofs = {each: _pack(directory, each) for each in plain}
        known = proofs[main].content if main in proofs else None
        found = _described(directory, session_id, known)
        if known is not None:
            meta, live = _meta(directory, session_id, found)
            _write_down(directory, meta, live)
        for each in reversed(plain):
            reader.remove_compared(Spot(directory, each.plain), proofs[each])
        if known is not None:
            # A registry rebuilt meanwhile still saw the log.
            _write_down(directory, meta, live)
        _remove_directories(directory, session_id)
    return found


def _side_files(directory: Path, session_id: str) -> Iterator[FlatFile]:
    """Return the files in the session's own directory."""
    top = os.path.join(directory, "")
    for item in DirectoryWalk().files_beneath(os.path.join(top, session_id)):
        if not item.linked and not item.name.startswith(".turnlog-"):
            plain = item.path.removeprefix(top).replace(os.sep, "/")
            is_blob = plain.startswith(f"{session_id}/blobs/")
            yield FlatFile(plain, f"{COMPRESSED}/{plain}" + ("" if is_blob else ".gz"))


def _pack(directory: Path, file: FlatFile) -> reader.Comparison:
    """Create the archive of one file if missing; return the proof of its contents."""
    source, target = Spot(directory, file.plain), directory / file.packed
    if os.path.lexists(target):
        try:
            if not reader.is_prefix(target, source.path, is_blob=file.is_blob):
                raise _different(target)
        except BrokenCopy:
            set_aside(target)

    def fill(fd: int) -> reader.Comparison:
        if file.is_blob:
            return reader.compare_file(source, tee=lambda data: write_all(fd, data))
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        proof = reader.compare_file(source, tee=lambda data: write_all(fd, packer.compress(data)))
        write_all(fd, packer.flush())
        return proof

    def check(path: Path, proof: reader.Comparison) -> None:
        if not file.is_blob:
            reader.check_copy(path, proof, file.plain.rpartition("/")[2])
        elif reader.compare_file(Spot(path.parent, path.name)).content != proof.content:
            raise reader.broken(path, "it is another file")

    return _put_proved(Spot(directory, file.packed), fill, check, overwrite=True)


def _meta(directory: Path, session_id: str, found: FlatArchive) -> tuple[Meta, LiveMeta]:
    """Return the metadata of an archive."""
    live = LiveMeta(directory, session_id)
    live.refresh()
    packed_bytes = os.stat(directory / COMPRESSED / f"{session_id}.jsonl.gz").st_size
    meta = replace(
        live.meta(),
        is_archived=True,
        compression_ratio=ratio(packed_bytes, found.main.size_bytes),
        digest=found.main.digest,
        record_count=found.main.records,
    )
    return meta, live


def _write_down(directory: Path, meta: Meta, live: LiveMeta) -> None:
    write_meta(directory, meta, live=live)
    update_registry(directory, meta)


def _described(directory: Path, session_id: str, main: reader.Content | None) -> FlatArchive:
    """Return what an archive holds; *main* is its log's content, if it was just read."""
    log = find_log(directory, session_id)
    canonical = directory / COMPRESSED / f"{session_id}.jsonl.gz"
    archive = log.path if log is not None and log.is_archive else canonical
    was_archived = main is None
    if main is None:
        main = reader.content_of(open_source(archive), f"{session_id}.jsonl")
    sizes = [(main.size_bytes, archive.stat().st_size)]
    for name in _packed_side_files(directory, session_id):
        packed_bytes = (directory / name).stat().st_size
        is_blob = _is_blob(name)
        size = packed_bytes if is_blob else reader.unpacked(directory / name).size_bytes
        sizes.append((size, packed_bytes))
    return FlatArchive(
        main,
        len(sizes),
        sum(size for size, _ in sizes),
        sum(packed_bytes for _, packed_bytes in sizes),
        was_archived,
    )


# -- unpacking ------------------------------------------------------------------------------


def unarchive_flat(directory: Path, session_id: str, archive: Path | None) -> int:
    """Restore a session's files; *archive* is that of its log, None if the log exists again.

    Returns how many there were.
    """
    archive = archive or directory / COMPRESSED / f"{session_id}.jsonl.gz"
    main = Spot(directory, f"{session_id}.jsonl")
    with hold_directory(directory / COMPRESSED):
        _sweep(directory, session_id)
        files = [
            FlatFile(_plain_name(each), each) for each in _packed_side_files(directory, session_id)
        ]
        if os.path.lexists(archive):  # Otherwise another process was faster.
            files.append(FlatFile(main.name, archive.relative_to(directory).as_posix()))
        with reader.typed(main.path), locked(main):
            for each in files:
                is_main = each.plain == main.name
                digest = _digest_known(directory, session_id) if is_main else None
                _unpack(directory, each, digest)
            # Before the archive is removed: the metadata must not describe a missing archive.
            live = LiveMeta(directory, session_id)
            with contextlib.suppress(NotFound):  # Its log is lost, and only subagents' are left.
                if files:
                    live.refresh()
                    _write_down(directory, live.meta(), live)
            for each in reversed(files):
                _remove_packed(directory, each)
        _remove_directories(directory, session_id)
    return len(files)


def unpack_in_place(archive: Path) -> int:
    """Decompress a log that was compressed in place, in any layout."""
    file = FlatFile(archive.name.rpartition(".")[0], archive.name)
    target = Spot(archive.parent, file.plain)
    with reader.typed(target.path), locked(target):
        _unpack(archive.parent, file, None)
        _remove_packed(archive.parent, file)
    return 1


def is_archive_present(directory: Path, session_id: str) -> bool:
    """Return whether an archive, or a part of one, is left of a session whose log exists."""
    compressed = directory / COMPRESSED
    main = compressed / f"{session_id}.jsonl.gz"
    return os.path.lexists(main) or (compressed / session_id).is_dir()


def _packed_side_files(directory: Path, session_id: str) -> list[str]:
    top = os.path.join(directory, "")
    found = DirectoryWalk().files_beneath(os.path.join(top, COMPRESSED, session_id))
    names = (each.path.removeprefix(top).replace(os.sep, "/") for each in found if not each.linked)
    return [name for name in names if name.endswith(".gz") or _is_blob(name)]


def _plain_name(packed: str) -> str:
    plain = packed.removeprefix(f"{COMPRESSED}/")
    return plain if _is_blob(packed) else plain.removesuffix(".gz")


def _is_blob(packed: str) -> bool:
    return packed.split("/")[2:3] == ["blobs"]


def _digest_known(directory: Path, session_id: str) -> str | None:
    meta = read_meta(flat_meta(directory, session_id))
    return None if isinstance(meta, Unreadable) or not meta.is_archived else meta.digest


def _unpack(directory: Path, file: FlatFile, digest: str | None) -> None:
    """Restore one file unless it exists; raise BrokenCopy if its contents changed."""
    source, target = directory / file.packed, Spot(directory, file.plain)
    if target.status() is not None:
        if not reader.is_prefix(source, target.path, is_blob=file.is_blob):
            raise _different(target.path)
        return
    mtime_ns = source.stat().st_mtime_ns

    def fill(fd: int) -> reader.Comparison:
        if file.is_blob:
            spot = Spot(directory, file.packed)
            content = reader.compare_file(spot, tee=lambda data: write_all(fd, data)).content
        else:
            content = reader.unpacked(source, tee=lambda data: write_all(fd, data))
        if digest is not None and content.digest != digest:
            raise reader.broken(source, f"its SHA-256 is {content.digest}, and was {digest}")
        return reader.Comparison(content, 0, 0, mtime_ns)

    def check(path: Path, proof: reader.Comparison) -> None:
        found = reader.compare_file(Spot(path.parent, path.name)).content
        if (found.size_bytes, found.digest) != (proof.content.size_bytes, proof.content.digest):
            raise reader.broken(path, "it is another file")

    try:
        _put_proved(target, fill, check, overwrite=False)
    except FileExistsError:
        if not reader.is_prefix(source, target.path, is_blob=file.is_blob):
            raise _different(target.path) from None


def _remove_packed(directory: Path, file: FlatFile) -> None:
    packed = Spot(directory, file.packed)
    with contextlib.suppress(FileNotFoundError), packed.folder() as folder:
        folder.remove(packed.parts[-1])
        folder.sync()


# -- both ways ------------------------------------------------------------------------------


def _put_proved(
    target: Spot,
    fill: Callable[[int], reader.Comparison],
    check: Callable[[Path, reader.Comparison], None],
    *,
    overwrite: bool,
) -> reader.Comparison:
    """Write a file, read it back, and only then give it its name; durable when this returns."""
    with target.folder(make=True) as folder:
        with folder.replacing(target.parts[-1], overwrite=overwrite) as (fd, temporary):
            try:
                proof = fill(fd)
                # The archive has the mtime of its contents, and so does a restored file.
                os.utime(fd, ns=(proof.mtime_ns, proof.mtime_ns))
                sync(fd)
            finally:
                os.close(fd)
            check(target.path.with_name(temporary), proof)
        folder.sync()
    return proof


def _remove_directories(directory: Path, session_id: str) -> None:
    """Remove the session's empty directories, here and in ``compressed/``."""
    for each in sorted(_own_directories(directory, session_id), key=len, reverse=True):
        remove_empty(directory, Path(each).relative_to(directory).as_posix())


def _own_directories(directory: Path, session_id: str) -> list[str]:
    tops = (directory / session_id, directory / COMPRESSED / session_id)
    return [each for top in tops for each, _, _ in os.walk(top)]


def _sweep(directory: Path, session_id: str) -> None:
    """Remove unfinished files of a killed process."""
    own = map(Path, _own_directories(directory, session_id))
    sweep((directory, directory / COMPRESSED, *own), unused_for=HOUR)


def _different(path: Path) -> UsageError:
    return UsageError(
        f"a different file exists at {path}",
        hint="move it away first; nothing is overwritten, and the archive stays",
    )
