"""The search language: parse a query into a tree.

    retry backoff        words; the more of them, the better
    +retry, a AND b      words that must be there       retr*            words with this prefix
    "exactly this"       a phrase; "" in it is a quote  -word  NOT word  without it
    a b OR c, a b | c    a, and b or c                  (a b) OR c       parentheses group
    tool:Bash            a filter; also project, session, agent, file, commit, model, branch,
                         role, type
    is:error             a filter by property; see ``IS``
    error:refused        an error with these words
    since:7d before:2026-11 after:"last week"           by time; see ``records.date_expressions``
    word:"OR"            a word that is otherwise an operator; word:"OR"* is a prefix

Any text is a valid query. Text that only resembles the language (``--flag``, ``std::vector``,
``foo()``, a lone ``OR``, an unpaired parenthesis) is searched for literally, and a note explains
likely mistakes. Parsing never raises and takes linear time.

A tree is normalized: no All directly in an All, no Any in an Any, no Not of a Not, and no All or
Any with fewer than two nodes. Its texts can be stored in a database: a lone surrogate becomes
U+FFFD and a NUL a space. This module is pure; SQLite and PostgreSQL each render the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import ClassVar, Final, Literal, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from turnlog.errors import UsageError
from turnlog.records.dates import EXAMPLES, moment

Field = Literal[
    "project", "session", "agent", "tool", "file", "commit", "model", "branch", "role", "type",
    "is", "before", "after", "since",
]  # fmt: skip
IS: Final = (
    "error", "subagent", "prompt", "response", "thinking", "call", "result", "title", "summary",
    "gone",
)  # fmt: skip
DEEPEST: Final = 50
"""The most nested groups; further parentheses are text."""

_FIELDS: Final[dict[str, Field]] = {name: name for name in get_args(Field)}
_INSTANTS: Final = frozenset({"before", "after", "since"})
_LITERAL: Final = "word"
_ERROR: Final = "error"
_BEFORE_QUOTE: Final = frozenset({"", _LITERAL, _ERROR, *_FIELDS})
_ROLES: Final = {
    "user": "human", "human": "human", "assistant": "assistant", "tool": "tool",
    "system": "program", "program": "program", "subagent": "subagent", "agent": "subagent",
    "caller": "caller",
}  # fmt: skip
_OPERATORS: Final = frozenset({"OR", "|", "AND", "NOT"})
_MOST_NOTES: Final = 10
_SHOWN: Final = 40
_LONGEST_FIELD: Final = 10
_CLOSE: Final = 0.75

_INK: Final = re.compile(r"\S")
_RUN: Final = re.compile(r"\S+")
_QUOTES: Final = tuple('"“”„')
_OPENED: Final = re.compile(r'(?:(\w{1,10}):)?(["“”„])')
# The rest of a quotation. Neither pattern can fail, so neither backtracks.
_STRAIGHT: Final = re.compile(r'([^"]*(?:""[^"]*)*)"?')
_CURLED: Final = re.compile(r'([^"“”„]*)["“”„]?')


class Word(Struct, frozen=True, tag="word"):
    """A word, or a prefix of words; *text* does not include the star or the plus."""

    text: str
    is_prefix: bool = False
    is_required: bool = False


class Phrase(Struct, frozen=True, tag="phrase"):
    text: str
    is_prefix: ClassVar[bool] = False


class FieldFilter(Struct, frozen=True, tag="filter"):
    """A condition on *field*; *at* is the instant that a date or duration stands for."""

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
    """A parsed query; *tree* is None for an empty one. *notes* are sentences for the user."""

    tree: Node | None
    notes: tuple[str, ...] = ()


class _Token(Struct):
    kind: Literal["run", "quoted", "open", "close"]
    start: int
    end: int
    is_negated: bool = False
    is_required: bool = False
    name: str = ""
    """What precedes the quote of a quoted token: a field, ``word``, or nothing."""
    value: str = ""
    is_prefix: bool = False


def parse(text: str, *, now: datetime, zone: tzinfo) -> SearchQuery:
    """Parse *text*; its dates are days of *zone*."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = text.replace("\0", " ")
    reader = _Reader(text, now, zone)
    groups = [_Group()]
    tokens = _lex(text)
    if any(token.kind in ("open", "close") for token in tokens):
        tokens = _pair_parentheses(tokens)
    for token in tokens:
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


def conjuncts(tree: Node | None) -> tuple[Node, ...]:
    """Return the nodes that must all match."""
    return tree.nodes if isinstance(tree, All) else () if tree is None else (tree,)


def soft_words(tree: Node | None) -> list[Word]:
    """Return the words that may be missing: neither required nor in a group with operators."""
    return [
        node
        for node in conjuncts(tree)
        if isinstance(node, Word) and not (node.is_prefix or node.is_required)
    ]


def joined(nodes: list[Node]) -> Node | None:
    """Return the tree for texts that match all of *nodes*."""
    return All(tuple(nodes)) if len(nodes) > 1 else nodes[0] if nodes else None


def word_leaves(tree: Node | None) -> list[Word | Phrase]:
    """List the words and phrases to find, without those that are excluded."""
    return [leaf for leaf in leaves(tree) if not isinstance(leaf, FieldFilter)]


def filters_of(tree: Node | None) -> tuple[FieldFilter, ...]:
    """List all filters in *tree*, including negated ones and alternatives."""
    found = leaves(tree, with_negated=True)
    return tuple(leaf for leaf in found if isinstance(leaf, FieldFilter))


def is_only_filters(tree: Node | None) -> bool:
    """Return whether *tree* has filters and nothing else."""
    found = leaves(tree, with_negated=True)
    return tree is not None and all(isinstance(leaf, FieldFilter) for leaf in found)


def leaves(
    tree: Node | None, *, with_negated: bool = False
) -> Iterator[Word | Phrase | FieldFilter]:
    """Yield the words, phrases and filters of *tree*, from left to right."""
    waiting = [] if tree is None else [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, All | Any):
            waiting.extend(reversed(node.nodes))
        elif not isinstance(node, Not):
            yield node
        elif with_negated:
            waiting.append(node.node)


def _lex(text: str) -> list[_Token]:
    """Split *text* into runs, quotations, and parentheses at the edges of items."""
    tokens: list[_Token] = []
    at = 0
    while ink := _INK.search(text, at):
        start = ink.start()
        after = text[start + 1 : start + 2]
        is_negated = text[start] == "-" and after != "-" and not after.isspace() and after != ""
        is_required = text[start] == "+" and (after.isalnum() or after in _QUOTES)
        body = start + (is_negated or is_required)
        opened = _OPENED.match(text, body)
        if text[body] == "(" and text[body + 1 : body + 2] != ")":
            tokens.append(_Token("open", start, body + 1, is_negated))
        elif opened and (opened[1] or "").lower() in _BEFORE_QUOTE:
            token = _quotation(opened, start, is_negated=is_negated)
            tokens.append(replace(token, is_required=is_required))
        else:
            tokens.extend(_run(text, start, is_negated=is_negated, is_required=is_required))
        at = tokens[-1].end
    return tokens


def _quotation(opened: re.Match[str], start: int, *, is_negated: bool) -> _Token:
    text, name = opened.string, (opened[1] or "").lower()
    is_straight = opened[2] == '"'
    inside = (_STRAIGHT if is_straight else _CURLED).match(text, opened.end())
    assert inside
    value = inside[1].replace('""', '"') if is_straight else inside[1]
    end = inside.end()
    is_prefix = name == _LITERAL and text[end : end + 1] == "*"
    return _Token(
        "quoted", start, end + is_prefix, is_negated, name=name, value=value, is_prefix=is_prefix
    )


def _run(text: str, start: int, *, is_negated: bool, is_required: bool) -> Iterator[_Token]:
    """Yield the text up to the next space, without closing parentheses that it did not open."""
    found = _RUN.match(text, start)
    assert found
    stem = found[0].rstrip(")")
    unclosed = 0
    if "(" in stem:
        for letter in stem:
            unclosed = max(0, unclosed + (letter == "(") - (letter == ")"))
    end = min(start + len(stem) + unclosed, found.end())
    if end > start:
        yield _Token("run", start, end, is_negated, is_required)
    for at in range(end, found.end()):
        yield _Token("close", at, at + 1)


def _pair_parentheses(tokens: list[_Token]) -> list[_Token]:
    """Turn parentheses that are unpaired or nested too deeply into text of the adjacent run."""
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
    paired: list[_Token] = []
    for number, token in enumerate(tokens):
        piece = replace(token, kind="run") if number in plain else token
        last = paired[-1] if paired else None
        if last and last.kind == piece.kind == "run" and last.end == piece.start:
            last.end = piece.end
        else:
            paired.append(piece)
    return paired


class _Group(Struct):
    """The contents of a pair of parentheses: clauses, each a list of alternatives.

    Operators wait for the node that they join or negate; those left over are words.
    """

    waiting: list[str] = field(default_factory=list)
    clauses: list[list[Node]] = field(default_factory=list)

    def add(self, node: Node | None) -> None:
        while self.waiting and self.waiting[-1] == "NOT":
            self.waiting.pop()
            node = _negated(node) if node else None
        if node is None:  # An empty group or phrase: waiting operators apply to the next node.
            return
        waiting, self.waiting = self.waiting, []
        is_alternative = "OR" in waiting or "|" in waiting
        if "AND" in waiting and self.clauses and not is_alternative:
            self.clauses[-1][-1] = _required(self.clauses[-1][-1])
            node = _required(node)
        if not self.clauses:
            self.clauses.extend([Word(operator)] for operator in waiting)
        elif is_alternative:
            self.clauses[-1].append(node)
            return
        self.clauses.append([node])

    def node(self) -> Node | None:
        nodes: list[Node] = []
        for clause in self.clauses:
            node = clause[0]
            if len(clause) > 1:
                flat = (each.nodes if isinstance(each, Any) else (each,) for each in clause)
                node = Any(tuple(each for part in flat for each in part))
            nodes.extend(node.nodes if isinstance(node, All) else (node,))
        nodes.extend(map(Word, self.waiting))
        return joined(nodes)


def _required(node: Node) -> Node:
    return replace(node, is_required=True) if isinstance(node, Word) else node


def _negated(node: Node) -> Node:
    return node.node if isinstance(node, Not) else Not(node)


class _Reader(Struct):
    """Parses words, phrases and filters, and collects notes on likely mistakes."""

    text: str
    now: datetime
    zone: tzinfo
    notes: dict[str, None] = field(default_factory=dict)

    def node(self, token: _Token) -> Node | None:
        marks = token.is_negated or token.is_required
        body = self.text[token.start + marks : token.end]
        node: Node | None
        if token.kind == "quoted":
            node = self._quoted(token, body)
        elif token.is_negated and not _has_letters(body):
            return Word(f"-{body}")  # An arrow, not the exclusion of ">".
        else:
            name, colon, value = body.partition(":")
            field = _FIELDS.get(name.lower()) if colon else None
            is_other = value.startswith((":", "//"))  # C++ or a URL.
            if name.lower() == _ERROR and colon and value and not is_other:
                node = _error(Word(value, is_required=True))
            elif field and not is_other:
                node = self._filter(field, value, body)
            else:
                if value and not is_other and (near := _similar_field(name.lower())):
                    self._as_word(body, f"did you mean {near}:{value}?")
                node = _word(body)
        if token.is_required and node:
            node = _required(node)
        return _negated(node) if node and token.is_negated else node

    def _quoted(self, token: _Token, body: str) -> Node | None:
        if token.name in _FIELDS:
            return self._filter(_FIELDS[token.name], token.value, body)
        if token.name == _ERROR:
            return _error(Phrase(token.value)) if token.value.strip() else Word(body)
        if token.name:
            return Word(token.value, token.is_prefix) if token.value.strip() else Word(body)
        return Phrase(token.value) if token.value.strip() else None

    def _filter(self, field: Field, value: str, body: str) -> Node:
        if not value.strip():
            return self._as_word(body, f"nothing follows {field}:")
        if field in _INSTANTS:
            try:
                return FieldFilter(field, value, moment(value, now=self.now, zone=self.zone))
            except UsageError:
                return self._as_word(body, f"{field}: takes {EXAMPLES}")
        if field == "is":
            value = value.lower()
            if value == "agent":
                self._note("is:agent is an old spelling: use is:subagent")
                value = "subagent"
            if value not in IS:
                return self._as_word(body, f"is: takes {', '.join(IS)}")
        if field == "role":
            value = _ROLES.get(value.lower(), value)
        return FieldFilter(field, value)

    def _as_word(self, body: str, reason: str) -> Word:
        shown = body if len(body) <= _SHOWN else f"{body[:_SHOWN]}…"
        self._note(f"{shown} is searched for as a word: {reason}")
        return Word(body)

    def _note(self, text: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes[text] = None


def _error(text: Node) -> Node:
    return All((FieldFilter("is", "error"), text))


def _similar_field(name: str) -> str:
    """Return the field that *name* is a misspelling of, or an empty string."""
    if not name.isalpha() or not len(name) <= _LONGEST_FIELD:
        return ""
    from difflib import get_close_matches  # noqa: PLC0415 - Few words contain a colon.

    return next(iter(get_close_matches(name, (*_FIELDS, _ERROR), n=1, cutoff=_CLOSE)), "")


def _has_letters(text: str) -> bool:
    return any(map(str.isalnum, text))


def _word(run: str) -> Word:
    stem = run.rstrip("*")
    return Word(stem, True) if stem != run and _has_letters(stem) else Word(run)
