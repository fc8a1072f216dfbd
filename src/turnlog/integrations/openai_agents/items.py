"""Items of the OpenAI Agents SDK as records, and the usage of a run.

Messages, calls, results and readable reasoning become the equivalent records, so that listing,
showing and searching work as for any session. Other items become an ``attachment``. The record also
contains the original item, under ``openaiItem``; only that is returned to the SDK.

The SDK does not tell sessions what a response used, but the result of a run does. Each response
becomes one record without content, with the provider's response id if there is one, so that storing
it twice counts once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from turnlog.errors import NotSerialisable, UsageError
from turnlog.sessions.writing import build
from turnlog.sessions.writing.build import Fields

ITEM: Final = "openaiItem"

# Far below the limits of decoders, far beyond real items.
_DEEPEST: Final = 200
_IMAGE: Final = "data:image/"

# Fields of a call that are not arguments of its tool.
_OF_THE_CALL: Final = frozenset({"type", "id", "call_id", "status", "name"})


def checked(items: Any) -> list[Fields]:
    """Return copies of *items* as plain JSON; raise if one is not JSON."""
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise UsageError(
            f"items must be a list of dicts, not a {type(items).__name__}",
            hint='such as [{"role": "user", "content": "Hello"}]',
        )
    return [_plain(item) for item in items]


def record_of(item: Fields) -> Fields:
    """Return the record for *item*, without uuid and parent."""
    record = _equivalent(item) or {"type": "attachment", "attachment": {"type": "openai_item"}}
    return record | {ITEM: item}


def _plain(item: Any) -> Fields:
    """Return a copy of an item that is equal to what the log gives back."""
    if not isinstance(item, dict):
        raise UsageError(
            f"an item must be a dict, not a {type(item).__name__}",
            hint='such as {"role": "user", "content": "Hello"}; a string is for Runner.run',
        )
    try:
        plain: Fields = json.loads(json.dumps(item, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotSerialisable(
            f"an item cannot be written as JSON: {error}",
            hint="use only objects, arrays, strings, finite numbers, booleans and null",
        ) from None
    if not _is_shallow(plain):
        raise NotSerialisable(
            f"an item is nested more than {_DEEPEST} levels deep", hint="store it as text"
        )
    return plain


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return True
    return False


def _equivalent(item: Fields) -> Fields | None:
    """Return the equivalent record, or None."""
    kind, call_id = item.get("type"), item.get("call_id")
    if kind in (None, "message"):
        return _message(item.get("role"), item.get("content"))
    if not isinstance(kind, str):
        return None
    if kind == "reasoning":
        thought = _words(item.get("content")) or _words(item.get("summary"))
        return _assistant([build.thinking(thought)]) if thought else None
    if kind.endswith("_output"):
        return build.result(call_id, _answer(item)) if isinstance(call_id, str) else None
    return _call(item, kind) if kind.endswith("_call") else None


def _message(role: Any, content: Any) -> Fields | None:
    if isinstance(content, str):
        blocks = [build.text(content)]
    elif isinstance(content, list):
        blocks = [_block(part) for part in content if isinstance(part, dict)]
    else:
        return None
    if role == "user":
        return build.user(content if isinstance(content, str) else blocks)
    if role == "assistant":
        return _assistant(blocks)
    if role in ("system", "developer"):
        said = content if isinstance(content, str) else _words(content)
        return build.system(said, subtype=f"openai_{role}")
    return None


def _assistant(blocks: list[Fields]) -> Fields:
    """Return an assistant record; a session knows neither model nor usage."""
    return {
        "type": "assistant",
        "message": {"type": "message", "role": "assistant", "content": blocks},
    }


def _call(item: Fields, kind: str) -> Fields:
    """Return a call of a tool, or one that the provider executed itself."""
    call_id, named, given = item.get("call_id"), item.get("name"), item.get("arguments")
    name = named if isinstance(named, str) and named else kind.removesuffix("_call")
    asked = _arguments(given) if isinstance(given, str) else None
    if asked is None:
        asked = {key: value for key, value in item.items() if key not in _OF_THE_CALL}
    if isinstance(call_id, str):
        return _assistant([build.call(name, asked, call_id=call_id)])
    own = item.get("id")
    block = build.call(name, asked, call_id=own if isinstance(own, str) else "")
    return _assistant([block | {"type": "server_tool_use"}])


def _arguments(text: str) -> Fields | None:
    try:
        asked = msgspec.json.decode(text.encode())
    except (ValueError, RecursionError):  # A lone surrogate is a ValueError as well.
        return None
    return asked if isinstance(asked, dict) and _is_shallow(asked) else None


def _answer(item: Fields) -> str | list[Fields]:
    output = item.get("output")
    if isinstance(output, str):
        return output
    parts = output if isinstance(output, list) else [output]
    return [
        _block(part) if isinstance(part, dict) and "type" in part else build.text(_shown(part))
        for part in parts
    ]


def _block(part: Fields) -> Fields:
    """Return a part of a message or result as a block."""
    kind = part.get("type")
    for words in (part.get("text"), part.get("refusal")):
        if isinstance(words, str):
            return build.text(words)
    url = part.get("image_url")
    if isinstance(url, str):
        return {"type": "image", "source": _picture(url)}
    if kind == "input_file":
        title = part.get("filename")
        return {"type": "document", "title": title if isinstance(title, str) else None}
    return {"type": kind if isinstance(kind, str) else "unknown"}


def _picture(url: str) -> Fields:
    media_type, separator, data = url.removeprefix("data:").partition(";base64,")
    if url.startswith(_IMAGE) and separator:
        return {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "url", "url": url}


def _words(parts: Any) -> str:
    found = (
        (part.get("text") for part in parts if isinstance(part, dict)) if _is_list(parts) else ()
    )
    return "\n".join(words for words in found if isinstance(words, str))


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def usage_records(result: Any, model: str | None = None) -> list[Fields]:
    """Return usage records for a run; *model* is the default model name."""
    responses = getattr(result, "raw_responses", None)
    if not isinstance(responses, list):
        raise UsageError(
            f"a {type(result).__name__} does not tell what a run used",
            hint="pass what Runner.run gave back",
        )
    agents = {id(item.raw_item): item.agent for item in result.new_items if item.agent is not None}
    return [
        build.assistant(
            [],
            model=model or _model(_agent(response, agents, result)),
            usage=_counted(response.usage),
            message_id=response.response_id,
            request_id=response.request_id,
        )
        for response in responses
        if response.usage is not None and response.usage.total_tokens
    ]


def _agent(response: Any, agents: dict[int, Any], result: Any) -> Any:
    """Return the agent of each response; it changes after a handoff."""
    found = (agents[id(item)] for item in response.output if id(item) in agents)
    return next(found, None) or result.last_agent


def _model(agent: Any) -> str:
    model = agent.model
    if model is None:
        from agents.models import get_default_model  # noqa: PLC0415 - Only if it is in use.

        return get_default_model()
    name = model if isinstance(model, str) else getattr(model, "model", None)
    if not isinstance(name, str):
        raise UsageError(
            f"agent {agent.name} does not say which model answers it",
            hint='name it: store_run_usage(result, model="gpt-5")',
        )
    return name


def _counted(usage: Any) -> dict[str, int]:
    """Return usage as in logs: cached tokens are not part of the input."""
    details = usage.input_tokens_details
    read = getattr(details, "cached_tokens", 0) or 0
    written = getattr(details, "cache_write_tokens", 0) or 0
    return {
        "input_tokens": max(0, (usage.input_tokens or 0) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens or 0,
    }
