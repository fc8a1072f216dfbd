"""What one line gives the index: the same whether it was decoded fast or in full."""

from __future__ import annotations

import copy
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.samples import CLAUDE
from strategies import good_lines, good_records, json_values, spoiled, spoiled_lines, to_line, words
from turnlog.formats import Home, LogFile, find_everywhere, find_homes
from turnlog.index.ids import long_uuid, microseconds, short_uuid
from turnlog.index.refresh.chunks import Work
from turnlog.index.refresh.line_decoder import facts_of, fast_line
from turnlog.index.refresh.log_reader import LogReading
from turnlog.index.refresh.log_state import LineRun, LogState, OpenCall, fold_record, unpacked
from turnlog.index.refresh.rows import ChunkRows
from turnlog.index.texts import as_indexed
from turnlog.index.usage.scan import ChunkUsage, UsageLines, needles_of
from turnlog.records.codec import decode
from turnlog.records.damage import Damage
from turnlog.records.dates import instant
from turnlog.records.record import Record
from turnlog.records.usage_entries import UsageEntry
from turnlog.sessions.metadata import MetadataFold
from turnlog.sessions.reading.subagents import SUBAGENT_TOOLS, Traces
from turnlog.storage.reader import Placed, read_log
from turnlog.text import utf8_safe

REPOSITORY = Path(__file__).parents[3]
SAMPLES = REPOSITORY / "samples" / "claude"
CORPUS = Path(os.environ.get("TURNLOG_CORPUS") or REPOSITORY.parent / "shared/corpus/claude")
HOMES = [
    pytest.param(SAMPLES, id="samples"),
    pytest.param(
        CORPUS,
        id="corpus",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here"),
        ],
    ),
]


def check_line(data: bytes) -> bool:
    """Compare the two ways; tell whether there were two."""
    line = fast_line(data)
    if line is None:
        return False
    record = decode(data)
    assert isinstance(record, Record)
    found = facts_of(record)
    fast, slow = ChunkRows(LogState(), 1), ChunkRows(LogState(), 1)
    for rows in (fast, slow):  # Calls that both may answer.
        for number, call_id in enumerate(("t1", "t2")):
            rows.folded.wait_for(call_id, OpenCall(number, 0, 1))
    asks = fast.add_line(line, instant(line.timestamp), 7, len(data), "s")
    slow.add(found, 7, len(data), "s")
    assert rows_of(fast) == rows_of(slow)
    assert fast.folded == slow.folded
    assert asks == any(asked.tool in SUBAGENT_TOOLS for asked in found.calls)
    return True


def rows_of(rows: ChunkRows) -> bytes:
    """Give what was gathered as it passes to whoever writes it."""
    gathered = rows.records, rows.texts, rows.calls, rows.answers, rows.text_bytes
    return msgspec.msgpack.encode(gathered)


@pytest.mark.parametrize("home", HOMES)
def test_every_line_gives_the_same_both_ways(home):
    fast = slow = 0
    for log in find_everywhere(find_homes((home,))):
        for data in log.path.read_bytes().split(b"\n"):
            if check_line(data):
                fast += 1
            else:
                slow += 1
    assert fast > slow  # Else it is not worth having.


@given(good_lines("claude"))
def test_good_lines_give_the_same_both_ways(data):
    check_line(data)


@given(spoiled("claude"), st.booleans())
def test_spoiled_records_give_the_same_both_ways(record, ascii_only):
    check_line(to_line(record, ascii_only=ascii_only))


@given(spoiled_lines())
def test_spoiled_lines_give_the_same_both_ways(data):
    check_line(data)


_BLOCKS = [
    {"type": "text", "text": "kites"},
    {"type": "text", "text": ""},
    {"type": "thinking", "thinking": "wind", "signature": "x"},
    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/srv/kites/a.py"}},
    {
        "type": "tool_use",
        "id": "t1",
        "name": "Task",
        "input": {"prompt": "go", "n": [1, {"a": "b"}]},
    },
    {"type": "tool_use", "id": "t2", "name": "Grep", "input": ["odd"]},
    {"type": "tool_result", "tool_use_id": "t1", "content": "12 errors", "is_error": True},
    {"type": "tool_result", "tool_use_id": "t9", "content": [{"type": "text", "text": "fine"}]},
    {"type": "document", "title": "a paper", "source": {}},
    {"type": "image", "source": {"type": "base64", "data": "AAAA"}},
    {"type": "of a later day", "text": "?"},
]


@st.composite
def messages(draw) -> dict[str, Any]:
    """A record with blocks of all kinds in any order, said by anybody, flagged in any way."""
    kinds = [name for name in CLAUDE if name.split("/")[0] in ("user", "assistant", "progress")]
    record = copy.deepcopy(CLAUDE[draw(st.sampled_from(kinds))])
    message = record.setdefault("message", {"role": "user"})
    if isinstance(message, dict):
        message["content"] = draw(st.lists(st.sampled_from(_BLOCKS), max_size=4) | words)
    flags = ["isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage"]
    for flag in draw(st.lists(st.sampled_from(flags), unique=True)):
        record[flag] = draw(st.booleans() | st.none() | json_values)
    for key in draw(st.lists(st.sampled_from(["agentId", "timestamp", "uuid", "gitBranch"]))):
        record[key] = draw(words | st.none() | st.integers())
    return record


@given(messages())
def test_messages_of_all_shapes_give_the_same_both_ways(record):
    check_line(to_line(record))


_NOTED = (
    "attachment",
    "bridge-session",
    "file-history-delta",
    "file-history-snapshot",
    "mode",
    "permission-mode",
    "pr-link",
    "queue-operation",
    "system",
)
_PLACES = ["cwd", "gitBranch", "version", "parentUuid", "agentId", "isSidechain", "sessionId"]


@st.composite
def notes(draw) -> dict[str, Any]:
    """What the program notes between the messages, in a place that it may not have."""
    kinds = [name for name in CLAUDE if name.split("/")[0] in _NOTED]
    record = copy.deepcopy(CLAUDE[draw(st.sampled_from(kinds))])
    for key in draw(st.lists(st.sampled_from([*_PLACES, "uuid", "timestamp", "message"]))):
        record[key] = draw(words | st.none() | st.booleans() | st.integers())
    for key in draw(st.lists(st.sampled_from(["content", "attachment", "snapshot", "subtype"]))):
        record[key] = draw(json_values | st.just("api_error"))
    return record


@given(notes())
def test_notes_of_all_shapes_give_the_same_both_ways(record):
    check_line(to_line(record))


@pytest.mark.parametrize("name", _NOTED)
def test_what_the_program_notes_is_decoded_fast(name):
    records = [record for key, record in CLAUDE.items() if key.split("/")[0] == name]
    assert any(check_line(to_line(record)) for record in records)


# -- folds ----------------------------------------------------------------------------------


def log_of(path: Path, *, layout: str = "claude") -> LogFile:
    return LogFile(path, Home(path.parent), layout, "session", "s", None, None, None)


def slow_folds(log: LogFile) -> tuple[LogState, list[UsageEntry]]:
    """Fold a log as it is read: every record in full, one after the other."""
    folded, traces = LogState(), Traces(caller=log.agent_id)
    session, entries = log.session_id, []
    tellings = UsageLines(log)
    for item in read_log(log.path):
        if isinstance(item, Placed):
            if session is None and item.record.session_id is not None:
                session = item.record.session_id
                if "" in folded.sessions:
                    folded.sessions[session] = folded.sessions.pop("")
            fold_record(folded, session or "", item.record, item.offset)
            traces.see(item)
    for offset, data in _lines(log.path.read_bytes()):
        if any(needle in data for needle in needles_of(log.layout)):
            entries += tellings.take(data, offset)
    entries += tellings.end()
    folded.traces = traces
    return folded, entries


def _lines(data: bytes):
    offset = 0
    for line in data.split(b"\n"):
        yield offset, line
        offset += len(line) + 1


def fast_folds(log: LogFile) -> tuple[LogState, Any]:
    *_, last = LogReading(Work(1, log, 1, 0, 0, None)).chunks()
    return unpacked(last.tail_folded or last.folded), last


def check_folds(log: LogFile) -> None:
    slow, entries = slow_folds(log)
    fast, last = fast_folds(log)
    assert fast.sessions == unpacked(slow.packed()).sessions
    assert fast.traces == unpacked(slow.packed()).traces
    usage = ChunkUsage(Work(1, log, 1, 0, 0, None))
    for each in entries:
        usage.add(each)
    if last.start == 0:
        assert sorted(last.usage_rows) == sorted(usage.rows())


@pytest.mark.parametrize("home", HOMES)
def test_folds_and_sightings_of_every_log_are_those_of_its_records(home):
    for log in find_everywhere(find_homes((home,))):
        check_folds(log)


@given(st.lists(good_records("claude") | spoiled("claude") | messages() | notes(), max_size=8))
def test_folds_and_sightings_of_made_logs_are_those_of_their_records(tmp_path_factory, records):
    path = tmp_path_factory.getbasetemp() / "made.jsonl"
    path.write_bytes(b"".join(to_line(record) + b"\n" for record in records))
    check_folds(log_of(path))


@given(st.lists(st.lists(messages(), max_size=4), max_size=3))
def test_lines_that_pass_together_are_those_that_pass_one_by_one(groups):
    together, alone = MetadataFold(), MetadataFold()
    for group in groups:
        passing = LineRun()
        for record in group:
            data = to_line(record)
            line = fast_line(data)
            if line is not None:
                passing.add(line, instant(line.timestamp))
                alone.take(decode(data))
        passing.fold_into(together)
    assert together == alone


REPORTS = [
    b'{"agentId":"a7"}',
    b'{"agentI\\u0064":"a7"}',
    b'{"content":[{"agentId":"a7"}]}',
    b'{"agentId":7}',
    b'{"agentId":null}',
    b'"agentId"',
    b'[{"agentId":"a7"}]',
    b"7",
    b"true",
    b"null",
]


@pytest.mark.parametrize("report", REPORTS)
def test_the_agent_that_a_result_names_is_found_however_the_tool_reports(tmp_path, report):
    asked = {"type": "user", "message": {"content": "go"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "fine"}
    answered = to_line({"type": "user", "message": {"content": [result]}})
    path = tmp_path / "s.jsonl"
    path.write_bytes(
        to_line(asked) + b"\n" + answered[:-1] + b',"toolUseResult":' + report + b"}\n"
    )
    assert fast_line(path.read_bytes().split(b"\n")[1]) is not None
    check_folds(log_of(path))


def test_a_session_that_utf8_cannot_hold_is_stored_all_the_same(tmp_path):
    asked = {"type": "user", "sessionId": "s\ud800", "message": {"content": "go"}}
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": "fine"}]}}
    path = tmp_path / "agent-a7.jsonl"
    path.write_bytes(to_line(asked, ascii_only=True) + b"\n" + to_line(said) + b"\n")
    log = LogFile(path, Home(tmp_path), "claude", "subagent", None, "a7", None, None)
    (chunk,) = LogReading(Work(1, log, 1, 0, 0, None)).chunks()
    assert msgspec.msgpack.encode(chunk)
    assert {row[4] for row in chunk.records} == {chunk.session} == {"s?"}


# -- small things ---------------------------------------------------------------------------


_ALONE = re.compile(
    "([\u1100-\u11ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7ff\uff66-\uff9f\U00020000-\U0003ffff])"
)


_LETTERS = (
    "ab \n\u00e9\u2026\u1100\u3042\u3002\u4e2d\u6587\uac00\ufe0f\uff66\ufffd\U0001f680\U00020000"
)


@given(st.text(f"{_LETTERS}\ud800"))
def test_words_are_parted_wherever_they_stand(text):
    parted = " ".join(_ALONE.split(text))
    assert as_indexed(text) == parted.encode(errors="replace")


@given(st.uuids().map(str) | st.uuids().map(lambda uuid: str(uuid).upper()) | words)
def test_an_id_is_what_it_was(text):
    assert long_uuid(short_uuid(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "b5a2c7d1-0000-4000-8000-00000000000 ",
        "b5a2c7d1-0000-4000-8000-0000000000-0",
        "--------" * 4 + "----",
        "b5a2c7d1-0000-4000-8000-0000000000\u0660\u0661",
        "",
    ],
)
def test_what_only_looks_like_an_id_stays_as_it_is(text):
    assert short_uuid(text) == text


def slowly(value):
    """Read what is text as any other notation is read, without a short cut for the usual one."""
    try:
        at = datetime.fromisoformat(value)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return instant(value) if not isinstance(value, str) else None


@given(
    st.datetimes().map(lambda at: at.isoformat() + "Z")
    | st.sampled_from(["2026-03-04T05:06:07.089Z", "9999-12-31T23:59:59.999Z", "0001-01-01", ""])
    | words
    | json_values
)
def test_instants_are_those_of_the_records(value):
    assert instant(value) == slowly(value)


def test_microseconds_are_exact_to_the_ends_of_the_calendar():
    assert microseconds(instant("9999-12-31T23:59:59.999999Z")) == 253_402_300_799_999_999
    assert microseconds(instant("1969-12-31T23:59:59.999999Z")) == -1


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_what_is_made_sound_can_be_stored(value):
    repr(utf8_safe(value)).encode()
    assert utf8_safe(utf8_safe(value)) == utf8_safe(value)


def test_damage_is_no_line():
    for data in (b"", b"{", b"[]", b"\0" * 9, b'{"type":"assistant"}', b'{"type":"user"}'):
        assert fast_line(data) is None
    assert isinstance(decode(b"{"), Damage)
