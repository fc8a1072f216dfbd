"""Names: what a file is, told from its name alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.formats import LogName, is_session_id, is_subagent_id, looks_like_log, read_name
from turnlog.formats.log_file import session_name, subagent_name

UUID = "0ccf1a04-1b4c-43b6-8aa5-79e41db43a68"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{UUID}.jsonl", LogName("session", UUID, None)),
        (f"{UUID}.jsonl.gz", LogName("session", UUID, "gz")),
        (f"{UUID}.jsonl.zst", LogName("session", UUID, "zst")),
        ("main.jsonl", LogName("session", "main", None)),
        ("agent-a1a93487.jsonl", LogName("subagent", "a1a93487", None)),
        ("agent-acompact-1f.jsonl.gz", LogName("subagent", "acompact-1f", "gz")),
        ("2025-11-16.jsonl", LogName("day", "2025-11-16", None)),
        ("2024-02-29.jsonl.zst", LogName("day", "2024-02-29", "zst")),
        ("2025-02-30.jsonl", LogName("session", "2025-02-30", None)),
        ("agents.jsonl", LogName("session", "agents", None)),
    ],
)
def test_a_log_is_known_by_its_name(name, expected):
    assert read_name(name) == expected
    assert looks_like_log(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".jsonl",
        ".tmp-x.jsonl",
        ".jsonl.gz",
        "history.jsonl",
        "History.jsonl",
        "journal.jsonl",
        "journal.jsonl.gz",
        "x.jsonl.original-20251116T120000Z",
        "x.jsonl.quarantine-20251116T120000Z",
        "x.jsonl.original-1.jsonl",
        "x.jsonl.tmp",
        "x.jsonl.gz.tmp",
        "x.compact.tmp",
        "x.json",
        "x.meta.json",
        "4711.json",
        "4711.key",
        "x.JSONL",
        "jsonl",
        "x.gz",
    ],
)
def test_what_only_resembles_a_log_is_passed_over_in_silence(name):
    assert read_name(name) is None
    assert not looks_like_log(name)


@pytest.mark.parametrize(
    "name", ["agent-.jsonl", "agent-a.b.jsonl", "my notes.jsonl", "x (copy).jsonl", "nul.jsonl"]
)
def test_a_name_that_no_log_bears_is_not_a_log_but_worth_a_word(name):
    assert read_name(name) is None
    assert looks_like_log(name)


@given(st.text(max_size=40), st.sampled_from([".jsonl", ".jsonl.gz", ".jsonl.zst", ""]))
def test_reading_any_name_gives_nothing_or_a_checked_id(stem, ending):
    name = read_name(stem + ending)
    if name is None:
        return
    assert looks_like_log(stem + ending)
    assert is_subagent_id(name.id) if name.kind == "subagent" else is_session_id(name.id)


@given(st.from_regex(r"[A-Za-z0-9_-]{1,128}", fullmatch=True).filter(is_subagent_id))
def test_every_agents_log_reads_back(agent_id):
    assert read_name(subagent_name(agent_id)) == LogName("subagent", agent_id, None)


@given(st.uuids())
def test_every_uuids_log_reads_back(value):
    assert read_name(session_name(str(value))) == LogName("session", str(value), None)
