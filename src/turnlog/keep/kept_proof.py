"""Kept copies proved against the files they are of, before any file goes on their strength.

Size and time tell keeping that a copy is up to date. They may lie: a program may set a file's time,
and a disk may rot. So whoever lets a file go reads it and its copy, byte for byte, first. A copy
that is not as its file is doubted, and the next keeping makes it anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from turnlog.errors import LogLocked
from turnlog.formats import Home
from turnlog.formats.kept_copies import kept_copy
from turnlog.keep.belongings import Belonging
from turnlog.keep.catalogue import Catalogue, KeptFile
from turnlog.keep.moving import Spot
from turnlog.keep.proving import Proof, check_copy, prove
from turnlog.keep.reading import Copy, as_it_lies, content


def prove_kept(good: Belonging, home: Home, catalogue: Catalogue) -> Proof | None:
    """Prove that the kept copy of a file of *home* holds what the file does, and give the proof.

    None if there is no copy of the file, or one that is doubted. Raises BrokenCopy if the copy
    holds something else, LogLocked if the file was written to since it was listed or kept.
    """
    proof = prove(Spot(Path(os.path.realpath(home)), good.name))
    known = catalogue.current.get(good.name)
    if known is None or known.is_doubted:
        return None
    stamps = {(each.size_bytes, each.mtime_ns) for each in (good, known)}
    if stamps != {(proof.content.size_bytes, proof.mtime_ns)}:
        raise LogLocked(
            f"{good.path} is being written",
            path=good.path,
            hint="wait until its writer is done, and try again; nothing was removed",
        )
    read_back(catalogue, good.name)
    check_copy(catalogue.copy_of(known), proof, good.name.rpartition("/")[2])
    return proof


def read_back(catalogue: Catalogue, name: str) -> None:
    """Read a copy against its digests; a BrokenCopy if it does not hold what was kept."""
    for _ in content(*known_copy(catalogue, name)):
        pass


def known_copy(catalogue: Catalogue, name: str) -> tuple[Copy, KeptFile]:
    """Give a copy, and what is known of it, or what it shows if the catalogue was lost."""
    kept = catalogue.current.get(name)
    number = kept.generation if kept is not None else 1
    path = kept_copy(catalogue.root_of(name), name)
    copy = Copy(name=name, generation=number, path=path, known=kept)
    return copy, kept if kept is not None else as_it_lies(copy)
