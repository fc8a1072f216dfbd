"""The corpus of real sessions: nothing in it is missed, nothing is found twice."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from turnlog.formats import Home, find_logs, find_session

REPOSITORY = Path(__file__).resolve().parents[2]
CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or REPOSITORY.parent / "shared" / "corpus" / "claude"
)

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")


def test_every_log_of_the_corpus_is_found_exactly_once():
    problems = []
    found = Counter(str(log.path) for log in find_logs(Home(CORPUS), problems=problems))
    assert found == Counter(str(path) for path in CORPUS.rglob("*.jsonl"))
    assert problems == []


def test_every_session_of_the_corpus_is_found_by_its_id():
    home = Home(CORPUS)
    logs = [log for log in find_logs(home) if log.kind == "session"]
    assert logs
    for log in logs[:: max(1, len(logs) // 10)]:
        assert log in find_session([home], log.session_id)
