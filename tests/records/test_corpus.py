"""Real sessions: every line is read, byte for byte, and nothing the census names is unknown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from turnlog.records.codec import Envelope, decode, decode_envelope, encode
from turnlog.records.record import Record, Unknown

REPOSITORY = Path(__file__).resolve().parents[2]
CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or REPOSITORY.parent / "shared" / "corpus" / "claude"
)

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")


def lines():
    for path in sorted(CORPUS.rglob("*.jsonl")):
        yield from path.read_bytes().split(b"\n")


def test_every_line_of_the_corpus_comes_back_byte_for_byte_and_none_is_unknown():
    records = 0
    unknown: set[str] = set()
    for line in lines():
        record = decode(line)
        if not isinstance(record, Record):
            continue
        records += 1
        assert encode(record) == line
        if isinstance(record, Unknown):
            unknown.add(record.type)
    assert records > 1_000
    # The two are what the census found in fixtures that mean to be unknown.
    assert unknown <= {"", "future_claude_event"}


def test_the_envelopes_of_the_corpus_agree_with_its_records():
    for line in lines():
        record, envelope = decode(line), decode_envelope(line)
        if isinstance(record, Record):
            assert isinstance(envelope, Envelope)
            assert (envelope.type, envelope.uuid) == (record.type, record.uuid)
            assert envelope.timestamp == record.timestamp
