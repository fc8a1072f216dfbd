"""What a log tells about plans, found without decoding the rest of it.

Only lines that hold one of a few keys are decoded, and of lines that merely repeat a slug only the
first: a log of a gigabyte is passed over at the speed of a byte search. Damaged lines tell nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from turnlog.formats import LogFile
from turnlog.records.codec import decode
from turnlog.records.record import Attachment, Linked, User
from turnlog.storage.atomic_files import text_of
from turnlog.storage.lines import Splitter
from turnlog.storage.sources import BrokenArchive, open_source

_KEYS: Final = (b'"planContent"', b'"planFilePath"', b'"plan"')
_SLUG: Final = re.compile(rb'"slug"\s*:\s*"([^"\\]*)"')


class PlanTrace(Struct, frozen=True, kw_only=True):
    """What one record tells about a plan: its session's slug, the plan's file, its text."""

    session_id: str | None
    at: datetime | None
    slug: str | None = None
    file_name: str | None = None
    """The file's name without directory and ending, as plans are named."""
    text: str | None = None


def traces_of(log: LogFile) -> Iterator[PlanTrace]:
    """Give what the records of *log* tell about plans."""
    seen: set[bytes] = set()
    for line in _lines(log):
        slug = _SLUG.search(line)
        is_new = slug is not None and slug[1] not in seen
        if not is_new and not any(key in line for key in _KEYS):
            continue
        if slug is not None:
            seen.add(slug[1])
        record = decode(line)
        trace = _trace(record, log.session_id) if isinstance(record, Linked) else None
        if trace is not None:
            yield trace


def _lines(log: LogFile) -> Iterator[bytes]:
    """Give the lines of *log* that hold one of the keys."""
    source = open_source(log.path)
    splitter = Splitter()
    try:
        while chunk := source.read(splitter.chunk_bytes):
            first, block = splitter.feed_block(chunk)
            if isinstance(first, bytes):
                yield first
            if _is_of_interest(block):
                yield from filter(_is_of_interest, block.split(b"\n"))
    except BrokenArchive:
        pass  # What was unpacked so far has been read; `turnlog check` reports the rest.
    finally:
        source.close()
    if splitter.pending_length and not splitter.pending_too_long:
        yield splitter.pending


def _is_of_interest(data: bytes) -> bool:
    return b'"slug"' in data or any(key in data for key in _KEYS)


def _trace(record: Linked, session_id: str | None) -> PlanTrace | None:
    file_path: Any = None
    text: str | None = None
    if isinstance(record, Attachment) and isinstance(record.attachment, dict):
        file_path = record.attachment.get("planFilePath")
        text = text_of(record.attachment.get("planContent"))
    elif isinstance(record, User):
        told = record.tool_use_result if isinstance(record.tool_use_result, dict) else {}
        text = text_of(record.plan_content) or text_of(told.get("plan"))
        # Many results have a file path; only beside a plan is it the plan's.
        file_path = told.get("filePath") if "plan" in told else None
    slug = text_of(record.slug)
    name = _file_name(file_path)
    if slug is None and name is None and not text:
        return None
    return PlanTrace(
        session_id=session_id or text_of(record.session_id),
        at=record.at,
        slug=slug,
        file_name=name,
        text=text or None,
    )


def _file_name(path: Any) -> str | None:
    # The path may come from another machine, with other separators.
    text = text_of(path)
    return re.split(r"[\\/]", text)[-1].removesuffix(".md") or None if text else None
