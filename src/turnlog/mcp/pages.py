"""Answers of bounded size, and how to go on behind them.

A tool gives an `Answer`: what is to be known of all of it, some rows, and where the next ones are.
`compose` writes as many rows as fit under the cap and remembers the place of the first that did
not; a row that does not fit alone is shortened until it does. `Cursors` turns a place into a word
that only this server can have made, for this very question, and reads it back.
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
_SEAL_BYTES: Final = 16
# How much of a text, and how many items of an inner list, are given: ever less until it fits.
_STEPS: Final = ((2_000, 100), (600, 40), (160, 12), (40, 4), (8, 1))
_ROOM_FOR_OURS: Final = 700
_LONGEST_REST: Final = 400


class ToolAnswer(Struct, kw_only=True):
    """What a tool found: facts about all of it, and a list of which there may be more."""

    about: Any = None
    """A Struct or a mapping; its fields stand first. It should be small."""
    noun: str = ""
    """What the rows are; empty if there is no list."""
    rows: Sequence[Any] = ()
    """Structs or mappings."""
    offset: int = 0
    """The place of the first row."""
    next: int | None = None
    """The place behind the last row; null if there is none."""
    places: Sequence[int] | None = None
    """The place of each row, where those are not counted from *offset* on."""
    notes: Sequence[str] = ()
    """What should be known of the answer."""
    rest: str = ""
    """How to get what had to be shortened: 'session(record=…) gives one whole'."""


class RenderedAnswer(NamedTuple):
    """An answer as JSON that may leave, and the place at which it goes on."""

    data: str
    next: int | None
    was_cut: bool


class Cursors:
    """Words that name a place in the answer to one question; a key of this process seals them."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def give(self, question: str, place: int) -> str:
        """Make the word for *place*."""
        said = place.to_bytes(_PLACE_BYTES, "big") + _digest(question)
        return urlsafe_b64encode(said + self._seal(said)).decode().rstrip("=")

    def take(self, question: str, cursor: str | None) -> int:
        """Read the place that *cursor* names; without one, the beginning."""
        if cursor is None or not cursor.strip():
            return 0
        try:
            said = urlsafe_b64decode(cursor.strip() + "=" * (-len(cursor.strip()) % 4))
        except ValueError:
            said = b""
        body, seal = said[:-_SEAL_BYTES], said[-_SEAL_BYTES:]
        if len(body) != _PLACE_BYTES + _DIGEST_BYTES or not hmac.compare_digest(
            seal, self._seal(body)
        ):
            raise UsageError(
                "this cursor was not given by this server",
                hint="pass the one of the last answer unchanged, or ask again without a cursor",
            )
        if not hmac.compare_digest(body[_PLACE_BYTES:], _digest(question)):
            raise UsageError(
                "this cursor belongs to another question",
                hint="repeat the other arguments as they were, or ask again without a cursor",
            )
        return int.from_bytes(body[:_PLACE_BYTES], "big")

    def _seal(self, said: bytes) -> bytes:
        return hmac.digest(self._key, said, "sha256")[:_SEAL_BYTES]


def question_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """Write a question down so that equal ones are equal: what is not said is left out."""
    asked = {name: each for name, each in arguments.items() if each is not None}
    return json.dumps([tool, asked], sort_keys=True, default=str)


def bounded(
    answer: ToolAnswer,
    rules: Rules,
    *,
    most_bytes: int,
    cursor_of: Callable[[int], str] | None = None,
    more: str = "",
) -> str:
    """Write an answer as the framed text of at most *most_bytes* that leaves.

    *more* says how to go on where no cursor can.
    """
    room = most_bytes - frame_bytes() - _ROOM_FOR_OURS
    composed = compose(answer, rules, most_bytes=room)
    ours, cursor = [], None
    if composed.was_cut:
        ours.append(f"Something was shortened. {answer.rest[:_LONGEST_REST]}".rstrip())
    if composed.next is not None and cursor_of is not None:
        cursor = cursor_of(composed.next)
        ours.append(f'There is more: repeat the call with cursor="{cursor}".')
    elif composed.next is not None:
        ours.append(f"There is more. {more}".rstrip())
    data = f'{composed.data}"next": {json.dumps(cursor)}}}'
    return framed(data, "\n".join(ours))


def compose(answer: ToolAnswer, rules: Rules, *, most_bytes: int) -> RenderedAnswer:
    """Write an answer as JSON that still lacks its last field and brace."""
    head, was_cut = _fit(_AnswerHead(answer).fields, rules, most_bytes // 2)
    opening = "{" + "".join(f"{json.dumps(name)}: {said},\n" for name, said in head.items())
    if not answer.noun:
        return RenderedAnswer(opening, None, was_cut)
    opening += f"{json.dumps(answer.noun)}: ["
    left = most_bytes - len(opening.encode())
    written: list[str] = []
    for row in answer.rows:
        said, is_cut = _row(row, rules, left, is_first=not written)
        if said is None:
            break
        written.append(said)
        was_cut = was_cut or is_cut
        left -= len(said.encode()) + 2
    place = _next(answer, len(written))
    return RenderedAnswer(
        opening + ",".join(f"\n{each}" for each in written) + "\n],\n", place, was_cut
    )


def _next(answer: ToolAnswer, given: int) -> int | None:
    if given == len(answer.rows):
        return answer.next
    return answer.places[given] if answer.places is not None else answer.offset + given


class _AnswerHead:
    """What stands before the rows."""

    def __init__(self, answer: ToolAnswer) -> None:
        about = _plain(answer.about) if answer.about is not None else {}
        self.fields: dict[str, Any] = dict(about)
        if answer.notes:
            self.fields["notes"] = list(answer.notes)


def _fit(fields: dict[str, Any], rules: Rules, most_bytes: int) -> tuple[dict[str, str], bool]:
    """Write each field as JSON, shortened until all of them fit."""
    for longest, items in _STEPS:
        cleaner = Cleaner(rules, longest=longest, most_items=items)
        said = {name: _json(cleaner.clean(each, name), rules) for name, each in fields.items()}
        if sum(len(name) + len(each.encode()) + 6 for name, each in said.items()) <= most_bytes:
            return said, cleaner.was_cut
    raise UsageError("the answer is too large to be given", hint="ask for less")


def _row(row: Any, rules: Rules, left: int, *, is_first: bool) -> tuple[str | None, bool]:
    """Write a row; None if it does not fit. One that would never fit is shortened further."""
    plain = _plain(row)
    # A second row waits for the next answer, whole, rather than be cut to what is left of this one.
    for longest, items in _STEPS if is_first else _STEPS[:1]:
        cleaner = Cleaner(rules, longest=longest, most_items=items)
        said = _json(cleaner.clean(plain), rules)
        if len(said.encode()) + 2 <= left:
            return said, cleaner.was_cut
    return (None, False) if not is_first else ('{"left_out": "too large"}', True)


def _json(value: Any, rules: Rules) -> str:
    """Write clean JSON; once more without secrets, for those that only their neighbours tell."""
    written = json.dumps(value, ensure_ascii=False).encode()
    return redact_line(written, rules).decode()


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=str)


def _digest(question: str) -> bytes:
    return sha256(question.encode("utf-8", "surrogatepass")).digest()[:_DIGEST_BYTES]
