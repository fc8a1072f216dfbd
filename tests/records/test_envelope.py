"""The thin decoding tells the same as the full one."""

from __future__ import annotations

import pytest
from hypothesis import given

from records.samples import CLAUDE, ORCHESTRATOR, SESSION
from strategies import DIALECTS, good_lines, spoiled, to_line
from turnlog.records.codec import Envelope, decode, decode_envelope
from turnlog.records.damage import Damage
from turnlog.records.record import Unknown

SHARED = ("uuid", "parent_uuid", "session_id", "timestamp", "agent_id", "cwd", "version")


def disagreements(line: bytes) -> dict[str, tuple[object, object]]:
    record, envelope = decode(line), decode_envelope(line)
    told = {name: (getattr(envelope, name), getattr(record, name, None)) for name in SHARED}
    told["type"] = (envelope.type or "", record.type)
    told["is_sidechain"] = (
        envelope.is_sidechain or False,
        getattr(record, "is_sidechain", None) or False,
    )
    return {
        name: (thin, full)
        for name, (thin, full) in told.items()
        # A kind that cannot have such a field does not contradict a line that has it.
        if thin != full and not (full is None and not hasattr(record, name))
    }


@pytest.mark.parametrize("dialect", ["claude", "flat"])
def test_the_envelope_of_every_sample_agrees_with_its_record(dialect):
    for sample in DIALECTS[dialect].values():
        assert disagreements(to_line(sample)) == {}


@given(good_lines("claude"))
def test_the_envelope_of_any_good_line_agrees_with_its_record(line):
    assert disagreements(line) == {}


@given(spoiled("claude"))
def test_the_envelope_of_a_spoiled_line_agrees_with_its_record(record):
    line = to_line(record)
    if not isinstance(decode(line), Unknown):
        assert disagreements(line) == {}


def test_a_wrong_shape_costs_the_envelope_that_field_only():
    envelope = decode_envelope(to_line(CLAUDE["user"] | {"uuid": 7}))
    assert isinstance(envelope, Envelope)
    assert envelope.uuid is None
    assert envelope.session_id == SESSION


def test_what_is_no_record_has_no_envelope():
    for line in (b"", b"[]", b'{"type":"us', b"\0\0", b"// note"):
        damage = decode_envelope(line)
        assert isinstance(damage, Damage)
        assert damage.reason is decode(line).reason


def test_the_envelope_knows_where_the_orchestrator_writes_the_session():
    assert disagreements(to_line(ORCHESTRATOR["user"])) == {}


def test_the_envelope_knows_the_camel_case_sibling():
    assert disagreements(b'{"role":"user","content":"Hm?"}') == {}
