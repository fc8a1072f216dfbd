"""A tree written in the search language, to see that it is read as it was meant."""

from __future__ import annotations

import re
from typing import Final

from turnlog.search.language import (
    _ERROR,
    _FIELDS,
    _LITERAL,
    _OPERATORS,
    _RUN,
    All,
    Any,
    FieldFilter,
    Node,
    Not,
    Phrase,
    Word,
    _has_letters,
    _lex,
    _word,
)

_NEEDS_QUOTES: Final = re.compile(r'[\s"“”„()]|\A(?::|//)')


def written(tree: Node | None) -> str:
    """Write *tree* in the language, such that parsing gives *tree* again."""
    match tree:
        case None:
            return ""
        case Word():
            return _written_word(tree, is_negated=False)
        case Phrase():
            return _quote(tree.text)
        case FieldFilter():
            value = tree.value
            return f"{tree.field}:{_quote(value) if _NEEDS_QUOTES.search(value) else value}"
        case Not(Word() as word):
            return f"-{_written_word(word, is_negated=True)}"
        case Not(node):
            return f"-({written(node)})" if isinstance(node, All | Any) else f"-{written(node)}"
        case All():
            return " ".join(map(written, tree.nodes))
        case Any():
            return " OR ".join(
                f"({written(node)})" if isinstance(node, All) else written(node)
                for node in tree.nodes
            )


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _written_word(word: Word, *, is_negated: bool) -> str:
    """Write a word bare if it reads as itself also where a group ends, else as a literal."""
    plus = "+" * word.is_required
    plain = word.text + "*" * word.is_prefix
    name, colon, _ = plain.partition(":")
    tokens = _lex(f"{plain})")
    reads_as_itself = (
        _RUN.fullmatch(plain)
        and [token.kind for token in tokens] == ["run", "close"]
        and not (tokens[0].is_negated and _has_letters(plain))
        and not tokens[0].is_required
        and plain not in _OPERATORS
        and not (colon and name.lower() in (*_FIELDS, _ERROR))
        and _word(plain).text == word.text
        and (not plus or plain[0].isalnum())
        and not (is_negated and (plain.startswith("-") or not _has_letters(plain)))
    )
    quoted = f"{_LITERAL}:{_quote(word.text)}{'*' * word.is_prefix}"
    return plus + (plain if reads_as_itself else quoted)
