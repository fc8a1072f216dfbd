"""Self-contained pages: nothing in them is fetched, nothing from a log runs in them.

    body = element("h1", title), element("p", text, class_="note")
    page("A session", body, css=CSS, script=SCRIPT)

A fragment is safe HTML. Everything else is text, which is made inert and escaped when it becomes
part of a fragment, so escaping cannot be forgotten. The page's own policy forbids all requests, and
all styles and scripts except those given to it, which are named by their digests. So pages have no
``style`` attributes and no event handlers.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias

from markupsafe import Markup

from turnlog.text import inert

Child: TypeAlias = "str | Fragment | Iterable[Child] | None"

_VOID: Final = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "wbr"})
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9:-]*")
# Each of these could run or fetch something, and our pages do not need them.
_FORBIDDEN: Final = re.compile(r"on.*|style|srcdoc|formaction|background|ping", re.IGNORECASE)
_ADDRESSES: Final = frozenset({"href", "src", "action", "poster", "cite", "data", "xlink:href"})
_SAFE_ADDRESS: Final = re.compile(r"#|https?://|mailto:|data:image/(?:png|jpeg|gif|webp);base64,")


def asset(name: str) -> str:
    """Return a style sheet or script of the pages."""
    return "\n" + Path(__file__).with_name("assets").joinpath(name).read_text("utf-8")


BASIC_CSS: Final = asset("page.css")
"""The style of every page: colors for light and dark, fonts, tables."""


class Fragment(Markup):
    """Safe HTML; whatever is added to it is escaped."""

    __slots__ = ()


class OwnUrl(str):
    """An address on the server of the page, never from a log."""

    __slots__ = ()


def escaped(text: str, *, keep: str = "\n\t") -> Fragment:
    """Return any text as a fragment: active characters become visible, markup becomes text."""
    return Fragment(_escaped(text, keep))


def _escaped(text: str, keep: str = "\n\t") -> str:
    return html.escape(inert(text, keep=keep))


def joined(*children: Child) -> Fragment:
    """Join fragments and texts; texts are escaped, None is skipped."""
    return Fragment("".join(_flat(children)))


def element(tag: str, /, *children: Child, **attributes: str | float | bool | None) -> Fragment:
    """Return an element. ``class_`` is class, other underscores become dashes.

    True is an attribute without a value; None and False are left out, and so are addresses with an
    unsafe scheme. Event handlers and styles raise ValueError.
    """
    _check_element(tag)
    opened = "".join([_attribute(name, value) for name, value in attributes.items()])
    if tag in _VOID:
        return Fragment(f"<{tag}{opened}>")
    # One join: the content is copied at every level.
    return Fragment("".join([f"<{tag}{opened}>", *_flat(children), f"</{tag}>"]))


def is_safe_address(address: str) -> bool:
    """Return whether a link may point there: into the page, to the web, or to inline data."""
    return _SAFE_ADDRESS.match(address) is not None


def page(
    title: str,
    body: Child,
    *,
    css: str = "",
    script: str = "",
    description: str = "",
    language: str = "en",
    has_basic_style: bool = True,
    has_forms: bool = False,
    again_seconds: int | None = None,
) -> str:
    """Return a complete page. *css* and *script* must never come from a log.

    *has_forms* allows forms to its own server; *again_seconds* reloads the page after that time.
    """
    style = f"{BASIC_CSS if has_basic_style else ''}{css}"
    for what, text in (("css", style), ("script", script)):
        if "</" in text or "<!--" in text:
            raise ValueError(f"the {what} would end its own element")
    policy = _policy(style, script, "'self'" if has_forms else "'none'")
    head = [
        Fragment('<meta charset="utf-8">'),
        Fragment(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content="turnlog"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="description", content=description) if description else None,
        Fragment(f'<meta http-equiv="refresh" content="{again_seconds:d}">')
        if again_seconds
        else None,
        element("title", escaped(title, keep="")),
        Fragment(f"<style>{style}</style>") if style else None,
    ]
    end = Fragment(f"<script>{script}</script>") if script else None
    whole = element("html", element("head", head), element("body", body, end), lang=language)
    return f"<!doctype html>\n{whole}\n"


def _policy(style: str, script: str, forms: str) -> str:
    """Return the Content-Security-Policy: only the page's own style and script."""
    rules = [
        "default-src 'none'",
        f"style-src {_digest(style)}",
        f"script-src {_digest(script)}",
        "img-src data:",
        "base-uri 'none'",
        f"form-action {forms}",
    ]
    return "; ".join(rules)


def _digest(text: str) -> str:
    if not text:
        return "'none'"
    digest = sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _flat(children: Iterable[Child]) -> list[str]:
    """Return *children*, at any depth, as a list of HTML."""
    flat: list[str] = []
    for child in children:
        if isinstance(child, Fragment):
            flat.append(child)
        elif isinstance(child, str):
            flat.append(_escaped(child))
        elif child is not None:
            flat += _flat(child)
    return flat


@cache  # Pages use few names, very often.
def _check_element(tag: str) -> None:
    if not _NAME.fullmatch(tag):
        raise ValueError(f"invalid element: {tag!r}")


@cache
def _attribute_name(name: str) -> tuple[str, bool]:
    """Return an attribute's name, and whether its value is an address."""
    written = name.removesuffix("_").replace("_", "-")
    if not _NAME.fullmatch(written) or _FORBIDDEN.fullmatch(written):
        raise ValueError(f"forbidden attribute: {written!r}")
    return written, written.lower() in _ADDRESSES


def _attribute(name: str, value: str | float | bool | None) -> str:  # noqa: FBT001
    if value is None or value is False:
        return ""
    written, is_address = _attribute_name(name)
    if value is True:
        return f" {written}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if is_address and not isinstance(value, OwnUrl) and not is_safe_address(text):
        return ""
    return f' {written}="{_escaped(text)}"'
