"""Markdown from a log as inert HTML, with highlighted code.

HTML in it becomes text, images become links, and only links to the web or a mail address are kept.
Every leaf is made inert after decoding, so an entity cannot smuggle anything in. Texts that would
be slow to parse stay plain.

Pygments highlights the code, within limits: only common languages with well-kept lexers, only short
texts, and only up to a budget per page, so no log can make an export slow. Six kinds of tokens are
marked, so highlighted code is hardly longer than plain code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from turnlog.export.html.page import Fragment, escaped
from turnlog.text import inert

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token as Parsed

_LONGEST: Final = 60_000
_BRACKETS: Final = 2_000
"""For every bracket, the parser searches the rest of the text for the end of a link."""
# Characters that have a meaning in Markdown.
_MARKED: Final = re.compile(
    r"[\\`*_\[\]<>#|~&]|^[^\S\n]*+(?:[-+=:]|\d++[.)])|^(?: {4}|\t)|  $", re.MULTILINE
)
_ALLOWED: Final = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)

_LONGEST_CODE: Final = 8_000
# Some lexers take quadratic time: within these limits, about a second.
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
# Token types of Pygments and the class of each; the first match wins.
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


def is_allowed_link(address: str) -> bool:
    """Return whether a link in a log may be a link in a page."""
    return _ALLOWED.match(address) is not None


def is_too_much(text: str, longest: int) -> bool:
    """Return whether *text* would take too long to parse as Markdown."""
    return len(text) > longest or text.count("[") > _BRACKETS


def prose(text: str, highlighter: Highlighter) -> Fragment:
    """Return the Markdown *text* as HTML."""
    text = inert(text, keep="\n\t")
    if is_too_much(text, _LONGEST):
        return Fragment(f'<div class="plain">{escaped(text)}</div>')
    if not _MARKED.search(text):
        paragraphs = (part.strip("\n") for part in re.split(r"\n\s*\n", text))
        return Fragment("".join(f"<p>{escaped(part)}</p>" for part in paragraphs if part))
    try:
        return Fragment(_markdown().render(text, {"highlighter": highlighter}))
    except RecursionError:
        return Fragment(f'<div class="plain">{escaped(text)}</div>')


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    class Harmless(MarkdownIt):
        def validateLink(self, url: str) -> bool:  # noqa: N802 - The library's name.
            return is_allowed_link(url)

    markdown = Harmless("commonmark", {"html": False}).enable(["table", "strikethrough"])
    for name, rule in _RULES.items():
        markdown.add_render_rule(name, rule)
    return markdown


# Rules are called as methods of the renderer.


def _text(_renderer: Any, tokens: Sequence[Parsed], at: int, *_: Any) -> str:
    return escaped(tokens[at].content)


def _code(_renderer: Any, tokens: Sequence[Parsed], at: int, *_: Any) -> str:
    return f"<code>{escaped(tokens[at].content)}</code>"


def _block(_renderer: Any, tokens: Sequence[Parsed], at: int, _options: Any, env: Any) -> str:
    token = tokens[at]
    language = token.info.strip().split(maxsplit=1)[0] if token.info.strip() else None
    code = env["highlighter"].code(token.content.rstrip("\n"), language)
    return f'<pre tabindex="0"><code>{code}</code></pre>'


def _link(_renderer: Any, tokens: Sequence[Parsed], at: int, *_: Any) -> str:
    return _opened(str(tokens[at].attrs.get("href", "")))


def _image(renderer: Any, tokens: Sequence[Parsed], at: int, options: Any, env: Any) -> str:
    """Return a link to an image: showing it would need a request."""
    token = tokens[at]
    alt = renderer.renderInlineAsText(token.children or [], options, env) or "image"
    return f"{_opened(str(token.attrs.get('src', '')))}{escaped(alt)}</a>"


def _opened(address: str) -> str:
    if not is_allowed_link(address):
        return "<a>"
    return f'<a href="{escaped(address, keep="")}" rel="noopener noreferrer">'


def _cell(_renderer: Any, tokens: Sequence[Parsed], at: int, *_: Any) -> str:
    return f"<{tokens[at].tag}>"  # Without the style attribute for its alignment.


def _ordered(_renderer: Any, tokens: Sequence[Parsed], at: int, *_: Any) -> str:
    start = tokens[at].attrs.get("start")
    return f'<ol start="{int(start)}">' if start is not None else "<ol>"


def _table(_renderer: Any, tokens: Sequence[Parsed], at: int, *_: Any) -> str:
    is_open = tokens[at].type == "table_open"
    return '<div class="scroll" tabindex="0"><table>' if is_open else "</table></div>"


_RULES: Final[dict[str, Callable[..., str]]] = {
    "text": _text,
    "code_inline": _code,
    "code_block": _block,
    "fence": _block,
    "link_open": _link,
    "image": _image,
    "td_open": _cell,
    "th_open": _cell,
    "ordered_list_open": _ordered,
    "table_open": _table,
    "table_close": _table,
}


if TYPE_CHECKING:
    from pygments.lexer import Lexer


Token = tuple[str, str]
"""The class of a part of code, "" for none, and its text."""


class Highlighter:
    """Highlights the code of one page until its budget is spent."""

    def __init__(self, budget: int = _BUDGET) -> None:
        self._left = budget

    def code(self, code: str, language: str | None) -> Fragment:
        """Return *code* as HTML, highlighted if it is short enough."""
        tokens = self._tokens(code, language)
        if tokens is None:
            return escaped(code)
        return Fragment("".join(_piece(kind, text) for kind, text in tokens))

    def lines(self, code: str, language: str | None) -> list[list[Token]] | None:
        """Return the marked parts of each line of *code*; None if it is not highlighted."""
        tokens = self._tokens(code, language)
        if tokens is None:
            return None
        found: list[list[Token]] = [[]]
        for kind, text in tokens:
            first, *rest = text.split("\n")
            found[-1].append((kind, first))
            found += [[(kind, line)] for line in rest]
        return found

    def _tokens(self, code: str, language: str | None) -> list[Token] | None:
        name = _LANGUAGES.get((language or "").lower())
        if name is None or len(code) > min(_LONGEST_CODE, self._left) or _is_slow(code):
            return None
        self._left -= len(code)
        return _marked(code, name)


def language_of(path: str) -> str | None:
    """Return the language of a file by its extension, or None."""
    name = os.path.basename(path).lower()
    ending = name.rpartition(".")[2]
    return ending if ending in _LANGUAGES else None


def _is_slow(code: str) -> bool:
    lines = code.split("\n")
    return len(lines) > _MOST_LINES or max(map(len, lines)) > _LONGEST_LINE


def _marked(code: str, name: str) -> list[Token]:
    pieces: list[Token] = []
    kind, pending = _PLAIN, ""
    for token, text in _lexer(name).get_tokens(code):
        found = _kind(token)
        if found == kind or not text.strip():
            pending += text
            continue
        pieces.append((kind, pending))
        kind, pending = found, text
    pieces.append((kind, pending))
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
