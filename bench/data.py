"""Logs to measure with: realistic, seeded, written once.

Line sizes follow what real logs show (median 1 KB, 99th percentile 40 KB, some of 200 KB) and the
record types come in about the shares in which real logs hold them.
"""

from __future__ import annotations

import base64
import os
import random
from collections.abc import Iterator
from typing import Any

import msgspec

BASE = ".bench"
SEED = 20260301
_MEDIAN, _SIGMA, _LARGEST = 1000, 1.586, 250_000
_VOCABULARY = """
the of to in for with return const await import class string error result value config server
request handler token session parse write read file path line buffer stream query schema test
assert render state effect route "quoted" \\d+ {x} naïve → ✓ 日本語 é 🚀
"""
_WORDS = _VOCABULARY.split()
_BETWEEN = (" ",) * 8 + ("\n", "\t")
_encode = msgspec.json.Encoder().encode


class _Text:
    """Slices of one large pool: text that costs nothing to make."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        words, between = rng.choices(_WORDS, k=200_000), rng.choices(_BETWEEN, k=200_000)
        self._prose = "".join(a + b for a, b in zip(words, between, strict=True))
        self._base64 = base64.b64encode(rng.randbytes(300_000)).decode()

    def prose(self, size: int) -> str:
        at = self._rng.randrange(len(self._prose) - size)
        return self._prose[at : at + size]

    def signature(self, size: int) -> str:
        at = self._rng.randrange(len(self._base64) - size)
        return self._base64[at : at + size]


def records(seed: int = SEED) -> Iterator[dict[str, Any]]:
    """Give records without end; the same *seed* gives the same records."""
    rng = random.Random(seed)
    text = _Text(rng)
    parent = None
    clock = 0
    for number in range(1 << 62):
        clock += rng.randrange(1, 5000)
        size = min(int(rng.lognormvariate(0, _SIGMA) * _MEDIAN), _LARGEST)
        uuid = f"{rng.getrandbits(32):08x}-1111-4222-8333-{number:012x}"
        linked = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/someone/project",
            "sessionId": "6e0c5c4e-0f0a-4f6e-9d5b-3a2b1c0d9e8f",
            "version": "2.1.59",
            "gitBranch": "main",
        }
        hour, rest = divmod(clock, 3_600_000)
        day, minute, milli = 1 + hour // 24 % 28, rest // 60_000, rest % 1000
        at = f"2026-03-{day:02}T{hour % 24:02}:{minute:02}:00.{milli:03}Z"
        stamp = {"uuid": uuid, "timestamp": at}
        room = max(size - 600, 20)
        kind = rng.choices(_KINDS, _WEIGHTS)[0]
        yield _MAKERS[kind](rng, text, room, linked, stamp)
        parent = uuid if kind != "state" else parent


def _assistant(rng: Any, text: _Text, room: int, linked: Any, stamp: Any) -> dict[str, Any]:
    block = rng.choice(
        (
            {"type": "text", "text": text.prose(room)},
            {
                "type": "thinking",
                "thinking": text.prose(room // 2),
                "signature": text.signature(room // 2),
            },
            {
                "type": "tool_use",
                "id": f"toolu_{rng.getrandbits(64):016x}",
                "name": rng.choice(("Bash", "Read", "Edit", "Grep")),
                "input": {"command": text.prose(room), "description": text.prose(40)},
            },
        )
    )
    usage = {
        "input_tokens": rng.randrange(100),
        "cache_creation_input_tokens": rng.randrange(9000),
        "cache_read_input_tokens": rng.randrange(90_000),
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 0},
        "output_tokens": rng.randrange(3000),
        "service_tier": "standard",
    }
    message = {
        "model": "claude-opus-4-6",
        "id": f"msg_{rng.getrandbits(64):016x}",
        "type": "message",
        "role": "assistant",
        "content": [block],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return linked | {"message": message, "requestId": "req_1", "type": "assistant"} | stamp


def _result(rng: Any, text: _Text, room: int, linked: Any, stamp: Any) -> dict[str, Any]:
    answer = text.prose(room // 2)
    block = {
        "tool_use_id": f"toolu_{rng.getrandbits(64):016x}",
        "type": "tool_result",
        "content": answer,
        "is_error": False,
    }
    beside: Any = {"stdout": answer, "stderr": "", "interrupted": False, "isImage": False}
    if rng.random() < 0.3:
        patch = [{"oldStart": 1, "oldLines": 2, "lines": answer[:400].split(" ")}]
        beside = {"filePath": "a.py", "originalFile": answer, "structuredPatch": patch}
    message = {"role": "user", "content": [block]}
    return linked | {"type": "user", "message": message} | stamp | {"toolUseResult": beside}


def _prompt(_rng: Any, text: _Text, room: int, linked: Any, stamp: Any) -> dict[str, Any]:
    return (
        linked | {"type": "user", "message": {"role": "user", "content": text.prose(room)}} | stamp
    )


def _progress(_rng: Any, text: _Text, room: int, linked: Any, stamp: Any) -> dict[str, Any]:
    data = {"type": "bash_progress", "output": text.prose(room), "elapsedTimeSeconds": 3}
    return linked | {"type": "progress", "data": data, "toolUseID": "bash-1"} | stamp


def _attachment(_rng: Any, text: _Text, room: int, linked: Any, stamp: Any) -> dict[str, Any]:
    content = {"type": "hook_success", "content": text.prose(room), "hookName": "Stop"}
    return linked | {"type": "attachment", "attachment": content} | stamp


def _system(_rng: Any, _text: _Text, _room: int, linked: Any, stamp: Any) -> dict[str, Any]:
    return linked | {"type": "system", "subtype": "turn_duration", "durationMs": 1234} | stamp


def _state(rng: Any, text: _Text, _room: int, linked: Any, stamp: Any) -> dict[str, Any]:
    session = {"sessionId": linked["sessionId"]}
    snapshot = {
        "messageId": stamp["uuid"],
        "trackedFileBackups": {},
        "timestamp": stamp["timestamp"],
    }
    return rng.choice(
        (
            {"type": "file-history-snapshot", "messageId": stamp["uuid"], "snapshot": snapshot},
            {"type": "last-prompt", "lastPrompt": text.prose(100)} | session,
            {"type": "ai-title", "aiTitle": text.prose(40)} | session,
            {"type": "permission-mode", "permissionMode": "default"} | session,
            {"type": "queue-operation", "operation": "enqueue", "timestamp": stamp["timestamp"]}
            | session,
            {"type": "summary", "summary": text.prose(60), "leafUuid": stamp["uuid"]},
        )
    )


_MAKERS = {
    "assistant": _assistant,
    "result": _result,
    "prompt": _prompt,
    "progress": _progress,
    "attachment": _attachment,
    "system": _system,
    "state": _state,
}
_KINDS = tuple(_MAKERS)
_WEIGHTS = (36, 20, 3, 24, 6, 3, 8)


def log_of(size_bytes: int) -> str:
    """Give the path of a log of at least *size_bytes*; write it if it is not there."""
    path = os.path.join(BASE, f"log-{SEED}-{size_bytes // 1_000_000}MB.jsonl")
    if os.path.exists(path):
        return path
    os.makedirs(BASE, exist_ok=True)
    print(f"writing {path}", flush=True)
    written = 0
    with open(f"{path}.part", "wb", buffering=1 << 20) as file:
        for record in records():
            written += file.write(_encode(record) + b"\n")
            if written >= size_bytes:
                break
    os.replace(f"{path}.part", path)
    return path


def record_of(size_bytes: int) -> dict[str, Any]:
    """Give a record whose line is *size_bytes* long, newline included."""
    record = {
        "type": "user",
        "uuid": "0b5c3f6e-8a51-4d0b-9a57-3f1d2c4b5a69",
        "sessionId": "6e0c5c4e-0f0a-4f6e-9d5b-3a2b1c0d9e8f",
        "timestamp": "2026-03-01T12:34:56.789Z",
        "message": {"role": "user", "content": ""},
    }
    record["message"]["content"] = "x" * (size_bytes - 1 - len(_encode(record)))
    return record


def line_of(record: dict[str, Any]) -> bytes:
    return _encode(record) + b"\n"


def real_home() -> str | None:
    """Give the home with the real sessions of the corpus, where there is one."""
    home = os.environ.get("TURNLOG_CORPUS") or os.path.join("..", "shared", "corpus", "claude")
    return home if os.path.isdir(home) else None


def real_logs() -> list[str]:
    """List the real logs of the corpus, where there is one."""
    home = real_home() or ""
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(home)
        for name in names
        if name.endswith(".jsonl")
    )
