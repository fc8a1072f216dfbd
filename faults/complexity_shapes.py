"""Sessions that grow in one direction only, and every way to look at them.

A shape writes a home with one session of size *n*: twice the *n*, twice the bytes. A view is a
command, a page or a tool. No view may do more than twice the work for twice the bytes, whatever
the shape.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

SESSION = "7c1d9f0e-5a52-4c11-9a3d-2f6f0d0c4b00"
_PROJECT = "/srv/kites"
_LONG_AGO = 1_772_000_000

Record = dict[str, Any]
Shape = Callable[[int], Iterator[Record | bytes]]


def write_home(home: Path, shape: str, n: int) -> Path:
    """Write a home whose only session has the named shape and the size *n*."""
    directory = home / "projects" / "-srv-kites"
    directory.mkdir(parents=True)
    path = directory / f"{SESSION}.jsonl"
    path.write_bytes(b"".join(map(_line, SHAPES[shape](n))))
    for number in range(n if shape in _AGENTS_OF else 0):
        agents = directory if shape in _BESIDE else directory / SESSION / "subagents"
        agent = agents / f"agent-{number:x}.jsonl"
        agent.parent.mkdir(parents=True, exist_ok=True)
        agent.write_bytes(b"".join(map(_line, _AGENTS_OF[shape](number))))
    if shape == "packed blank lines":
        (directory / f"{SESSION}.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    for each in directory.rglob("*.jsonl*"):
        os.utime(each, (_LONG_AGO, _LONG_AGO))  # A log that changed just now is not examined.
    return home


def _line(record: Record | bytes) -> bytes:
    return record if isinstance(record, bytes) else json.dumps(record).encode() + b"\n"


def _uuid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def _record(number: int, parent: int | str | None, kind: str = "user", **more: Any) -> Record:
    seconds = number % 86_400
    at = f"2026-03-{1 + number // 86_400:02}T{seconds // 3600:02}:{seconds // 60 % 60:02}"
    return {
        "type": kind,
        "uuid": _uuid(number),
        "parentUuid": _uuid(parent) if isinstance(parent, int) else parent,
        "timestamp": f"{at}:{seconds % 60:02}.000Z",
        "sessionId": SESSION,
        "cwd": _PROJECT,
        "version": "2.1.200",
        **more,
    }


def _prompt(number: int, parent: int | str | None, text: str = "fly the kite", **more: Any):
    return _record(number, parent, message={"role": "user", "content": text}, **more)


def _answer(number: int, parent: int | None, *blocks: Record, message: str = "", **more: Any):
    said = {
        "id": message or f"msg_{number:x}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": list(blocks) or [{"type": "text", "text": "It *flies*."}],
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
    request = f"req_{said['id']}"
    return _record(number, parent, "assistant", message=said, requestId=request, **more)


def _call(call_id: str, name: str, **given: Any) -> Record:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def _result(number: int, parent: int, call_id: str, text: str = "ok", **more: Any) -> Record:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    return _record(number, parent, message={"role": "user", "content": [block]}, **more)


def _turns(n: int) -> Iterator[Record]:
    """Prompts and answers, one behind the other."""
    for each in range(0, 2 * n, 2):
        yield _prompt(each, each - 1 if each else None)
        yield _answer(each + 1, each)


def _calls(n: int) -> Iterator[Record]:
    """One prompt, then calls and results in a row; every call edits a file."""
    yield _prompt(0, None)
    for each in range(1, 2 * n, 2):
        given = {"file_path": f"{_PROJECT}/{each}.py", "old_string": "a", "new_string": "b"}
        yield _answer(each, each - 1, _call(f"toolu_{each}", "Edit", **given))
        yield _result(each + 1, each, f"toolu_{each}")


def _edits(n: int) -> Iterator[Record]:
    """Edits of one and the same file."""
    yield _prompt(0, None)
    for each in range(1, 2 * n, 2):
        given = {"file_path": f"{_PROJECT}/a.py", "old_string": "a", "new_string": "b"}
        yield _answer(each, each - 1, _call(f"toolu_{each}", "Edit", **given))
        yield _result(each + 1, each, f"toolu_{each}")


def _parallel(n: int) -> Iterator[Record]:
    """One response with many calls, each in a record of its own, and their results."""
    yield _prompt(0, None)
    for each in range(1, n + 1):
        call = _call(f"toolu_{each}", "Bash", command="true")
        yield _answer(each, each - 1, call, message="msg_one")
    for each in range(1, n + 1):
        yield _result(n + each, each, f"toolu_{each}")
    yield _answer(2 * n + 1, 2 * n)


def _unanswered(n: int) -> Iterator[Record]:
    """Calls without results."""
    yield _prompt(0, None)
    for each in range(1, n + 1):
        yield _answer(each, each - 1, _call(f"toolu_{each}", "Bash", command="true"))


def _roots(n: int) -> Iterator[Record]:
    """Records without a parent."""
    for each in range(n):
        yield _prompt(each, None)


def _tips(n: int) -> Iterator[Record]:
    """Many children of one record."""
    yield _prompt(0, None)
    for each in range(1, n + 1):
        yield _answer(each, 0)


def _comb(n: int) -> Iterator[Record]:
    """A long thread that somebody left at every record."""
    for each in range(0, 2 * n, 2):
        yield _prompt(each, each - 2 if each else None)
        yield _prompt(each + 1, each)


def _late_fork(n: int) -> Iterator[Record]:
    """A long thread, and as many branches from its last record."""
    yield from _turns(n)
    for each in range(n):
        yield _prompt(2 * n + each, 2 * n - 1)


def _silent_tips(n: int) -> Iterator[Record]:
    """Notes in a row, and as many tips below the last one."""
    yield _prompt(0, None)
    for each in range(1, n):
        yield _record(each, each - 1, "system", subtype="informational", content="note")
    for each in range(n, 2 * n):
        yield _record(each, n - 1, "system", subtype="informational", content="note")


def _missing(n: int) -> Iterator[Record]:
    """Parents that are not there."""
    for each in range(n):
        yield _prompt(each, f"gone-{each}")


def _rings(n: int) -> Iterator[Record]:
    """Pairs of records that are each other's parents."""
    for each in range(0, 2 * n, 2):
        yield _prompt(each, each + 1)
        yield _prompt(each + 1, each)


def _one_ring(n: int) -> Iterator[Record]:
    for each in range(n):
        yield _prompt(each, (each + 1) % n)


def _compactions(n: int) -> Iterator[Record]:
    """Compactions; what they summarised is not there."""
    for each in range(0, 2 * n, 2):
        yield _record(
            each, None, "system", subtype="compact_boundary", content="compacted",
            logicalParentUuid=f"gone-{each}",
        )  # fmt: skip
        yield _prompt(each + 1, each, "a summary", isCompactSummary=True)


def _same_uuid(n: int) -> Iterator[Record]:
    """One record, again and again."""
    for each in range(n):
        yield _prompt(0, None, f"take {each}")


def _one_message(n: int) -> Iterator[Record]:
    """Records that all carry parts of one response."""
    yield _prompt(0, None)
    for each in range(1, n + 1):
        yield _answer(each, each - 1, message="msg_one")


def _titles(n: int) -> Iterator[Record]:
    yield _prompt(0, None)
    for each in range(n):
        yield {"type": "custom-title", "customTitle": f"title {each}", "sessionId": SESSION}


def _queued(n: int) -> Iterator[Record]:
    """Prompts that waited, and were never taken."""
    yield _prompt(0, None)
    for each in range(n):
        yield {
            "type": "queue-operation", "operation": "enqueue", "content": f"later {each}",
            "timestamp": "2026-03-01T00:00:00.000Z", "sessionId": SESSION,
        }  # fmt: skip


def _snapshots(n: int) -> Iterator[Record]:
    """Kept versions of one file."""
    yield _prompt(0, None)
    for each in range(n):
        kept = {"backupFileName": f"abc@v{each + 1}", "version": each + 1,
                "backupTime": "2026-03-01T00:00:00.000Z"}  # fmt: skip
        yield {
            "type": "file-history-snapshot",
            "messageId": _uuid(0),
            "isSnapshotUpdate": bool(each),
            "snapshot": {"messageId": _uuid(0), "trackedFileBackups": {f"{_PROJECT}/a.py": kept},
                         "timestamp": "2026-03-01T00:00:00.000Z"},
        }  # fmt: skip


def _todos(n: int) -> Iterator[Record]:
    """A list of things to do that changes each time."""
    yield _prompt(0, None)
    for each in range(1, n + 1):
        todo = {"content": f"thing {each}", "status": "pending", "activeForm": "doing"}
        yield _answer(each, each - 1, _call(f"toolu_{each}", "TodoWrite", todos=[todo]))


def _sidechains(n: int) -> Iterator[Record]:
    """Agents' records in the main log."""
    yield _prompt(0, None)
    for each in range(1, n + 1):
        yield _prompt(each, None, f"agent {each}", isSidechain=True, agentId=f"{each:x}")


def _agents(n: int) -> Iterator[Record]:
    """Calls of agents, one record each; the agents have logs of their own."""
    yield _prompt(0, None)
    for each in range(1, 2 * n, 2):
        call = _call(f"toolu_{each}", "Task", prompt=f"do {each // 2}", description="help")
        yield _answer(each, each - 1, call)
        told = {"agentId": f"{each // 2:x}", "status": "completed"}
        yield _result(each + 1, each, f"toolu_{each}", toolUseResult=told)


def _same_prompt(n: int) -> Iterator[Record]:
    """Calls of agents that only their prompt tells apart, and it does not."""
    yield _prompt(0, None)
    for each in range(1, n + 1):
        call = _call(f"toolu_{each}", "Task", prompt="the same", description="help")
        yield _answer(each, each - 1, call)


def _one_caller(n: int) -> Iterator[Record]:
    """One record that called all agents."""
    yield _prompt(0, None)
    yield _answer(1, 0, *(_call(f"toolu_{each}", "Task", prompt=f"{each}") for each in range(n)))
    for each in range(n):
        told = {"agentId": f"{each:x}", "status": "completed"}
        yield _result(2 + each, 1, f"toolu_{each}", toolUseResult=told)


def _shared_uuid(n: int) -> Iterator[Record]:
    """Calls of agents in records that all have one uuid."""
    yield _prompt(0, None)
    for each in range(n):
        call = _call(f"toolu_{each}", "Task", prompt=f"do {each}", description="help")
        yield _answer(1, 0, call, message=f"msg_{each}")
    for each in range(n):
        told = {"agentId": f"{each:x}", "status": "completed"}
        yield _result(2 + each, 1, f"toolu_{each}", toolUseResult=told)


def _agent_log(prompt: str, number: int) -> Iterator[Record]:
    more = {"isSidechain": True, "agentId": f"{number:x}"}
    yield _prompt(1_000_000 + 2 * number, None, prompt or f"do {number}", **more)
    yield _answer(1_000_001 + 2 * number, 1_000_000 + 2 * number, **more)


def _agent_with_calls(number: int) -> Iterator[Record]:
    """An agent that called the next one."""
    first = 1_000_000 + 3 * number
    more = {"isSidechain": True, "agentId": f"{number:x}"}
    yield _prompt(first, None, f"do {number}", **more)
    yield _answer(first + 1, first, _call(f"toolu_{number + 1}", "Task", prompt="on"), **more)
    told = {"agentId": f"{number + 1:x}", "status": "completed"}
    yield _result(first + 2, first + 1, f"toolu_{number + 1}", toolUseResult=told, **more)


def _agent_chain(_n: int) -> Iterator[Record]:
    """Agents that each call the next."""
    yield _prompt(0, None)
    yield _answer(1, 0, _call("toolu_0", "Task", prompt="do 0"))
    yield _result(2, 1, "toolu_0", toolUseResult={"agentId": "0", "status": "completed"})


def _shared_record(_number: int) -> Iterator[Record]:
    """An agent whose records have the ids of every other agent's."""
    more = {"isSidechain": True, "agentId": f"{_number:x}"}
    yield _prompt(1_000_000, None, "do it", **more)
    yield _answer(1_000_001, 1_000_000, message="msg_one", **more)


def _waiting_agent(number: int) -> Iterator[Record]:
    """An agent whose call nobody answered."""
    first = 1_000_000 + 2 * number
    more = {"isSidechain": True, "agentId": f"{number:x}"}
    yield _prompt(first, None, f"do {number}", **more)
    yield _answer(first + 1, first, _call(f"toolu_of_{number}", "Bash", command="wait"), **more)


def _damaged_agent(number: int) -> Iterator[Record | bytes]:
    """An agent whose log was cut."""
    yield from _agent_log("", number)
    yield b'{"type":"user","mess\n'


def _many_agents_one_uuid(n: int) -> Iterator[Record]:
    """Records of many agents in the main log, all with one uuid and one message id."""
    yield _prompt(0, None)
    for each in range(n):
        yield _answer(1, 0, message="msg_one", isSidechain=True, agentId=f"{each:x}")


def _writers(n: int) -> Iterator[Record]:
    """Writers that opened the log and never closed it."""
    yield _prompt(0, None)
    for each in range(n):
        yield {
            "type": "turnlog",
            "event": "opened",
            "sessionId": SESSION,
            "process": {"pid": each, "started": f"{each}"},
            "timestamp": "2026-03-01T00:00:00.000Z",
        }
    for each in range(n):
        yield {
            "type": "turnlog",
            "event": "ended",
            "sessionId": SESSION,
            "process": {"pid": each, "started": f"{each}"},
            "timestamp": "2026-03-01T00:00:00.000Z",
        }


def _dequeued(n: int) -> Iterator[Record]:
    """Prompts that waited, and were taken."""
    yield from _queued(n)
    for each in range(n):
        yield {
            "type": "queue-operation", "operation": "remove", "content": f"later {n - 1 - each}",
            "timestamp": "2026-03-01T00:00:00.000Z", "sessionId": SESSION,
        }  # fmt: skip


def _orphans(_n: int) -> Iterator[Record]:
    yield _prompt(0, None)


def _blank_lines(n: int) -> Iterator[Record | bytes]:
    yield _prompt(0, None)
    yield b"\n" * n


def _spaced_lines(n: int) -> Iterator[Record | bytes]:
    yield _prompt(0, None)
    yield b" \n" * n


def _rubble(n: int) -> Iterator[Record | bytes]:
    """Lines that are no records."""
    yield _prompt(0, None)
    yield b'{"type":"user","mess\n' * n


def _one_line(text: bytes, n: int) -> Iterator[Record | bytes]:
    """One long line of *text*, between two records."""
    yield _prompt(0, None)
    yield text * n + b"\n"
    yield _prompt(1, 0)


def _glued(n: int) -> Iterator[Record | bytes]:
    """Records on one line."""
    for each in range(n):
        yield _line(_prompt(each, each - 1 if each else None)).strip()
    yield b"\n"


def _nested(n: int) -> Iterator[Record | bytes]:
    """A whole record of deep objects."""
    yield b'{"type":"user","uuid":"a","x":' + b'{"a":' * n + b"1" + b"}" * n + b"}\n"


def _text(text: str, n: int) -> Iterator[Record]:
    """One long *text*, typed, answered, asked and found."""
    said = f"x{text * n}x"
    yield _prompt(0, None, said)
    yield _answer(1, 0, {"type": "text", "text": said}, {"type": "thinking", "thinking": said})
    yield _answer(2, 1, _call("toolu_1", "Bash", command=said))
    yield _result(3, 2, "toolu_1", said)
    yield _prompt(4, 3, f"<command-name>/x</command-name><command-args>{said}</command-args>")
    yield _prompt(5, 4, f"<local-command-stdout>{said}</local-command-stdout>")
    yield {"type": "custom-title", "customTitle": said, "sessionId": SESSION}


_TEXTS = {
    "newlines": "\n",
    "blanks": " ",
    "tabs": "\t",
    "letters": "a",
    "capitals": "A",
    "digits": "1",
    "words": "kite ",
    "blank lines of blanks": " \n",
    "returns": "\r",
    "quotes": "> ",
    "lists": "- ",
    "deeper lists": "\n- a",
    "numbers": "\n1. a",
    "headings": "\n# a",
    "brackets": "[",
    "links": "[a](",
    "closed links": "[a](b)",
    "images": "![",
    "definitions": "\n[a]: b",
    "ticks": "`",
    "ticks apart": "` ",
    "fences": "\n```\n",
    "tildes": "~",
    "stars": "*a ",
    "underscores": "_a",
    "tags": "<a ",
    "comments": "<!--",
    "entities": "&amp",
    "pipes": "|a",
    "table rows": "\n|a|b|\n|-|-|",
    "backslashes": "\\",
    "colours": "\x1b[31m",
    "joiners": "\u200d",
    "wide": "\u51e7",
    "commands": "<command-name>",
    "shells": "<bash-input>",
    "outputs": "<local-command-stdout>",
    "reminders": "<system-reminder>",
    "interrupted": "[Request interrupted by user",
    "armour": "-----BEGIN ",
    "armoured": "-----BEGIN PRIVATE KEY-----",
    "assignments": "key=",
    "passwords": "password: ",
    "bearer": "bearer ",
    "users": "-u a:",
    "addresses": "://a:",
    "dots": ".",
    "slashes": "/",
    "dashes": "-",
    "base64": "QUJD/+a9",
    "hexadecimal": "a1b2c3d4",
    "tokens": "eyJ",
    "diff": "\n+a\n-b",
    "numbered": "\n1\u2192a",
}

SHAPES: dict[str, Shape] = {
    "turns": _turns,
    "calls": _calls,
    "edits of one file": _edits,
    "parallel calls": _parallel,
    "unanswered calls": _unanswered,
    "roots": _roots,
    "tips": _tips,
    "a comb of branches": _comb,
    "branches of a long thread": _late_fork,
    "silent tips": _silent_tips,
    "missing parents": _missing,
    "rings": _rings,
    "one ring": _one_ring,
    "compactions": _compactions,
    "one uuid": _same_uuid,
    "one message": _one_message,
    "titles": _titles,
    "queued prompts": _queued,
    "kept versions": _snapshots,
    "todos": _todos,
    "sidechains": _sidechains,
    "agents": _agents,
    "agents of one prompt": _same_prompt,
    "agents of one record": _one_caller,
    "agents of one uuid": _shared_uuid,
    "agents that call agents": _agent_chain,
    "agents without a call": _orphans,
    "agents that share records": _orphans,
    "agents beside the main log": _agents,
    "agents that wait": _agents,
    "damaged agents": _agents,
    "one uuid of many agents": _many_agents_one_uuid,
    "writers": _writers,
    "prompts taken from the queue": _dequeued,
    "blank lines": _blank_lines,
    "packed blank lines": _blank_lines,
    "lines of blanks": _spaced_lines,
    "rubble": _rubble,
    "records on one line": _glued,
    "deep record": _nested,
    **{
        f"a line of {text.decode('latin-1')!r}": partial(_one_line, text)
        for text in (
            b'{"a":', b"{", b"[", b'"', b"\\", b" ", b"\0", b"\xff", b'{"type":"user"',
            b'{"a":1}', b"0", b'{"uuid":"', b"\xef\xbb\xbf",
        )
    },
    **{f"text of {name}": partial(_text, text) for name, text in _TEXTS.items()},
}  # fmt: skip
_BESIDE = ("agents beside the main log",)
_AGENTS_OF: dict[str, Callable[[int], Iterator[Record | bytes]]] = {
    "agents": partial(_agent_log, ""),
    "agents of one prompt": partial(_agent_log, "the same"),
    "agents of one record": partial(_agent_log, ""),
    "agents of one uuid": partial(_agent_log, ""),
    "agents that call agents": _agent_with_calls,
    "agents without a call": partial(_agent_log, ""),
    "agents that share records": _shared_record,
    "agents beside the main log": partial(_agent_log, ""),
    "agents that wait": _waiting_agent,
    "damaged agents": _damaged_agent,
}


def _command(*words: str) -> Callable[[Path], None]:
    """Run a command in this process; what it prints is dropped."""

    def run(home: Path) -> None:
        from turnlog.cli.app import run as run_command

        with _silent():
            code = run_command([*words, "--home", str(home)])
        assert code in (0, 1), f"turnlog {' '.join(words)}: exit code {code}"

    return run


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "replace") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


def _web_page(home: Path) -> None:
    """Draw the session's page as the web server does, and look for words in it."""
    from turnlog.api.store import Store
    from turnlog.formats import find_homes
    from turnlog.pricing.cost import configured_prices
    from turnlog.web.context import PageContext, Params
    from turnlog.web.pages.session.page import session_page
    from turnlog.web.pages.session.view import view_of

    context = PageContext(Store(find_homes((home,)), home), configured_prices(home)[0])
    session_page(view_of(SESSION, Params({"find": "kite", "end": "1"}, context)))


def _mcp(tool: str, **arguments: Any) -> Callable[[Path], None]:
    """Ask a tool as the MCP server does."""

    def ask(home: Path) -> None:
        from turnlog.api.background_refresh import BackgroundRefresh
        from turnlog.formats import find_homes
        from turnlog.mcp.context import Settings, ToolContext
        from turnlog.mcp.server import ToolCallRunner

        homes = find_homes((home,))
        desk = ToolContext(
            homes=homes, scope=None, settings=Settings(), background=BackgroundRefresh(homes)
        )
        calls = ToolCallRunner(desk)
        named = getattr(importlib.import_module(f"turnlog.mcp.tools.{tool}"), tool.upper())
        calls._answer(named, arguments, desk.for_a_call(600))  # noqa: SLF001

    return ask


VIEWS: dict[str, Callable[[Path], None]] = {
    "show": _command("show", SESSION),
    "show --tools full": _command("show", SESSION, "--tools", "full", "--subagents", "--thinking"),
    "show --json": _command("show", SESSION, "--json"),
    "show every branch": _command("show", SESSION, "--thread", "all"),
    "show --last": _command("show", SESSION, "--last", "9"),
    "show --at": _command("show", SESSION, "--at", "@0", "-C", "9", "--mark", "kite"),
    "info": _command("info", SESSION),
    "export md": _command("export", SESSION, "--format", "md", "-o", "-"),
    "export html": _command("export", SESSION, "--format", "html", "-o", "-"),
    "export json": _command("export", SESSION, "--format", "json", "-o", "-"),
    "export every branch": _command("export", SESSION, "--thread", "all", "-o", "-"),
    "export --anonymize": _command("export", SESSION, "--anonymize", "-o", "-"),
    "export calls": _command("export", SESSION, "--format", "csv", "--table", "calls", "-o", "-"),
    "export records": _command("export", SESSION, "--table", "records", "-o", "-"),
    "refresh": _command("refresh"),
    "sessions": _command("sessions"),
    "prompts": _command("prompts"),
    "files": _command("files", SESSION),
    "todos": _command("todos", SESSION),
    "cost": _command("cost"),
    "check": _command("check", "--strict"),
    "doctor": _command("doctor"),
    "recover": _command("recover", SESSION),
    "search": _command("search", "kite"),
    "search --exact": _command("search", "--exact", "the kite"),
    "secrets": _command("secrets"),
    "insights": _command("insights"),
    "web session": _web_page,
    "mcp session": _mcp("session", session=SESSION),
    "mcp turns": _mcp("turns", session=SESSION),
}


@contextlib.contextmanager
def world(directory: Path, shape: str, n: int) -> Iterator[Path]:
    """Yield a home of that shape, with a TURNLOG_HOME of its own."""
    home = write_home(directory / "home", shape, n)
    before = os.environ.get("TURNLOG_HOME")
    os.environ["TURNLOG_HOME"] = str(directory / "own")
    try:
        yield home
    finally:
        if before is None:
            del os.environ["TURNLOG_HOME"]
        else:
            os.environ["TURNLOG_HOME"] = before
