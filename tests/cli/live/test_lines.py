"""Whatever stands in a log, its lines fit the screen and hold nothing that acts."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from live.live_world import call, prompt, result, said, thought
from turnlog.cli.live.entries import (
    STEPS,
    ConversationReader,
    LineStyle,
    folds,
    lines_of,
    seconds,
    text_of,
    wrapped,
)
from turnlog.cli.live.sessions_screen import head_lines, plain, row_lines, side_lines
from turnlog.live.activity import Doing, LiveCall
from turnlog.live.sessions import LiveDocument, LiveSession
from turnlog.live.watch import LiveNews
from turnlog.sessions.state import State
from turnlog.text import inert

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
# No lone surrogates: a log cannot hold them as they are.
TEXTS = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("\x00\x1b\x07\n\t\u202e\u200b\u2028 -*#`[]風👩"),
    ),
    max_size=120,
)


def is_sound(lines, width):
    for line in lines:
        text = "".join(part for part, _ in line)
        assert inert(text) == text
        assert cell_len(text) <= width


@given(text=TEXTS, width=st.integers(1, 120))
def test_every_entry_fits_and_is_inert(tmp_path_factory, text, width):
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    patch = {"structuredPatch": [{"oldStart": 1, "newStart": 1, "lines": [f"+{text}", "-x"]}]}
    records = [
        prompt(text or "p"),
        thought(text),
        said(text or "s"),
        call(1, text, command=text, **{text or "k": [text, 7]}),
        result(1, text, failed=True),
        call(2, "Edit", file_path=text),
        result(2, text, detail=patch),
        call(3, "Bash", command=text),
        {"type": "summary", "summary": text, "leafUuid": "x"},
        {"type": text or "t", "words": text},
    ]
    lines = [json.dumps(record).encode() for record in records]
    path.write_bytes(b"\n".join([*lines, b"no record", b""]))
    growth = ConversationReader(path).look()
    assert growth.begins
    assert growth.is_whole
    assert any(folds(entry) for entry in growth.entries)
    for entry in growth.entries:
        text_of(entry)
        for unfolded in (False, True):
            look = LineStyle(width, thinking=True, unfolded=unfolded)
            # Prose keeps a width that can be read; what is narrower cuts it.
            is_sound(lines_of(entry, look), max(width, 16))


@given(text=TEXTS.map(lambda text: text.replace("\n", " ")), width=st.integers(12, 60))
def test_wrapping_loses_no_word(text, width):
    lines = wrapped(text, width)
    assert all(cell_len(line) <= width for line in lines)
    whole = re.sub(r"\s", "", inert(text.rstrip().expandtabs(4)))
    assert re.sub(r"\s", "", "".join(lines)) == whole


def test_a_blank_follows_a_word_that_was_cut():
    assert wrapped("see a/very/long/path here", 16) == ["see", "a/very/long/path", "here"]
    assert wrapped("see a/much/longer/path here", 16) == ["see", "a/much/longer/pa", "th here"]


@given(
    text=TEXTS,
    width=st.integers(1, 210),
    doing=st.sampled_from(Doing),
    tokens=st.none() | st.integers(0, 10**13),
    ago=st.integers(-(10**6), 10**9),
)
def test_rows_fit_whatever_they_tell(text, width, doing, tokens, ago):
    at = NOW - timedelta(seconds=ago)
    session = LiveSession(
        id=text, project=text, title=text, started_at=at, last_active_at=at, records=None,
        state=State.ACTIVE, keeping="live", home="", layout="claude", path="", git_branch=text,
        pid=None, is_running=doing.is_at_work, doing=doing, since_at=at, waiting_for=text,
        prompt=text, calls=[LiveCall(tool=text, asked=text, at=at, subagent=text)] * 3, subagents=2,
        model=text, cost_usd="123456.789", context_tokens=tokens, context_window=200_000,
    )  # fmt: skip
    is_sound(row_lines(session, width, NOW), width)
    news = LiveNews(LiveDocument(at=NOW, sessions=[session]), problem=text)
    is_sound(head_lines(news, width, NOW), width)
    is_sound(side_lines(session, max(20, width), NOW), max(20, width) + 20)


def test_the_panel_says_all_of_it_in_little_room():
    session = LiveSession(
        id="x" * 36, project="/srv", title="Pears", started_at=NOW, last_active_at=NOW, records=9,
        state=State.ACTIVE, keeping="live", home="", layout="claude", path="", git_branch=None,
        pid=None, is_running=False, doing=Doing.IDLE, since_at=NOW, waiting_for=None, prompt=None,
        calls=[], subagents=0, model=None, input=123_456, output=234_567, cache_write_5m=345_678,
        cache_read=456_789_000,
    )  # fmt: skip
    told = plain(side_lines(session, 45, NOW)).splitlines()
    assert "…" not in "".join(told)
    assert [line for line in told if line.startswith(("kept", "tokens", "cache"))] == [
        "kept     no",
        "tokens   123.5k in · 234.6k out",
        "cache    345.7k written · 456.8M read",
    ]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (8, "8 s"),
        (1.24, "1.2 s"),
        (9.99, "9 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3600, "1 h 0 min"),
        (90_000, "1 d"),
    ],
)
def test_how_long(count, words):
    assert seconds(count) == words


def test_growth_is_read_once_and_answers_come_under_their_calls_number(tmp_path):
    path = tmp_path / "log.jsonl"

    def write(*records):
        with path.open("ab") as log:
            log.write(b"".join(json.dumps(record).encode() + b"\n" for record in records))

    write(prompt("one"), call(1, "Bash", command="make"))
    reading = ConversationReader(path)
    first = reading.look()
    assert [entry.number for entry in first.entries] == [0, 1]
    assert reading.look() is None
    write(said("x"), result(1, "made"))
    with path.open("ab") as log:
        log.write(b'{"type":"user","mess')  # Still being written.
    more = reading.look()
    assert sorted(entry.number for entry in more.entries) == [1, 2]
    assert not more.begins
    assert reading.look() is None


def test_a_log_that_is_not_there_is_told_and_no_log_is_read_without_end(tmp_path):
    gone = ConversationReader(tmp_path / "nobody.jsonl")
    assert gone.look().problem
    assert gone.look() is None
    path = tmp_path / "log.jsonl"
    line = json.dumps(said("x")).encode() + b"\n"
    path.write_bytes(line * (STEPS[-1] + 10))
    reading = ConversationReader(path)
    sizes = [len(reading.look().entries)]
    while (growth := reading.earlier()) is not None:
        sizes.append(len(growth.entries))
        assert not growth.is_whole
    assert sizes == list(STEPS)
