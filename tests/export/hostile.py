"""Logs that attack whoever shows them: the same evil words in every field that a record can have.

The fields are found by walking the structs, so that one that is added tomorrow is attacked too.
"""

import json
import types
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from turnlog.records.record import BLOCK_BY_TYPE, Message
from turnlog.records.record_types import KIND_BY_TYPE

MARK = "kestrel-mark"
"""A word that stands in every payload, to be found again."""
_RUN = "window.pwned=1"
PAYLOADS = (
    f"<script>{_RUN}</script>",
    f"<img src=x onerror={_RUN}>",
    f'"><svg/onload={_RUN}>',
    f"' onmouseover='{_RUN}' autofocus onfocus='{_RUN}' x='",
    f"--></style></title></textarea></pre></code><script>{_RUN}</script><!--",
    f"[x](javascript:{_RUN})",
    f"[x](JaVaScRiPt&colon;{_RUN})",
    f"[x](java&#115;cript:{_RUN})",
    f"[x](<javascript:{_RUN}>)",
    f"[x](data:text/html;base64,PHNjcmlwdD4=) [x](vbscript:{_RUN}) [x](file:///etc/passwd)",
    f"<javascript:{_RUN}>",
    f"[y]: javascript:{_RUN}\n[y]",
    "![x](http://evil.example/x.png) ![x](//evil.example/y.png)",
    f'<a href="javascript:{_RUN}">z</a> <iframe srcdoc="<script>{_RUN}</script>"></iframe>',
    "<link rel=stylesheet href=http://evil.example/a.css><style>@import 'http://evil.example'</style>",
    "<meta http-equiv=refresh content='0;url=http://evil.example'><base href=http://evil.example/>",
    f"```html\n<script>{_RUN}</script>\n```",
    f"~~~\n</code></pre><img src=x onerror={_RUN}>",
    f"| `a | <img src=x onerror={_RUN}>` |\n|---|---|\n| b | c |",
    f"- `a <img src=x onerror={_RUN}>\n- b`",
    f"<div>\n```\n</div>\n\n```\n<img src=x onerror={_RUN}>\n```",
    f"&lt;script&gt;{_RUN}&lt;/script&gt; &#60;img src=x onerror={_RUN}&#62;",
    "\x1b]0;title\x07\x1b[31mred \u202egnp.exe \u2066x\u2069 &#x202e;reversed \u0000 \u2028",
    '=HYPERLINK("http://evil.example")',
)
EVERYTHING = "\n\n".join(f"{each} {MARK}" for each in PAYLOADS)
LINE = f"{PAYLOADS[1]}{PAYLOADS[2]}{PAYLOADS[4]} {PAYLOADS[5]} {MARK} \u202e"
_TOOLS = (
    *("Bash", "Edit", "MultiEdit", "Write", "TodoWrite", "Task", "WebFetch", "Read", "Agent"),
    *("NotebookEdit", "ExitPlanMode", "AskUserQuestion", LINE),
)


def hostile(kind: Any, evil: str, *, deep: bool = True) -> Any:
    """Give a value of the annotation *kind* with *evil* wherever a string may stand."""
    if kind is Any:
        inner = {"type": evil, evil: [evil], "message": evil, "text": evil, "content": evil}
        return {**inner, "structuredPatch": [{"oldStart": 1, "newStart": 1, "lines": [f"+{evil}"]}]}
    if isinstance(kind, type) and issubclass(kind, Struct):
        return hostile_struct(kind, evil)
    if get_origin(kind) in (Union, types.UnionType):
        choices = get_args(kind)
        if str in choices:
            return evil
        real = [each for each in choices if each is not type(None)]
        return hostile(real[0], evil, deep=deep)
    if kind is str:
        return evil
    if kind is bool:
        return False
    return 1 if kind in (int, float) else None


def hostile_struct(kind: type[Struct], evil: str) -> dict[str, Any]:
    found = {
        field.encode_name: hostile(field.type, evil)
        for field in msgspec.structs.fields(kind)
        if not field.encode_name.startswith("(")
    }
    tag = kind.__struct_config__.tag
    return ({"type": tag} if isinstance(tag, str) else {}) | found


def calls(evil: str):
    """Calls of every tool that is shown in a way of its own, and one that nobody has met."""
    edit = {"old_string": evil, "new_string": evil + "\n" + evil}
    todo = {"content": evil, "status": evil, "activeForm": evil}
    given = {
        "file_path": evil,
        "command": evil,
        "description": evil,
        "prompt": evil,
        "url": evil,
        "content": evil,
        "plan": evil,
        "subagent_type": evil,
        "new_source": evil,
        evil: evil,
        **edit,
        "edits": [edit, evil],
        "todos": [todo, evil],
        "questions": [{"question": evil}],
    }
    for number, tool in enumerate(_TOOLS):
        yield {"type": "tool_use", "id": f"{LINE}{number}", "name": tool, "input": given}


def blocks(evil: str):
    for kind in BLOCK_BY_TYPE.values():
        made = hostile_struct(kind, evil)
        if made["type"] == "image":
            for media in ("image/png", "image/svg+xml", f'image/png" onerror={_RUN} x="', evil):
                source = {"type": "base64", "media_type": media, "data": f'AAAA" onerror={_RUN}'}
                yield made | {"source": source}
            yield made | {"source": {"type": "url", "url": "http://evil.example/p.png"}}
        else:
            yield made
    yield {"type": evil, "value": evil, evil: evil}


def records(evil: str):
    """Every kind of record, hanging from one another, with *evil* in every field."""
    parent = None
    for number, (name, kind) in enumerate(sorted(KIND_BY_TYPE.items())):
        for made in _variants(name, kind, evil):
            uuid = f"{number}-{len(json.dumps(made))}-{LINE}"
            base = {"type": name, "uuid": uuid, "parentUuid": parent, "isMeta": False}
            when = {"timestamp": f"2026-03-04T05:{number:02}:00.000Z", "isSidechain": False}
            parting = {"teamName": None, "logicalParentUuid": None}
            yield made | base | when | parting
            parent = uuid
    yield {"type": evil, "uuid": f"unknown-{LINE}", "parentUuid": parent, evil: evil}
    question = {"role": "user", "content": f"The end {MARK}"}
    yield {"type": "user", "uuid": "end", "parentUuid": f"unknown-{LINE}", "message": question}


def _variants(name: str, kind: type[Struct], evil: str):
    made = hostile_struct(kind, evil)
    if "message" not in made:
        yield made
        return
    message = hostile_struct(Message, evil) | {"usage": {"input_tokens": 3, "output_tokens": 4}}
    contents = [evil, list(blocks(evil))]
    if name == "assistant":
        contents.append(list(calls(evil)))
    if name == "user":
        answered = [
            {"type": "tool_result", "tool_use_id": f"{LINE}{number}", "content": evil}
            for number in range(0, len(_TOOLS), 2)
        ]
        contents.append(answered)
    for content in contents:
        yield made | {"message": message | {"content": content}, "isCompactSummary": False}
    if name == "user":
        yield made | {"message": message | {"content": evil}, "isCompactSummary": True}
    if name == "system":
        for subtype in ("compact_boundary", "api_error", "local_command"):
            yield made | {"message": None, "subtype": subtype}


def log(evil: str = EVERYTHING) -> bytes:
    lines = [json.dumps(each).encode() for each in records(evil)]
    damage = b'{"type":"user","message":"<script>window.pwned=1</script>'
    return b"\n".join([*lines, damage]) + b"\n"
