"""The corpus that fuzzing starts from: small real-looking records, whole and broken.

Small on purpose: the fuzzer's speed is the number of bytes it moves. Every record type of the three
dialects is here once, then the ways in which logs break in the field.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

_UUID = "0b5c3f6e-8a51-4d0b-9a57-3f1d2c4b5a69"
_PARENT = "1c6d4a7f-9b62-4e1c-8b68-4a2e3d5c6b7a"
_AT = "2026-03-01T12:34:56.789Z"
_BOM = b"\xef\xbb\xbf"
_STAMP = {"uuid": _UUID, "sessionId": "s1", "timestamp": _AT}
_USAGE = {
    "input_tokens": 12,
    "output_tokens": 34,
    "cache_creation_input_tokens": 5,
    "cache_read_input_tokens": 6,
    "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 2},
    "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
    "service_tier": "standard",
    "inference_geo": "us",
    "speed": "fast",
    "iterations": [{"input_tokens": 1}],
}
_BLOCKS: tuple[Any, ...] = (
    {"type": "text", "text": "hello \u2028 w\u00f6rld"},
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}, "caller": {}},
    {"type": "tool_result", "tool_use_id": "t1", "content": "ok", "is_error": False},
    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a"}]},
    {"type": "tool_result", "tool_use_id": "t1", "content": {"k": 1}, "is_error": None},
    {"type": "image", "source": {"type": "base64", "data": "aGk="}},
    {"type": "document", "source": {}, "title": "t"},
    {"type": "tool_reference", "tool_name": "Read"},
    {"type": "tomorrow", "value": 1},
    {"type": "text"},
    {"no": "type"},
    "a string",
)


def _claude() -> Iterator[dict[str, Any]]:
    linked = _STAMP | {
        "parentUuid": _PARENT,
        "isSidechain": False,
        "cwd": "/p",
        "version": "2.1.0",
        "gitBranch": "main",
        "userType": "external",
    }
    yield {"type": "user", "message": {"role": "user", "content": "hi"}} | linked
    for block in _BLOCKS:
        message = {"role": "assistant", "id": "m1", "model": "claude-opus-4-6", "content": [block]}
        yield {"type": "assistant", "message": message, "requestId": "r1"} | _STAMP
    yield {"type": "assistant", "message": {"role": "assistant", "content": [], "usage": _USAGE}}
    for answer in ({"stdout": "a"}, "Error: no", [{"type": "text", "text": "x"}]):
        message = {"role": "user", "content": [_BLOCKS[4]]}
        yield {"type": "user", "message": message, "toolUseResult": answer} | _STAMP
    yield {"type": "user", "message": {"content": "go"}, "isMeta": True, "agentId": "a1"} | _STAMP
    boundary = {"trigger": "auto", "preTokens": 9}
    yield {"type": "system", "subtype": "compact_boundary", "compactMetadata": boundary} | linked
    yield {"type": "system", "subtype": "api_error", "retryInMs": 1.5, "retryAttempt": 1} | _STAMP
    yield {"type": "system", "subtype": "turn_duration", "durationMs": 12} | _STAMP
    yield {"type": "system", "content": "note", "level": "info"} | _STAMP
    yield {"type": "attachment", "attachment": {"type": "hook_success"}} | linked
    yield {"type": "progress", "data": {"type": "bash_progress"}, "toolUseID": "t1"} | _STAMP


def _states() -> Iterator[dict[str, Any]]:
    yield {"type": "summary", "summary": "Fix it", "leafUuid": _UUID}
    yield {"type": "summary", "content": {"summary": "old"}, "uuid": _UUID}
    yield {"type": "queue-operation", "operation": "enqueue", "content": "x", "timestamp": _AT}
    yield {"type": "file-history", "path": "a.py", "operation": "edit", "snippet": "x"} | _STAMP
    snapshot = {"trackedFileBackups": {}, "timestamp": _AT}
    yield {"type": "file-history-snapshot", "messageId": _UUID, "snapshot": snapshot}
    yield {"type": "file-history-delta", "messageId": _UUID, "trackingPath": "a", "backup": None}
    for kind, key, value in (
        ("custom-title", "customTitle", "T"),
        ("ai-title", "aiTitle", "T"),
        ("tag", "tag", ""),
        ("last-prompt", "lastPrompt", "p"),
        ("mode", "mode", "normal"),
        ("permission-mode", "permissionMode", "plan"),
        ("agent-name", "agentName", "n"),
        ("pr-link", "prNumber", 7),
        ("frame-link", "frameUrl", "u"),
        ("worktree-state", "worktreeSession", None),
        ("bridge-session", "lastSequenceNum", 3),
        ("fork-context-ref", "contextLength", 4),
        ("content-replacement", "replacements", []),
        ("relocated", "relocatedCwd", "/q"),
        ("agent_metadata", "agentType", "Explore"),
        ("turnlog", "format", 1),
        ("cost-state", "total", 1.25),
        ("marble-origami-commit", "x", 1),
        ("never-seen-before", "x", {"y": [1, 2]}),
    ):
        yield {"type": kind, key: value, "sessionId": "s1"}


def _others() -> Iterator[dict[str, Any]]:
    """Give the orchestrator's dialect, its camelCase sibling's, and the flat store's."""
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_creation_tokens": 3}
    yield {"type": "user", "content": "hi", "timestamp": _AT, "metadata": {"sessionId": "s1"}}
    yield {"type": "assistant", "content": "yo", "usage": usage, "model": "m", "stopReason": "end"}
    yield {"type": "tool_call", "tool": "Read", "arguments": {"p": 1}, "toolCallId": "c1"}
    yield {"type": "tool_result", "tool": "Read", "result": "x", "duration_ms": 5.5}
    yield {"type": "tool_result", "tool": "Read", "error": "no", "toolCallId": "c1"}
    yield {"role": "assistant", "content": "yo", "inputTokens": 1, "cacheReadTokens": 2}
    yield {"role": "tool", "toolName": "Read", "output": "x", "status": "error"}
    ms = {"timestamp": 1703001600000}
    text = [{"type": "text", "text": "hi"}]
    yield {"type": "system_init", "cwd": "/p", "model": "m"} | ms
    yield {"type": "user", "uuid": "u1", "content": text} | ms
    yield {"type": "assistant", "content": text, "thinking": {"thinking": "x"}, "usage": usage} | ms
    yield {"type": "tool_use", "uuid": "tool-001", "name": "Bash", "input": {}} | ms
    yield {"type": "tool_result", "tool_use_id": "tool-001", "content": "x", "is_error": False} | ms


def lines() -> list[bytes]:
    """Give one good line for everything that a log may hold."""
    records = [*_claude(), *_states(), *_others()]
    return [
        json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() for record in records
    ]


def oddities() -> list[bytes]:
    """Give lines that are records only with an allowance made, or not at all."""
    good = lines()[0]
    return [
        _BOM + good,
        good + b"\r",
        b" \t" + good + b" ",
        good.replace(b'"hi"', rb'"\ud88d"'),
        good.replace(b'"hi"', b'"\xff\xfe"'),
        good.replace(b'"hi"', b'"tab\there"'),
        good.replace(b'"hi"', b"1" + b"0" * 400),
        good.replace(b'"hi"', b"123456789012345678901234567890"),
        good.replace(b'"hi"', b"[" * 90 + b"]" * 90),
        good.replace(b'"hi"', b"[" * 1100 + b"]" * 1100),  # Deeper than any decoder goes.
        good.replace(b'"hi"', b'{"a":' * 40 + b"1" + b"}" * 40),
        good.replace(b'"hi"', b"NaN"),
        good.replace(b'"hi"', b"1e999"),
        good.replace(b'"hi"', b"null"),
        good.replace(b'{"role"', b'"role"'),
        b'{"type":"user","type":"assistant","uuid":"a","uuid":"b","message":{}}',
        b'{"type":5,"uuid":[]}',
        b'{"(raw)":"x","(dialect)":"flat","(odd)":["y"],"type":"tag"}',
        good.replace(_AT.encode(), b"9999-99-99T99:99:99Z"),
        good.replace(b'"' + _AT.encode() + b'"', b"-1e300"),
        b"[" + good + b"]",
        b"null",
        b"{}",
        b"{",
        b"",
        b"// Source: gist",
        "\ufeff".encode("utf-16-le") + good[:40].decode().encode("utf-16-le"),
    ]


def broken() -> list[bytes]:
    """Give lines as they break in the field: glued, spliced, cut, filled with NULs."""
    records = lines()
    a, b, c = records[0], records[17], records[22]
    snapshot = next(line for line in records if b"file-history-snapshot" in line)
    nul = bytes(40)
    return [
        a + b,
        a + b" " + snapshot + b"\r",
        a[:90] + b,
        a[:90] + b + a[90:],
        a[90:] + b,
        a[:60] + b[:50] + c,
        nul + a,
        a + nul,
        a[:70] + nul + b,
        nul,
        _BOM + a + _BOM + b,
        a[:-1],
        a[:-1] + b"," + b + b"}",
        a.replace(b'"hi"', b) + b[:20],
        b'{"k":' * 60,
        b'{"type":"' * 60,
    ]


def logs() -> list[bytes]:
    """Give whole logs: several lines each, with and without their last newline."""
    records = lines()
    mixed = [*records, *oddities(), *broken()]
    found = [b"\n".join(records[at : at + 3]) + b"\n" for at in range(0, len(records), 3)]
    found += [b"\n".join((mixed[-at], mixed[at], b"", mixed[at // 2])) for at in range(len(mixed))]
    found += [b"\r\n".join(records[-5:]), b"\n\n\n", b"\x00" * 100 + b"\n", b"x" * 300 + b"\n{}\n"]
    return found


SEEDS = {
    "decoder": lambda: [*lines(), *oddities()],
    "salvage": lambda: [*broken(), *oddities(), *lines()[::5]],
    "reader": logs,
}

_TOKENS = rb"""
{ } [ ] : , " \ \" \\ \u0000 \ud88d \ude00 \n true false null NaN -Infinity 0 -1 1e400
9223372036854775808 1703001600000 {" "} }{ "}} {} [] "" {"type":" "type":" ,"uuid":"
,"message":{ "content":[ "content":" "(raw)": {"parentUuid": {"sessionId":
""".split()


def write_corpus(directory: str, target: str) -> None:
    """Write the seeds of *target* below *directory*, where a run has not done so before."""
    os.makedirs(directory, exist_ok=True)
    for number, data in enumerate(SEEDS[target]()):
        with open(os.path.join(directory, f"seed-{number:03}"), "wb") as file:
            file.write(data)


def write_dictionary(path: str) -> None:
    """Write the words that fuzzing puts together: JSON's tokens, our keys, types and rubble."""
    words = {*_TOKENS, bytes(8), _BOM, b"\n", b"}\n{", b"\r\n", b"\xff", b"\xe2\x80\xa8"}

    def gather(value: Any) -> None:
        if isinstance(value, dict):
            words.update(json.dumps(key).encode() for key in value)
            words.add(json.dumps(value.get("type", "")).encode())
            for item in value.values():
                gather(item)
        elif isinstance(value, list):
            for item in value:
                gather(item)

    for line in lines():
        gather(json.loads(line))
    with open(path, "w", encoding="ascii") as file:
        for word in sorted(words):
            escaped = "".join(f"\\x{byte:02X}" for byte in word)
            file.write(f'"{escaped}"\n')
