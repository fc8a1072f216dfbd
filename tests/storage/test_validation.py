"""Validating: every line is valid, corrupt or blank, and every finding says where."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given

from records.samples import CLAUDE, FLAT, ORCHESTRATOR
from storage.logs import lines, numbered, put, read
from strategies import tidy_logs, to_line, untidy_logs
from turnlog.records.damage import Damage
from turnlog.storage import repair as module
from turnlog.storage.reader import Placed
from turnlog.storage.repair import Severity, validate


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def codes(result):
    return [finding.code for finding in result.findings]


def test_a_tidy_log_is_clean(log):
    result = validate(put(log, lines(1, 2, 3)))
    assert (result.total, result.valid, result.corrupt, result.blank) == (3, 3, [], 0)
    assert result.is_valid
    assert result.findings == []
    assert result.records == 3
    assert result.size_bytes == len(lines(1, 2, 3))


def test_an_empty_log_is_clean(log):
    result = validate(put(log))
    assert (result.total, result.valid, result.is_valid) == (0, 0, True)


def test_lines_are_counted_by_what_they_are(log):
    put(log, lines(1), b"\n", b"junk\n", b"42\n", lines(2), b"   \n", b"\0\0\n", b'{"type":"us\n')
    result = validate(log)
    assert result.total == 8
    assert (result.valid, result.blank) == (2, 2)
    assert result.corrupt == [3, 4, 7, 8]
    assert not result.is_valid
    assert codes(result) == ["not-json", "not-an-object", "nul-run", "fragment"]


@given(data=untidy_logs())
def test_every_line_is_valid_corrupt_or_blank(tmp_path_factory, hushed, data):
    path = put(tmp_path_factory.getbasetemp() / "validated", data)
    result = validate(path, strict=True)
    assert result.total == result.valid + len(result.corrupt) + result.blank
    assert result.valid >= 0
    assert result.corrupt == sorted(set(result.corrupt))
    found = read(path)
    assert result.records == sum(isinstance(item, Placed) for item in found)
    assert sum(result.types.values()) == result.records
    errors = [
        f
        for f in result.findings
        if f.severity is Severity.ERROR and f.code not in ("glued", "refused")
    ]
    assert [(f.line, f.offset, f.length) for f in errors] == [
        (item.line, item.offset, item.length) for item in found if isinstance(item, Damage)
    ]
    assert {finding.line for finding in errors} <= set(result.corrupt)


@given(log_and_lines=tidy_logs())
def test_a_log_of_good_lines_is_valid(tmp_path_factory, log_and_lines):
    data, records = log_and_lines
    result = validate(put(tmp_path_factory.getbasetemp() / "tidy", data))
    assert result.is_valid
    assert result.valid == result.records == len(records)


def test_an_error_says_where_and_shows_a_harmless_excerpt(log):
    put(log, lines(1), b"\x1b]52;c;bad\x07 and more\n")
    (finding,) = validate(log).findings
    assert finding.severity is Severity.ERROR
    assert (finding.line, finding.offset, finding.length) == (2, len(lines(1)), 20)
    assert "\x1b" not in finding.excerpt
    assert "and more" in finding.excerpt
    assert finding.message


def test_glued_records_are_one_corrupt_line_and_all_found(log):
    result = validate(put(log, lines(1, 2).replace(b"\n", b""), b"\n", lines(3)))
    assert (result.total, result.valid, result.corrupt) == (2, 1, [1])
    assert (result.records, result.salvaged) == (3, 2)
    assert codes(result) == ["glued"]


def test_a_torn_tail_is_a_warning_and_no_line(log):
    result = validate(put(log, lines(1), b'{"type":"us'))
    assert (result.total, result.valid, result.corrupt) == (1, 1, [])
    assert codes(result) == ["torn-tail"]
    assert not result.is_valid


def test_a_whole_last_record_without_newline_is_a_note(log):
    result = validate(put(log, lines(1, 2)[:-1]))
    assert (result.total, result.valid) == (2, 2)
    assert codes(result) == ["no-final-newline"]
    assert result.is_valid


def test_an_over_long_line_is_corrupt(log):
    result = validate(put(log, lines(1), b"x" * 500, b"\n", lines(2)), cap=200)
    assert (result.total, result.valid, result.corrupt) == (3, 2, [2])


def test_an_over_long_line_without_an_end_is_corrupt_and_counted(log):
    put(log, lines(1), b"x" * 500)
    result = validate(log, cap=200)
    assert result.corrupt == [2]
    assert (result.total, result.valid) == (2, 1)


def test_bytes_that_are_not_utf8_are_a_warning(log):
    put(log, lines(1).replace(b"kite", b"k\xffte"))
    result = validate(log)
    assert not result.is_valid
    assert codes(result) == ["not-utf8"]


def test_a_newer_format_is_a_warning(log):
    put(log, b'{"type":"turnlog","format":99}\n', lines(1))
    result = validate(log)
    assert codes(result) == ["newer-format"]
    assert result.valid == 2


def test_strict_checks_fields_values_and_types(log):
    put(
        log,
        to_line({"type": "user", "message": {"role": "user", "content": "x"}}),
        b"\n",
        to_line(CLAUDE["queue-operation/enqueue"] | {"operation": "juggle"}),
        b"\n",
        b'{"type":"event_of_tomorrow"}\n',
        to_line(CLAUDE["assistant"]),
        b"\n",
    )
    lax, strict = validate(log), validate(log, strict=True)
    assert lax.is_valid
    assert not strict.is_valid
    assert {(f.line, f.code) for f in strict.findings} == {
        (1, "breach"),
        (2, "breach"),
        (3, "unknown-type"),
    }
    assert any("uuid" in f.message for f in strict.findings)
    assert any("juggle" in f.message for f in strict.findings)
    assert all(f.severity is Severity.WARNING for f in strict.findings)


@pytest.mark.parametrize("dialect", [CLAUDE, ORCHESTRATOR, FLAT])
def test_good_samples_pass_the_strict_rules(log, dialect):
    lax = ("progress/none", "queue-operation/none")
    good = [sample for name, sample in dialect.items() if name not in lax]
    put(log, *(to_line(sample) + b"\n" for sample in good))
    assert validate(log, strict=True).is_valid


def test_versions_types_and_times_are_told(log):
    put(
        log,
        to_line(CLAUDE["user"]) + b"\n",
        to_line(CLAUDE["user"] | {"version": "2.0.1", "timestamp": "2026-01-01T00:00:00Z"}) + b"\n",
        to_line(CLAUDE["mode"]) + b"\n",
    )
    result = validate(log)
    assert result.versions == {"2.1.99": 1, "2.0.1": 1}
    assert result.types == {"user": 2, "mode": 1}
    assert result.first_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert result.last_at == datetime(2026, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)


def test_a_log_of_nothing_but_damage_does_not_fill_the_memory(log, hushed, monkeypatch):
    monkeypatch.setattr(module, "MAX_FINDINGS", 10)
    result = validate(put(log, b"junk\n" * 50))
    assert len(result.findings) == 10
    assert result.unlisted == 40
    assert len(result.corrupt) == 50


def test_validating_changes_nothing(log):
    put(log, b"junk\n", lines(1), b"torn")
    before = log.read_bytes(), log.stat().st_mtime_ns
    validate(log, strict=True)
    assert (log.read_bytes(), log.stat().st_mtime_ns) == before
    assert [path.name for path in log.parent.iterdir()] == ["log.jsonl"]


def test_a_record_is_a_record_however_odd(log):
    put(log, to_line(numbered(1, sessionId=7)), b"\n")
    assert validate(log).is_valid
    assert codes(validate(log, strict=True)) == ["breach"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"\xef\xbb\xbf" + lines(1), "byte order mark"),
        (lines(1).replace(b"kite", b"k\tite"), "control character"),
        (lines(1).replace(b'{"', b'{"n":NaN,"', 1), "NaN"),
    ],
)
def test_strict_names_what_the_agents_program_refuses(log, line, why):
    put(log, lines(2), line, lines(3))
    lax, strict = validate(log), validate(log, strict=True)
    assert "refused" not in codes(lax)
    (finding,) = (each for each in strict.findings if each.code == "refused")
    assert finding.line == 2
    assert why in finding.message
    assert finding.severity is Severity.ERROR
    assert not strict.is_valid
    assert strict.corrupt == [2]
    assert strict.total == strict.valid + len(strict.corrupt) + strict.blank


@pytest.mark.parametrize("where", [b'"x\xff":1', b'"x":"\xff"', b'"x":{"\xc3":[]}'])
def test_bytes_that_are_not_utf8_are_found_wherever_they_are(log, where):
    put(log, lines(1).replace(b"{", b"{" + where + b",", 1))
    result = validate(log)
    assert codes(result) == ["not-utf8"]
    assert not result.is_valid
