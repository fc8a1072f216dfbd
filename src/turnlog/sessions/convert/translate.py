"""Translate records to the dialect of the program that will read them.

For Claude Code, records of other dialects become its own, one for one, with uuid, parent, session
and timestamp, so that it finds the whole conversation. A call and its result share an id that the
API accepts, even if they had none. Duplicate calls and results, and results without a call, are
left out, because the API would reject the whole conversation. For other layouts, records may be
translated to their own dialect.

A translator gets every record of one log in order and returns the fields of the records to write,
or None if the record stays as it is. The caller keeps the original line in a note.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID, uuid5

from turnlog import __version__
from turnlog.formats import is_uuid
from turnlog.records.dates import iso
from turnlog.records.dialects import BY_NAME
from turnlog.records.dialects.translate import in_dialect
from turnlog.records.record import Call, Linked, Record, Spoken
from turnlog.sessions.writing.stamp import TREE_TYPES

Fields = dict[str, Any]

NAMESPACE: Final = UUID("a5cf9c3e-57a6-4b5f-8d3e-0d9a1f3b6c42")
"""The UUID namespace for ids that are not UUIDs."""

_LINKS: Final = (
    "parentUuid",
    "logicalParentUuid",
    "leafUuid",
    "messageId",
    "sourceToolAssistantUUID",
)
# Fields besides the message, copied if they have the type that Claude Code uses.
_ALSO: Final[dict[str, tuple[type, ...]]] = {
    "isMeta": (bool,),
    "isCompactSummary": (bool,),
    "isVisibleInTranscriptOnly": (bool,),
    "isApiErrorMessage": (bool,),
    "requestId": (str,),
    "toolUseResult": (dict, list, str),
}
_COUNTERS: Final = ("input_tokens", "output_tokens")
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANSWERS: Final = ("text", "image", "document", "search_result", "tool_reference")


class Translator(Protocol):
    """Translates the records of one log."""

    def translate(self, record: Record, /) -> list[Fields] | None:
        """Return what *record* becomes; None if it stays as it is."""

    def observe(self, record: Record, /) -> None:
        """Note a record that stays unchanged."""


def uuid_of(name: str) -> str:
    """Return the UUID for an id that is not one; always the same."""
    return str(uuid5(NAMESPACE, name.encode("utf-8", "backslashreplace").decode()))


class _Open(NamedTuple):
    """A call without a result so far. *is_named* means its log gave it an id."""

    id: str
    name: str | None
    is_named: bool


class ClaudeTranslator:
    """Translates records to Claude Code's own.

    *former_id* is the session's id in the source; *began_at* is the timestamp for records without
    one.
    """

    def __init__(
        self,
        *,
        session_id: str,
        former_id: str,
        cwd: str,
        began_at: datetime,
        agent_id: str | None = None,
    ) -> None:
        self._session_id = session_id
        self._former_id = former_id
        self._agent_id = agent_id
        self._cwd = cwd
        self._at = began_at
        self._model = "unknown"
        self._count = 0
        self._tip: str | None = None
        self._uuids: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._calls: dict[str, _Open] = {}
        self._call_ids: set[str] = set()
        self._response: Fields | None = None

    def translate(self, record: Record) -> list[Fields] | None:
        """Return the record that *record* becomes; None if it stays as it is."""
        self._count += 1
        if record.dialect == "claude" or not isinstance(record, Linked):
            changed = self._relinked(record)
            self.observe(record)
            return changed
        self._at = record.at or self._at
        house = BY_NAME[record.dialect].to_house(record.fields)
        message = self._message(house)
        if message is None:
            if record.uuid is not None and self._tip is not None:
                self._renamed.setdefault(record.uuid, self._tip)  # The parent of its children.
            return None
        return [self._placed(record, house, message)]

    def observe(self, record: Record) -> None:
        """Make *record*, if it is Claude Code's, the parent of what follows."""
        if record.dialect != "claude":
            return
        self._at = record.at or self._at
        if isinstance(record, Spoken):
            self._response = None
            for call in record.calls:
                self._calls[call.id] = _Open(call.id, call.name, is_named=True)
                self._call_ids.add(call.id)
            for result in record.results:
                self._calls.pop(result.tool_use_id, None)
        if isinstance(record, Linked) and record.uuid is not None:
            self._uuids.add(record.uuid)
            if self._is_mine(record) and record.type in TREE_TYPES and not record.is_meta:
                self._tip = record.uuid

    # -- a record's place ---------------------------------------------------------------------

    def _is_mine(self, record: Linked) -> bool:
        """Return whether *record* is part of the main thread of this log."""
        if self._agent_id is not None:
            return record.is_sidechain or record.dialect != "claude"
        return not record.is_sidechain

    def _placed(self, record: Linked, house: Fields, message: Fields) -> Fields:
        placed: Fields = {
            "parentUuid": self._parent(record.parent_uuid),
            "isSidechain": record.is_sidechain or self._agent_id is not None,
            "userType": "external",
            "cwd": record.cwd or self._cwd,
            "sessionId": self._session_id,
            "version": record.version or __version__,
            "gitBranch": record.git_branch or "",
        }
        if self._agent_id is not None:
            placed["agentId"] = self._agent_id
        placed |= {"type": message["role"], "message": message}
        placed["uuid"] = self._uuid(record.uuid)
        if self._is_mine(record) and not record.is_meta:
            self._tip = placed["uuid"]
        placed["timestamp"] = iso(self._at)
        return placed | {
            key: house[key] for key, types in _ALSO.items() if isinstance(house.get(key), types)
        }

    def _parent(self, named: str | None) -> str | None:
        """Return the parent that a record names, if it exists, else the record before."""
        if named is not None:
            named = self._renamed.get(named, named)
        return named if named in self._uuids else self._tip

    def _uuid(self, given: str | None) -> str:
        """Return the uuid of the current record: its own, if it is a valid and unused UUID."""
        taken = given is None or given in self._uuids or not is_uuid(given)
        uuid = self._made() if given is None or taken else given
        self._uuids.add(uuid)
        if given is not None:
            self._renamed[given] = uuid
        return uuid

    def _made(self, what: str = "") -> str:
        """Return an id for the current record; the same one in every conversion."""
        return uuid_of(f"{self._session_id}/{self._agent_id or ''}/{self._count}{what}")

    def _relinked(self, record: Record) -> list[Fields] | None:
        """Return a record of Claude Code's with the new ids of the records it refers to."""
        changes: Fields = {}
        if record.session_id == self._former_id != self._session_id:
            changes["sessionId"] = self._session_id
        if self._renamed:
            fields = record.fields
            named = {link: fields.get(link) for link in _LINKS}
            for link, value in named.items():
                if isinstance(value, str) and self._renamed.get(value, value) != value:
                    changes[link] = self._renamed[value]
        return [record.fields | changes] if changes else None

    # -- what it says -------------------------------------------------------------------------

    def _message(self, house: Fields) -> Fields | None:
        """Return the message of *house*; None if there is nothing to send."""
        match house.get("type"):
            case "user":
                self._response = None
                blocks = self._blocks(house.get("message"))
                return {"role": "user", "content": _plain(blocks)} if blocks else None
            case "assistant":
                return self._answer(house.get("message"))
            case "tool_use" | "tool_call":
                block = self._call(house.get("id"), house.get("name"), house.get("input"))
                return self._asking(block) if block else None
            case "tool_result":
                self._response = None
                call_id, name = house.get("tool_use_id"), house.get("tool")
                block = self._result(call_id, name, house.get("content"), house.get("is_error"))
                return {"role": "user", "content": [block]} if block else None
        if isinstance(house.get("model"), str):  # At the head of a log.
            self._model = house["model"]
        return None

    def _answer(self, message: Any) -> Fields | None:
        self._response = None
        blocks = self._blocks(message)
        if not blocks:
            return None
        model, message_id = message.get("model"), message.get("id")
        self._model = model if isinstance(model, str) and model else self._model
        reason = message.get("stop_reason")
        self._response = self._new_response(message.get("usage")) | {
            "content": blocks,
            "stop_reason": reason if isinstance(reason, str) else None,
        }
        if isinstance(message_id, str) and message_id:
            self._response["id"] = message_id
        return self._response

    def _asking(self, block: Fields) -> Fields:
        """Return the message part of a tool call; consecutive calls belong to one response."""
        response = self._response or self._new_response(None)
        self._response = response | {"content": [block], "stop_reason": "tool_use"}
        return self._response

    def _new_response(self, usage: Any) -> Fields:
        return {
            "id": f"msg_{self._made('/message').replace('-', '')}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(usage),
        }

    def _blocks(self, message: Any) -> list[Fields]:
        """Return the blocks of a message that an API accepts."""
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        blocks = content if isinstance(content, list) else []
        translated = (self._block(block) for block in blocks if isinstance(block, dict))
        return [block for block in translated if block is not None]

    def _block(self, block: Fields) -> Fields | None:
        match block:
            case {"type": "text"}:
                text = block.get("text")
                return block if isinstance(text, str) and text.strip() else None
            case {"type": "thinking"}:  # Unsigned thinking is rejected.
                signature = block.get("signature")
                return block if isinstance(signature, str) and signature else None
            case {"type": "tool_use"}:
                call = self._call(block.get("id"), block.get("name"), block.get("input"))
                return block | call if call else None
            case {"type": "tool_result"}:
                call_id, content = block.get("tool_use_id"), block.get("content")
                result = self._result(call_id, None, content, block.get("is_error"))
                return block | result if result else None
            case {"type": str()}:
                return block
        return None

    def _call(self, given: Any, name: Any, arguments: Any) -> Fields | None:
        """Return the block of a call; None for a duplicate, or one without a tool."""
        is_named = isinstance(given, str) and given != ""
        if not isinstance(name, str) or not name or (is_named and given in self._calls):
            return None
        fits = is_named and _CALL_ID.fullmatch(given) and given not in self._call_ids
        made = f"toolu_{self._made(f'/{len(self._call_ids)}').replace('-', '')}"
        call = _Open(given if fits else made, name, is_named=is_named)
        self._calls[given if is_named else call.id] = call
        self._call_ids.add(call.id)
        if not isinstance(arguments, dict):
            arguments = {} if arguments is None else {"input": arguments}
        return {"type": "tool_use", "id": call.id, "name": name, "input": arguments}

    def _result(self, given: Any, name: Any, content: Any, failed: Any) -> Fields | None:
        """Return the block of a result; None if no call waits for it."""
        key = given if isinstance(given, str) and given else self._oldest_open(name)
        call = self._calls.pop(key, None) if key is not None else None
        if call is None:
            return None
        block = {"type": "tool_result", "tool_use_id": call.id, "content": _answer_of(content)}
        return block | {"is_error": True} if failed is True else block

    def _oldest_open(self, name: Any) -> str | None:
        """Return the call that a result without an id answers: of the same tool, if named."""
        nameless = [key for key, call in self._calls.items() if not call.is_named]
        same = [key for key in nameless if self._calls[key].name == name]
        return next(iter(same or nameless), None)


class NativeTranslator:
    """Translates records to a layout's own dialect, as far as it can hold them."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._tools: dict[str, str] = {}

    def translate(self, record: Record) -> list[Fields] | None:
        """Return the records that *record* becomes; None if it stays as it is."""
        self.observe(record)
        if record.dialect == self._dialect:
            return None
        house = BY_NAME[record.dialect].to_house(record.fields)
        translated: list[Fields] | None = None
        if house.get("type") in ("user", "assistant"):
            tools = self._tools if self._dialect == "orchestrator" else None
            translated = in_dialect(house, self._dialect, tools)
        elif house.get("type") in ("tool_use", "tool_call", "tool_result"):
            translated = [BY_NAME[self._dialect].from_house(house)]
        at = record.at
        if at is not None:
            time = round(at.timestamp() * 1000) if self._dialect == "flat" else iso(at)
            translated = translated and [fields | {"timestamp": time} for fields in translated]
        return translated

    def observe(self, record: Record) -> None:
        """Remember the names of tools: one dialect's results repeat those of their calls."""
        if isinstance(record, Call) and record.call_id and record.name:
            self._tools[record.call_id] = record.name
        elif isinstance(record, Spoken):
            self._tools.update((call.id, call.name) for call in record.calls)


def _plain(blocks: list[Fields]) -> str | list[Fields]:
    """Return a single text as Claude Code writes prompts."""
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        text: str = blocks[0]["text"]
        return text
    return blocks


def _usage(counted: Any) -> Fields:
    usage = counted if isinstance(counted, dict) else {}
    return {name: 0 for name in _COUNTERS if not isinstance(usage.get(name), int)} | {
        key: value for key, value in usage.items() if key not in _COUNTERS or isinstance(value, int)
    }


def _answer_of(content: Any) -> str | list[Any]:
    """Return a tool's result as text, or as its blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(each, dict) and each.get("type") in _ANSWERS for each in content
    ):
        return content
    return "" if content is None else json.dumps(content, ensure_ascii=False)
