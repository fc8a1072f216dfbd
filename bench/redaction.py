"""Secrets on their way out: how many are masked, how much is masked that is none, and how fast.

A hundred secrets are made up, of every kind that is known, and said in a session as agents say
them: in prompts, answers, thoughts, calls and what tools answered, among ordinary records. Then the
session leaves by every way there is, masked and as it is, and what comes out is searched for them:
a way that lets none out unmasked proves nothing and is left out. What real logs are taken to hold
counts as false: those that were published hold no secrets any more.
"""

from __future__ import annotations

import html
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import anyio
import pyarrow.parquet as pq
from tests.redact.planted import KINDS, Planted, plant, survives

from mcp import Client
from turnlog.formats import find_homes
from turnlog.mcp.context import ToolContext
from turnlog.mcp.server import make_server
from turnlog.mcp.untrusted_text import unframed
from turnlog.redact import find_secrets, redact, redact_line, redact_value

from .data import SEED, line_of, log_of, real_logs, records
from .programs import TURNLOG
from .table import Row, speed

SECRETS = 100
FEWEST = 97
SLOWEST = 50e6
_PIECE = 256 * 1024
_ROUNDS = 5
_SESSION = "6e0c5c4e-0f0a-4f6e-9d5b-3a2b1c0d9e8f"
_UUID = "{:08x}-1111-4222-8333-0123456789ab"


def bench() -> list[Row]:
    rng = random.Random(SEED)
    planted = [plant(rng, KINDS[number % len(KINDS)]) for number in range(SECRETS)]
    with tempfile.TemporaryDirectory() as place:
        ways = [*_in_process(planted), *_programs(planted, Path(place))]
    return [*(row for way in ways for row in _rows(way, planted)), *_real()]


def _rows(way: Way, planted: list[Planted]) -> Iterator[Row]:
    """Count what a way lets out masked, of what it would let out as it is."""
    there = [each for each in planted if survives(each.secret, way.plain)]
    if not there:
        return
    masked = sum(not survives(each.secret, way.masked) for each in there)
    part = 100 * masked / len(there)
    what = f"secrets of {len(KINDS)} kinds that are masked: {way.name}"
    yield Row(
        what, f"{masked} of {len(there)}", "", f"{part:.0f} %", f">= {FEWEST} %", part >= FEWEST
    )


class Way(NamedTuple):
    """A way out: what leaves by it masked, and what would leave otherwise."""

    name: str
    masked: str
    plain: str


def _in_process(planted: list[Planted]) -> Iterator[Way]:
    texts = [each.text for each in planted]
    yield Way("text", "\n".join(map(redact, texts)), "\n".join(texts))
    lines = [line_of(record) for record in _session(planted)]
    plain = _told(b"".join(lines))
    yield Way("a log's lines", _told(b"".join(map(redact_line, lines))), plain)
    documents = [line_of(redact_value(json.loads(line))) for line in lines]
    yield Way("documents", _told(b"".join(documents)), plain)


def _programs(planted: list[Planted], place: Path) -> Iterator[Way]:
    """Let the session leave by the commands that let one leave."""
    project = place / "home" / "projects" / "-home-someone-project"
    project.mkdir(parents=True)
    log = b"".join(map(line_of, _session(planted)))
    (project / f"{_SESSION}.jsonl").write_bytes(log)
    environ = os.environ | {"TURNLOG_HOME": str(place / "own"), "PYTHONUTF8": "1"}

    def said(*arguments: str) -> bytes:
        command = [sys.executable, "-c", TURNLOG, *arguments, "--home", str(place / "home")]
        done = subprocess.run(command, env=environ, check=False, capture_output=True)
        if done.returncode > 1:
            raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stderr!r}")
        return done.stdout

    def exported(name: str, *options: str) -> str:
        path = place / name
        said("export", _SESSION, "-o", str(path), "--force", *options)
        text = path.read_text("utf-8")
        # What is escaped there is read as people and programs read it.
        return _told(text.encode()) if "json" in name else text + html.unescape(text)

    yield Way("turnlog secrets scan", _told(said("secrets", "scan", "--json")), _told(log))
    asked = ("search", "planted", "--results", "--json", "--limit", "10000", "--flat")
    yield Way(
        "turnlog search --redact", *(_told(said(*asked, *more)) for more in (("--redact",), ()))
    )
    for kind in ("md", "html", "json", "jsonl"):
        name = f"out.{kind}"
        yield Way(f"turnlog export, {kind}", exported(name), exported(name, "--no-redact"))
    for table in ("messages", "calls", "records"):
        options = ("out.csv", "--table", table)
        way = f"turnlog export, csv of {table}"
        yield Way(way, exported(*options), exported(*options, "--no-redact"))

    def parquet(*options: str) -> str:
        path = place / "out.parquet"
        said("export", _SESSION, "-o", str(path), "--force", *options)
        tables = [pq.read_table(each) for each in sorted(path.rglob("*.parquet"))]
        return _told(json.dumps([table.to_pylist() for table in tables], default=str).encode())

    yield Way("turnlog export, parquet", parquet(), parquet("--no-redact"))
    yield Way("turnlog mcp, every record opened", _asked_by_agents(place, len(planted)), _told(log))


def _asked_by_agents(place: Path, count: int) -> str:
    """Let an agent open every record in which a secret is said."""
    desk = ToolContext(homes=find_homes((place / "home",)), scope=None)

    async def ask() -> list[str]:
        told = []
        async with Client(make_server(desk)) as client:
            for number in range(count):
                record = _UUID.format(number)
                asked = {"session": _SESSION, "record": record}
                answer = await client.call_tool("session", asked)
                told.append(answer.content[0].text)
                if record not in told[-1]:
                    raise RuntimeError(f"{record} was not opened: {told[-1][:200]}")
        return told

    before = os.environ.get("TURNLOG_HOME")
    os.environ["TURNLOG_HOME"] = str(place / "own")
    try:
        return "\n".join(_told(unframed(each).encode()) for each in anyio.run(ask))
    finally:
        if before is None:
            del os.environ["TURNLOG_HOME"]
        else:
            os.environ["TURNLOG_HOME"] = before


def _session(planted: list[Planted]) -> Iterator[dict]:
    """Give a session: ordinary records, and among them those in which secrets are said."""
    ordinary = records(SEED)
    parent = None
    for number, each in enumerate(planted):
        said = {"uuid": _UUID.format(number), "sessionId": _SESSION}
        said |= {"cwd": "/home/someone/project", "version": "2.1.59", "isSidechain": False}
        said |= _saying(number, f"planted {number}:\n{each.text}\n")
        for record in (*islice(ordinary, 4), said):
            if "uuid" in record:
                day, minute = 1 + number // 60, number % 60
                told = {
                    "parentUuid": parent,
                    "timestamp": f"2026-03-{day:02}T10:{minute:02}:00.000Z",
                }
                parent = record["uuid"]
                yield record | told
            else:
                yield record


def _saying(number: int, text: str) -> dict:
    """Say *text* in one of the places where agents' programs write what was said."""
    id_ = f"toolu_{number:024}"
    blocks = (
        {"type": "text", "text": text},
        {"type": "thinking", "thinking": text, "signature": "c2ln"},
        {"type": "tool_use", "id": id_, "name": "Bash", "input": {"command": text}},
        {
            "type": "tool_use",
            "id": id_,
            "name": "Write",
            "input": {"file_path": "a", "content": text},
        },
    )
    place = number % 7
    if place < len(blocks):
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": f"msg_{number:024}", "role": "assistant", "model": "claude-opus-4-6"}
        message |= {"type": "message", "content": [blocks[place]], "usage": usage}
        return {"type": "assistant", "message": message}
    if place == 4:
        return {"type": "user", "message": {"role": "user", "content": text}}
    call = f"toolu_{number - 3:024}"
    block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": place == 6}
    said = {"type": "user", "message": {"role": "user", "content": [block]}}
    return said | {"toolUseResult": {"stdout": text, "stderr": "", "interrupted": False}}


def _told(data: bytes) -> str:
    """Give all texts of JSON, a document or one a line, as they are meant."""
    told: list[str] = []
    try:
        waiting = [json.loads(data)]
    except ValueError:
        waiting = [json.loads(line) for line in data.splitlines()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            told.append(value)
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
    return "\n".join(told)


def _real() -> list[Row]:
    """Read real logs, as a scan does: a piece at a time."""
    logs = real_logs()
    pieces = [
        data[at : at + _PIECE]
        for path in logs or [log_of(50_000_000)]
        for data in [Path(path).read_bytes()]
        for at in range(0, len(data), _PIECE)
    ]
    size_bytes = sum(map(len, pieces))
    times, false = [], 0
    for _ in range(_ROUNDS):
        began = perf_counter()
        false = sum(1 for piece in pieces for _ in find_secrets(piece))
        times.append(perf_counter() - began)
    which = "real" if logs else "made-up"
    per_mb = false / (size_bytes / 1e6)
    fast = size_bytes / min(times)
    what = f"{size_bytes / 1e6:,.0f} MB of {which} logs"
    return [
        Row(f"false hits in {what}, a megabyte", f"{per_mb:.2f}", "", "", "<= 1", per_mb <= 1),
        Row(
            f"looking for secrets in {what}, best of {_ROUNDS}",
            speed(size_bytes, min(times)),
            "",
            "",
            f">= {SLOWEST / 1e6:.0f} MB/s",
            fast >= SLOWEST,
        ),
    ]
