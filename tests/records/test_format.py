"""The mark at the head of the logs that turnlog creates."""

from __future__ import annotations

import json

import pytest

from records.samples import CLAUDE, SESSION
from strategies import to_line
from turnlog.records.annotations import FORMAT, format_marker, newer_format
from turnlog.records.codec import decode
from turnlog.records.record_types import Marker


def marker(number):
    return to_line({"type": "turnlog", "format": number}) + b"\n"


def test_the_marker_is_one_record_of_a_type_of_its_own():
    line = format_marker("turnlog 0.1", sessionId=SESSION)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    record = decode(line[:-1])
    assert isinstance(record, Marker)
    assert (record.format, record.writer, record.session_id) == (FORMAT, "turnlog 0.1", SESSION)


def test_other_readers_pass_over_the_marker():
    fields = json.loads(format_marker("turnlog 0.1"))
    assert fields["type"] not in ("user", "assistant", "summary", "system", "custom-title")
    assert not {"uuid", "parentUuid", "message", "sessionId"} & fields.keys()


def test_our_own_format_is_not_too_new():
    assert newer_format(format_marker("turnlog 0.1")) is None


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_newer_format_is_seen_in_the_first_three_lines(before):
    head = (to_line(CLAUDE["mode"]) + b"\n") * before + marker(FORMAT + 1)
    assert newer_format(head) == FORMAT + 1


def test_a_marker_further_down_is_just_a_record():
    assert newer_format((to_line(CLAUDE["mode"]) + b"\n") * 3 + marker(FORMAT + 1)) is None


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\n\n\n",
        b"\xff\xfe",
        to_line(CLAUDE["user"]),
        b'{"type":"user","message":{"content":"see \\"turnlog\\" format 9"}}\n',
        b'{"type":"custom-title","customTitle":"turnlog","format":9}\n',
        b'{"type":"turnlog","format":"9"}\n',
        b'{"type":"turnlog"}\n',
        b'{"type":"turnlog","form',
    ],
)
def test_a_log_without_a_readable_marker_is_somebody_elses(head):
    assert newer_format(head) is None
