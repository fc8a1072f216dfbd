"""The small language in which logs are searched: text becomes a tree.

    retry backoff        both words                     retr*            words that begin so
    "exactly this"       a phrase; "" in it is a quote  -word  NOT word  without it
    a b OR c, a b | c    a, and one of b and c          (a b) OR c       parentheses group
    tool:Bash            what it is about; also project, session, file, model, branch, role, type
    is:error             what it is; see ``IS``
    since:7d before:2026-11 after:"last week"           when; see ``records.when``
    word:"OR"            a word that would otherwise mean something; word:"OR"* begins so

Any text is a query: what only looks like the language (``--flag``, ``std::vector``, ``foo()``, a
lone ``OR``, an unpaired parenthesis) is searched for as it stands, and what was probably meant
otherwise is told in a note. Reading never raises and takes time in proportion to the text.

A tree is in its plainest form: no All directly within an All, no Any within an Any, no Not of a
Not, none with fewer than two nodes. It holds nothing that a database cannot: half a surrogate
pair becomes U+FFFD and a NUL a space. Pure; SQLite and PostgreSQL each render the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Final, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from turnlog.errors import UsageError
from turnlog.records.dates import EXAMPLES, moment

Field = Literal[
    "project", "session", "tool", "file", "model", "branch", "role", "type", "is",
    "before", "after", "since",
]  # fmt: skip
IS: Final = (
    "error", "subagent", "prompt", "response", "thinking", "call", "result", "title", "summary",
    "gone",
)  # fmt: skip
DEEPEST: Final = 50
"""Groups within groups; further parentheses are text."""

_FIELDS: Final[dict[str, Field]] = {name: name for name in get_args(Field)}
_INSTANTS: Final = frozenset({"before", "after", "since"})
_LITERAL: Final = "word"
_ROLES: Final = {
    "user": "human", "human": "human", "assistant": "assistant", "tool": "tool",
    "system": "program", "program": "program", "subagent": "subagent", "agent": "subagent",
    "caller": "caller",
}  # fmt: skip
_OPERATORS: Final = frozenset({"OR", "|", "AND", "NOT"})
_MOST_NOTES: Final = 10
_SHOWN: Final = 40

_INK: Final = re.compile(r"\S")
_RUN: Final = re.compile(r"\S+")
_OPENED: Final = re.compile(r'(?:(\w{1,10}):)?(["“”„])')
# What follows an opening quote. Nothing in these can fail, so nothing is tried twice.
_STRAIGHT: Final = re.compile(r'([^"]*(?:""[^"]*)*)"?')
_CURLED: Final = re.compile(r'([^"“”„]*)["“”„]?')


class Word(Struct, frozen=True, tag="word"):
    """A word, or the beginning of one: then the star is not in *text*."""

    text: str
    is_prefix: bool = False


class Phrase(Struct, frozen=True, tag="phrase"):
    text: str


class FieldFilter(Struct, frozen=True, tag="filter"):
    """What *field* must be; *at* is the instant that a date or span named."""

    field: Field
    value: str
    at: datetime | None = None


class Not(Struct, frozen=True, tag="not"):
    node: Node


class All(Struct, frozen=True, tag="all"):
    nodes: tuple[Node, ...]


class Any(Struct, frozen=True, tag="any"):
    nodes: tuple[Node, ...]


Node = Word | Phrase | FieldFilter | Not | All | Any


class SearchQuery(Struct, frozen=True):
    """What was asked; *tree* is None if nothing was. *notes* are sentences for the asker."""

    tree: Node | None
    notes: tuple[str, ...] = ()


class _Token(Struct):
    kind: Literal["run", "quoted", "open", "close"]
    start: int
    end: int
    is_negated: bool = False
    name: str = ""
    """Before the quote of a quoted one: a field, the mark of a literal word, or nothing."""
    value: str = ""
    is_prefix: bool = False


def parse(text: str, *, now: datetime, zone: tzinfo) -> SearchQuery:
    """Read *text*; its days are those of *zone*."""
    text = _storable(text)
    reader = _Reader(text, now, zone)
    groups = [_Group()]
    for token in _paired(_lex(text)):
        if token.kind == "open":
            groups[-1].waiting.extend(["NOT"] * token.is_negated)
            groups.append(_Group())
        elif token.kind == "close":
            group = groups.pop()
            groups[-1].add(group.node())
        elif (run := text[token.start : token.end]) in _OPERATORS:
            groups[-1].waiting.append(run)
        else:
            groups[-1].add(reader.node(token))
    return SearchQuery(groups[0].node(), tuple(reader.notes))


def words_of(tree: Node | None) -> tuple[str, ...]:
    """List the words and phrases that are looked for, each once: what to highlight."""
    found = _leaves(tree, with_negated=False)
    return tuple(dict.fromkeys(leaf.text for leaf in found if not isinstance(leaf, FieldFilter)))


def filters_of(tree: Node | None) -> tuple[FieldFilter, ...]:
    """List the filters wherever they stand, also negated ones and alternatives."""
    found = _leaves(tree, with_negated=True)
    return tuple(leaf for leaf in found if isinstance(leaf, FieldFilter))


def is_only_filters(tree: Node | None) -> bool:
    """Return whether something is asked for, and nothing of it needs the text of records."""
    leaves = _leaves(tree, with_negated=True)
    return tree is not None and all(isinstance(leaf, FieldFilter) for leaf in leaves)


def _leaves(tree: Node | None, *, with_negated: bool) -> Iterator[Word | Phrase | FieldFilter]:
    waiting = [] if tree is None else [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, All | Any):
            waiting.extend(reversed(node.nodes))
        elif not isinstance(node, Not):
            yield node
        elif with_negated:
            waiting.append(node.node)


def _storable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", " ")


def _lex(text: str) -> list[_Token]:
    """Cut *text* into runs, quotations and the parentheses that stand at an item's border."""
    tokens: list[_Token] = []
    at = 0
    while ink := _INK.search(text, at):
        start = ink.start()
        after = text[start + 1 : start + 2]
        is_negated = text[start] == "-" and after != "-" and not after.isspace() and after != ""
        body = start + is_negated
        if text[body] == "(" and text[body + 1 : body + 2] != ")":
            tokens.append(_Token("open", start, body + 1, is_negated))
        elif quoted := _quotation(text, start, body):
            tokens.append(quoted)
        else:
            tokens.extend(_run(text, start, is_negated=is_negated))
        at = tokens[-1].end
    return tokens


def _quotation(text: str, start: int, body: int) -> _Token | None:
    opened = _OPENED.match(text, body)
    if opened is None:
        return None
    name = (opened[1] or "").lower()
    if name and name != _LITERAL and name not in _FIELDS:
        return None
    is_straight = opened[2] == '"'
    inside = (_STRAIGHT if is_straight else _CURLED).match(text, opened.end())
    assert inside
    value = inside[1].replace('""', '"') if is_straight else inside[1]
    end = inside.end()
    is_prefix = name == _LITERAL and text[end : end + 1] == "*"
    return _Token("quoted", start, end + is_prefix, body > start, name, value, is_prefix)


def _run(text: str, start: int, *, is_negated: bool) -> Iterator[_Token]:
    """Return what reaches to the next space; closing parentheses that it did not open end it."""
    found = _RUN.match(text, start)
    assert found
    stem = found[0].rstrip(")")
    unclosed = 0
    if "(" in stem:
        for letter in stem:
            unclosed = max(0, unclosed + (letter == "(") - (letter == ")"))
    end = min(start + len(stem) + unclosed, found.end())
    if end > start:
        yield _Token("run", start, end, is_negated)
    for at in range(end, found.end()):
        yield _Token("close", at, at + 1)


def _paired(tokens: list[_Token]) -> list[_Token]:
    """Turn parentheses without a partner, or too deep, into text of the run that they touch."""
    opened: list[int] = []
    plain: set[int] = set()
    depth = 0
    for number, token in enumerate(tokens):
        if token.kind == "open":
            opened.append(number)
            if depth < DEEPEST:
                depth += 1
            else:
                plain.add(number)
        elif token.kind == "close":
            partner = opened.pop() if opened else None
            if partner is None or partner in plain:
                plain.add(number)
            else:
                depth -= 1
    plain.update(opened)
    settled: list[_Token] = []
    for number, token in enumerate(tokens):
        each = replace(token, kind="run") if number in plain else token
        last = settled[-1] if settled else None
        if last and last.kind == each.kind == "run" and last.end == each.start:
            last.end = each.end
        else:
            settled.append(each)
    return settled


class _Group:
    """What stands in one pair of parentheses: all of its clauses, of each any alternative.

    Operators wait for what they join or negate; those for which nothing comes are words.
    """

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self._clauses: list[list[Node]] = []

    def add(self, node: Node | None) -> None:
        while self.waiting and self.waiting[-1] == "NOT":
            self.waiting.pop()
            node = _negated(node) if node else None
        if node is None:  # An empty group or phrase: what would join it joins the next.
            return
        waiting, self.waiting = self.waiting, []
        if not self._clauses:
            self._clauses.extend([Word(each)] for each in waiting)
        elif "OR" in waiting or "|" in waiting:
            self._clauses[-1].append(node)
            return
        self._clauses.append([node])

    def node(self) -> Node | None:
        nodes: list[Node] = []
        for clause in self._clauses:
            node = clause[0]
            if len(clause) > 1:
                flat = (each.nodes if isinstance(each, Any) else (each,) for each in clause)
                node = Any(tuple(each for part in flat for each in part))
            nodes.extend(node.nodes if isinstance(node, All) else (node,))
        nodes.extend(map(Word, self.waiting))
        return All(tuple(nodes)) if len(nodes) > 1 else nodes[0] if nodes else None


def _negated(node: Node) -> Node:
    return node.node if isinstance(node, Not) else Not(node)


class _Reader:
    """Reads words, phrases and filters, and notes what was probably meant otherwise."""

    def __init__(self, text: str, now: datetime, zone: tzinfo) -> None:
        self._text, self._now, self._zone = text, now, zone
        self.notes: dict[str, None] = {}

    def node(self, token: _Token) -> Node | None:
        body = self._text[token.start + token.is_negated : token.end]
        if token.kind == "run" and token.is_negated and not _has_letters(body):
            return Word(f"-{body}")  # An arrow is not the absence of >.
        node = self._quoted(token, body) if token.kind == "quoted" else self._plain(body)
        return _negated(node) if node and token.is_negated else node

    def _quoted(self, token: _Token, body: str) -> Node | None:
        if token.name in _FIELDS:
            return self._filter(_FIELDS[token.name], token.value, body)
        if token.name:
            return Word(token.value, token.is_prefix) if token.value.strip() else Word(body)
        return Phrase(token.value) if token.value.strip() else None

    def _plain(self, body: str) -> Node:
        name, colon, value = body.partition(":")
        field = _FIELDS.get(name.lower()) if colon else None
        if field and not value.startswith((":", "//")):  # Those of C++ and URLs are text.
            return self._filter(field, value, body)
        return _word(body)

    def _filter(self, field: Field, value: str, body: str) -> Node:
        if not value.strip():
            return self._told(body, f"nothing follows {field}:")
        if field in _INSTANTS:
            try:
                return FieldFilter(field, value, moment(value, now=self._now, zone=self._zone))
            except UsageError:
                return self._told(body, f"{field}: takes {EXAMPLES}")
        if field == "is":
            value = value.lower()
            if value == "agent":
                self._note("is:agent is an old spelling: use is:subagent")
                value = "subagent"
            if value not in IS:
                return self._told(body, f"is: takes {', '.join(IS)}")
        if field == "role":
            value = _ROLES.get(value.lower(), value)
        return FieldFilter(field, value)

    def _told(self, body: str, reason: str) -> Word:
        shown = body if len(body) <= _SHOWN else f"{body[:_SHOWN]}…"
        self._note(f"{shown} is searched for as a word: {reason}")
        return Word(body)

    def _note(self, text: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes[text] = None


def _has_letters(text: str) -> bool:
    return any(map(str.isalnum, text))


def _word(run: str) -> Word:
    stem = run.rstrip("*")
    return Word(stem, True) if stem != run and _has_letters(stem) else Word(run)
