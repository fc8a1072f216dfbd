"""A session as Markdown: one heading per turn, prompts as quotes, answers as written.

The result contains no HTML, and nothing in it runs or requests anything, in any viewer. Calls are
one line each, with arguments and results as code blocks; images are named, not shown.

An answer stays Markdown, but HTML in it becomes text, images become links, links other than to the
web, a mail address or a relative file become text, and an open code block is closed so that it does
not swallow what follows. Code stays unchanged where all viewers agree that it is code.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import json

from turnlog.export import diffs
from turnlog.export.conversation import (
    Answer,
    Block,
    Conversation,
    ConversationTurn,
    Head,
    Mark,
    MarkKind,
    Other,
    Picture,
    PromptPiece,
    PromptPieceKind,
    SubagentRun,
    Thinking,
    ToolCall,
)
from turnlog.export.html.markdown import is_too_much, language_of
from turnlog.export.html.session_page import duration_of, notices_of
from turnlog.text import inert, inert_line

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


_LONGEST: Final = 100_000
# Text without any of these contains no HTML, link, image or code.
_MARKUP: Final = re.compile(r"[<\[\]`~]")
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])")
# Longer than any scheme, however it is written; the result is parsed again anyway.
_LINK: Final = re.compile(r"\]\((?=\s{0,100}(\S{0,300}))")
_FIRST_BRACKET: Final = re.compile(r"^((?:[^\S\n]|[>*+\-\d.)])*+)\[", re.MULTILINE)
_TICKS: Final = re.compile(r"\\.|`+", re.DOTALL)
_RUN: Final = re.compile(r"`+")
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_END: Final = "turnlog-end-of-text"


def inert_markdown(text: str) -> str:
    """Return *text* as Markdown that runs and requests nothing, with all blocks closed."""
    text = inert(text, keep="\n\t").strip("\n")
    if is_too_much(text, _LONGEST):
        return fenced(text)
    if not _MARKUP.search(text):
        return text
    try:
        safe = _closed("".join(_pieces(text)))
    except RecursionError:
        safe = None
    return fenced(text) if safe is None else safe


def fenced(text: str, language: str = "") -> str:
    """Return *text* as a code block, with a fence longer than any in it."""
    text = inert(text, keep="\n\t").strip("\n")
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def span(text: str) -> str:
    """Return *text*, on one line, as a code span."""
    text = inert_line(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}" if text else ""


def plain(text: str) -> str:
    """Return *text*, on one line, with Markdown characters escaped."""
    return re.sub(r"([\\`*_\[\]<>#|~&!])", r"\\\1", inert_line(text))


def quoted(text: str) -> str:
    """Return *text* as a block quote."""
    return "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))


def _pieces(text: str) -> Iterator[str]:
    """Yield the text line by line: code blocks unchanged, prose by paragraph."""
    lines = text.split("\n")
    # HTML is about to become text, so it must not hide the code after it here.
    code, tables = _places(_reader(tables=True).parse(_TAG.sub("_", text)))
    run: list[str] = []
    for number, line in enumerate(lines):
        whole = line + ("\n" if number < len(lines) - 1 else "")
        if number not in code and number not in tables and line.strip():
            run.append(whole)
            continue
        yield _paragraph(run)
        run = []
        # A viewer without tables reads a row as a paragraph, where code may span cells.
        yield whole if number in code else _without_markup(whole)
    yield _paragraph(run)


def _places(tokens: list[Token]) -> tuple[set[int], set[int]]:
    """Return the numbers of the lines that are code, and of those in tables.

    Code inside lists and quotes does not count: viewers differ in how they treat indentation.
    """
    code: set[int] = set()
    tables: set[int] = set()
    for token in tokens:
        if token.map and token.type == "fence" and token.level == 0:
            code.update(range(*token.map))
        elif token.map and token.type == "table_open":
            tables.update(range(*token.map))
    return code, tables


def _paragraph(lines: list[str]) -> str:
    """Return lines of prose without active markup; code spans stay unchanged.

    A code span over two lines is not one to a viewer that sees two paragraphs. So spans count only
    if every line is complete in itself; then all viewers agree.
    """
    cut = [_spans(line) for line in lines]
    if any(spans is None for spans in cut):
        return _without_markup("".join(lines))
    return "".join(
        text if is_code else _without_markup(text) for spans in cut for is_code, text in spans or ()
    )


def _spans(line: str) -> list[tuple[bool, str]] | None:
    """Split a line into (is_code, text); None if a code span is not closed."""
    ends: dict[int, list[int]] = {}
    for run in _RUN.finditer(line):
        ends.setdefault(len(run[0]), []).append(run.start())
    found: list[tuple[bool, str]] = []
    done = 0
    for tick in _TICKS.finditer(line):
        length = len(tick[0])
        if tick.start() < done or tick[0].startswith("\\"):
            continue
        same = ends.get(length, [])
        at = bisect_left(same, tick.end())
        if at == len(same):
            return None
        found += [
            (False, line[done : tick.start()]),
            (True, line[tick.start() : same[at] + length]),
        ]
        done = same[at] + length
    return [*found, (False, line[done:])]


def _without_markup(text: str) -> str:
    text = _TAG.sub("&lt;", text)
    text = text.replace("![", r"\![")
    text = _without_definitions(text)
    return _LINK.sub(lambda found: "](" if _is_harmless(found[1]) else r"]\(", text)


def _without_definitions(text: str) -> str:
    """Escape the bracket of every line that may define a link target."""
    closed = -1

    def escaped(found: re.Match[str]) -> str:
        nonlocal closed
        if closed < found.end():  # Otherwise the next one is already known.
            closed = text.find("]", found.end())
            closed = len(text) if closed < 0 else closed
        return f"{found[1]}\\[" if text.startswith("]:", closed) else found[0]

    return _FIRST_BRACKET.sub(escaped, text)


def _is_harmless(destination: str) -> bool:
    """Return whether a link may point there, however its scheme is written."""
    address = html.unescape(re.sub(r"\\(.)", r"\1", destination)).lstrip("<")
    scheme = _SCHEME.match(re.sub(r"[\x00-\x20]", "", address))
    return scheme is None or scheme[1].lower() in _SCHEMES


def _closed(text: str) -> str | None:
    """Close code that is left open at the end; return None if the result is not safe.

    The result is parsed again, with and without tables.
    """
    if _is_safe(text):
        return text
    fences = [token for token in _reader(tables=True).parse(text) if token.type == "fence"]
    closed = f"{text}\n{fences[-1].markup}" if fences else text
    return closed if fences and _is_safe(closed) else None


def _is_safe(text: str) -> bool:
    """Return whether *text* is inert and closed, with and without tables."""
    # Without this markup, both parsers agree.
    kinds = (True, False) if "|" in text or "~~" in text else (True,)
    readings = (_reader(tables=tables).parse(f"{text}\n\n{_END}") for tables in kinds)
    return all(_ends_well(tokens) and _is_inert(tokens) for tokens in readings)


def _ends_well(tokens: list[Token]) -> bool:
    last = tokens[-2] if len(tokens) > 2 else None
    return last is not None and (last.type, last.content, last.level) == ("inline", _END, 1)


def _is_inert(tokens: list[Token]) -> bool:
    for token in tokens:
        if token.type in ("html_block", "html_inline", "image"):
            return False
        if token.type == "link_open" and not _is_harmless(str(token.attrs.get("href", ""))):
            return False
        if token.children and not _is_inert(token.children):
            return False
    return True


@cache
def _reader(*, tables: bool) -> MarkdownIt:
    """Return a parser that allows everything, as a careless viewer would."""
    from markdown_it import MarkdownIt

    class Careless(MarkdownIt):
        def validateLink(self, url: str) -> bool:  # noqa: ARG002, N802 - The library's name.
            return True

    reader = Careless("commonmark", {"html": True})
    return reader.enable(["table", "strikethrough"]) if tables else reader


_DEEPEST: Final = 6
_SAID: Final = (PromptPieceKind.PROMPT, PromptPieceKind.CALLER)


def session_markdown(conversation: Conversation) -> Iterator[str]:
    """Yield a conversation as Markdown, piece by piece."""
    yield from _spaced(_head(conversation.head))
    is_empty = True
    for turn in conversation.turns:
        is_empty = False
        yield from _spaced(_turn(turn))
    for subagent in conversation.strays:
        is_empty = False
        yield from _spaced(_subagent(subagent, 2))
    if is_empty:
        yield "Nothing was said.\n"


def _spaced(pieces: Iterable[str]) -> Iterator[str]:
    return (f"{piece}\n\n" for piece in pieces if piece)


def _head(head: Head) -> Iterator[str]:
    yield f"# {plain(head.title or f'Session {head.id[:8]}')}"
    used = head.figures
    facts = (
        ("session", span(head.id)),
        ("project", span(head.project or "")),
        ("branch", span(head.git_branch or "")),
        ("model", ", ".join(span(model) for model in head.models)),
        ("when", " to ".join(_at(at) for at in (head.started_at, head.last_active_at) if at)),
        ("responses", f"{used.messages:,}" if used.messages else ""),
        ("tokens", f"{used.tokens:,}" if used.tokens else ""),
        ("cost at API prices", used.cost if used.messages else ""),
    )
    yield "\n".join(f"- {name}: {value}" for name, value in facts if value)
    yield from notices_of(head)


def _turn(turn: ConversationTurn) -> Iterator[str]:
    name = str(turn.number) if turn.number else "Before the first prompt"
    yield f"## {' · '.join(fact for fact in (name, _at(turn.at), duration_of(turn)) if fact)}"
    for block in turn.blocks:
        yield from _block(block, 3)


def _block(block: Block, level: int) -> Iterator[str]:
    match block:
        case PromptPiece() if block.kind in _SAID:
            yield quoted(inert_markdown(block.text))
        case PromptPiece(kind=PromptPieceKind.COMMAND):
            yield quoted(span(block.text) if "\n" not in block.text else fenced(block.text))
        case PromptPiece(kind=PromptPieceKind.INTERRUPTED):
            yield f"*{plain(block.text)}*"
        case PromptPiece():
            yield fenced(block.text)
        case Answer():
            yield ("**Error**\n\n" if block.is_error else "") + inert_markdown(block.text)
        case Thinking():
            yield f"*Thinking*\n\n{quoted(inert_markdown(block.text))}"
        case Picture():
            yield f"*[an image, {plain(block.media_type)}]*"
        case ToolCall():
            yield from _call(block, level)
        case Mark(kind=MarkKind.SUMMARY):
            yield f"*A summary of what was said before*\n\n{quoted(inert_markdown(block.text))}"
        case Mark():
            yield f"---\n\n*{plain(block.text)}*"
        case Other():
            yield f"*[{plain(block.kind)}]*" + (f"\n\n{fenced(block.text)}" if block.text else "")


def _call(call: ToolCall, level: int) -> Iterator[str]:
    answer = f" → {plain(call.answered)}" if call.answered else ""
    yield f"**{plain(call.name)}** {span(call.asked)}{answer}"
    result = call.result
    changes = None if result and result.is_error else diffs.changes_of(call)
    if changes:
        yield fenced(diffs.as_text(changes), "diff")
    else:
        yield from _arguments(call)
        if result is not None and result.text.strip():
            yield fenced(result.text)
    for image in result.images if result else ():
        yield f"*[an image, {plain(image.media_type)}]*"
    for subagent in call.subagents:
        yield from _subagent(subagent, level)


def _arguments(call: ToolCall) -> Iterator[str]:
    """Yield the arguments of a call, unless the line above has all of them."""
    arguments: Any = call.input
    if not isinstance(arguments, dict) or not arguments:
        return
    command = arguments.get("command")
    values = [str(value) for value in arguments.values()]
    if call.name == "Write" and isinstance(arguments.get("content"), str):
        language = language_of(str(arguments.get("file_path"))) or ""
        yield fenced(arguments["content"], language)
    elif len(values) == 1 and " ".join(values[0].split()) == call.asked:
        return
    elif set(arguments) <= {"command", "description"} and isinstance(command, str):
        if "\n" in command or command != call.asked:
            yield fenced(command, "bash")
    else:
        yield fenced(json.format(json.encode(arguments)).decode(), "json")


def _subagent(subagent: SubagentRun, level: int) -> Iterator[str]:
    level = min(level, _DEEPEST)
    words = " · ".join(plain(text) for text in (subagent.kind, subagent.description) if text)
    yield f"{'#' * level} Subagent {span(subagent.id)} {words}".rstrip()
    if subagent.is_orphan:
        yield "*The call that made it is not in the logs.*"
    for turn in subagent.turns:
        for block in turn.blocks:
            yield from _block(block, level + 1)
    yield f"*End of subagent {span(subagent.id)}*"


def _at(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else ""
