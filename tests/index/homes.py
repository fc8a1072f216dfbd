"""Small homes for the index's tests: records in a few words, logs, an index of one's own."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from index.rows import Rows, differences, rows_in, rows_of
from turnlog.errors import IndexTooNew, TurnlogError
from turnlog.formats import Home, find_homes
from turnlog.index.database import index_path, open_for_reading
from turnlog.index.refresh.refresh import refresh

SESSIONS = [f"7c1d9f0e-5a52-4c11-9a3d-2f6f0d0c4b{number:02x}" for number in range(16)]
SESSION = SESSIONS[0]
WORDS = "kite wind spar keel bridle heron stork sail 風 凧 été naïve tail reel line knot".split()  # noqa: SIM905 - Short.
AT = "2026-03-04T05:06:07.089Z"


@contextmanager
def own_index(directory: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Let turnlog keep its own things in *directory*, or where nobody else does."""
    before = os.environ.get("TURNLOG_HOME")
    with tempfile.TemporaryDirectory(prefix="turnlog-index-") as other:
        os.environ["TURNLOG_HOME"] = os.fspath(directory or other)
        try:
            yield Path(directory or other)
        finally:
            if before is None:
                del os.environ["TURNLOG_HOME"]
            else:
                os.environ["TURNLOG_HOME"] = before


def rebuilt(homes: tuple[Home, ...], *, words: bool = True) -> Rows:
    """Give the rows of an index made at once, elsewhere."""
    with own_index():
        done = refresh(homes)
        assert not done.notices
        return rows_of(homes, words=words)


def made_home(directory: Path) -> tuple[Home, ...]:
    (directory / "projects" / "-srv-kites").mkdir(parents=True, exist_ok=True)
    return find_homes((directory,))


def log_path(
    homes: tuple[Home, ...], session: str = SESSION, *, subagent: str | None = None
) -> Path:
    name = f"{session}/subagents/agent-{subagent}.jsonl" if subagent else f"{session}.jsonl"
    path = Path(homes[0].path) / "projects" / "-srv-kites" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def answered(number: int, session: str = SESSION, **more: Any) -> dict[str, Any]:
    """A record of the response *number*."""
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": [{"type": "text", "text": f"answer {number} on kites"}],
        "usage": {"input_tokens": 7, "output_tokens": number + 1},
    }
    return _linked("assistant", f"a{number}", session) | {
        "message": message | more.pop("message", {}),
        "requestId": f"req_{number}",
        **more,
    }


def asked(number: int, session: str = SESSION, **more: Any) -> dict[str, Any]:
    """A prompt of a person."""
    message = {"role": "user", "content": f"question {number} about wind"}
    return _linked("user", f"q{number}", session) | {"message": message, **more}


def calling(number: int, tool: str = "Read", **given: Any) -> dict[str, Any]:
    """A call for a tool."""
    block = {"type": "tool_use", "id": f"call_{number}", "name": tool, "input": given}
    return answered(number, uuid=f"c{number}", message={"content": [block]})


def told(number: int, text: str = "done", *, is_error: bool = False) -> dict[str, Any]:
    """What came of the call *number*."""
    block = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": text}
    message = {"role": "user", "content": [block | ({"is_error": True} if is_error else {})]}
    return _linked("user", f"r{number}", SESSION) | {"message": message}


def _linked(kind: str, uuid: str, session: str) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": None,
        "isSidechain": False,
        "cwd": "/srv/kites",
        "sessionId": session,
        "version": "2.1.99",
        "gitBranch": "main",
        "timestamp": AT,
    }


def made_tree(directory: Path, seed: int, size_bytes: int) -> tuple[Home, ...]:
    """Make a home of about *size_bytes*: sessions, forks, subagents, damage, side files."""
    rng = random.Random(seed)
    homes = made_home(directory)
    shared: list[dict[str, Any]] = []
    written = number = 0
    while written < size_bytes:
        session = rng.choice(SESSIONS)
        subagent = rng.choice([None, None, None, "a1b2c3", "d4e5f6"])
        data = b""
        for _ in range(rng.randint(1, 40)):
            number += 1
            data += _stretch(rng, session, number, shared)
        with log_path(homes, session, subagent=subagent).open("ab") as log:
            log.write(data)
        written += len(data)
    _make_beside(homes, rng)
    return homes


def _stretch(rng: random.Random, session: str, number: int, shared: list[dict[str, Any]]) -> bytes:
    text = " ".join(rng.choices(WORDS, k=rng.randint(3, 60)))
    second = f"2026-03-{1 + number % 28:02}T05:{number % 60:02}:07.{number % 1000:03}Z"
    some = [
        asked(number, session, message={"role": "user", "content": text}),
        answered(number, session, message={"content": [{"type": "text", "text": text}]}),
        answered(number, session, message={"content": [{"type": "thinking", "thinking": text}]}),
        calling(number, file_path=f"/srv/kites/{rng.choice(WORDS)}.py") | {"sessionId": session},
        told(number, text * rng.randint(1, 9), is_error=rng.random() < 0.1),
        {"type": "ai-title", "aiTitle": f"Mending {rng.choice(WORDS[:2])}", "sessionId": session},
        {"type": "summary", "summary": text, "leafUuid": f"a{number}"},
    ]
    for record in some[:-2]:
        record["timestamp"] = second
        record["sessionId"] = session
    # A gateway's id is that of the second, whoever asks, and there is no request.
    gateway = {"id": f"msg_202603040506{number % 9:02}", "model": f"glm-{4 + number % 2}"}
    uuid = str(UUID(int=number))
    some.append(answered(number, session, uuid=uuid, message=gateway, requestId=None))
    shared += (some[1], some[-1])
    data = lines(*some)
    if rng.random() < 0.1:  # A fork carries another session's record along.
        data += lines(rng.choice(shared) | {"sessionId": session})
    if rng.random() < 0.05:
        data += rng.choice([b"\0" * 30, b"{", data[:90], b"\xff"]) + b"\n"
    return data


def _make_beside(homes: tuple[Home, ...], rng: random.Random) -> None:
    home = Path(homes[0].path)
    for name in ("plans", "todos", f"tasks/{SESSION}"):
        (home / name).mkdir(parents=True, exist_ok=True)
    (home / "plans" / "tall-kite.md").write_text(" ".join(rng.choices(WORDS, k=50)))
    (home / "todos" / f"{SESSION}-agent-{SESSION}.json").write_text('[{"content": "sand it"}]')
    (home / "tasks" / SESSION / "1.json").write_text('{"subject": "tie it"}')
    prompts = (
        {"display": word, "timestamp": 1772600767089, "sessionId": SESSION} for word in WORDS
    )
    (home / "history.jsonl").write_bytes(lines(*prompts))


def cuts_of(data: bytes, rng: random.Random, count: int) -> list[int]:
    """Choose where growth pauses: anywhere, around newlines, inside characters."""
    newlines = [at for at, byte in enumerate(data) if byte == 10] or [0]
    inside = [at for at, byte in enumerate(data) if byte & 0xC0 == 0x80] or [0]
    cuts = set()
    for _ in range(count):
        cuts.add(
            rng.choice((
                rng.randrange(len(data) + 1),
                rng.choice(newlines),
                rng.choice(newlines) + 1,
                rng.choice(inside),
            ))
        )  # fmt: skip
    return sorted(cuts)


def flipped(homes: tuple[Home, ...], expected: Rows, whole: bytes, rng: random.Random) -> str:
    """Flip one bit of an index, use it, and tell what came of that."""
    path = index_path(homes)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    data = bytearray(whole)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    log = rng.choice(sorted(Path(homes[0].path).rglob("*.jsonl")))
    os.utime(log, ns=(rng.randrange(10**18), rng.randrange(10**18)))
    try:
        notices = refresh(homes).notices
    except IndexTooNew:
        notices = ["too new"]
        refresh(homes, rebuild=True)
    except TurnlogError as error:
        return f"refused: {error}"
    try:
        with closing(open_for_reading(homes)) as db:
            said = db.execute("SELECT count(*) FROM said('kite')").fetchone()
            assert said is not None
            is_right = differences(rows_in(db), expected) == ""
    except (sqlite3.DatabaseError, ValueError, KeyError, TypeError, AttributeError) as error:
        refresh(homes, rebuild=True)
        assert differences(rows_of(homes), expected) == ""
        return "told when read" if isinstance(error, sqlite3.DatabaseError) else "odd when read"
    if notices:
        return "rebuilt" if is_right else "rebuilt, and wrong"
    return "right" if is_right else "wrong"
