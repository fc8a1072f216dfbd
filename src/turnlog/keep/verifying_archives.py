"""Archives that lie in the homes themselves, read to their end: those of flat stores above all.

An archive is good if it unpacks as a whole and holds what its session's metadata say was archived.
Metadata that speak of an archive which is not there are told as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from turnlog.errors import BrokenCopy, LogError, NotFound
from turnlog.formats import Home, is_session_id
from turnlog.formats.flat.registry import Meta, read_meta
from turnlog.formats.home_files import HomeFile, owner_of
from turnlog.keep.proving import unpacked
from turnlog.keep.restorable import log_in
from turnlog.keep.verified import Finding, HomeVerified, Kind, Range

Advance = Callable[[int], None]

_ARCHIVES: Final = (".gz", ".zst")
_META: Final = ".meta.json"


def verify_archives(
    home: Home, files: list[HomeFile], report: HomeVerified, advance: Advance
) -> Iterator[Finding]:
    """Read the archives of a home: those of its flat store, and other compressed logs."""
    names = {file.name for file in files}
    for file in files:
        if file.name.endswith(_META) and not file.name.startswith("projects/"):
            found = _lost(file, names)
        elif _is_archive(file.name):
            report.archives += 1
            report.packed_bytes += file.size_bytes
            found = _altered(file, report, advance)
        else:
            continue
        if found is not None:
            kind, detail, ranges = found
            yield Finding(
                kind=kind,
                home=os.path.abspath(home),
                name=file.name,
                path=file.path,
                session=owner_of(file.name),
                detail=detail,
                ranges=ranges,
            )


def _is_archive(name: str) -> bool:
    packed = name.endswith(_ARCHIVES)
    return packed and (log_in(name) is not None or "compressed" in name.split("/")[:-1])


def _altered(
    file: HomeFile, report: HomeVerified, advance: Advance
) -> tuple[Kind, str, list[Range]] | None:
    """Read an archive to its end; say what is wrong with it, if anything is."""
    good = 0

    def count(data: bytes) -> None:
        nonlocal good
        good += len(data)
        advance(len(data))

    try:
        held = unpacked(Path(file.path), tee=count)
    except NotFound:
        return None  # Gone since it was listed: unpacked again, or deleted.
    except BrokenCopy as error:
        return Kind.ALTERED, error.message, [Range(offset=good, length=None)]
    except (LogError, OSError) as error:
        return Kind.ALTERED, f"it cannot be read: {error}", []
    report.size_bytes += held.size_bytes
    meta = _meta_of(file)
    if meta is None or not meta.is_archived or meta.digest in {None, held.digest}:
        return None
    detail = "it does not hold what its metadata say was archived"
    return Kind.ALTERED, detail, [Range(offset=0, length=held.size_bytes)]


def _meta_of(archive: HomeFile) -> Meta | None:
    """Read the metadata of the session whose log an archive holds."""
    path = Path(archive.path)
    session_id = path.name.removesuffix(".gz").removesuffix(".zst").removesuffix(".jsonl")
    if path.parent.name != "compressed" or not is_session_id(session_id):
        return None
    found = read_meta(path.parent.with_name(session_id + _META))
    return found if isinstance(found, Meta) else None


def _lost(meta_file: HomeFile, names: set[str]) -> tuple[Kind, str, list[Range]] | None:
    """Say so if metadata speak of an archive that is not there."""
    stem = meta_file.name.removesuffix(_META)
    above, _, session_id = stem.rpartition("/")
    places = (f"{stem}.jsonl", f"{above}/compressed/{session_id}.jsonl".lstrip("/"))
    if any(place + end in names for place in places for end in ("", *_ARCHIVES)):
        return None
    meta = read_meta(Path(meta_file.path))
    if not isinstance(meta, Meta) or not meta.is_archived:
        return None
    return Kind.MISSING, "its metadata say it was archived, but no archive is there", []
