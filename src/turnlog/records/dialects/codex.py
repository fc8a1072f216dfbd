"""Codex's dialect: each line has a type and a payload, which mostly has a type of its own.

    {"timestamp":"…","type":"session_meta","payload":{"id":"…","cwd":"…","cli_version":"0.169.0"}}
    {"timestamp":"…","type":"turn_context","payload":{"turn_id":"…","cwd":"…","model":"…"}}
    {"timestamp":"…","type":"event_msg","payload":{"type":"user_message","message":"…"}}
    {"timestamp":"…","type":"response_item","payload":{"type":"message","role":"assistant",…}}

Codex writes most texts twice: as an event, for people, and as an item, for the model. One of them
counts. Prompts are events (``user_message``, or ``item_completed`` with a UserMessage), because the
items of a user also have what Codex injected. All else is an item. The other line of each pair is a
record without text, of the type that Codex gave it.

Tools that turnlog knows get the names and arguments of Claude Code's: patches become Edit,
MultiEdit and Write, a plan becomes TodoWrite, starting a subagent becomes Agent. Others keep their
names. There is no way back, since turnlog does not write Codex's logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from turnlog.errors import NotSerialisable
from turnlog.records.dialects.codex_usage import MARKS, CodexUsage
from turnlog.records.dialects.leftovers import Dialect, Fields

_LINE: Final = frozenset({"timestamp", "type", "payload", "ordinal", "metadata"})

_INJECTED: Final = re.compile(r"\s*(?:<[a-z][\w-]*(?: [^>]*)?>|# AGENTS\.md instructions)")
_REVIEW: Final = re.compile(r"Review the (?:current )?code changes .* findings\.", re.DOTALL)
"""What Codex asks when a person typed /review."""
_SCRIPT: Final = re.compile(r"Script (completed|failed)\n.*\nOutput:\n", re.DOTALL)
_CODE: Final = re.compile(r"^(?:Process exited with code|Exit code:) (-?[0-9]+)$", re.MULTILINE)
_OUTPUT: Final = re.compile(r"^(?:Total output lines: [0-9]+\n+)?Output:\n", re.MULTILINE)
_HEAD: Final = 600
"""Where the head of a command's output ends at the latest."""
_FILE: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE: Final = "*** Move to: "


def recognises(fields: Fields) -> bool:
    return (
        isinstance(fields.get("payload"), dict)
        and isinstance(fields.get("type"), str)
        and fields.keys() <= _LINE
    )


def to_house(fields: Fields) -> Fields:
    kind, payload = fields["type"], fields["payload"]
    convert = _LINES.get(kind)
    house = convert(payload, fields) if convert is not None else {"type": kind}
    if "timestamp" in fields:
        house["timestamp"] = fields["timestamp"]
    return house


def from_house(_: Fields) -> Fields:
    raise NotSerialisable(
        "turnlog does not write records of Codex", hint="convert them to another layout"
    )


# -- lines


def _session(payload: Fields, _: Fields) -> Fields:
    git = payload.get("git")
    return {
        "type": "system_init",
        "cwd": payload.get("cwd"),
        "version": payload.get("cli_version"),
        "gitBranch": git.get("branch") if isinstance(git, dict) else None,
    }


def _turn(payload: Fields, _: Fields) -> Fields:
    return {"type": "system_init", "cwd": payload.get("cwd"), "model": payload.get("model")}


def _compacted(payload: Fields, _: Fields) -> Fields:
    text = payload.get("message")
    if isinstance(text, str) and text.strip():
        return {"type": "user", "isCompactSummary": True, "message": _message("user", text)}
    return _note("compact_boundary", "The conversation was compacted.")


def _item(payload: Fields, line: Fields) -> Fields:
    convert = _ITEMS.get(_kind(payload))
    return convert(payload, line) if convert is not None else {"type": _kind(payload)}


def _event(payload: Fields, line: Fields) -> Fields:
    kind = _kind(payload)
    if kind == "item_completed":
        item = payload.get("item")
        payload = item if isinstance(item, dict) else {}
        kind = f"item_completed {_kind(payload)}"
    convert = _EVENTS.get(kind)
    if convert is not None:
        return convert(payload, line)
    return {"type": kind.partition(" ")[0]}


def _of_other_agent(payload: Fields, _: Fields) -> Fields:
    content = payload.get("content")
    text = content if isinstance(content, str) else _texts(content)
    return {"type": "user", "origin": {"kind": "peer"}, "message": _message("user", text)}


# -- items


def _spoken(payload: Fields, _: Fields) -> Fields:
    text = _texts(payload.get("content"))
    if payload.get("role") == "assistant":
        return {"type": "assistant", "message": _message("assistant", text)}
    if payload.get("role") == "user" and not _INJECTED.match(text):
        return {"type": "message"}  # The copy of a prompt.
    return {"type": "user", "isMeta": True, "message": _message("user", text)}


def _reasoning(payload: Fields, _: Fields) -> Fields:
    text = _texts(payload.get("summary")) or _texts(payload.get("content"))
    if not text:
        return {"type": "reasoning"}  # Only encrypted.
    return _said({"type": "thinking", "thinking": text})


def _function_call(payload: Fields, _: Fields) -> Fields:
    arguments = payload.get("arguments")
    name, space = _text(payload.get("name")), payload.get("namespace")
    if isinstance(space, str) and space.startswith("mcp__"):
        name = f"{space.rstrip('_')}__{name}"
    return _called(payload, name, _parsed(arguments))


def _custom_call(payload: Fields, _: Fields) -> Fields:
    name, given = _text(payload.get("name")), payload.get("input")
    if name == "apply_patch" and isinstance(given, str):
        return _patched(payload, given)
    return _called(payload, name, {"command" if name == "exec" else "input": given})


def _shell_call(payload: Fields, _: Fields) -> Fields:
    action = payload.get("action")
    return _called(payload, "local_shell", action if isinstance(action, dict) else {})


def _server_call(payload: Fields, line: Fields) -> Fields:
    """Convert a call that the API answers itself."""
    name = _kind(payload).removesuffix("_call")
    given = payload.get("action") or payload.get("arguments")
    found = _parsed(given) or {
        key: payload[key] for key in ("query", "revised_prompt") if payload.get(key)
    }
    call_id = payload.get("call_id") or payload.get("id")
    return _called({"call_id": call_id or f"{name} {line.get('timestamp')}"}, name, found)


def _answer(payload: Fields, _: Fields) -> Fields:
    output, code = payload.get("output"), None
    if isinstance(output, dict):  # Of early versions.
        output = output.get("content")
    if isinstance(output, str):
        output, code = _command_output(output)
        content: list[Fields] | str = output
    else:
        content, code = _script_output(_parts(output))
    failed = code not in (None, 0) or payload.get("success") is False
    block = {"type": "tool_result", "tool_use_id": _text(payload.get("call_id"))}
    message = {"role": "user", "content": [block | {"content": content, "is_error": failed}]}
    house: Fields = {"type": "user", "message": message}
    started = _parsed(output).get("agent_id") if isinstance(output, str) else None
    if isinstance(started, str):
        house["toolUseResult"] = {"agentId": started}
    return house


def _tools_found(payload: Fields, _: Fields) -> Fields:
    found = {"type": "tool_result", "tool_use_id": _text(payload.get("call_id"))}
    tools = [tool for tool in _list(payload, "tools") if isinstance(tool, dict)]
    names = [_text(tool.get("name")) for tool in tools]
    content = ", ".join(filter(None, names))
    return {"type": "user", "message": {"role": "user", "content": [found | {"content": content}]}}


# -- events


def _prompt(payload: Fields, _: Fields) -> Fields:
    text = {"type": "text", "text": _text(payload.get("message"))}
    images = [_image(url) for url in _list(payload, "images")]
    files = [{"type": "document", "title": _text(path)} for path in _list(payload, "local_images")]
    content = [text, *images, *files]
    house = _asked(content)
    if payload.get("kind") not in (None, "plain"):  # Early versions had injected context here.
        house["isMeta"] = True
    return house


def _prompt_item(payload: Fields, _: Fields) -> Fields:
    blocks: list[Fields] = []
    for part in _list(payload, "content"):
        match part:
            case {"type": "text", "text": str(text)}:
                blocks.append({"type": "text", "text": text})
            case {"type": "image", **image}:
                blocks.append(_image(image.get("image_url") or image.get("url")))
            case {"path": str(path)}:  # A local image, a skill, a mention.
                blocks.append({"type": "document", "title": path})
    return _asked(blocks)


def _asked(content: list[Fields]) -> Fields:
    house: Fields = {"type": "user", "message": {"role": "user", "content": content}}
    if content and _REVIEW.fullmatch(content[0].get("text", "")):
        house["origin"] = {"kind": "auto-continuation"}
    return house


def _named(payload: Fields, _: Fields) -> Fields:
    return {"type": "custom-title", "customTitle": payload.get("thread_name")}


def _completed(payload: Fields, _: Fields) -> Fields:
    return _note("turn_duration", None) | {"durationMs": payload.get("duration_ms")}


def _aborted(payload: Fields, _: Fields) -> Fields:
    if payload.get("reason") in (None, "interrupted"):
        text = "[Request interrupted by user]"
        return {"type": "user", "message": _message("user", text)}
    return _note("turn_aborted", f"The turn was aborted: {payload['reason']}.")


def _failed(payload: Fields, _: Fields) -> Fields:
    return _note("api_error", payload.get("message"))


def _rolled_back(payload: Fields, _: Fields) -> Fields:
    return _note("thread_rolled_back", f"Turns rolled back: {payload.get('num_turns')}")


def _subagent(payload: Fields, _: Fields) -> Fields:
    call_id = payload.get("event_id") or payload.get("call_id") or payload.get("id")
    data = {"type": "agent_progress", "agentId": payload.get("agent_thread_id")}
    return {"type": "progress", "data": data, "parentToolUseID": call_id}


_LINES: Final = {
    "session_meta": _session,
    "turn_context": _turn,
    "compacted": _compacted,
    "response_item": _item,
    "event_msg": _event,
    "inter_agent_communication": _of_other_agent,
}
_ITEMS: Final = {
    "message": _spoken,
    "agent_message": _of_other_agent,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "function_call_output": _answer,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _answer,
    "local_shell_call": _shell_call,
    "web_search_call": _server_call,
    "image_generation_call": _server_call,
    "tool_search_call": _server_call,
    "tool_search_output": _tools_found,
}
_EVENTS: Final = {
    "user_message": _prompt,
    "item_completed UserMessage": _prompt_item,
    "thread_name_updated": _named,
    "task_complete": _completed,
    "turn_complete": _completed,
    "turn_aborted": _aborted,
    "error": _failed,
    "stream_error": _failed,
    "thread_rolled_back": _rolled_back,
    "sub_agent_activity": _subagent,
    "item_completed SubAgentActivity": _subagent,
}


# -- parts of records


def _called(payload: Fields, name: str, given: Fields) -> Fields:
    """Return the record of a call; calls that turnlog knows get Claude Code's names."""
    if name == "apply_patch" and isinstance(given.get("input"), str):
        return _patched(payload, given["input"])
    if name == "update_plan" and isinstance(given.get("plan"), list):
        steps = [step for step in given["plan"] if isinstance(step, dict)]
        todos = [{"content": step.get("step"), "status": step.get("status")} for step in steps]
        name, given = "TodoWrite", {"todos": todos} | _without(given, "plan")
    elif name == "spawn_agent":
        kind = given.get("agent_type")
        known = {"description": given.get("task_name") or kind, "prompt": given.get("message")}
        others = _without(given, "task_name", "agent_type", "message")
        name, given = "Agent", known | {"subagent_type": kind} | others
    command = given.get("cmd", given.get("command"))
    if isinstance(command, list):
        is_shell = len(command) == 3 and command[1] in ("-lc", "-c")
        command = command[2] if is_shell else " ".join(map(str, command))
        patch = _patch_in(command)
        if patch is not None:
            return _patched(payload, patch)
    if isinstance(command, str):
        given = {"command": command} | _without(given, "cmd", "command")
    return _said(_call(_text(payload.get("call_id") or payload.get("id")), name, given))


def _without(given: Fields, *names: str) -> Fields:
    return {key: value for key, value in given.items() if key not in names}


def _call(call_id: str, name: str, given: Fields) -> Fields:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def _said(*blocks: Fields) -> Fields:
    return {"type": "assistant", "message": {"role": "assistant", "content": list(blocks)}}


def _message(role: str, text: str) -> Fields:
    return {"role": role, "content": [{"type": "text", "text": text}] if text else []}


def _note(subtype: str, text: Any) -> Fields:
    return {"type": "system", "subtype": subtype, "content": text}


def _patch_in(command: str) -> str | None:
    """Return the patch that a shell command applies; None if it does something else."""
    begin, end = command.find("*** Begin Patch"), command.rfind("*** End Patch")
    return command[begin:end] if command.startswith("apply_patch") and 0 <= begin < end else None


def _patched(payload: Fields, patch: str) -> Fields:
    """Return the record of a patch: one call for each file; the first has the result."""
    call_id = _text(payload.get("call_id"))
    calls = [
        _call(f"{call_id}#{number}" if number > 1 else call_id, name, given)
        for number, (name, given) in enumerate(_files_in(patch), 1)
    ]
    return _said(*calls or [_call(call_id, "apply_patch", {"input": patch})])


def _files_in(patch: str) -> Iterator[tuple[str, Fields]]:
    """Yield the changes to each file of a patch as calls of Claude Code's tools."""
    lines = patch.splitlines()
    heads = [(at, found) for at, line in enumerate(lines) if (found := _FILE.fullmatch(line))]
    ends = [at for at, _ in heads[1:]] + [len(lines)]
    for (at, head), end in zip(heads, ends, strict=True):
        path, body = head[2].strip(), lines[at + 1 : end]
        if head[1] == "Add":
            content = "".join(f"{line[1:]}\n" for line in body if line.startswith("+"))
            yield "Write", {"file_path": path, "content": content}
        elif head[1] == "Delete":
            yield "apply_patch", {"path": path, "operation": "delete"}
        else:
            moved = (
                {"moved_to": body[0].removeprefix(_MOVE)}
                if body[:1] and body[0].startswith(_MOVE)
                else {}
            )
            edits = list(_edits_in(body))
            if len(edits) == 1:
                yield "Edit", {"file_path": path, **edits[0], **moved}
            else:
                yield "MultiEdit", {"file_path": path, "edits": edits, **moved}


def _edits_in(body: list[str]) -> Iterator[Fields]:
    """Yield the old and new text of each hunk of a file's changes."""
    old: list[str] = []
    new: list[str] = []
    for line in [*body, "@@"]:
        if line.startswith("@@"):
            if old or new:
                yield {"old_string": "\n".join(old), "new_string": "\n".join(new)}
            old, new = [], []
        elif line.startswith("+"):
            new.append(line[1:])
        elif line.startswith("-"):
            old.append(line[1:])
        elif not line.startswith("***"):
            old.append(line[1:])
            new.append(line[1:])


def _command_output(text: str) -> tuple[str, int | None]:
    """Return the output of a command without its head, and its exit code if there is one."""
    if text.startswith('{"output":'):
        found = _parsed(text)
        output, about = found.get("output"), found.get("metadata")
        if isinstance(output, str):
            code = about.get("exit_code") if isinstance(about, dict) else None
            return _with_code(output, code if isinstance(code, int) else None)
    body = _OUTPUT.search(text, 0, _HEAD)
    if body is None:
        return text, None
    code_line = _CODE.search(text, 0, body.start())
    return _with_code(text[body.end() :], int(code_line[1]) if code_line else None)


def _script_output(parts: list[Fields]) -> tuple[list[Fields], int | None]:
    """Return the output of a script without its head, and 1 if it failed."""
    head = _SCRIPT.fullmatch(parts[0].get("text", "")) if parts else None
    return (parts, None) if head is None else (parts[1:], int(head[1] == "failed"))


def _with_code(output: str, code: int | None) -> tuple[str, int | None]:
    return (f"Exit code {code}\n{output}" if code else output), code


def _parts(content: Any) -> list[Fields]:
    """Return the parts of an output as blocks."""
    if not isinstance(content, list):
        import json  # noqa: PLC0415 - Hardly any output is something else.

        text = "" if content is None else json.dumps(content, ensure_ascii=False)
        return [{"type": "text", "text": text}]
    return [
        _image(part.get("image_url"))
        if part.get("type") == "input_image"
        else {"type": "text", "text": _text(part.get("text"))}
        for part in content
        if isinstance(part, dict)
    ]


def _image(url: Any) -> Fields:
    """Return the block of an image: its data, or where it is."""
    head, _, data = _text(url).partition(";base64,")
    if head.startswith("data:") and data:
        kind = head.removeprefix("data:")
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
    return {"type": "image", "source": {"type": "url", "url": _text(url)}}


def _texts(content: Any) -> str:
    """Join the texts of an item's parts."""
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _parsed(arguments: Any) -> Fields:
    """Return a call's arguments, which are an object or the JSON of one."""
    if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
        try:
            arguments = msgspec.json.decode(arguments)
        except (ValueError, RecursionError):
            return {"input": arguments}
    if isinstance(arguments, dict):
        return arguments
    return {"input": arguments} if arguments else {}


def _list(payload: Fields, name: str) -> list[Any]:
    value = payload.get(name)
    return value if isinstance(value, list) else []


def _kind(payload: Fields) -> str:
    return _text(payload.get("type"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


CODEX = Dialect("codex", recognises, to_house, from_house, MARKS, CodexUsage)
