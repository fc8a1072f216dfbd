"""Packed logs to be rough with, in frames small enough to have many of."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import strategies as st

from turnlog.storage import compressed
from turnlog.storage.compressed import Packed, Packer
from turnlog.storage.sources import FramedSource, open_source

SMALL = 64
# Where there is one, a disk in memory: files are replaced here by the thousand.
QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A directory for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="turnlog-log-", dir=QUICK) as folder:
        yield Path(folder)


@contextmanager
def frames_of(size_bytes: int) -> Iterator[None]:
    """Let frames be cut at *size_bytes*, as they are at a mebibyte otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "FRAME_BYTES", size_bytes)
        yield


def pack_to(
    path: Path, pieces: Iterable[bytes], earlier: tuple[Path, Packed] | None = None
) -> Packed:
    """Pack *pieces* behind what an earlier packed file holds; *path* may be that file's own."""
    before = os.open(earlier[0], os.O_RDONLY) if earlier is not None else -1
    fresh = path.with_name(path.name + ".new")
    fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        packer = Packer(fd, (before, earlier[1]) if earlier is not None else None)
        for piece in pieces:
            packer.feed(piece)
        packed = packer.finish()
    finally:
        os.close(fd)
        if earlier is not None:
            os.close(before)
    os.replace(fresh, path)
    return packed


def packed_in_steps(path: Path, steps: Iterable[bytes]) -> Packed:
    """Pack by adding step by step to the file that the last one made."""
    packed = None
    for step in steps:
        packed = pack_to(path, [step], (path, packed) if packed is not None else None)
    return packed or pack_to(path, [])


def framed(path: Path) -> closing[FramedSource]:
    """Open a packed log that must have a table to rely on."""
    source = open_source(path)
    assert isinstance(source, FramedSource)
    return closing(source)


def all_of(path: Path) -> bytes:
    """Read a log from front to end, whatever it is packed in."""
    with closing(open_source(path)) as source:
        return b"".join(iter(lambda: source.read(1 << 16), b""))


@st.composite
def contents(draw: st.DrawFn, frame_bytes: int = SMALL) -> bytes:
    """Bytes whose lines end at, just before or just after the edges of frames, or nowhere."""
    lengths = st.sampled_from(
        [0, 1, 2, frame_bytes - 2, frame_bytes - 1, frame_bytes, frame_bytes + 1, 3 * frame_bytes]
    ) | st.integers(0, 2 * frame_bytes)
    parts = []
    for length in draw(st.lists(lengths, max_size=8)):
        filling = draw(st.sampled_from([b"a", b"\0", b"\xff", b"kite "]))
        body = (filling * (length // len(filling) + 1))[:length]
        parts.append(body + draw(st.sampled_from([b"\n", b"\n", b"", b"\r\n"])))
    return b"".join(parts) + draw(st.binary(max_size=2 * frame_bytes))


@st.composite
def stepped(draw: st.DrawFn, frame_bytes: int = SMALL) -> tuple[bytes, list[bytes]]:
    """Some bytes, and the same bytes in steps."""
    data = draw(contents(frame_bytes))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    edges = [0, *cuts, len(data)]
    return data, [data[start:end] for start, end in itertools.pairwise(edges)]
