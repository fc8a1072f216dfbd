"""Answers of limited size, and the cursors that continue them.

A tool returns a `ToolAnswer`: totals, some rows, and the position of the next rows. `compose`
writes as many rows as fit and returns the position of the first that did not; a row that is too
large on its own is shortened. An answer that knows better what to shorten has a function for it,
which is called until all rows fit. `Cursors` encodes a position as a signed cursor, valid for one
question to this server.
"""

from __future__ import annotations

import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.mcp.untrusted_text import Cleaner, frame_bytes, framed
from turnlog.redact import Rules, redact_line

_DIGEST_BYTES: Final = 8
_PLACE_BYTES: Final = 8
_SIGNATURE_BYTES: Final = 16
# The longest text and the most items of an inner list; lower limits are tried until it fits.
_STEPS: Final = ((2_000, 100), (600, 40), (160, 12), (40, 4), (8, 1))
# For `next` with its cursor, and for the sentences about what was shortened and what is left.
_ROOM_FOR_CURSOR: Final = 220
_LONGEST_OURS: Final = 400


class ToolAnswer(Struct, kw_only=True):
    """The result of a tool: facts about all of it, and one page of rows."""

    about: Any = None
    """A small Struct or mapping; its fields come first."""
    noun: str = ""
    """The name of the list of rows; empty for an answer without rows."""
    rows: Sequence[Any] = ()
    """Structs or mappings."""
    offset: int = 0
    """The position of the first row."""
    next: int | None = None
    """The position after the last row; None at the end."""
    places: Sequence[int] | None = None
    """The position of each row, if they are not consecutive from *offset*."""
    notes: Sequence[str] = ()
    """Remarks on the answer."""
    rest: str = ""
    """How to get the full text of what was shortened."""
    read_on: str = ""
    """What to call next; shown below the rows, if there are any."""
    most_bytes: int | None = None
    """A limit that is lower than the owner's."""
    shorten: Callable[[ToolAnswer], ToolAnswer] | None = None
    """Returns this answer with shorter rows, or fewer, if they do not fit."""


class RenderedAnswer(NamedTuple):
    """An answer as masked JSON, and the position at which it continues."""

    data: str
    next: int | None
    was_cut: bool
    is_whole: bool = True
    """Whether all rows fitted as they are."""


class Cursors:
    """Cursors: a position in the answer to one question, signed with a key of this process."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def encode(self, question: str, place: int) -> str:
        """Return the cursor for *place*."""
        body = place.to_bytes(_PLACE_BYTES, "big") + _digest(question)
        return urlsafe_b64encode(body + self._signature(body)).decode().rstrip("=")

    def decode(self, question: str, cursor: str | None) -> int:
        """Return the position in *cursor*, or 0 without one; raise UsageError if it is invalid."""
        if cursor is None or not cursor.strip():
            return 0
        try:
            data = urlsafe_b64decode(cursor.strip() + "=" * (-len(cursor.strip()) % 4))
        except ValueError:
            data = b""
        body, signature = data[:-_SIGNATURE_BYTES], data[-_SIGNATURE_BYTES:]
        if len(body) != _PLACE_BYTES + _DIGEST_BYTES or not hmac.compare_digest(
            signature, self._signature(body)
        ):
            raise UsageError(
                "invalid cursor",
                hint="pass the cursor of the last answer unchanged, or repeat the call without one",
            )
        if not hmac.compare_digest(body[_PLACE_BYTES:], _digest(question)):
            raise UsageError(
                "this cursor belongs to a call with other arguments",
                hint="repeat the other arguments unchanged, or leave out the cursor",
            )
        return int.from_bytes(body[:_PLACE_BYTES], "big")

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")[:_SIGNATURE_BYTES]


def question_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as canonical JSON, without arguments that are None."""
    options = {name: value for name, value in arguments.items() if value is not None}
    return json.dumps([tool, options], sort_keys=True, default=str)


def bounded(
    answer: ToolAnswer,
    rules: Rules,
    *,
    most_bytes: int,
    cursor_of: Callable[[int], str] | None = None,
    more: str = "",
) -> str:
    """Return an answer as framed text of at most *most_bytes*.

    *more* tells the agent how to continue where there are no cursors.
    """
    room = room_for(answer, most_bytes - len(more.encode()))
    composed = compose(answer, rules, most_bytes=room)
    while not composed.is_whole and answer.shorten is not None:
        answer = answer.shorten(answer)
        composed = compose(answer, rules, most_bytes=room)
    ours, cursor = [], None
    if composed.was_cut:
        ours.append(f"Some text was shortened. {answer.rest[:_LONGEST_OURS]}".rstrip())
    if answer.read_on and answer.rows:
        ours.append(answer.read_on[:_LONGEST_OURS])
    if composed.next is not None and cursor_of is not None:
        cursor = cursor_of(composed.next)
        ours.append(f'There is more: repeat the call with cursor="{cursor}".')
    elif composed.next is not None:
        ours.append(f"There is more. {more}".rstrip())
    data = f'{composed.data}"next": {json.dumps(cursor)}}}'
    return framed(data, "\n".join(ours))


def room_for(answer: ToolAnswer, most_bytes: int) -> int:
    """Return how many bytes of data fit into an answer of at most *most_bytes*."""
    ours = answer.rest[:_LONGEST_OURS] + answer.read_on[:_LONGEST_OURS]
    most_bytes = min(most_bytes, answer.most_bytes or most_bytes)
    return most_bytes - frame_bytes() - _ROOM_FOR_CURSOR - len(ours.encode())


def compose(answer: ToolAnswer, rules: Rules, *, most_bytes: int) -> RenderedAnswer:
    """Return an answer as JSON without its last field and closing brace."""
    head, was_cut = _fit(_AnswerHead(answer).fields, rules, most_bytes // 2)
    opening = "{" + "".join(f"{json.dumps(name)}: {text},\n" for name, text in head.items())
    if not answer.noun:
        return RenderedAnswer(opening, None, was_cut)
    opening += f"{json.dumps(answer.noun)}: ["
    left = most_bytes - len(opening.encode())
    written: list[str] = []
    is_whole = True
    for row in answer.rows:
        text, is_cut = _row(row, rules, left, is_first=not written)
        is_whole = is_whole and text is not None and not is_cut
        if text is None:
            break
        written.append(text)
        was_cut = was_cut or is_cut
        left -= len(text.encode()) + 2
    place = _next(answer, len(written))
    data = opening + ",".join(f"\n{text}" for text in written) + "\n],\n"
    return RenderedAnswer(data, place, was_cut, is_whole)


def _next(answer: ToolAnswer, written: int) -> int | None:
    if written == len(answer.rows):
        return answer.next
    return answer.places[written] if answer.places is not None else answer.offset + written


class _AnswerHead:
    """The fields before the rows."""

    def __init__(self, answer: ToolAnswer) -> None:
        about = _plain(answer.about) if answer.about is not None else {}
        self.fields: dict[str, Any] = dict(about)
        if answer.notes:
            self.fields["notes"] = list(answer.notes)


def _fit(fields: dict[str, Any], rules: Rules, most_bytes: int) -> tuple[dict[str, str], bool]:
    """Return each field as JSON, shortened until all of them fit."""
    for longest, items in _STEPS:
        cleaner = Cleaner(rules, longest=longest, most_items=items)
        texts = {name: _json(cleaner.clean(each, name), rules) for name, each in fields.items()}
        if sum(len(name) + len(each.encode()) + 6 for name, each in texts.items()) <= most_bytes:
            return texts, cleaner.was_cut
    raise UsageError("the answer is too large", hint="narrow the question")


def _row(row: Any, rules: Rules, left: int, *, is_first: bool) -> tuple[str | None, bool]:
    """Return a row as JSON, or None if it does not fit; a first row is shortened until it fits."""
    plain = _plain(row)
    # A later row is not shortened to the remaining space: the next answer has it in full.
    for longest, items in _STEPS if is_first else _STEPS[:1]:
        cleaner = Cleaner(rules, longest=longest, most_items=items)
        text = _json(cleaner.clean(plain), rules)
        if len(text.encode()) + 2 <= left:
            return text, cleaner.was_cut
    return (None, False) if not is_first else ('{"left_out": "too large"}', True)


def _json(value: Any, rules: Rules) -> str:
    """Return JSON, masked once more for secrets that are recognized by the fields next to them."""
    written = json.dumps(value, ensure_ascii=False).encode()
    return redact_line(written, rules).decode()


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=str)


def _digest(question: str) -> bytes:
    return sha256(question.encode("utf-8", "surrogatepass")).digest()[:_DIGEST_BYTES]
