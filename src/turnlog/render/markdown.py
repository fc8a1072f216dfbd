"""A session as Markdown: one heading a turn, prompts as quotes, answers as they were written.

Made for reading as it is and for pasting where Markdown is drawn: it holds no HTML, and nothing in
it runs or asks for anything. Calls are a line, what they were given and what came of them blocks of
code below it; images are named, not drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from msgspec import json

from turnlog.render import diffs
from turnlog.render.conversation import (
    AgentRun,
    Answer,
    Block,
    Call,
    Conversation,
    Head,
    Mark,
    MarkKind,
    Other,
    Picture,
    Said,
    SaidKind,
    Thinking,
    Turn,
)
from turnlog.render.highlighting import language_of
from turnlog.render.inert_markdown import fenced, inert_markdown, plain, quoted, span
from turnlog.render.session_page import duration, notices_of

_DEEPEST: Final = 6
_SAID: Final = (SaidKind.PROMPT, SaidKind.CALLER)


def session_markdown(conversation: Conversation) -> Iterator[str]:
    """Give a conversation as Markdown, piece by piece."""
    yield from _spaced(_head(conversation.head))
    is_empty = True
    for turn in conversation.turns:
        is_empty = False
        yield from _spaced(_turn(turn))
    for agent in conversation.strays:
        is_empty = False
        yield from _spaced(_agent(agent, 2))
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


def _turn(turn: Turn) -> Iterator[str]:
    took = duration((turn.ended_at - turn.at).total_seconds()) if turn.at and turn.ended_at else ""
    facts = [str(turn.number) if turn.number else "Before the first prompt", _at(turn.at), took]
    yield f"## {' · '.join(fact for fact in facts if fact)}"
    yield from _blocks(turn.blocks, 3)


def _blocks(blocks: Iterable[Block], level: int) -> Iterator[str]:
    for block in blocks:
        yield from _block(block, level)


def _block(block: Block, level: int) -> Iterator[str]:
    match block:
        case Said() if block.kind in _SAID:
            yield quoted(inert_markdown(block.text))
        case Said(kind=SaidKind.COMMAND):
            yield quoted(span(block.text) if "\n" not in block.text else fenced(block.text))
        case Said(kind=SaidKind.INTERRUPTED):
            yield f"*{plain(block.text)}*"
        case Said():
            yield fenced(block.text)
        case Answer():
            yield (
                f"**Error**\n\n{inert_markdown(block.text)}"
                if block.is_error
                else inert_markdown(block.text)
            )
        case Thinking():
            yield f"*Thinking*\n\n{quoted(inert_markdown(block.text))}"
        case Picture():
            yield f"*[an image, {plain(block.media_type)}]*"
        case Call():
            yield from _call(block, level)
        case Mark(kind=MarkKind.SUMMARY):
            yield f"*A summary of what was said before*\n\n{quoted(inert_markdown(block.text))}"
        case Mark():
            yield f"---\n\n*{plain(block.text)}*"
        case Other():
            yield f"*[{plain(block.kind)}]*" + (f"\n\n{fenced(block.text)}" if block.text else "")


def _call(call: Call, level: int) -> Iterator[str]:
    came = f" → {plain(call.answered)}" if call.answered else ""
    yield f"**{plain(call.name)}** {span(call.asked)}{came}"
    result = call.result
    changes = None if result and result.is_error else diffs.changes_of(call)
    if changes:
        yield fenced(diffs.as_text(changes), "diff")
    else:
        yield from _given(call)
        if result is not None and result.text.strip():
            yield fenced(result.text)
    for image in result.images if result else ():
        yield f"*[an image, {plain(image.media_type)}]*"
    for agent in call.agents:
        yield from _agent(agent, level)


def _given(call: Call) -> Iterator[str]:
    """Give what a call was given, unless the line above has told all of it."""
    given: Any = call.input
    if not isinstance(given, dict) or not given:
        return
    if call.name == "Write" and isinstance(given.get("content"), str):
        yield fenced(given["content"], language_of(str(given.get("file_path"))) or "")
        return
    told = [str(value) for value in given.values()]
    if len(told) == 1 and " ".join(told[0].split()) == call.asked:
        return
    if set(given) <= {"command", "description"} and isinstance(given.get("command"), str):
        if "\n" in given["command"] or given["command"] != call.asked:
            yield fenced(given["command"], "bash")
        return
    yield fenced(json.format(json.encode(given)).decode(), "json")


def _agent(agent: AgentRun, level: int) -> Iterator[str]:
    level = min(level, _DEEPEST)
    words = " · ".join(plain(each) for each in (agent.kind, agent.description) if each)
    yield f"{'#' * level} Agent {span(agent.id)} {words}".rstrip()
    if agent.is_orphan:
        yield "*The call that made it is not in the logs.*"
    for turn in agent.turns:
        yield from _blocks(turn.blocks, level + 1)
    yield f"*End of agent {span(agent.id)}*"


def _at(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else ""
