"""Whole homes to measure with, made by the kit's seeded generator and kept under `.bench`.

A copy of one shares the bytes of every log by a hard link, so it costs nothing, except the logs
that are to grow: an append through a link would change the original.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from datetime import date, timedelta
from typing import Any

from .data import BASE, line_of

_SEED = 11
_SHAPE = ["--seed", str(_SEED), "--days", "240", "--projects", "120"]


def tree(size: str = "1G") -> str | None:
    """Give a home of *size*; generate it if it is not there. None if there is no generator."""
    place = os.path.join(BASE, f"tree-{_SEED}-{size}")
    if not os.path.isdir(place):
        kit = os.environ.get("TURNLOG_KIT") or os.path.join("..", "shared", "kit")
        generator = os.path.join(kit, "gen_corpus.py")
        if not os.path.isfile(generator):
            return None
        os.makedirs(BASE, exist_ok=True)
        print(f"writing {place}", flush=True)
        command = [sys.executable, generator, "--out", f"{place}.part", "--size", size, *_SHAPE]
        if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:
            return None
        os.replace(f"{place}.part", place)
    return os.path.join(place, ".claude")


def multiplied(home: str, copies: int) -> str:
    """Give a home with *copies* of all logs of *home*: other ids, other projects, weeks apart."""
    place = os.path.join(BASE, f"real-{copies}")
    if not os.path.isdir(place):
        print(f"writing {place}", flush=True)
        for number in range(copies):
            for log in logs_of(home):
                project, _, rest = os.path.relpath(log, os.path.join(home, "projects")).partition(
                    "/"
                )
                to = os.path.join(f"{place}.part", ".claude", "projects", f"{project}-{number}")
                target = os.path.join(to, _other_ids(rest.encode(), number).decode())
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(log, "rb") as source, open(target, "wb") as file:
                    file.write(_earlier(_other_ids(source.read(), number), number))
        os.replace(f"{place}.part", place)
    return os.path.join(place, ".claude")


def _other_ids(data: bytes, number: int) -> bytes:
    """Give every uuid and message another first byte."""

    def other(found: re.Match[bytes]) -> bytes:
        return b"%02x%s" % ((int(found[1], 16) + 17 * number) % 256, found[2])

    data = re.sub(rb"\b([0-9a-f]{2})([0-9a-f]{6}-[0-9a-f]{4}-)", other, data)
    return data.replace(b'"msg_01', b'"msg_%02d' % number) if number else data


def _earlier(data: bytes, number: int) -> bytes:
    """Let every record be so many weeks older."""

    def shifted(found: re.Match[bytes]) -> bytes:
        try:
            day = date.fromisoformat(found[2].decode()) - timedelta(weeks=number)
        except ValueError:
            return found[0]
        return found[1] + day.isoformat().encode()

    return re.sub(rb'("timestamp": ?")(\d{4}-\d\d-\d\d)', shifted, data)


def logs_of(home: str) -> list[str]:
    """List the logs of *home*, those of agents among them, in an order that stays."""
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(home)
        for name in names
        if name.endswith(".jsonl")
    )


def main_logs_by_size(home: str) -> list[str]:
    """List the main logs of the sessions in *home*, the smallest first."""
    logs = [path for path in logs_of(home) if f"{os.sep}subagents{os.sep}" not in path]
    return sorted(logs, key=os.path.getsize)


def size_of(paths: Collection[str]) -> int:
    return sum(os.path.getsize(path) for path in paths)


def copy_of(home: str, to: str, growing: Collection[str]) -> None:
    """Copy *home*; only the *growing* logs get bytes of their own."""
    apart = {os.path.abspath(path) for path in growing}

    def copied(source: str, target: str) -> object:
        if os.path.abspath(source) in apart:
            return shutil.copy2(source, target)
        os.link(source, target)
        return target

    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(home, to, copy_function=copied)


def grow(log: str, word: str) -> int:
    """Append a prompt that says *word* and its answer; give the number of records."""
    last = _last_linked(log)
    shared = {key: last[key] for key in _CARRIED if key in last}
    stem = hashlib.sha256(f"{log} {word}".encode()).hexdigest()[:12]
    asked, told = (f"{number}0000000-0000-4000-8000-{stem}" for number in (1, 2))
    prompt = shared | {
        "parentUuid": last["uuid"],
        "type": "user",
        "message": {"role": "user", "content": f"Please look at {word} again"},
        "uuid": asked,
        "timestamp": "2026-11-01T12:00:00.000Z",
    }
    message = {
        "model": "claude-opus-4-6",
        "id": f"msg_{stem}",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": f"There is nothing wrong with {word} any more"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 12},
    }
    answer = shared | {
        "parentUuid": asked,
        "type": "assistant",
        "message": message,
        "requestId": f"req_{stem}",
        "uuid": told,
        "timestamp": "2026-11-01T12:00:05.000Z",
    }
    with open(log, "ab") as file:
        file.write(line_of(prompt) + line_of(answer))
    return 2


_CARRIED = ("isSidechain", "userType", "cwd", "sessionId", "version", "gitBranch")


def _last_linked(log: str) -> dict[str, Any]:
    """Give the last record of a thread: the one that a next one continues."""
    for record in _backwards(log):
        if record.get("type") in ("user", "assistant") and "uuid" in record:
            return record
    raise ValueError(f"no message in {log}")


def _backwards(log: str) -> Iterator[dict[str, Any]]:
    with open(log, "rb") as file:
        lines = file.read().splitlines()
    yield from (json.loads(line) for line in reversed(lines))
