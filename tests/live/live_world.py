"""A home in which sessions run now: logs with times of today, PID files, and real processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

from turnlog.formats import Home, all_homes, claude_log
from turnlog.live.sessions import Live
from turnlog.pricing.cost import configured_prices
from turnlog.sessions.environment import process
from turnlog.sessions.writing import build

MODEL = "claude-opus-4-6"
USAGE = {
    "input_tokens": 12,
    "output_tokens": 900,
    "cache_read_input_tokens": 84_000,
    "cache_creation_input_tokens": 2_400,
}


def prompt(words: str) -> dict[str, Any]:
    return build.user(words)


def thought(words: str) -> dict[str, Any]:
    return said([{"type": "thinking", "thinking": words, "signature": "x"}], stop_reason=None)


def said(content: Any, *, stop_reason: str | None = "end_turn", **usage: int) -> dict[str, Any]:
    return build.assistant(content, model=MODEL, usage=USAGE | usage, stop_reason=stop_reason)


def call(number: int, tool: str, **given: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": given}
    return said([block], stop_reason="tool_use")


def result(number: int, text: str, *, failed: bool = False, detail: Any = None) -> dict[str, Any]:
    return build.result(f"toolu_{number}", text, failed=failed, detail=detail)


class World:
    """A home, and the programs that run in it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "home"
        (self.path / "projects").mkdir(parents=True)
        (self.path / "sessions").mkdir()
        self.processes: list[subprocess.Popen[bytes]] = []
        self._last: dict[Path, str] = {}

    @property
    def homes(self) -> tuple[Home, ...]:
        return all_homes((str(self.path),))

    def live(self, **more: Any) -> Live:
        prices, _ = configured_prices(self.path / "none")
        return Live(self.homes, prices, zone=timezone.utc, **more)  # noqa: UP017

    def log(self, session: str, project: str = "/srv/kites") -> Path:
        return claude_log(self.path, project, session)

    def write(
        self,
        session: str,
        *records: dict[str, Any],
        project: str = "/srv/kites",
        ago: float = 0,
        subagent: str | None = None,
    ) -> Path:
        """Append records as Claude Code does: the last was written *ago* seconds, each a second
        after the one before."""
        path = self.log(session, project)
        if subagent is not None:
            path = path.with_suffix("") / "subagents" / f"agent-{subagent}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        end = datetime.now(UTC) - timedelta(seconds=ago)
        with path.open("ab") as log:
            for number, record in enumerate(records):
                at = end - timedelta(seconds=len(records) - 1 - number)
                uuid = str(uuid4())
                linked = {
                    "uuid": uuid,
                    "parentUuid": self._last.get(path),
                    "isSidechain": subagent is not None,
                    "sessionId": session,
                    "cwd": project,
                    "gitBranch": "main",
                    "version": "2.1.325",
                    "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.")
                    + f"{at.microsecond // 1000:03}Z",
                }
                more = {"agentId": subagent} if subagent is not None else {}
                line = linked | more | record
                self._last[path] = line["uuid"]
                log.write(json.dumps(line).encode() + b"\n")
        return path

    def run(self, session: str, status: str | None = "busy", **more: Any) -> int:
        """Start a process that stands for the Claude Code of *session*; give its pid."""
        code = "import time; time.sleep(600)"
        self.processes.append(subprocess.Popen([sys.executable, "-c", code]))
        pid = self.processes[-1].pid
        self.say(pid, session, status, **more)
        return pid

    def say(self, pid: int, session: str, status: str | None, **more: Any) -> None:
        """Let the program *pid* say what it does, as Claude Code does."""
        me = process(pid)
        assert me is not None
        told: dict[str, Any] = {"pid": pid, "sessionId": session, "procStart": me.started}
        told |= {"cwd": "/srv/kites"} | ({} if status is None else {"status": status}) | more
        told.setdefault("statusUpdatedAt", int(time.time() * 1000))
        path = self.path / "sessions" / f"{pid}.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(told))
        part.replace(path)

    def kill(self, pid: int) -> None:
        """Kill a program; its PID file stays, as after a crash."""
        for each in self.processes:
            if each.pid == pid:
                each.kill()
                each.wait()

    def leave(self, pid: int) -> None:
        """Let a program end well."""
        (self.path / "sessions" / f"{pid}.json").unlink()
        self.kill(pid)

    def close(self) -> None:
        for each in self.processes:
            each.kill()
            each.wait()


def until(fact: Callable[[], Any], seconds: float = 20) -> Any:
    """Wait until *fact* holds; give what it gave."""
    end = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.02)
    return found
