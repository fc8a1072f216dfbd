"""A home whose sessions edited files, and a plain recount of its edits from the lines."""

import json
from pathlib import Path
from typing import NamedTuple

from mcp_contexts import ONE, ORCHARD, PRESS, TWO, Log

WRITERS = {"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path",
           "NotebookEdit": "notebook_path"}  # fmt: skip
EVIL = "<img src=x onerror=window.pwned=1>\x1b[31m\u202e"


class PlainEdit(NamedTuple):
    path: str
    tool: str
    session: str
    is_subagents: bool
    record: str
    at: str
    added: int | None
    removed: int | None
    prompt: str | None


def edit(log, path, *lines, tool="Edit", is_error=False, **given):
    """Edit a file; *lines* are those of the patch that the result reports."""
    call_id = f"toolu_{log.session[:4]}{log.subagent or ''}{log.count}"
    given = {WRITERS[tool]: path} | given
    log.answer({"type": "tool_use", "id": call_id, "name": tool, "input": given})
    result = {"filePath": path, "structuredPatch": []}
    if lines:
        result["structuredPatch"] = [{"oldStart": 1, "newStart": 1, "lines": list(lines)}]
    else:
        result["content"] = given.get("content")
    block = {"type": "tool_result", "tool_use_id": call_id, "content": "ok", "is_error": is_error}
    return log.add(type="user", message={"role": "user", "content": [block]}, toolUseResult=result)


def edited_home(directory):
    """Write two sessions, one with a subagent, that edit the same and other files."""
    home = directory / "home"
    one = Log(home, ONE, ORCHARD, hostile="").prompt("Prune the tree")
    edit(one, f"{ORCHARD}/src/tree.py", "-red", "+green", "+ripe")
    edit(one, f"{ORCHARD}/notes.md", tool="Write", content="# Notes\nOne\nTwo\n")
    edit(one, f"{ORCHARD}/src/tree.py", "-never", is_error=True)
    one.call("Read", "text", file_path=f"{ORCHARD}/src/tree.py")
    one.prompt(f"And the fence {EVIL}")
    edit(one, f"{ORCHARD}/{EVIL}.py", f"-{EVIL}", f"+{EVIL}")
    one.call("Bash", "Error: no fence", is_error=True, command="make fence")
    one.answer({"type": "text", "text": "The **fence** stands."}).save()
    inner = Log(home, ONE, ORCHARD, hostile="", subagent="a1b2c3").prompt("Paint it")
    edit(inner, f"{ORCHARD}/src/tree.py", " same", "-green", "+blue").save()
    two = Log(home, TWO, PRESS, hostile="").prompt("Prune the tree")
    edit(two, f"{PRESS}/src/tree.py", "+new")
    two.prompt("And the press")
    edit(two, f"{PRESS}/press.py", tool="Write", content="press = 1\n")
    two.answer({"type": "text", "text": "Pressed."}).save()
    return home


def plain_edits(home):
    """Yield every edit in the lines of a home's logs; copies of a record count once."""
    seen = set()
    for path in sorted(Path(home).rglob("*.jsonl")):
        yield from _edits_in(path, seen)


def _edits_in(path, seen):
    asked, prompt = {}, None
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        message = record.get("message") if isinstance(record, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str) and record.get("type") == "user":
            prompt = content
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use" and block["name"] in WRITERS:
                asked[block["id"]] = (record, block, prompt)
            elif block.get("type") == "tool_result" and block["tool_use_id"] in asked:
                call, use, said = asked.pop(block["tool_use_id"])
                if block.get("is_error") or call["uuid"] in seen:
                    continue
                seen.add(call["uuid"])
                yield PlainEdit(
                    use["input"].get(WRITERS[use["name"]]), use["name"], call["sessionId"],
                    bool(call.get("isSidechain")), call["uuid"], call["timestamp"],
                    *_lines(record.get("toolUseResult")), said,
                )  # fmt: skip


def _lines(result):
    patch = result.get("structuredPatch") if isinstance(result, dict) else None
    if not isinstance(patch, list):
        return None, None
    lines = [line for hunk in patch for line in hunk["lines"]]
    if not lines and isinstance(result.get("content"), str):
        return len(result["content"].splitlines()), 0
    signs = [line[:1] for line in lines]
    return signs.count("+"), signs.count("-")
