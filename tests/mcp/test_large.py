"""However long a session is, the server stays small and its answers smaller.

The log here has sixty megabytes, with lines of a dozen each; docs/benchmarks.md is for a gigabyte.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp.client.stdio import stdio_client

from mcp import Client, StdioServerParameters
from mcp_contexts import ONE, ORCHARD, Log
from turnlog.mcp.context import Settings
from turnlog.mcp.untrusted_text import unframed

GROWS_BY_AT_MOST_MB = 100
LINE_BYTES = 12_000_000
LINES = 4


def large_log(home):
    rng = random.Random(11)
    words = ["".join(rng.choices("abcdefghijklmnop", k=6)) for _ in range(300)]
    log = Log(home, ONE, ORCHARD, hostile="")
    for number in range(400):
        log.prompt(f"Count the apples, {number}: " + " ".join(rng.choices(words, k=50)))
        log.call("Bash", " ".join(rng.choices(words, k=3_000)), command="cat apples.txt")
        log.call("Edit", "ok", file_path=f"{ORCHARD}/{number}.py", old_string="a", new_string="b")
    for number in range(LINES):
        piece = " ".join(rng.choices(words, k=1_000)) + " "
        log.call("Read", piece * (LINE_BYTES // len(piece)), file_path=f"{ORCHARD}/big {number}")
        log.prompt("apples " * (LINE_BYTES // 7))
    log.answer({"type": "text", "text": "So many apples."})
    return log.save()


def memory_mb(pid):
    told = Path(f"/proc/{pid}/status").read_text()
    return {name: int(told.split(f"{name}:")[1].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_a_long_session_makes_neither_large_answers_nor_a_large_server(tmp_path):
    log = large_log(tmp_path / "home")
    assert log.path.stat().st_size > 60_000_000
    calls = [
        ("list_sessions", {}),
        ("session_overview", {"session": ONE}),
        ("session_overview", {"session": ONE, "record": log.uuid}),
        ("session_turns", {"session": ONE}),
        ("session_turns", {"session": ONE, "turn": -1}),
        ("session_turns", {"session": ONE, "newest": True, "limit": 200}),
        ("search_history", {"query": "apples", "limit": 200}),
        ("search_history", {"query": "apples", "results": True}),
        ("past_calls", {"limit": 200}),
        ("past_errors", {}),
        ("past_files", {"session": ONE}),
        ("past_costs", {}),
        ("query_history", {"resource": "messages", "filter": {"content_match": "apples"}}),
        ("query_history", {"resource": "tools", "transform": {"group_by": "tool_name"}}),
        ("past_insights", {}),
    ]
    found = {}

    async def ask():
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-c", "from turnlog.cli import main; main()", "mcp",
                  "--home", str(tmp_path / "home"), "--project", ORCHARD],
            env={"PATH": os.environ["PATH"], "TURNLOG_HOME": str(tmp_path / "own")},
        )  # fmt: skip
        before = children()
        async with Client(stdio_client(parameters, errlog=subprocess.DEVNULL)) as client:
            await client.list_tools()
            (pid,) = children() - before
            found["before"] = memory_mb(pid)["VmRSS"]
            for name, arguments in calls:
                result = await client.call_tool(name, arguments)
                text = result.content[0].text
                assert len(text.encode()) <= Settings().answer_bytes
                assert not result.is_error or text.startswith("error: no answer within"), text
                if not result.is_error:
                    json.loads(unframed(text))
            for address in ("turnlog://sessions", f"turnlog://session/{ONE}"):
                page = (await client.read_resource(address)).contents[0].text
                assert len(page.encode()) <= Settings().answer_bytes
            found["after"] = memory_mb(pid)["VmHWM"]

    anyio.run(ask)
    assert found["after"] - found["before"] < GROWS_BY_AT_MOST_MB, found


def children():
    told = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
    return {int(pid) for pid in told.split()}
