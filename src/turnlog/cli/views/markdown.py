"""Markdown on a terminal: headings, lists, tables, code in colour.

Text from a log stays inert: HTML is text, links show their addresses, and active characters are
made visible after entities such as ``&#x202e;`` have been decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final

from markdown_it import MarkdownIt
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.theme import Theme

from turnlog.text import inert

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult

_THEME: Final = "ansi_dark"
"""The terminal's own colours, which suit light and dark backgrounds."""


def markdown_of(text: str, style: str = "") -> Markdown:
    """Return *text* to be printed as Markdown; its lines end where they end in the text."""
    tokens = _parser().parse(inert(text, keep="\n\t"))
    _make_inert(tokens)
    made = _Rendered("", code_theme=_THEME, style=style or "none", hyperlinks=False)
    made.parsed = tokens
    return made


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


def _make_inert(tokens: Iterable[Token]) -> None:
    for token in tokens:
        if token.type == "softbreak":
            token.type = "hardbreak"
        elif token.type == "image":  # Rich would print it before its paragraph.
            token.content = f"[image: {token.content} ({token.attrs.get('src', '')})]"
            token.type, token.tag, token.children = "text", "", None
        token.content = inert(token.content, keep="\n\t").expandtabs(4)
        if "href" in token.attrs:
            token.attrs["href"] = inert(str(token.attrs["href"]))
        _make_inert(token.children or ())


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        drawn = Syntax(
            code, self.lexer_name, theme=self.theme, word_wrap=True, background_color="default"
        )
        yield Padding(drawn, (0, 0, 0, 2))


_STYLES: Final = Theme(
    {"markdown.code": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold"}
)
"""Without rich's black background, which is hard to read on a light terminal."""


class _Rendered(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = Markdown.elements | {
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
    }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with console.use_theme(_STYLES):
            yield from super().__rich_console__(console, options)
