"""What a strict check and a repair say of a line is what Node's JSON.parse does with it."""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess

import pytest

from storage.logs import put
from turnlog.records.codec import decode
from turnlog.records.record import Record
from turnlog.storage.repair import repair, validate

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")

BOM = b"\xef\xbb\xbf"
# A value is given back as JSON, or null if the line is refused.
PARSE = """
const lines = require("fs").readFileSync(0, "utf8").split("\\n");
console.log(JSON.stringify(lines.map(line => {
  try { return JSON.stringify(JSON.parse(Buffer.from(line, "base64").toString("utf8"))); }
  catch (error) { return null; }
})));
"""
VALUES = (
    b'"a\x01b"', b'"a\tb"', b'"a\rb"', b'"\x1b[0m"', b'"\x7f"', b'"\\u0001"', b'"\\q"', b'"\\u12"',
    b"NaN", b"Infinity", b"-Infinity", b'"NaN"', b'"say \\"NaN\\": NaN"',
    b'["-Infinity", -Infinity]',
    b'{"NaN": 1}', b'"\xff"', b'"abc\xe2"', b'{"\xff": 1}', b'{"k\xc3": 1}', b'"\xed\xa0\x80"',
    b'{"a\x02": 1}', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\xe2\x80\xa8\xe2\x80\xa9"', b"[1,]",
    b'{"a": 1,}', b'{"a": 1, "a": 2}', b"[" * 3000 + b"]" * 3000, b"[" * 3000 + b",]" * 3000,
    b"[" * 3000 + b'"\x01"' + b"]" * 3000, b"1" * 5000, b"1e999", b"-0", b"01", b"1.", b".5", b"+1",
    b"0x10", b"'a'", b"/* c */ 1", b"tru", b"\x0b1", b"\xc2\xa01", b" \t\r1", b'"\x00"', b"[1 2]",
)  # fmt: skip
RECORD = (
    b'{"type":"user","uuid":"u%d","sessionId":"s","message":{"role":"user","content":%s},"x":%s}'
)


def parsed(lines):
    """What Node makes of each line: text of JSON, or None."""
    given = b"\n".join(map(base64.b64encode, lines))
    done = subprocess.run(["node", "-e", PARSE], input=given, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def made():
    """Lines of every kind: each value where it is read and where it is skipped, and broken ones."""
    lines = [
        line
        for number, value in enumerate(VALUES)
        for line in (RECORD % (number, value, b"1"), RECORD % (number, b'"hi"', value))
    ]
    plain = RECORD % (0, b'"caf\xc3\xa9 NaN"', b"[1, 2.5e3, null]")
    lines += [
        BOM + plain,
        BOM + b" " + plain,
        plain + BOM,
        BOM + BOM + plain,
        b" \t" + plain + b"\r",
    ]
    lines += [
        b'{"type":"\x01"}',
        b'{"ty\tpe":"user","type":"user"}',
        BOM + b'{"type":"x","y":"\x02"}',
    ]
    rng = random.Random(15)
    for _ in range(600):
        line = bytearray(rng.choice((plain, lines[0], RECORD % (1, b'"a\\n\\u00e9"', b"[NaN,-1]"))))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(line))
            line[at : at + rng.randrange(2)] = bytes(
                (rng.choice(b'\x01\t\r\x1f\xff\xc3",:{}[]\\N1 '),)
            )
        lines.append(bytes(line))
    return [line for line in lines if b"\n" not in line]


def test_a_strict_check_finds_what_node_refuses_and_nothing_else(tmp_path):
    lines = made()
    result = validate(put(tmp_path / "log.jsonl", b"\n".join(lines) + b"\n"), strict=True)
    assert result.unlisted == 0
    bad = {each.line for each in result.findings if each.severity == "error"}
    verdicts = parsed(lines)
    refused = {
        number
        for number, (line, verdict) in enumerate(zip(lines, verdicts, strict=True), 1)
        # Nothing but blanks is skipped; a value that is no object is no record.
        if line.strip(b" \t\r") and (verdict is None or not verdict.startswith("{"))
    }
    assert bad == refused, [lines[number - 1][-80:] for number in bad ^ refused][:5]
    assert any(each.code == "refused" for each in result.findings)


def test_after_a_repair_node_reads_every_line_and_every_record_is_there(tmp_path):
    lines = [line for line in made() if isinstance(decode(line), Record)]
    log = put(tmp_path / "log.jsonl", b"\n".join(lines) + b"\n")
    before = parsed(lines)
    assert None in before
    done = repair(log, write=True)
    assert done.rewritten == before.count(None)
    repaired = log.read_bytes().split(b"\n")[:-1]
    after = parsed(repaired)
    assert None not in after
    for line, new, was, now in zip(lines, repaired, before, after, strict=True):
        assert was is not None or new != line
        assert was is None or (was == now and new == line)
        if was is None and b"[[[" not in line and b"NaN" not in line and b"Infinity" not in line:
            text = line.removeprefix(BOM).decode("utf-8", "replace")
            assert json.loads(now) == json.loads(text, strict=False)
    assert not [each for each in validate(log, strict=True).findings if each.code == "refused"]
    assert not repair(log).needed
