"""Decoding is total: any bytes give a record or a described damage, and neither bites later."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from records.samples import CLAUDE, FLAT, ORCHESTRATOR
from strategies import good_lines, spoiled, spoiled_lines, to_line
from turnlog.records.codec import Envelope, decode, decode_envelope, encode
from turnlog.records.damage import EXCERPT_BYTES, Damage, Reason
from turnlog.records.meaning import Author, Meaning, author_of, meaning_of
from turnlog.records.record import Record, Unknown, User
from turnlog.records.record_types import Mode, breaches
from turnlog.records.usage import Usage

PROPERTIES = ("type", "at", "fields", "text", "blocks", "calls", "results", "usage", "kind")


def look_at_everything(record: Record) -> None:
    """Ask a record for all it can tell."""
    asked = {name: getattr(record, name) for name in PROPERTIES if hasattr(type(record), name)}
    assert isinstance(asked["type"], str)
    assert isinstance(asked["fields"], dict)
    assert asked["at"] is None or asked["at"].utcoffset() == timedelta(0)
    assert isinstance(asked.get("text", ""), str)
    assert isinstance(asked.get("usage"), Usage | None)
    for result in asked.get("results", ()):
        assert isinstance(result.text, str)
    if asked.get("usage"):
        usage = asked["usage"]
        assert all(
            isinstance(number, int)
            for number in (usage.total, usage.cache_write_5m, usage.cache_write_1h)
        )
    assert author_of(record) in Author
    assert meaning_of(record) in Meaning
    assert all(isinstance(breach, str) for breach in breaches(record))


def check(line: bytes) -> Record | Damage:
    """Decode *line* and hold what comes out to everything that is promised of it."""
    found = decode(line)
    envelope = decode_envelope(line)
    if isinstance(found, Damage):
        assert found.reason in Reason
        assert (found.offset, found.length, found.end) == (0, len(line), len(line))
        assert found.excerpt == line[:EXCERPT_BYTES]
        assert isinstance(envelope, Envelope | Damage)
    else:
        assert isinstance(found, Record)
        assert found.raw == line
        assert encode(found) == line
        assert isinstance(envelope, Envelope)
        look_at_everything(found)
    return found


@given(st.binary(max_size=200))
@example(b"")
@example(b"\0")
@example(b"{")
@example(b"\xef\xbb\xbf")
def test_any_bytes_are_a_record_or_a_damage(line):
    check(line)


@given(st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_text_is_a_record_or_a_damage(line):
    check(line)


@given(spoiled_lines())
def test_a_good_line_with_bytes_changed_anywhere_is_a_record_or_a_damage(line):
    check(line)


@given(spoiled(), st.booleans())
def test_a_record_spoiled_in_any_one_place_is_still_a_record(record, ascii_only):
    assert isinstance(check(to_line(record, ascii_only=ascii_only)), Record)


@given(good_lines())
def test_a_good_line_is_a_record_of_a_known_type_without_oddities(line):
    record = check(line)
    assert isinstance(record, Record)
    assert not isinstance(record, Unknown)
    assert record.odd == ()


@pytest.mark.parametrize("dialect", [CLAUDE, ORCHESTRATOR, FLAT])
def test_every_field_of_every_sample_survives_every_wrong_shape(dialect):
    for sample in dialect.values():
        for key in sample:
            for wrong in (None, True, 7, -1.5, "wrong", [], ["wrong"], {}, {"wrong": [1]}):
                check(to_line(sample | {key: wrong}))
                if isinstance(sample.get("message"), dict):
                    for inner in sample["message"]:
                        check(to_line(sample | {"message": sample["message"] | {inner: wrong}}))


# -- the known monsters ---------------------------------------------------------------------


def titled(title: bytes) -> bytes:
    return b'{"type":"mode","mode":"normal","title":' + title + b"}"


@pytest.mark.parametrize(
    "escape", [rb"\ud83d", rb"\udc00", rb"\udc00\ud83d", rb"\ud83d\ud83d", rb"kite \ud88d tail"]
)
def test_a_lone_surrogate_is_no_damage_wherever_it_stands(escape):
    for line in (
        titled(b'"' + escape + b'"'),
        b'{"type":"mode","mode":"' + escape + b'"}',
        b'{"type":"user","message":{"role":"user","content":"' + escape + b'"}}',
        b'{"type":"user","message":{"content":[{"type":"text","text":"' + escape + b'"}]}}',
        b'{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"N",'
        b'"input":{"a":"' + escape + b'"}}]}}',
        b'{"' + escape + b'":1,"type":"mode","mode":"x"}',
    ):
        record = check(line)
        assert isinstance(record, Record)
        assert not isinstance(record, Unknown)


def test_a_lone_surrogate_keeps_its_value():
    record = decode(rb'{"type":"user","message":{"role":"user","content":"a\ud83db"}}')
    assert record.text == "a\ud83db"


@pytest.mark.parametrize("digits", [b"9223372036854775808", b"-9223372036854775809", b"9" * 25])
def test_an_integer_beyond_64_bits_keeps_its_value(digits):
    record = check(titled(digits))
    assert isinstance(record, Mode)
    assert record.fields["title"] == int(digits)


def test_an_integer_of_5000_digits_is_a_record_that_keeps_its_bytes():
    line = titled(b"7" * 5000)
    assert isinstance(check(line), Mode)
    assert encode(decode(line)) == line


@pytest.mark.parametrize("where", ["timestamp", "durationMs", "uuid", "retryAttempt"])
def test_a_monstrous_number_in_a_known_field_costs_that_field_only(where):
    line = b'{"type":"system","subtype":"api_error","%s":%s}' % (where.encode(), b"8" * 5000)
    record = check(line)
    assert record.subtype == "api_error"
    assert record.at is None


@pytest.mark.parametrize("depth", [100, 1_000, 10_000])
@pytest.mark.parametrize("pair", [b"[]", b"{}"])
def test_nesting_of_any_depth_is_a_record_that_keeps_its_shallow_fields(depth, pair):
    opener = b'{"a":' if pair == b"{}" else b"["
    deep = opener * depth + b"1" + pair[1:] * depth
    record = check(b'{"type":"user","uuid":"u-1","message":{"role":"user","content":%s}}' % deep)
    assert isinstance(record, User)
    assert record.uuid == "u-1"
    record = check(titled(deep))
    assert isinstance(record, Mode)
    assert record.mode == "normal"


def test_nesting_of_depth_100000_is_a_record_too():
    line = titled(b"[" * 100_000 + b"]" * 100_000)
    assert isinstance(decode(line), Mode)
    assert isinstance(decode_envelope(line), Envelope)


def test_10000_brackets_that_never_close_are_damage():
    assert isinstance(check(b'{"a":' * 10_000), Damage)
    assert isinstance(check(b"[" * 10_000), Damage)


def test_deep_blocks_inside_blocks_do_not_end_the_decoder():
    block: object = {"type": "text", "text": "core"}
    for _ in range(300):
        block = {"type": "tool_result", "tool_use_id": "t", "content": [block]}
    deep = to_line({"type": "user", "message": {"role": "user", "content": [block, "odd"]}})
    assert isinstance(check(deep), User)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("message", "plain text"),
        ("message", ["plain text"]),
        ("message", 7),
        ("message", None),
        ("sessionId", 7),
        ("isSidechain", "yes"),
        ("timestamp", {"at": 1}),
        ("timestamp", True),
    ],
)
def test_a_wrong_shape_is_named_or_absent_and_the_rest_is_kept(field, value):
    record = check(to_line(CLAUDE["user"] | {field: value}))
    assert isinstance(record, User)
    assert record.odd == (() if value is None else (field,))
    assert record.cwd == "/srv/kites"
    assert record.fields[field] == value


def test_a_wrong_shape_deep_inside_is_named_by_its_path():
    usage = {"input_tokens": "many", "output_tokens": 3}
    line = to_line({"type": "assistant", "message": {"content": 7, "usage": usage}})
    record = check(line)
    assert set(record.odd) == {"message.content", "message.usage.input_tokens"}
    assert record.usage == Usage(output=3)


def test_a_byte_order_mark_is_no_damage():
    record = check(b"\xef\xbb\xbf" + to_line(CLAUDE["user"]))
    assert record.text == "Why does the kite spin?"


def test_a_carriage_return_is_no_damage_and_no_part_of_the_value():
    record = check(to_line(CLAUDE["mode"]) + b"\r")
    assert record.fields == CLAUDE["mode"]


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2"]
)
def test_bytes_that_are_not_utf8_cost_no_record(bad):
    record = check(b'{"type":"user","message":{"role":"user","content":"a' + bad + b'b"}}')
    assert isinstance(record, User)
    assert record.odd == ("(not UTF-8)",)
    assert record.text.startswith("a\ufffd")
    assert isinstance(check(titled(b'"' + bad + b'"')), Mode)


def test_utf16_is_not_guessed_at():
    assert isinstance(check('{"type":"mode"}'.encode("utf-16-le")), Damage)
    assert isinstance(check('{"type":"mode"}'.encode("utf-16")), Damage)


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_numbers_that_only_python_writes_are_no_damage(value):
    assert isinstance(check(titled(value)), Mode)
    record = check(b'{"type":"mode","mode":"x","timestamp":%s}' % value)
    assert isinstance(record, Mode)
    assert record.at is None


def test_of_duplicate_keys_the_last_counts():
    record = check(b'{"type":"mode","mode":"first","mode":"last"}')
    assert record.mode == "last"
    assert record.fields["mode"] == "last"


def test_a_raw_control_character_in_a_string_is_no_damage():
    record = check(b'{"type":"mode","mode":"a\tb\x1bc"}')
    assert record.mode == "a\tb\x1bc"


def test_a_raw_nul_makes_it_damage():
    assert isinstance(check(b'{"type":"mode","mode":"a\0b"}'), Damage)
    assert isinstance(check(b'{"type":"mode","mode":"ab"}\0'), Damage)


def test_an_escaped_nul_is_a_character_like_any_other():
    assert check(rb'{"type":"mode","mode":"a\u0000b"}').mode == "a\0b"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", Reason.BLANK),
        (b" \t\r", Reason.BLANK),
        (b"\0\0\0", Reason.NUL_RUN),
        (b"42", Reason.NOT_AN_OBJECT),
        (b"null", Reason.NOT_AN_OBJECT),
        (b'["type","user"]', Reason.NOT_AN_OBJECT),
        (b'"user"', Reason.NOT_AN_OBJECT),
        (b"// Line 1: a comment", Reason.NOT_JSON),
        (b"hello", Reason.NOT_JSON),
        (b'{"type":"user",}', Reason.NOT_JSON),
        (b"{'type':'user'}", Reason.NOT_JSON),
        (b'{"type":"us', Reason.FRAGMENT),
        (b'{"type":"user","message":{"role', Reason.FRAGMENT),
        (b'{"type":"user","isMeta":tr', Reason.FRAGMENT),
        (b'{"type":"user","n":', Reason.FRAGMENT),
    ],
)
def test_damage_says_why(line, reason):
    assert check(line).reason is reason


def test_the_excerpt_of_a_damage_is_short():
    damage = check(b"x" * 5000)
    assert damage.excerpt == b"x" * 100
    assert damage.length == 5000


def test_a_line_that_claims_to_be_its_own_decoding_is_not_believed():
    spoof = {
        "type": "mode",
        "mode": "x",
        "(raw)": "AAAA",
        "(dialect)": "flat",
        "(odd)": ["a"],
        "(type)": "user",
    }
    record = check(to_line(spoof))
    assert (record.type, record.dialect, record.odd) == ("mode", "claude", ())
    assert check(to_line(spoof | {"type": "new"})).type == "new"


def test_every_instant_a_record_tells_is_aware():
    at = decode(to_line(CLAUDE["user"])).at
    assert isinstance(at, datetime)
    assert at.tzinfo is not None


@given(st.dictionaries(st.text(max_size=5), st.integers(), max_size=3))
def test_fields_are_the_whole_line_unknown_keys_included(more):
    sample = CLAUDE["user"] | more
    line = json.dumps(sample).encode()
    assert decode(line).fields == json.loads(line)
