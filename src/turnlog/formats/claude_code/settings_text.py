"""Change one place in a JSON text and keep every other byte.

People write settings by hand, in their own order and style, and keep them under version control. So
the text is not parsed and rewritten: the place is found, and the new value gets the indentation and
line ends around it. Removing a value also removes its comma and line, so adding and removing
restores the original text.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from msgspec import Struct

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_BOM: Final = "\ufeff"
_USUAL_INDENT: Final = "  "


class JsonMember(Struct, frozen=True):
    """A member of an object or an item of an array: its start, its value's start, its end."""

    key: str | None
    start: int
    value: int
    end: int


def read_object(text: str) -> dict[str, Any]:
    """Parse *text* as a JSON object; raise ValueError if it is not one.

    Strict, like the program that owns the settings: a file that it rejects should not be edited.
    """
    try:
        document = _DECODER.decode(text.removeprefix(_BOM))
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(document, dict):
        raise ValueError("not an object")  # noqa: TRY004 - It is the text's value that is wrong.
    return document


def root(text: str) -> int:
    """Return where the object begins."""
    return _after_blank(text, len(_BOM) if text.startswith(_BOM) else 0)


def parts(text: str, start: int) -> list[JsonMember]:
    """Return the members of the object or array that begins at *start* of a valid text."""
    found: list[JsonMember] = []
    is_object = text[start] == "{"
    place = _after_blank(text, start + 1)
    while text[place] not in "}]":
        if text[place] == ",":
            place = _after_blank(text, place + 1)
        begin, key = place, None
        if is_object:
            key, place = _DECODER.raw_decode(text, place)
            place = _after_blank(text, _after_blank(text, place) + 1)
        _, end = _DECODER.raw_decode(text, place)
        found.append(JsonMember(key, begin, place, end))
        place = _after_blank(text, end)
    return found


def end_of(text: str, start: int) -> int:
    """Return where the value that begins at *start* ends."""
    return _DECODER.raw_decode(text, start)[1]


def append_member(text: str, start: int, value: Any, key: str | None = None) -> str:
    """Add *value* at the end of the object or array that begins at *start*."""
    held = parts(text, start)
    if held:
        last = held[-1]
        before = held[-2].end if len(held) > 1 else start
        gap = text[_after_comma(text, before, last.start) : last.start]
        if "\n" in gap:
            return _spliced(text, last.end, last.end, "," + gap + _lines(text, value, key, gap))
        joint = "," + (gap if len(held) > 1 else _space(text))
        return _spliced(text, last.end, last.end, joint + _line(text, value, key))
    close = end_of(text, start) - 1
    if not _is_in_lines(text):
        return _spliced(text, start + 1, close, _line(text, value, key))
    outer = _newline(text) + _indent_at(text, start)
    inner = outer + _unit(text)
    return _spliced(text, start + 1, close, inner + _lines(text, value, key, inner) + outer)


def take(text: str, start: int, part: JsonMember) -> str:
    """Remove *part* from the object or array that begins at *start*."""
    held = parts(text, start)
    at = held.index(part)
    if len(held) == 1:
        return _spliced(text, start + 1, end_of(text, start) - 1, "")
    if at == 0:
        return _spliced(text, part.start, held[1].start, "")
    return _spliced(text, held[at - 1].end, part.end, "")


def replace(text: str, part: JsonMember, value: Any) -> str:
    """Replace the value of *part*, written on one line."""
    return _spliced(text, part.value, part.end, _line(text, value, None))


def _spliced(text: str, start: int, end: int, between: str) -> str:
    return text[:start] + between + text[end:]


def _after_blank(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    assert found is not None
    return found.end()


def _after_comma(text: str, start: int, end: int) -> int:
    """Return the position after the comma or bracket between two parts."""
    comma = text.find(",", start, end)
    return (comma if comma >= 0 else start) + 1


def _lines(text: str, value: Any, key: str | None, gap: str) -> str:
    """Format *value* on lines of its own; *gap* is the line end and indentation before it."""
    written = json.dumps(value, indent=_unit(text), ensure_ascii=False)
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    line_break = gap[gap.rfind("\n") :]
    return name + written.replace("\n", _newline(text)[:-1] + line_break)


def _line(text: str, value: Any, key: str | None) -> str:
    space = _space(text)
    written = json.dumps(value, separators=("," + space, ":" + space), ensure_ascii=False)
    return written if key is None else json.dumps(key, ensure_ascii=False) + ":" + space + written


def _space(text: str) -> str:
    """Return what the text puts after its colons."""
    found = parts(text, root(text))
    if not found:
        return " "
    first = found[0]
    return " " if text[first.value - 1].isspace() else ""


def _is_in_lines(text: str) -> bool:
    """Return whether the text has its parts on lines of their own; true for an empty one."""
    found = parts(text, root(text))
    return not found or "\n" in text[root(text) : found[0].start]


def _newline(text: str) -> str:
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _unit(text: str) -> str:
    """Return the indentation of one level."""
    found = parts(text, root(text))
    if not found:
        return _USUAL_INDENT
    return _indent_at(text, found[0].start) or _USUAL_INDENT


def _indent_at(text: str, place: int) -> str:
    """Return the indentation of the line at *place*."""
    line = text[text.rfind("\n", 0, place) + 1 : place].removeprefix(_BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


# Numbers are not converted, so none is too long.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_int=len, parse_float=len)
