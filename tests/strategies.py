"""Hypothesis strategies: good records, records spoiled somewhere, logs in every state of repair."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from records.samples import CLAUDE, FLAT, ORCHESTRATOR

DIALECTS = {"claude": CLAUDE, "orchestrator": ORCHESTRATOR, "flat": FLAT}


def to_line(value: Any, *, ascii_only: bool = False, spaced: bool = False) -> bytes:
    """Write *value* as one line, as Claude Code does unless told otherwise."""
    separators = (", ", ": ") if spaced else (",", ":")
    return json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode()


# -- values ---------------------------------------------------------------------------------

words = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\{}[]:,\u2028\u2029\x85\n\t'),
    max_size=12,
)
numbers = (
    st.integers(-5, 5)
    | st.sampled_from([2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30])
    | st.floats(allow_nan=False, allow_infinity=False)
)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


# -- records --------------------------------------------------------------------------------


@st.composite
def good_records(draw, dialect: str | None = None) -> dict[str, Any]:
    """A good record of any type, with an id and a text of its own."""
    name = dialect or draw(st.sampled_from(sorted(DIALECTS)))
    record = copy.deepcopy(draw(st.sampled_from(list(DIALECTS[name].values()))))
    if "uuid" in record and name == "claude":
        record["uuid"] = str(draw(st.uuids()))
    message = record.get("message")
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        message["content"] = draw(words)
    elif name == "orchestrator" and isinstance(record.get("content"), str):
        record["content"] = draw(words)
    return record


@st.composite
def good_lines(draw, dialect: str | None = None) -> bytes:
    """A good record as a line, in any of the ways in which JSON may be written."""
    record = draw(good_records(dialect))
    return to_line(record, ascii_only=draw(st.booleans()), spaced=draw(st.booleans()))


@st.composite
def spoiled(draw, dialect: str | None = None) -> dict[str, Any]:
    """A good record in which one place, anywhere, is gone or holds something else."""
    record = draw(good_records(dialect))
    holder, key = draw(st.sampled_from(list(_places(record))))
    if draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = draw(json_values)
    return record


def _places(value: Any):
    """Every (container, key) inside *value*."""
    if isinstance(value, dict):
        keys: Any = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    else:
        return
    for key in keys:
        yield value, key
        yield from _places(value[key])


@st.composite
def spoiled_lines(draw) -> bytes:
    """A good line with a byte or a stretch of bytes changed, dropped or put in."""
    line = draw(good_lines())
    start = draw(st.integers(0, len(line)))
    end = min(len(line), start + draw(st.integers(0, 20)))
    return line[:start] + draw(st.binary(max_size=6)) + line[end:]


# -- damaged lines --------------------------------------------------------------------------

# A record that stands behind rubble is believed only if it says whose it is.
sure_lines = good_lines("claude").filter(
    lambda line: b'"sessionId"' in line and b'"parentUuid"' in line
)
nul_runs = st.integers(1, 40).map(lambda count: b"\0" * count)


@st.composite
def glued_lines(draw) -> tuple[bytes, list[bytes]]:
    """Several whole records on one line, and those records."""
    records = draw(st.lists(good_lines(), min_size=2, max_size=4))
    gaps = [draw(st.sampled_from([b"", b"", b" ", b"\r", b"\xef\xbb\xbf"])) for _ in records]
    return b"".join(part for pair in zip(gaps, records, strict=True) for part in pair), records


@st.composite
def spliced_lines(draw) -> tuple[bytes, bytes]:
    """A record that was cut, with another writer's record right behind the cut; and that record."""
    cut_one = draw(sure_lines)
    whole = draw(sure_lines)
    return cut_one[: draw(st.integers(1, len(cut_one) - 1))] + whole, whole


@st.composite
def nul_lines(draw) -> tuple[bytes, bytes]:
    """A record between runs of NULs, as a power cut leaves it; and that record."""
    record = draw(sure_lines)
    before, after = draw(nul_runs | st.just(b"")), draw(nul_runs)
    return before + record + after, record


rubble = st.one_of(
    glued_lines().map(lambda pair: pair[0]),
    spliced_lines().map(lambda pair: pair[0]),
    nul_lines().map(lambda pair: pair[0]),
    nul_runs,
    spoiled_lines(),
    good_lines().map(lambda line: line[: len(line) // 2]),
    st.binary(max_size=30),
    st.sampled_from([b"", b"  ", b"\r", b"42", b"null", b"[]", b'"x"', b"// note", b"\xff\xfe"]),
).map(lambda line: line.replace(b"\n", b""))


# -- logs -----------------------------------------------------------------------------------

line_ends = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n"])


@st.composite
def tidy_logs(draw, max_lines: int = 6) -> tuple[bytes, list[bytes]]:
    """A log without fault, and its lines."""
    lines = draw(st.lists(good_lines(), max_size=max_lines))
    return b"".join(line + b"\n" for line in lines), lines


@st.composite
def untidy_logs(draw, max_lines: int = 6) -> bytes:
    """A log of good lines and rubble in any order; its last line may have no end."""
    parts = [
        draw(good_lines() | rubble) + draw(line_ends)
        for _ in range(draw(st.integers(0, max_lines)))
    ]
    log = b"".join(parts) + draw(st.just(b"") | good_lines() | rubble)
    # A log that begins like an archive is one: compression is told from the first bytes.
    assume(not log.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")) and log[1:4] != b"\x2a\x4d\x18")
    return log


@st.composite
def cut_logs(draw) -> tuple[bytes, int]:
    """A log and a place to cut it."""
    log = draw(untidy_logs())
    return log, draw(st.integers(0, len(log)))
