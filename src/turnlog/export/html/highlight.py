"""Code in colours, within bounds.

Pygments reads the code; a page needs little of what it finds. Six kinds of words get a mark, all
else stays plain, so that coloured code is hardly longer than code. Only languages that are common
and whose lexers are well kept are tried, long texts are left plain, and a page has a budget: what
is written first gets colours, and no log can make an export slow.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from turnlog.export.html.page import Fragment, escaped

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_LONGEST: Final = 8_000
# Some lexers take the square of a text's length. Within these bounds that is about a second.
_LONGEST_LINE: Final = 1_000
_MOST_LINES: Final = 400
_BUDGET: Final = 64_000
_PLAIN: Final = ""

_LANGUAGES: Final = {
    **dict.fromkeys(("python", "py", "python3", "pyi"), "python"),
    **dict.fromkeys(("javascript", "js", "jsx", "mjs", "cjs"), "javascript"),
    **dict.fromkeys(("typescript", "ts", "tsx", "mts"), "typescript"),
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console"), "bash"),
    **dict.fromkeys(("json", "jsonc", "jsonl"), "json"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **dict.fromkeys(("c", "h"), "c"),
    **dict.fromkeys(("cpp", "c++", "cc", "cxx", "hpp"), "cpp"),
    **dict.fromkeys(("csharp", "cs", "c#"), "csharp"),
    **dict.fromkeys(("ruby", "rb"), "ruby"),
    **dict.fromkeys(("rust", "rs"), "rust"),
    **dict.fromkeys(("kotlin", "kt"), "kotlin"),
    **dict.fromkeys(("diff", "patch"), "diff"),
    **dict.fromkeys(("make", "makefile"), "make"),
    **dict.fromkeys(("docker", "dockerfile"), "docker"),
    **dict.fromkeys(("ini", "cfg", "conf", "properties"), "ini"),
    **{name: name for name in ("go", "java", "swift", "php", "lua", "sql", "toml", "css", "html")},
}
# From the general to the special, as Pygments nests them; the last that fits wins.
_KINDS: Final = (
    ("Token.Keyword", "k"),
    ("Token.Name.Builtin", "k"),
    ("Token.Name.Tag", "k"),
    ("Token.Operator.Word", "k"),
    ("Token.Literal.String", "s"),
    ("Token.Literal.Number", "n"),
    ("Token.Comment", "c"),
    ("Token.Name.Function", "f"),
    ("Token.Name.Class", "f"),
    ("Token.Name.Decorator", "f"),
    ("Token.Name.Attribute", "f"),
    ("Token.Generic.Deleted", "d"),
    ("Token.Generic.Inserted", "a"),
)


class Highlighter:
    """Colours the code of one page until its budget is spent."""

    def __init__(self, budget: int = _BUDGET) -> None:
        self._left = budget

    def code(self, code: str, language: str | None) -> Fragment:
        """Return *code* as HTML, in colours if it is short enough."""
        name = _LANGUAGES.get((language or "").lower())
        if name is None or len(code) > min(_LONGEST, self._left) or _is_slow(code):
            return escaped(code)
        self._left -= len(code)
        return Fragment("".join(_marked(code, name)))


def language_of(path: str) -> str | None:
    """Return the language of a file by its name."""
    name = os.path.basename(path).lower()
    ending = name.rpartition(".")[2]
    return ending if ending in _LANGUAGES else None


def _is_slow(code: str) -> bool:
    lines = code.split("\n")
    return len(lines) > _MOST_LINES or max(map(len, lines)) > _LONGEST_LINE


def _marked(code: str, name: str) -> list[str]:
    pieces: list[str] = []
    kind, pending = _PLAIN, ""
    for token, text in _lexer(name).get_tokens(code):
        found = _kind(token)
        if found == kind or not text.strip():
            pending += text
            continue
        pieces.append(_piece(kind, pending))
        kind, pending = found, text
    pieces.append(_piece(kind, pending))
    return pieces


def _piece(kind: str, text: str) -> str:
    return f"<i class={kind}>{escaped(text)}</i>" if kind else escaped(text)


@cache
def _kind(token: Any) -> str:
    name = str(token)
    fits = (kind for head, kind in _KINDS if name == head or name.startswith(f"{head}."))
    return next(fits, _PLAIN)


@cache
def _lexer(name: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(name, stripnl=False, ensurenl=False)
