"""The MCP server and a session of 1 GB: how much its memory grows, and how large its answers are.

The server is asked over stdio, as an agent asks it, from the first reading of the log on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
from mcp.client.stdio import stdio_client

from mcp import Client, StdioServerParameters
from turnlog.mcp.context import Settings

from .data import BASE, log_of
from .programs import TURNLOG
from .table import Row

_SIZE_BYTES = 1_000_000_000
_GROWS_BY_AT_MOST_MB = 100
_SESSION = "5e551011-0000-4000-8000-000000000001"
_CALLS = (
    ("list_sessions", {}),
    ("session_overview", {"session": _SESSION}),
    ("session_turns", {"session": _SESSION, "limit": 200}),
    ("session_turns", {"session": _SESSION, "newest": True, "limit": 200}),
    ("search_history", {"query": "config server", "limit": 200}),
    ("search_history", {"query": "error", "results": True, "limit": 200}),
    ("past_calls", {"limit": 200}),
    ("past_errors", {}),
    ("past_files", {"session": _SESSION}),
    ("past_costs", {}),
    ("query_history", {"resource": "messages", "filter": {"role": "user"}}),
    ("query_history", {"resource": "messages", "filter": {"content_match": "no such words"}}),
    ("past_insights", {}),
)


def bench() -> list[Row]:
    if not os.path.exists("/proc/self/status"):
        return [Row("the MCP server's memory", "", "", "not told by this system")]
    home, own = (Path(BASE, name).absolute() for name in ("mcp-home", "mcp-own"))
    log = home / "projects" / "-home-ada-orchard" / f"{_SESSION}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    if not log.exists():
        os.link(log_of(_SIZE_BYTES), log)
    shutil.rmtree(own, ignore_errors=True)
    before, after, largest = anyio.run(_asked, home, own)
    cap = Settings().answer_bytes
    return [
        Row(
            "memory of the MCP server, 1 GB session beside none",
            f"{after:.1f} MB",
            f"{before:.1f} MB",
            f"+{after - before:.1f} MB",
            f"<= +{_GROWS_BY_AT_MOST_MB} MB",
            after - before <= _GROWS_BY_AT_MOST_MB,
        ),
        Row(
            "the MCP server's largest answer, 1 GB session",
            f"{largest:,} bytes",
            "",
            "",
            f"<= {cap:,} bytes",
            largest <= cap,
        ),
    ]


async def _asked(home: Path, own: Path) -> tuple[float, float, int]:
    """Ask everything; give the memory before, at its peak, and the size of the largest answer."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-c", TURNLOG, "mcp", "--home", str(home), "--project", "all"],
        env=dict(os.environ, TURNLOG_HOME=str(own)),
    )
    known, largest = _children(), 0
    async with Client(stdio_client(server, errlog=subprocess.DEVNULL)) as client:
        await client.list_tools()
        (pid,) = _children() - known
        before = _memory_mb(pid, "VmRSS")
        while (await client.call_tool("list_sessions", {"limit": 1})).is_error:
            continue  # The log is still being read for the first time.
        for name, arguments in _CALLS:
            result = await client.call_tool(name, arguments)
            largest = max(largest, len(result.content[0].text.encode()))
        page = await client.read_resource(f"turnlog://session/{_SESSION}")
        largest = max(largest, len(page.contents[0].text.encode()))
        return before, _memory_mb(pid, "VmHWM"), largest


def _children() -> set[int]:
    told = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text("utf-8")
    return {int(pid) for pid in told.split()}


def _memory_mb(pid: int, name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("utf-8"))
    assert found is not None
    return int(found[1]) * 1024 / 1e6
