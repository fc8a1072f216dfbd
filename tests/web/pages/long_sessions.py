"""Sessions that are too long for one page, and one as Claude Code 1.x wrote them."""

import json

from mcp_contexts import Log

MANY = "a1111111-bbbb-4bbb-8bbb-111111111111"
"""Many turns."""
DEEP = "a2222222-bbbb-4bbb-8bbb-222222222222"
"""One turn with very many calls."""
OLD = "a3333333-bbbb-4bbb-8bbb-333333333333"
"""A subagent's records are in the main log."""
PROJECT = "/home/ada/orchard"
RED = "\x1b[1;31mFAILED\x1b[0m tests"


def many_turns(home, turns, session=MANY):
    """Write a session in which every turn has two calls, and every tenth turn an error."""
    log = Log(home, session, PROJECT, hostile="")
    for turn in range(1, turns + 1):
        log.prompt(f"Prompt **{turn}** about pears")
        log.answer(
            {"type": "thinking", "thinking": f"thought {turn}", "signature": "x"},
            {"type": "text", "text": f"Answer {turn}\n\n```python\ndef pear():\n    return 1\n```"},
        )
        log.call("Bash", RED if turn == 2 else f"output {turn}", command="git commit -m pears")
        edit = {"file_path": f"{PROJECT}/pears.py"}
        log.call(
            "Edit", f"done {turn}", is_error=turn % 10 == 0, old_string="pears = 1\n",
            new_string=f"pears = {turn}\n", **edit,
        )  # fmt: skip
    return log.save()


def deep_turn(home, calls, session=DEEP):
    log = Log(home, session, PROJECT, hostile="")
    log.prompt("Do it all")
    for call in range(calls):
        log.call("Read", f"line {call} of quinces", file_path=f"{PROJECT}/file{call}.py")
    log.answer({"type": "text", "text": "All done"})
    return log.save()


def old_sidechain(home, session=OLD):
    """Write a session whose subagent is a sidechain of the main log."""
    log = Log(home, session, PROJECT, hostile="")
    log.prompt("Send someone to look")
    call = {"type": "tool_use", "id": "toolu_look", "name": "Task"}
    log.answer(call | {"input": {"description": "look", "prompt": "Look for medlars"}})
    asked, main = log.uuid, len(log.lines)
    for number in range(80):
        log.prompt("Look for medlars") if not number else log.call(
            "Grep", f"medlar {number}", pattern="medlar"
        )
    side = [json.loads(line) | {"isSidechain": True} for line in log.lines[main:]]
    side[0]["parentUuid"] = None
    log.lines[main:] = [json.dumps(each) for each in side]
    result = {"type": "tool_result", "tool_use_id": "toolu_look", "content": "Medlars are there"}
    log.add(type="user", message={"role": "user", "content": [result]})
    log.lines[-1] = json.dumps(json.loads(log.lines[-1]) | {"parentUuid": asked})
    log.answer({"type": "text", "text": "They were found"})
    log.save()
    return side


def tree_of(home):
    """Return every file of a home with its content and times."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }
