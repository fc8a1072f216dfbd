"""Search quality: how often does a question find its session, first or among the first five?

Questions are built from the sessions themselves (see question_sets.py), from the real sessions and
from the samples. The peer is plain FTS5 on the same texts: the words of the question joined by OR,
ranked by bm25. Both see one page, with at most three hits of a session.

    python -m bench retrieval
    python -m bench.retrieval FILE.json

The file has sessions and questions of any other kind:

    {"sessions": {id: [text, …]}, "questions": [[question, [id, …]], …]}

With BENCH_MISSES=1 both also print questions whose session is not among the first five.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from unittest import mock
from uuid import NAMESPACE_URL, uuid5

from turnlog.formats import find_homes
from turnlog.index.connection import Index, open_fresh
from turnlog.search.search import PER_SESSION, search

from .data import BASE, line_of, real_home
from .question_sets import (
    SEED,
    SETS,
    Entry,
    as_typed,
    read_entries,
    said_texts,
)
from .table import Row, as_text

MOST = 400
"""The most questions of a set."""
PAGE = 20
_FIRST = 5
_BETTER, _ENOUGH, _NOTHING = 0.08, 0.99, 0.01
_SHOWN, _WIDTH = 10, 100
_MISSES = "BENCH_MISSES"
_SAMPLES = os.path.join(os.path.dirname(__file__), os.pardir, "samples", "claude")
_WORD = re.compile(r"[^\W_]+")
_RANKED = "SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank, rowid"


Question = tuple[str, set[str]]
"""A question, and the sessions that are right answers."""


class Score(NamedTuple):
    first: float
    among_five: float
    reciprocal_rank: float
    nothing: float


class Floor:
    """Plain FTS5: one row for each text, nothing else."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE said USING fts5(text, tokenize='unicode61')")
        self._sessions = []
        for session, text in texts:
            self._sessions.append(session)
            row = len(self._sessions), text.encode(errors="replace").decode()
            self._db.execute("INSERT INTO said (rowid, text) VALUES (?, ?)", row)

    def sessions(self) -> set[str]:
        return set(self._sessions)

    def frequencies(self) -> dict[str, int]:
        """Return in how many texts each word is."""
        self._db.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, said, row)")
        return dict(self._db.execute("SELECT term, doc FROM vocabulary"))

    def ask(self, question: str) -> list[str]:
        query = " OR ".join(f'"{word}"' for word in dict.fromkeys(_WORD.findall(question)))
        page: Counter[str] = Counter()
        for (row,) in self._db.execute(_RANKED, (query,)) if query else ():
            session = self._sessions[row - 1]
            page[session] += page[session] < PER_SESSION
            if page.total() == PAGE:
                break
        return list(page)


def bench() -> list[Row]:
    rows = []
    for name, home in (("real sessions", real_home()), ("samples", _SAMPLES)):
        if home is None:
            rows.append(Row(f"search in {name}", "", "", "skipped: no TURNLOG_CORPUS"))
            continue
        with _own_place() as place:
            rows += rows_for(os.path.abspath(home), place, name)
    return rows


def rows_for(home: str, place: str, name: str) -> list[Row]:
    """Measure all sets of *home*; copies of it are written to *place*."""
    with open_fresh(find_homes((home,))) as index:
        entries = read_entries(index)
    frequencies = Floor(said_texts(entries)).frequencies()
    rows = []
    for build in SETS:
        asked = build(entries, frequencies)
        copy = copy_without(home, os.path.join(place, asked.name), asked.left_out)
        left_out = {entry[:2] for entry in asked.left_out}
        remaining = said_texts(entry for entry in entries if entry[:2] not in left_out)
        rows += compare(copy, Floor(remaining), asked.questions.items(), f"{name}, {asked.name}")
    return rows


def rows_of_file(path: str, place: str) -> list[Row]:
    """Measure the sessions and questions in a JSON file."""
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    ids = write_sessions(given["sessions"], place)
    texts = ((ids[name], text) for name, texts in given["sessions"].items() for text in texts)
    questions = [
        (as_typed(question), {ids[name] for name in names})
        for question, names in given["questions"]
    ]
    name = os.path.splitext(os.path.basename(path))[0]
    return compare(place, Floor(texts), questions, name, most=len(questions))


def compare(
    home: str, floor: Floor, questions: Iterable[Question], what: str, most: int = MOST
) -> list[Row]:
    """Ask turnlog, with an index of *home*, and the *floor*, which has the same texts."""
    present = floor.sessions()
    asked = [(text, right & present) for text, right in questions if text and right & present]
    if len(asked) > most:
        asked = random.Random(SEED).sample(asked, most)
    if not asked:
        return [Row(f"{what} (no questions)", "", "", "")]
    with open_fresh(find_homes((home,))) as index:
        (latest,) = index.db.execute("SELECT max(at) FROM records").fetchone()
        now = datetime.fromtimestamp(latest / 1e6, UTC)
        ours = [_ask(index, text, now) for text, _ in asked]
    theirs = [floor.ask(text) for text, _ in asked]
    if os.environ.get(_MISSES):
        _show_misses(what, asked, ours, theirs)
    return _rows(f"{what} ({len(asked)})", score(asked, ours), score(asked, theirs))


def score(asked: Sequence[Question], answers: Sequence[Sequence[str]]) -> Score:
    """Return the measures for *answers*, the sessions that each question found, in order."""
    ranks = _ranks(asked, answers)
    count = len(ranks)
    return Score(
        sum(rank == 1 for rank in ranks) / count,
        sum(0 < rank <= _FIRST for rank in ranks) / count,
        sum(1 / rank for rank in ranks if rank) / count,
        sum(not found for found in answers) / count,
    )


def _ranks(asked: Sequence[Question], answers: Sequence[Sequence[str]]) -> list[int]:
    """Return the rank of the first right session for each question; 0 if there is none."""
    return [
        next((rank for rank, session in enumerate(found, 1) if session in right), 0)
        for (_, right), found in zip(asked, answers, strict=True)
    ]


def copy_without(home: str, to: str, left_out: Iterable[Entry]) -> str:
    """Copy *home* without the lines of some records; all other bytes are the same."""
    shutil.copytree(home, to)
    by_path = defaultdict(list)
    for entry in left_out:
        by_path[entry.path].append((entry.offset, entry.offset + entry.length))
    for path, ranges in by_path.items():
        target = os.path.join(to, os.path.relpath(path, home))
        with open(path, "rb") as file:
            data = bytearray(file.read())
        for begin, end in sorted(ranges, reverse=True):
            del data[begin : end + (data[end : end + 1] == b"\n")]
        with open(target, "wb") as file:
            file.write(data)
    return to


def write_sessions(sessions: Mapping[str, Sequence[str]], home: str) -> dict[str, str]:
    """Write logs whose texts are prompts and answers in turn; return the ids by name.

    All begin within hours, so that their age hardly changes the order of hits.
    """
    folder = os.path.join(home, "projects", "-home-someone-project")
    os.makedirs(folder)
    ids = {}
    for number, (name, texts) in enumerate(sessions.items()):
        session = ids[name] = str(uuid5(NAMESPACE_URL, name))
        began = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=number)
        with open(os.path.join(folder, f"{session}.jsonl"), "wb") as file:
            parent = None
            for turn, text in enumerate(texts):
                record = _message(session, parent, turn, text, began + timedelta(seconds=turn))
                parent = record["uuid"]
                file.write(line_of(record))
    return ids


def _message(
    session: str, parent: str | None, turn: int, text: str, at: datetime
) -> dict[str, Any]:
    role = "assistant" if turn % 2 else "user"
    message: dict[str, Any] = {"role": role, "content": text}
    if role == "assistant":
        block = {"type": "text", "text": text}
        named = {"id": f"msg_{turn:024}", "type": "message", "model": "claude-opus-4-6"}
        message |= {"content": [block], "stop_reason": "end_turn", **named}
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/someone/project",
        "sessionId": session,
        "version": "2.1.59",
        "type": role,
        "message": message,
        "uuid": str(uuid5(NAMESPACE_URL, f"{session} {turn}")),
        "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    }


def _ask(index: Index, question: str, now: datetime) -> list[str]:
    """Return the sessions of the first page of hits."""
    hits = search(index, question, now=now, zone=UTC, limit=PAGE).hits
    return list(dict.fromkeys(hit.session or "" for hit in hits))


def _rows(what: str, ours: Score, floor: Score) -> list[Row]:
    return [
        _recall(f"{what}: R@1", ours.first, floor.first),
        _recall(f"{what}: R@5", ours.among_five, floor.among_five),
        Row(
            f"{what}: MRR",
            f"{ours.reciprocal_rank:.3f}",
            f"{floor.reciprocal_rank:.3f}",
            f"{ours.reciprocal_rank - floor.reciprocal_rank:+.3f}",
        ),
        Row(
            f"{what}: nothing found",
            _percent(ours.nothing),
            _percent(floor.nothing),
            "",
            "< 1 %",
            ours.nothing < _NOTHING,
        ),
    ]


def _recall(what: str, ours: float, floor: float) -> Row:
    met = ours - floor >= _BETTER or ours >= _ENOUGH
    bar = ">= +8 points, or >= 99 %"
    return Row(what, _percent(ours), _percent(floor), f"{(ours - floor) * 100:+.1f}", bar, met)


def _percent(part: float) -> str:
    return f"{part * 100:.1f} %"


def _show_misses(
    what: str, asked: Sequence[Question], ours: Sequence[list[str]], floor: Sequence[list[str]]
) -> None:
    """Print questions whose session is not among the first five, with both ranks."""
    ranked = zip(asked, _ranks(asked, ours), _ranks(asked, floor), strict=True)
    missed = [each for each in ranked if not 0 < each[1] <= _FIRST]
    print(f"{what}: {len(missed)} not among the first {_FIRST}", flush=True)
    for (text, right), rank, other in missed[:_SHOWN]:
        print(f"  rank {rank or '-'}, floor {other or '-'}: {text[:_WIDTH]} ({min(right)[:8]})")


@contextmanager
def _own_place() -> Iterator[str]:
    """Return an empty directory, which is turnlog's own home for a while."""
    place = os.path.abspath(os.path.join(BASE, "retrieval"))
    shutil.rmtree(place, ignore_errors=True)
    try:
        with mock.patch.dict(os.environ, {"TURNLOG_HOME": os.path.join(place, "turnlog")}):
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.retrieval", description=__doc__)
    parser.add_argument("file", metavar="FILE.json", help="sessions and questions")
    options = parser.parse_args()
    with _own_place() as place:
        print(as_text(rows_of_file(options.file, os.path.join(place, "home"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
