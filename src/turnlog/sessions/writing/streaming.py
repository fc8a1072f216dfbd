"""Fold a streamed response into one assistant record.

    message = StreamedMessage()
    for event in stream:
        message.take(event)
    session.append(message.record())

It accepts the events of the Messages API's stream, as mappings or as objects of an SDK, or plain
pieces of text. ``record`` returns what there is so far, at any time; until the stream has ended, it
has no stop reason. To lose no more than the current block in a crash, append block by block, as
Claude Code does:

    try:
        for event in stream:
            message.take(event)
            session.append_many(message.finished())
    finally:
        session.append_many(message.rest())

No event raises or is lost: what does not fit the record is in ``strays``.

A tool's input arrives as pieces of JSON. If they do not form an object, because the stream was cut
or the model wrote something else, they are kept as text: ``{"(unparsed input)": "…"}``. No tool can
have a parameter of that name, so it marks the block, and the API accepts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, runtime_checkable
from uuid import uuid4

from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.records.lenient_json import loads_finite
from turnlog.sessions.writing.build import Fields

UNPARSED: Final = "(unparsed input)"

# The official SDK adds events of its own between the API's; each repeats the delta before it.
_ECHOES: Final = ("text", "input_json", "citation", "thinking", "signature", "compaction")
# The fields of every message, in Claude Code's order.
_FIRST: Final = ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage")
# The block for a delta whose start event is missing.
_MISSING: Final[dict[str, Fields]] = {
    "text_delta": {"type": "text", "text": ""},
    "citations_delta": {"type": "text", "text": ""},
    "thinking_delta": {"type": "thinking", "thinking": "", "signature": ""},
    "signature_delta": {"type": "thinking", "thinking": "", "signature": ""},
}


@runtime_checkable
class SdkObject(Protocol):
    """An object of an SDK, such as an event of anthropic's stream: any pydantic model."""

    def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]: ...


class Stray(Struct, frozen=True):
    """An event, or a part of one, that does not fit the record, and why."""

    event: Mapping[str, Any]
    reason: str


class StreamedMessage:
    """One response, as far as it has arrived. The stream's own values win over arguments."""

    def __init__(
        self,
        *,
        model: str | None = None,
        message_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        self.request_id = request_id
        self.is_complete = False
        """Whether the stream ended properly."""
        self.error: Any = None
        """The API's error, if it aborted the stream."""
        self.strays: list[Stray] = []
        self._started = False
        self._message: Fields = {"id": message_id or f"msg_{uuid4().hex}", "model": model}
        self._usage: Fields = {}
        self._blocks: dict[tuple[int, int], _StreamedBlock] = {}
        self._at: dict[int, tuple[int, int]] = {}  # The current position of the block of an index.
        self._given: set[tuple[int, int]] = set()  # Returned by ``finished`` or ``rest``.

    def take(self, event: Mapping[str, Any] | SdkObject) -> None:
        """Add one event of the stream."""
        if isinstance(event, SdkObject):
            event = event.model_dump(mode="json", exclude_none=True)
        if not isinstance(event, Mapping):
            raise UsageError(
                f"a {type(event).__name__} is not an event",
                hint="pass a mapping, or an object with model_dump as SDKs have them",
            )
        kind = event.get("type")
        match kind:
            case "content_block_delta":
                self._take_delta(event)
            case "content_block_start":
                self._start_block(event)
            case "message_start":
                self._start(event)
            case "message_delta":
                self._take_changes(event)
            case "message_stop":
                self.is_complete = True
            case "error":
                self.error = event.get("error", event)
            case "content_block_stop":
                self._end_block(event)
            case "ping":
                pass
            case _ if kind not in _ECHOES:
                self._stray(event, "an event of a type that is not known")

    def add_text(self, words: str) -> None:
        """Add a piece of text, for programs that have nothing else."""
        if not isinstance(words, str):
            raise UsageError(f"a {type(words).__name__} is not text", hint="decode it first")
        last = max(self._blocks, default=None)
        if last is None or self._blocks[last].type != "text":
            last = (last[0], last[1] + 1) if last else (0, 0)
            self._blocks[last] = _StreamedBlock({"type": "text", "text": ""})
        self._blocks[last].take({"type": "text_delta", "text": words})

    def finish(
        self, stop_reason: str = "end_turn", *, usage: Mapping[str, Any] | None = None
    ) -> None:
        """Mark the response as complete with a stop reason, if no event does."""
        self._message["stop_reason"] = stop_reason
        self._usage |= dict(usage or {})
        self.is_complete = True

    def record(self) -> Fields:
        """Return the fields of an assistant record with what has arrived so far."""
        return self._record(sorted(self._blocks))

    def finished(self) -> list[Fields]:
        """Return a record for each block completed since the last call.

        The last block is left to ``rest``: its record has the stop reason and the usage, which are
        known only at the end. Records of one response share its message id.
        """
        places = []
        for place in sorted(self._blocks)[:-1]:
            if not self._blocks[place].is_whole:
                break
            if place not in self._given:
                places.append(place)
        self._given.update(places)
        return [self._record([place]) for place in places]

    def rest(self) -> list[Fields]:
        """Return a record with everything that ``finished`` has not returned; none if empty."""
        places = [place for place in sorted(self._blocks) if place not in self._given]
        self._given.update(places)
        return [self._record(places)] if places else []

    def _record(self, places: Iterable[tuple[int, int]]) -> Fields:
        message: Fields = {"type": "message", "role": "assistant"} | self._message
        message["content"] = [self._blocks[place].whole() for place in places]
        message["usage"] = dict(self._usage or {"input_tokens": 0, "output_tokens": 0})
        ordered = {key: message.pop(key, None) for key in _FIRST} | message
        fields: Fields = {"type": "assistant", "message": ordered}
        if self.request_id is not None:
            fields["requestId"] = self.request_id
        return fields

    def _start(self, event: Mapping[str, Any]) -> None:
        message = event.get("message")
        if not isinstance(message, Mapping):
            self._stray(event, "no message in it")
        elif self._started:
            self._stray(event, "the message had begun already")
        else:
            self._started = True
            fields = {key: value for key, value in message.items() if value is not None}
            self._take_usage(fields.pop("usage", None), event)
            content = fields.pop("content", ())
            for block in content if isinstance(content, list | tuple) else (content,):
                self._begin(len(self._at), block, event)
            self._message |= fields

    def _take_changes(self, event: Mapping[str, Any]) -> None:
        """Apply what comes at the end: the stop reason, and the counters, which are totals."""
        self._take_usage(event.get("usage"), event)
        delta = event.get("delta")
        if delta is not None and not isinstance(delta, Mapping):
            self._stray(event, "its delta is not an object")
            delta = None
        others = {key: event[key] for key in event if key not in ("type", "delta", "usage")}
        for key, value in (others | dict(delta or {})).items():
            if key in ("content", "usage"):  # Handled elsewhere.
                self._stray(event, f"a change of the {key}")
            elif value is not None:
                self._message[key] = value

    def _take_usage(self, usage: Any, event: Mapping[str, Any]) -> None:
        if isinstance(usage, Mapping):
            self._usage |= {key: value for key, value in usage.items() if value is not None}
        elif usage is not None:
            self._stray(event, "its usage is not an object")

    def _start_block(self, event: Mapping[str, Any]) -> None:
        index = _index(event)
        if index is None:
            self._stray(event, "no index in it")
            return
        if index in self._at:
            self._stray(event, "the block had begun already")
        self._begin(index, event.get("content_block"), event)

    def _begin(self, index: int, block: Any, event: Mapping[str, Any]) -> None:
        if not isinstance(block, Mapping):
            self._stray(event, "no block in it")
            return
        place = (index, 0)
        while place in self._blocks:
            place = (index, place[1] + 1)
        self._at[index] = place
        self._blocks[place] = _StreamedBlock(block)
        successor = block.get("to") if block.get("type") == "fallback" else None
        if isinstance(successor, Mapping) and isinstance(successor.get("model"), str):
            self._message["model"] = successor["model"]  # Another model continued from here.

    def _take_delta(self, event: Mapping[str, Any]) -> None:
        index, delta = _index(event), event.get("delta")
        if index is None or not isinstance(delta, Mapping):
            self._stray(event, "no index or no delta in it")
            return
        kind = delta.get("type")
        missing = _MISSING.get(kind) if isinstance(kind, str) else None
        if index not in self._at and missing is not None:
            self._begin(index, missing, event)
        if index not in self._at:
            self._stray(event, "its block has not begun")
        elif self._at[index] in self._given:
            self._stray(event, "its block was finished")
        elif not self._blocks[self._at[index]].take(delta):
            self._stray(event, "a delta that does not fit its block")

    def _end_block(self, event: Mapping[str, Any]) -> None:
        index = _index(event)
        place = self._at.get(index) if index is not None else None
        if place is not None:
            self._blocks[place].is_whole = True

    def _stray(self, event: Mapping[str, Any], reason: str) -> None:
        self.strays.append(Stray(event, reason))


class _StreamedBlock:
    """One block and its pieces."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = dict(fields)
        self.pieces: dict[str, list[str]] = {}
        self.is_whole = False

    @property
    def type(self) -> Any:
        return self.fields.get("type")

    def take(self, delta: Mapping[str, Any]) -> bool:
        """Add a delta; return whether it fits."""
        match delta.get("type"), self.type:
            case "text_delta", "text":
                return self._grow("text", delta.get("text"))
            case "thinking_delta", "thinking":
                return self._grow("thinking", delta.get("thinking"))
            case "input_json_delta", _ if "input" in self.fields or self._is_call:
                return self._grow("input", delta.get("partial_json"))
            case "signature_delta", "thinking":
                return self._put(delta, "signature")
            case "compaction_delta", "compaction":
                return self._put(delta, "content", "encrypted_content")
            case "citations_delta", "text" if "citation" in delta:
                before = self.fields.get("citations")
                kept = before if isinstance(before, list) else []
                self.fields["citations"] = [*kept, delta["citation"]]
                return True
        return False

    def whole(self) -> Fields:
        """Return the block as far as it has arrived."""
        block = dict(self.fields)
        for key, pieces in self.pieces.items():
            text = _joined(pieces)
            if key != "input":
                before = block.get(key)
                block[key] = (before if isinstance(before, str) else "") + text
            elif text.strip():
                block[key] = _parsed(text)
        return block

    @property
    def _is_call(self) -> bool:
        return isinstance(self.type, str) and self.type.endswith("tool_use")

    def _grow(self, key: str, piece: Any) -> bool:
        if isinstance(piece, str):
            self.pieces.setdefault(key, []).append(piece)
        return isinstance(piece, str)

    def _put(self, delta: Mapping[str, Any], *keys: str) -> bool:
        values = {key: delta[key] for key in keys if delta.get(key) is not None}
        self.fields |= values
        return bool(values)


def _index(event: Mapping[str, Any]) -> int | None:
    index = event.get("index")
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _joined(pieces: list[str]) -> str:
    """Join *pieces*, and the two halves of a split character."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text


def _parsed(text: str) -> Fields:
    try:
        value = loads_finite(text)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {UNPARSED: text}
