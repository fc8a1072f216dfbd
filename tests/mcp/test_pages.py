"""Answers stay under their cap, page after page, and nothing is left out between two pages."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mcp_contexts import HOSTILE
from turnlog.errors import UsageError
from turnlog.mcp.pages import Cursors, ToolAnswer, bounded, question_of
from turnlog.mcp.untrusted_text import unframed
from turnlog.redact import NO_RULES


def written(answer, most_bytes, places=None):
    def cursor_of(place):
        if places is not None:
            places.append(place)
        return f"at-{place}"

    return bounded(answer, NO_RULES, most_bytes=most_bytes, cursor_of=cursor_of)


@given(st.text(max_size=60), st.integers(0, 2**63))
def test_a_cursor_comes_back(question, place):
    cursors = Cursors()
    assert cursors.decode(question, cursors.encode(question, place)) == place


@given(st.text(max_size=80))
def test_a_cursor_that_was_made_up_is_refused(cursor):
    if not cursor.strip():
        return
    with pytest.raises(UsageError, match="cursor") as caught:
        Cursors().decode("question", cursor)
    assert caught.value.hint


@given(st.integers(0, 41), st.sampled_from("Ab0_-"))
def test_a_cursor_that_was_changed_is_refused(at, letter):
    cursors = Cursors()
    cursor = cursors.encode("question", 5)
    changed = cursor[:at] + letter + cursor[at + 1 :]
    if changed == cursor:
        return
    with pytest.raises(UsageError, match="invalid cursor"):
        cursors.decode("question", changed)


def test_a_cursor_of_another_server_or_another_question_is_refused():
    cursors = Cursors()
    with pytest.raises(UsageError, match="invalid cursor"):
        cursors.decode("question", Cursors().encode("question", 5))
    with pytest.raises(UsageError, match="other arguments"):
        cursors.decode("question", cursors.encode("another", 5))


def test_no_cursor_is_the_beginning():
    assert [Cursors().decode("question", each) for each in (None, "", "  ")] == [0, 0, 0]


def test_questions_are_equal_whatever_is_not_said_and_in_whatever_order():
    assert question_of("a", {"x": 1, "y": None}) == question_of("a", {"x": 1})
    assert question_of("a", {"x": 1, "y": 2}) == question_of("a", {"y": 2, "x": 1})
    assert question_of("a", {"x": 1}) != question_of("b", {"x": 1})


ROWS = st.lists(
    st.fixed_dictionaries({"n": st.integers(), "text": st.text(max_size=30).map(lambda t: t * 40)}),
    max_size=30,
)


@given(ROWS, st.integers(4_000, 30_000), st.booleans())
def test_pages_are_bounded_and_give_every_row_once(rows, most_bytes, has_places):
    given_rows, place = [], 0
    for _ in range(len(rows) + 1):
        places = [7 * each for each in range(place, len(rows))] if has_places else None
        answer = ToolAnswer(
            about={"total": len(rows)}, noun="rows", rows=rows[place:], offset=place, places=places
        )
        text = written(answer, most_bytes)
        assert len(text.encode()) <= most_bytes
        document = json.loads(unframed(text))
        assert document["total"] == len(rows)
        given_rows += document["rows"]
        if document["next"] is None:
            break
        place = int(document["next"].removeprefix("at-")) // (7 if has_places else 1)
    assert [row["n"] for row in given_rows] == [row["n"] for row in rows]


@pytest.mark.parametrize(
    "row",
    [
        {"text": "x" * 10**6},
        {str(n): "y" * 300 for n in range(500)},
        {"list": ["z" * 100] * 10_000},
        {"deep": [[["w" * 50] * 50] * 50] * 50},
        {"é" * 5_000: "é" * 5_000},
        {str(n) * 60: str(n) * 60 for n in range(2_000)},
    ],
)
def test_one_row_that_is_too_large_is_shortened_and_the_next_is_reached(row):
    text = written(ToolAnswer(noun="rows", rows=[row, {"text": "small"}], rest="Ask X."), 5_000)
    assert len(text.encode()) <= 5_000
    assert "Some text was shortened. Ask X." in text
    document = json.loads(unframed(text))
    assert len(document["rows"]) >= 1
    assert document["rows"][-1] == {"text": "small"} or document["next"] == "at-1"


def test_facts_that_are_too_large_are_shortened_too():
    about = {"names": [f"name {n} " * 30 for n in range(1_000)], "title": "t" * 100_000}
    text = written(ToolAnswer(about=about, noun="rows", rows=[{"n": 1}]), 4_000)
    assert len(text.encode()) <= 4_000
    assert json.loads(unframed(text))["rows"] == [{"n": 1}]


def test_facts_that_never_fit_are_an_error_that_says_what_to_do():
    with pytest.raises(UsageError) as caught:
        written(ToolAnswer(about={f"field {n}": n for n in range(5_000)}), 4_000)
    assert caught.value.hint


def test_a_row_that_waits_for_the_next_page_is_not_shortened_before():
    rows = [{"text": "a" * 1_900}, {"text": "b" * 1_900}, {"text": "c" * 1_900}]
    document = json.loads(unframed(written(ToolAnswer(noun="rows", rows=rows), 5_000)))
    assert document["rows"] == rows[: len(document["rows"])]
    assert 0 < len(document["rows"]) < 3
    assert document["next"] == f"at-{len(document['rows'])}"


def test_what_a_log_says_stays_between_the_markers():
    answer = ToolAnswer(
        about={"title": HOSTILE}, noun="rows", rows=[{HOSTILE: HOSTILE}] * 40, next=40
    )
    text = written(answer, 6_000)
    behind = text.rpartition("</recorded-data ")[2].partition(">")[2]
    assert "IGNORE" not in behind
    assert "repeat the call with cursor" in behind


def test_without_a_cursor_the_way_on_is_said():
    answer = ToolAnswer(noun="rows", rows=[{"n": 1}], next=1)
    text = bounded(answer, NO_RULES, most_bytes=5_000, more="The tool goes on.")
    assert text.endswith("There is more. The tool goes on.")
    assert json.loads(unframed(text))["next"] is None


def test_an_answer_that_does_not_fit_is_asked_for_a_shorter_one():
    def shortened(answer):
        (row,) = answer.rows
        length = len(row["text"]) // 2
        return structs.replace(answer, rows=[{"text": "x" * length}], shorten=shortened)

    answer = ToolAnswer(noun="rows", rows=[{"text": "x" * 1_900}], shorten=shortened)
    answer.read_on, answer.most_bytes = "Call X.", 1_000
    text = written(answer, 5_000)
    assert len(text.encode()) <= 1_000
    assert json.loads(unframed(text))["rows"] == [{"text": "x" * 475}]
    assert text.endswith("\nCall X.")
    assert "Call X." not in written(structs.replace(answer, rows=[]), 5_000)
