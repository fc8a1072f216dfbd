"""Markdown of a log as HTML that does nothing.

HTML in it is text, an image is a link to where it lies, and a link survives only if it leads to the
web or to somebody's mailbox. Every leaf is made inert after it was decoded, so that an entity
cannot smuggle in what the text itself may not hold. What is long enough to be slow stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from turnlog.export.html.highlight import Highlighter
from turnlog.export.html.page import Fragment, escaped
from turnlog.text import inert

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LONGEST: Final = 60_000
_BRACKETS: Final = 2_000
"""Every bracket may begin a link, which the parser looks for to the end of the text each time."""
# What begins anything but a paragraph, or means anything in one.
_MARKED: Final = re.compile(
    r"[\\`*_\[\]<>#|~&]|^[^\S\n]*+(?:[-+=:]|\d++[.)])|^(?: {4}|\t)|  $", re.MULTILINE
)
_ALLOWED: Final = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)


def is_allowed_link(address: str) -> bool:
    """Return whether a link in a log may be a link in a page."""
    return _ALLOWED.match(address) is not None


def is_too_much(text: str, longest: int) -> bool:
    """Return whether reading *text* as Markdown would take too long for what it is worth."""
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
        def validateLink(self, url: str) -> bool:  # noqa: N802 - Its name is the library's.
            return is_allowed_link(url)

    markdown = Harmless("commonmark", {"html": False}).enable(["table", "strikethrough"])
    for name, rule in _RULES.items():
        markdown.add_render_rule(name, rule)
    return markdown


# Rules are called as methods of the renderer.


def _text(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    return escaped(tokens[at].content)


def _code(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    return f"<code>{escaped(tokens[at].content)}</code>"


def _block(_renderer: Any, tokens: Sequence[Token], at: int, _options: Any, env: Any) -> str:
    token = tokens[at]
    language = token.info.strip().split(maxsplit=1)[0] if token.info.strip() else None
    code = env["highlighter"].code(token.content.rstrip("\n"), language)
    return f"<pre><code>{code}</code></pre>"


def _link(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    return _opened(str(tokens[at].attrs.get("href", "")))


def _image(renderer: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """Show where an image lies: to draw it, the page would have to ask for it."""
    token = tokens[at]
    alt = renderer.renderInlineAsText(token.children or [], options, env) or "image"
    return f"{_opened(str(token.attrs.get('src', '')))}{escaped(alt)}</a>"


def _opened(address: str) -> str:
    if not is_allowed_link(address):
        return "<a>"
    return f'<a href="{escaped(address, keep="")}" rel="noopener noreferrer">'


def _cell(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    return f"<{tokens[at].tag}>"  # Without the style attribute that tells its alignment.


def _ordered(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    start = tokens[at].attrs.get("start")
    return f'<ol start="{int(start)}">' if start is not None else "<ol>"


def _table(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    is_open = tokens[at].type == "table_open"
    return '<div class="scroll"><table>' if is_open else "</table></div>"


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
