"""Notes on lines: put on and taken off, the bytes are the same."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import good_lines, json_values, spoiled, to_line, words
from turnlog.records.annotations import KEY, note_on, session_of, with_note, without_note
from turnlog.records.codec import decode
from turnlog.records.lenient_json import loads
from turnlog.records.record import Record

SPACE = st.sampled_from([b"", b" ", b"\t", b"\r", b" \r"])
BOM = b"\xef\xbb\xbf"

objects = st.dictionaries(words, json_values, max_size=4)


@st.composite
def lines(draw):
    """A line that is one object, written in any way, with anything harmless around it."""
    fields = draw(objects | spoiled())
    spaced = draw(st.booleans())
    line = to_line(fields, ascii_only=draw(st.booleans()), spaced=spaced)
    if spaced and not fields:
        line = b"{ }"
    before = draw(st.sampled_from([b"", b"", BOM])) + draw(SPACE)
    return before + line + draw(SPACE)


said = st.fixed_dictionaries(
    {},
    optional={
        "session": st.text(max_size=20),
        "was": st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
        "part": st.booleans(),
        "kept": st.booleans(),
    },
).filter(bool)


@given(lines(), said)
def test_a_note_comes_off_without_a_trace(line, note):
    noted = with_note(line, **note)
    assert note_on(noted) == note
    assert without_note(noted) == line


@given(lines(), said)
def test_a_note_changes_nothing_else(line, note):
    fields = loads(with_note(line, **note))
    assert fields.pop(KEY) == note
    before = loads(line)
    before.pop(KEY, None)
    assert fields == before


@given(good_lines(), said, said)
def test_notes_stand_upon_notes(line, lower, upper):
    noted = with_note(with_note(line, **lower), **upper)
    assert note_on(noted) == upper
    assert without_note(noted) == with_note(line, **lower)
    assert without_note(without_note(noted)) == line


@given(good_lines(), said)
def test_a_record_with_a_note_is_the_same_record(line, note):
    bare, noted = decode(line), decode(with_note(line, **note))
    assert isinstance(noted, Record)
    assert (noted.type, noted.dialect, noted.uuid) == (bare.type, bare.dialect, bare.uuid)
    assert (noted.at, noted.session_id, noted.odd) == (bare.at, bare.session_id, bare.odd)


@pytest.mark.parametrize("line", [b"{}", b"{ }", b" {\t}\r", BOM + b"{}", BOM + b" { } "])
def test_an_empty_object_takes_a_note(line):
    noted = with_note(line, session="s")
    assert loads(noted) == {KEY: {"session": "s"}}
    assert without_note(noted) == line


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":"\xff","turnlogNot":1}',
        b'{"a":"\\ud800"}',
        b'{"a":"tab\there","b":NaN}',
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
    ids=["not UTF-8", "a lone surrogate", "sloppy", "a long number", "nested too deep"],
)
def test_odd_lines_take_a_note(line):
    noted = with_note(line, was="x", session="s")
    assert note_on(noted) == {"was": "x", "session": "s"}
    assert without_note(noted) == line


def test_a_session_may_have_any_name():
    noted = with_note(b'{"type":"user"}', session="\ud800/\u2028\n")
    assert b"\n" not in noted
    assert note_on(noted) == {"session": "\ud800/\u2028\n"}
    assert without_note(noted) == b'{"type":"user"}'


# What looks like a note of ours and is part of the record stays.
@pytest.mark.parametrize(
    "line",
    [
        b'{"turnlogNote":{"session":"s"},"type":"user"}',
        b'{"type":"user", "turnlogNote":{"session":"s"}}',
        b'{"type":"user","turnlogNote": {"session":"s"}}',
        b'{"type":"user","turnlogNote":{"session": "s"}}',
        b'{"a":{"b":1,"turnlogNote":{"session":"s"}},"turnlogNote":{"session":"s"},"c":2}',
        b'{"a":{"b":1,"turnlogNote":{"session":"s"}}}',
        b'{"a":[{"turnlogNote":{"session":"s"}}]}',
        b'{"a":"\\"turnlogNote\\":{\\"session\\":\\"s\\"}"}',
        b'{"type":"user","turnlogNote":{}}',
        b'{"type":"user","turnlogNote":"s"}',
        b'{"type":"user","turnlogNote":null}',
    ],
)
def test_what_was_not_put_on_is_not_taken_off(line):
    assert without_note(line) == line


@given(objects, objects)
def test_a_field_of_that_name_is_taken_off_only_as_it_is_put_on(fields, note):
    line = to_line(fields | {KEY: note})
    bare = without_note(line)
    if bare != line:
        assert with_note(bare, **note) == line


@pytest.mark.parametrize("line", [b"", b"}", b'"turnlogNote":', b'[{"turnlogNote":{"a":1}}]'])
def test_what_is_no_record_has_no_note(line):
    assert note_on(line) == {}
    assert without_note(line) == line


def test_a_note_says_whose_record_it_is():
    line = b'{"type":"user","sessionId":"other","message":{"role":"user","content":"hi"}}'
    assert session_of(decode(line)) == "other"
    assert session_of(decode(with_note(line, session="mine"))) == "mine"
    assert session_of(decode(with_note(line, part=True))) == "other"
    assert session_of(decode(b'{"type":"summary","summary":"x"}')) is None
    assert session_of(decode(b'{"type":"summary","turnlogNote":{"session":7}}')) is None


def test_a_note_hides_nothing_that_a_dialect_put_aside():
    aside = {"type": "assistant", "content": [], "turnlog": {"message": {"stop_sequence": "."}}}
    noted = decode(with_note(json.dumps(aside).encode(), session="s"))
    assert noted.message.stop_sequence == "."
