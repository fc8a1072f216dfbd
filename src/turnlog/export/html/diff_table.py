"""Changes to a file as a table: old and new side by side, with colors, numbers and changed words.

Each row has an old and a new half; a narrow screen shows them below each other. Long changes are
shown as plain unified text instead.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from turnlog.export import diffs
from turnlog.export.conversation import Hunk
from turnlog.export.html.markdown import Highlighter, Token
from turnlog.export.html.page import Fragment, element, escaped

_MOST_LINES: Final = 500
_LONGEST_LINE: Final = 400
_WORDS: Final = re.compile(r"\w+|\s+|.", re.DOTALL)
_ALIKE: Final = 0.4

Span = tuple[int, int]


class _Line(NamedTuple):
    number: int | None
    text: str
    tokens: list[Token] | None


class _Row(NamedTuple):
    old: _Line | None
    new: _Line | None


def diff_table(hunks: Sequence[Hunk], language: str | None, highlighter: Highlighter) -> Fragment:
    """Return changes as a table, or as text if they are long."""
    lines = sum(len(hunk.lines) for hunk in hunks)
    longest = max((len(line) for hunk in hunks for line in hunk.lines), default=0)
    if lines > _MOST_LINES or longest > _LONGEST_LINE:
        return diffs.as_html(hunks)
    bodies = [
        element("tbody", [_row(row) for row in _rows(hunk, language, highlighter)])
        for hunk in hunks
    ]
    table = element("table", bodies, class_="diff")
    return element(
        "div", table, class_="scroll code", tabindex="0", role="group", aria_label="diff"
    )


def _rows(hunk: Hunk, language: str | None, highlighter: Highlighter) -> Iterator[_Row]:
    old = _side(hunk, "-", hunk.old_start, language, highlighter)
    new = _side(hunk, "+", hunk.new_start, language, highlighter)
    removed: list[_Line] = []
    added: list[_Line] = []
    for line in hunk.lines:
        sign = line[:1]
        if sign == "-":
            if added:  # Another change begins.
                yield from _paired(removed, added)
                removed, added = [], []
            removed.append(next(old))
        elif sign == "+":
            added.append(next(new))
        else:
            yield from _paired(removed, added)
            removed, added = [], []
            yield _Row(next(old), next(new))
    yield from _paired(removed, added)


def _side(
    hunk: Hunk, sign: str, start: int | None, language: str | None, highlighter: Highlighter
) -> Iterator[_Line]:
    """Yield the lines of one side; it is highlighted as a whole."""
    other = "+" if sign == "-" else "-"
    texts = [
        line[1:] if line[:1] in ("+", "-", " ") else line
        for line in hunk.lines
        if line[:1] != other
    ]
    tokens = highlighter.lines("\n".join(texts), language)
    for place, text in enumerate(texts):
        number = None if start is None else start + place
        yield _Line(number, text, tokens[place] if tokens is not None else None)


def _paired(removed: list[_Line], added: list[_Line]) -> Iterator[_Row]:
    for place in range(max(len(removed), len(added))):
        yield _Row(
            removed[place] if place < len(removed) else None,
            added[place] if place < len(added) else None,
        )


def _row(row: _Row) -> Fragment:
    old, new = row
    if old is not None and new is not None and old.text == new.text:
        return element("tr", _half(old, "", []), _half(new, "", []), class_="same")
    before: list[Span] = []
    after: list[Span] = []
    if old is not None and new is not None:
        before, after = changed_words(old.text, new.text)
    return element("tr", _half(old, "del", before), _half(new, "ins", after))


def _half(line: _Line | None, kind: str, spans: Sequence[Span]) -> list[Fragment]:
    if line is None:
        return [element("td", class_="no"), element("td", class_="none")]
    number = str(line.number) if line.number is not None else None
    code = _drawn(line, spans) if line.text else Fragment("")
    inside = element(kind, code) if kind else code
    return [element("td", class_="no", data_n=number), element("td", inside, class_=kind or None)]


def changed_words(old: str, new: str) -> tuple[list[Span], list[Span]]:
    """Return which parts of two lines differ; none if the lines have little in common."""
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return [], []
    left: list[Span] = []
    right: list[Span] = []
    for what, i1, i2, j1, j2 in matcher.get_opcodes():
        if what != "equal":
            left += _span(before, i1, i2)
            right += _span(after, j1, j2)
    return left, right


def _span(words: Sequence[str], first: int, stop: int) -> list[Span]:
    start = sum(map(len, words[:first]))
    length = sum(map(len, words[first:stop]))
    return [(start, start + length)] if length else []


def _drawn(line: _Line, spans: Sequence[Span]) -> Fragment:
    """Return a line with its colors, and its changed parts marked."""
    tokens = line.tokens if line.tokens is not None else [("", line.text)]
    pieces: list[str] = []
    place = 0
    for kind, text in tokens:
        for part, is_changed in _split(text, place, spans):
            code: str = escaped(part)
            code = f"<i class={kind}>{code}</i>" if kind else code
            pieces.append(f"<mark>{code}</mark>" if is_changed else code)
        place += len(text)
    return Fragment("".join(pieces))


def _split(text: str, start: int, spans: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    """Cut *text*, which begins at *start*, where *spans* begin and end."""
    place, end = start, start + len(text)
    for first, stop in spans:
        begin, until = max(first, place), min(stop, end)
        if begin < until:
            if place < begin:
                yield text[place - start : begin - start], False
            yield text[begin - start : until - start], True
            place = until
    if place < end:
        yield text[place - start :], False
