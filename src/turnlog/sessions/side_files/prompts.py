"""Prompts that people typed, in every project of a home, from its ``history.jsonl``.

The file is a log with records of its own shape: ``display``, ``pastedContents``, ``timestamp`` in
milliseconds, ``project`` and, in newer versions, ``sessionId``. Damaged lines are skipped and
counted. Only the requested prompts of a long history are held in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from heapq import nlargest
from typing import Any, Final

from msgspec import Struct

from turnlog.errors import TurnlogError
from turnlog.formats import Home, Problem, history_log
from turnlog.formats.projects import expand_path, is_within
from turnlog.records.dates import instant, is_between
from turnlog.records.record import Record
from turnlog.sessions.side_files.file_changes import whole_path
from turnlog.storage.atomic_files import text_of
from turnlog.storage.reader import Placed, read_log

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Pasted(Struct, frozen=True, kw_only=True):
    """Something pasted into a prompt. *text* is None for images and external content."""

    id: str
    kind: str | None = None
    text: str | None = None
    hash: str | None = None


class Prompt(Struct, frozen=True, kw_only=True):
    """One prompt as it was typed."""

    text: str
    at: datetime | None
    project: str | None
    session_id: str | None
    pasted: tuple[Pasted, ...]
    home: str


class PromptPage(Struct, kw_only=True):
    """Some prompts, newest first, and counts of what was skipped."""

    prompts: list[Prompt]
    total: int
    damaged: int
    """Damaged ranges of the histories."""
    odd: int
    """Records without a prompt."""


class _Tally(Struct):
    found: int = 0
    damaged: int = 0
    odd: int = 0


def find_prompts(
    homes: Iterable[Home],
    *,
    project: str | os.PathLike[str] | None = None,
    session: str | None = None,
    text: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int | None = None,
    offset: int = 0,
    problems: list[Problem] | None = None,
) -> PromptPage:
    """Return the prompts of *homes*, newest first.

    *project* keeps those typed in that directory or below it, *session* those of sessions whose id
    begins with it, *text* those that contain it in any case, *since* and *until* (exclusive) those
    in that range. Prompts without a timestamp come last.
    """
    tally = _Tally()
    wanted = (
        (found.at or _LONG_AGO, number, found)
        for number, found in enumerate(_all(homes, tally, [] if problems is None else problems))
        if _fits(found, project, session, text) and is_between(found.at, since, until)
    )

    def counted() -> Iterator[tuple[datetime, int, Prompt]]:
        for each in wanted:
            tally.found += 1
            yield each

    # The number breaks ties: of two prompts with equal timestamps the later one is newer.
    if limit is None:
        page = sorted(counted(), key=lambda each: each[:2], reverse=True)
    else:
        page = nlargest(offset + limit, counted(), key=lambda each: each[:2])
    return PromptPage(
        prompts=[found for _, _, found in page[offset:]],
        total=tally.found,
        damaged=tally.damaged,
        odd=tally.odd,
    )


def _all(homes: Iterable[Home], tally: _Tally, problems: list[Problem]) -> Iterator[Prompt]:
    for home in homes:
        path = history_log(home)
        if path is None:
            continue
        try:
            for item in read_log(path):
                if not isinstance(item, Placed):
                    tally.damaged += 1
                    continue
                found = _prompt(item.record, home)
                if found is None:
                    tally.odd += 1
                else:
                    yield found
        except (TurnlogError, OSError) as error:
            problems.append(Problem(path, str(error)))


def _prompt(record: Record, home: Home) -> Prompt | None:
    fields = record.fields
    text = text_of(fields.get("display"))
    if text is None:
        return None
    return Prompt(
        text=text,
        at=instant(fields.get("timestamp")),
        project=text_of(fields.get("project")),
        session_id=text_of(fields.get("sessionId")),
        pasted=tuple(_pasted(fields.get("pastedContents"))),
        home=text_of(os.fspath(home)) or "",
    )


def _pasted(value: Any) -> Iterator[Pasted]:
    for key, each in value.items() if isinstance(value, dict) else ():
        fields = each if isinstance(each, dict) else {"content": each}
        yield Pasted(
            id=text_of(key) or "",
            kind=text_of(fields.get("type")),
            text=text_of(fields.get("content")),
            hash=text_of(fields.get("contentHash")),
        )


def _fits(
    found: Prompt, project: str | os.PathLike[str] | None, session: str | None, text: str | None
) -> bool:
    place = whole_path(found.project, None) if found.project else None
    if project is not None and not is_within(place, expand_path(os.fspath(project))):
        return False
    if session is not None and not (found.session_id or "").startswith(session or "\0"):
        return False
    if text is None:
        return True
    needle = text.casefold()
    pasted = (each.text or "" for each in found.pasted)
    return any(needle in each.casefold() for each in (found.text, *pasted))
