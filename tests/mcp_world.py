"""A home written by turnlog itself, small and of every kind, and the ways to ask about it.

Two projects, one below the other, and a third that is none of their business; a session with
turns, calls that went well and ill, a subagent, edits and kept versions of a file.
"""

import io
import json
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import anyio

import turnlog
from index.homes import own_index
from mcp import Client
from turnlog.api.background_refresh import BackgroundRefresh
from turnlog.formats import find_homes
from turnlog.mcp.context import Settings, ToolContext
from turnlog.mcp.server import make_server
from turnlog.mcp.untrusted_text import unframed
from turnlog.sessions.writing import build

ORCHARD, PRESS, VAULT = "/home/ada/orchard", "/home/ada/orchard/press", "/home/ada/orchard-vault"
ONE, TWO, OUT = (f"{each * 8}-bbbb-4bbb-8bbb-{each * 12}" for each in "12e")
SUBAGENT = "a1b2c3"
OPUS, HAIKU = "claude-opus-4-6", "claude-haiku-4-5"
TREE = f"{ORCHARD}/src/tree.py"


class Writing:
    """Writes a session record by record, a minute apart."""

    def __init__(self, writer, at):
        self.writer, self.at = writer, at
        self.count = 0

    def add(self, fields):
        self.at += timedelta(minutes=1)
        stamp = self.at.isoformat().replace("+00:00", "Z")
        return self.writer.append({"timestamp": stamp} | fields)

    def prompt(self, text):
        return self.add(build.user(text))

    def answer(self, *blocks, model=OPUS, output=50):
        usage = {"input_tokens": 10, "output_tokens": output, "cache_read_input_tokens": 100}
        blocks = [build.text(each) if isinstance(each, str) else each for each in blocks]
        return self.add(build.assistant(blocks, model=model, usage=usage))

    def call(self, tool, given, result, *, failed=False, detail=None, model=OPUS):
        self.count += 1
        call_id = f"toolu_{self.writer.session_id[:4]}{self.count:04}"
        self.answer(build.call(tool, given, call_id=call_id), model=model)
        if result is not None:
            self.add(build.result(call_id, result, failed=failed, detail=detail))
        return call_id


def edited(*lines):
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": list(lines)}
    return {"filePath": TREE, "structuredPatch": [hunk]}


def snapshot(message, files, at):
    return {
        "type": "file-history-snapshot",
        "messageId": message,
        "snapshot": {"messageId": message, "trackedFileBackups": files, "timestamp": at},
        "isSnapshotUpdate": False,
    }


def write_one(store):
    """The session that everything happens in."""
    with store.create(project=ORCHARD, session_id=ONE) as writer:
        log = Writing(writer, datetime(2026, 11, 1, 10, tzinfo=UTC))
        first = log.prompt("Plant seven apple trees, please")
        log.add(snapshot(first, {}, "2026-11-01T10:00:00Z"))
        log.answer(build.thinking("where is room?"), "I look for room first.")
        log.call("Bash", {"command": "ls orchard"}, "north\nsouth")
        kept = {"backupFileName": "abc@v1", "version": 1, "backupTime": "2026-11-01T10:05:00Z"}
        log.add(snapshot(first, {"src/tree.py": kept}, "2026-11-01T10:05:00Z"))
        log.call(
            "Edit",
            {"file_path": TREE, "old_string": "one", "new_string": "seven"},
            "done",
            detail=edited("-one", "+seven", "+trees"),
        )
        log.call("Bash", {"command": "plant --all"}, "Exit code 1: no spade", failed=True)
        log.call("Bash", {"command": "plant --most"}, "Exit code 1: no spade", failed=True)
        log.call("mcp__garden__dig", {"depth": 3}, "dug")
        log.answer("Seven apple trees stand.", "And a bench.")
        second = log.prompt("Water them, and the pears")
        kept = {"backupFileName": "abc@v2", "version": 2, "backupTime": "2026-11-01T10:30:00Z"}
        log.add(snapshot(second, {"src/tree.py": kept}, "2026-11-01T10:30:00Z"))
        log.call("Task", {"description": "look at pears", "prompt": "count the pears"}, "nine")
        log.call("Read", {"file_path": TREE}, "seven\ntrees")
        log.call("Grep", {"pattern": "pear", "path": ORCHARD}, None)
        log.answer("Watered.", model=HAIKU)
        with writer.subagent(SUBAGENT) as subagent:
            its = Writing(subagent, datetime(2026, 11, 1, 10, 40, tzinfo=UTC))
            its.prompt("count the pears")
            its.call("Read", {"file_path": f"{ORCHARD}/pears.txt"}, "nine pears", model=HAIKU)
            its.answer("Nine pears.", model=HAIKU)
        log.add(build.title("Apple trees"))
    return first, second


def make_home(directory):
    """Write the home; give where it lies."""
    home = directory / "home"
    (home / "projects").mkdir(parents=True)
    with turnlog.open(home) as store:
        write_one(store)
        with store.create(project=PRESS, session_id=TWO) as writer:
            log = Writing(writer, datetime(2026, 10, 1, 9, tzinfo=UTC))
            log.prompt("Press the apples")
            log.call("Bash", {"command": "press"}, "juice")
            log.answer("Juice of apples.", model=HAIKU)
        with store.create(project=VAULT, session_id=OUT) as writer:
            log = Writing(writer, datetime(2026, 11, 2, 9, tzinfo=UTC))
            log.prompt("Hide the rubies among the apples")
            log.call("Bash", {"command": "hide rubies"}, "Exit code 9: rubies seen", failed=True)
            log.call("Edit", {"file_path": f"{VAULT}/rubies.txt"}, "ok", detail=edited("+rubies"))
            log.answer("The rubies are hidden.", model="claude-rubies-1")
            log.add(build.title("Rubies"))
    kept = home / "file-history" / ONE
    kept.mkdir(parents=True)
    (kept / "abc@v1").write_text("one\n")
    (kept / "abc@v2").write_text("seven\ntrees\n")
    return home


@contextmanager
def opened(directory, make=make_home):
    """Give a home of its own, and a way to make desks for it."""
    with own_index(directory / "own"):
        homes = find_homes((make(directory),))

        def ctx(scope=None, **settings):
            return ToolContext(
                homes=homes,
                scope=scope,
                settings=Settings(**settings),
                background=BackgroundRefresh(homes),
            )

        yield homes[0].path, ctx


_servers = {}


def server_of(ctx):
    """Return the server for a context; to describe its tools takes longer than most calls."""
    if id(ctx) not in _servers:
        _servers.clear()
        _servers[id(ctx)] = (ctx, make_server(ctx))  # A context that is held keeps its id.
    return _servers[id(ctx)][1]


async def called(ctx, calls):
    """Let the official client make some calls; give text and whether it is an error, of each."""
    async with Client(server_of(ctx)) as client:
        given = []
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            (content,) = result.content
            given.append((content.text, result.is_error))
        return given


def ask(ctx, name, **arguments):
    """Ask a tool through the official client; give the document in its answer."""
    ((text, is_error),) = anyio.run(called, ctx, [(name, arguments)])
    assert not is_error, text
    return json.loads(unframed(text))


def hits_of(found):
    """The hits of an answer of `search_history`, each with its session."""
    return [
        {"session": row.get("session")} | hit for row in found["sessions"] for hit in row["hits"]
    ]


def refused(ctx, name, **arguments):
    """Ask for what cannot be had; give the error's words."""
    ((text, is_error),) = anyio.run(called, ctx, [(name, arguments)])
    assert is_error, text
    assert text.startswith("error: ")
    assert "\nhint: " in text
    return text


def ask_on(ctx, name, noun, **arguments):
    """Ask on as long as there is more; give all rows."""

    async def walk():
        async with Client(server_of(ctx)) as client:
            rows, cursor = [], None
            for _ in range(300):
                more = {} if cursor is None else {"cursor": cursor}
                result = await client.call_tool(name, arguments | more)
                assert not result.is_error, result.content[0].text
                document = json.loads(unframed(result.content[0].text))
                rows += document[noun]
                cursor = document["next"]
                if cursor is None:
                    return rows
            raise AssertionError("there is always another page")

    return anyio.run(walk)


def cli(home, *arguments):
    """Run a command with --json in this process; give its document."""
    from turnlog.cli.app import run

    class Out(io.TextIOWrapper):
        def isatty(self):
            return False

    before, sys.stdout = sys.stdout, Out(io.BytesIO(), "utf-8")
    try:
        code = run([*arguments, "--home", str(home), "--json"])
        sys.stdout.flush()
        text = sys.stdout.buffer.getvalue()
    finally:
        sys.stdout = before
    assert code in (0, 1), text
    return json.loads(text)
