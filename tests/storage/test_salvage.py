"""Records recovered from damaged lines: all that are whole, none that are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.samples import CLAUDE, FLAT, ORCHESTRATOR
from sampling import sampled
from strategies import (
    glued_lines,
    good_lines,
    nul_lines,
    rubble,
    spliced_lines,
    spoiled_lines,
    sure_lines,
    to_line,
)
from turnlog.records.damage import Reason
from turnlog.storage.salvage import salvage

USER = to_line(CLAUDE["user"])
ANSWER = to_line(CLAUDE["assistant/call"])
RESULT = to_line(CLAUDE["user/result"])
SNAPSHOT = to_line(CLAUDE["file-history-snapshot"])
SUMMARY = to_line(CLAUDE["summary"])
PROGRESS = to_line(CLAUDE["progress/agent_progress"])
ASKED = to_line(ORCHESTRATOR["user"])
CALLED = to_line(FLAT["tool_use"])


def recovered(line: bytes) -> list[bytes]:
    return [piece.record.raw for piece in salvage(line) if piece.record is not None]


def reasons(line: bytes) -> list[Reason]:
    return [piece.reason for piece in salvage(line) if piece.record is None]


NULS = b"\0" * 900

SIGNATURES = {
    "a missing newline": (USER + ANSWER, [USER, ANSWER]),
    "a snapshot glued on": (USER + SNAPSHOT, [USER, SNAPSHOT]),
    "a summary glued on": (SNAPSHOT + SUMMARY, [SNAPSHOT, SUMMARY]),
    "three glued with blanks between": (
        USER + b" " + ANSWER + b"\r" + RESULT,
        [USER, ANSWER, RESULT],
    ),
    "a record cut in a string, another behind": (USER[:250] + ANSWER, [ANSWER]),
    "a record cut in a key, another behind": (USER[:20] + ANSWER, [ANSWER]),
    "a record cut behind a colon, another as its value": (
        USER[: USER.index(b'"cwd":') + 6] + ANSWER,
        [ANSWER],
    ),
    "a record cut before a value inside, another in its place": (
        ANSWER[: ANSWER.index(b'"input":') + 8] + USER,
        [USER],
    ),
    "a cut record, two whole ones behind": (ANSWER[:300] + USER + RESULT, [USER, RESULT]),
    "two cut records and a whole one": (ANSWER[:300] + USER[:200] + RESULT, [RESULT]),
    "a whole record, then a cut one": (USER + ANSWER[:300], [USER]),
    "a cut record, then a snapshot": (USER[:250] + SNAPSHOT, [SNAPSHOT]),
    "a cut record, then a summary": (USER[:250] + SUMMARY, [SUMMARY]),
    "a cut record, then the orchestrator's": (USER[:250] + ASKED, [ASKED]),
    "a cut record, then the flat store's": (USER[:250] + CALLED, [CALLED]),
    "the end of a string, then a record": (b'nd of a sentence."}]}}' + USER, [USER]),
    "NULs before a record": (NULS + USER, [USER]),
    "NULs behind a record": (USER + NULS, [USER]),
    "NULs between records": (USER + NULS + ANSWER, [USER, ANSWER]),
    "NULs inside a record": (USER[:100] + NULS + USER[100:], []),
    "NULs where a record's end was": (USER[:100] + NULS + ANSWER, [ANSWER]),
    "only NULs": (NULS, []),
    "a byte order mark in the middle": (USER + b"\xef\xbb\xbf" + ANSWER, [USER, ANSWER]),
    "words around a record": (b"log: " + USER + b" (end)", [USER]),
    "a cut record alone": (USER[:250], []),
    "a comment": (b"// Line 2: User message", []),
    "a record in a comment": (b"// " + USER, [USER]),
}  # fmt: skip


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_signature_from_the_wild_gives_up_its_records(signature):
    line, whole = SIGNATURES[signature]
    assert recovered(line) == whole


@pytest.mark.parametrize("signature", SIGNATURES)
def test_the_pieces_of_a_signature_lie_end_to_end(signature):
    check_pieces(SIGNATURES[signature][0])


def check_pieces(line: bytes) -> None:
    done = 0
    for piece in salvage(line):
        assert piece.start == done
        assert piece.end > piece.start
        if piece.record is not None:
            assert piece.record.raw == line[piece.start : piece.end]
        done = piece.end
    assert done == len(line)


@given(rubble | spoiled_lines() | st.binary(max_size=80) | good_lines())
def test_the_pieces_of_any_line_lie_end_to_end(line):
    check_pieces(line)


@given(glued_lines())
def test_glued_records_are_all_recovered(pair):
    line, whole = pair
    assert recovered(line) == whole


@given(spliced_lines())
def test_the_record_behind_a_cut_one_is_recovered(pair):
    line, whole = pair
    assert recovered(line)[-1:] == [whole]


@given(nul_lines())
def test_a_record_between_nuls_is_recovered(pair):
    line, record = pair
    assert recovered(line) == [record]
    assert set(reasons(line)) == {Reason.NUL_RUN}


@pytest.mark.parametrize("name", ["turnlog", "fork-context-ref", "progress/none"])
def test_a_record_at_the_start_of_its_line_is_not_doubted_for_the_nuls_behind_it(name):
    line = to_line(CLAUDE[name])
    assert recovered(line + NULS) == [line]


@given(st.lists(sure_lines, min_size=1, max_size=3), st.data())
def test_whole_records_between_cut_ones_are_all_recovered(whole, data):
    line = b""
    for record in whole:
        broken = data.draw(sure_lines)
        line += broken[: data.draw(st.integers(1, len(broken) - 1))] + record
    found = recovered(line)
    assert found[-1] == whole[-1]
    assert set(found) <= set(whole)


# -- nothing is invented --------------------------------------------------------------------


@pytest.mark.parametrize("name", sampled(CLAUDE, 5))
def test_a_record_cut_short_gives_no_record(name):
    line = to_line(CLAUDE[name])
    for cut in range(1, len(line)):
        assert recovered(line[:cut]) == []


@pytest.mark.parametrize("before", [b"x", b"\0\0"], ids=["rubble", "nuls"])
@pytest.mark.parametrize("name", sampled(CLAUDE, 5))
def test_the_rest_of_a_cut_record_behind_something_lost_gives_no_record(name, before):
    line = to_line(CLAUDE[name])
    for cut in range(1, len(line)):
        assert recovered(before + line[cut:]) == []


@pytest.mark.parametrize("before", [b"", USER], ids=["alone", "record"])
def test_the_rest_of_a_cut_record_gives_no_record(before):
    whole = [USER] if before == USER else []
    for name in ("assistant/call", "user/result", "progress/agent_progress", "system/api_error"):
        line = to_line(CLAUDE[name])
        for cut in range(1, len(line)):
            assert recovered(before + line[cut:]) == whole, line[cut : cut + 40]


@given(sure_lines, st.data())
def test_a_hole_in_a_record_leaves_no_record(line, data):
    start = data.draw(st.integers(1, len(line) - 2))
    size = data.draw(st.integers(1, len(line) - 1 - start))
    assert recovered(line[:start] + b"\0" * size + line[start + size :]) == []


def test_a_block_of_a_cut_record_is_no_call():
    cut = ANSWER[: ANSWER.index(b'"stop_reason"')]
    assert b'{"type":"tool_use"' in cut
    assert recovered(cut) == []
    assert reasons(cut) == [Reason.FRAGMENT]


def test_a_message_inside_a_cut_progress_record_is_no_record():
    cut = PROGRESS[: PROGRESS.index(b'"normalizedMessages"')]
    assert b'{"type":"assistant"' in cut
    assert recovered(cut) == []


def test_a_record_quoted_in_a_string_is_no_record():
    quoting = to_line(CLAUDE["user"] | {"message": {"role": "user", "content": USER.decode()}})
    assert recovered(quoting[:-30]) == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"// a note", Reason.NOT_JSON),
        (b"hello", Reason.NOT_JSON),
        (b'{"type":"us', Reason.FRAGMENT),
        (b'of a string"}', Reason.FRAGMENT),
        (b"\0\0", Reason.NUL_RUN),
        (b" \t", Reason.BLANK),
    ],
)
def test_rubble_is_told_apart(line, reason):
    assert reasons(line) == [reason]


@pytest.mark.parametrize(
    "hostile",
    [
        b'{"a' * 200_000,
        b'{"a":{"b' * 100_000,
        b'{"type":"user","sessionId":"s"' * 30_000,
        b'{"type":"user","sessionId":"s",' * 30_000,
        b'{"uuid":' * 40_000,
        USER[:200] * 2_000,
        b'{"a":"' + b"\\" * 1_000_000,
        b"\0" * 1_000_000 + b'{"a',
        b"\0 " * 50_000,
    ],
    ids=range(9),
)
def test_hostile_lines_cost_bounded_time(hostile):
    salvage(hostile)


def test_hostile_lines_cost_bounded_memory():
    assert len(salvage(b"\0 " * 100_000)) < 10_000
    assert len(salvage(b"\0x" * 100_000)) < 10_000
