"""Resources and the prompt: the list of sessions, a session as Markdown, and ``continue``.

    turnlog://sessions
    turnlog://session/{id}

They follow the rules of the tools: framed as data, limited in size, within the scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.prompts import Prompt
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import Field

from turnlog.api.index import TextKind
from turnlog.api.sessions.lists import (
    RecordPosition,
    SessionFigures,
    newest_records,
    session_figures,
)
from turnlog.api.sessions.side_files import open_todos
from turnlog.errors import NotFound, TurnlogError, UsageError
from turnlog.mcp.context import LATEST, BoundedIndex, KnownSession, ToolContext
from turnlog.mcp.pages import bounded
from turnlog.mcp.tool import PageStart
from turnlog.mcp.tools.sessions import list_sessions
from turnlog.mcp.untrusted_text import Cleaner, frame_bytes, framed

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from turnlog.mcp.server import ToolCallRunner

SESSIONS_URI: Final = "turnlog://sessions"
SESSION_URI: Final = "turnlog://session/{id}"
_SECONDS: Final = 20
_LISTED: Final = 50
_CONVERSATION: Final = frozenset({TextKind.PROMPT, TextKind.RESPONSE})
_ROOM_FOR_OURS: Final = 500


def add_resources(server: MCPServer[None], calls: ToolCallRunner) -> None:
    """Add the resources to *server*."""

    @server.resource(
        SESSIONS_URI,
        name="sessions",
        title="Past sessions",
        description="The sessions that were active last, as JSON in a frame.",
        mime_type="text/plain",
    )
    async def listed() -> str:
        return await _read(calls, _session_list)

    @server.resource(
        SESSION_URI,
        name="session",
        title="One past session",
        description="A session as Markdown in a frame: its figures and latest turns.",
        mime_type="text/markdown",
    )
    async def one(id: str) -> str:  # noqa: A002 - As in the URI.
        return await _read(calls, partial(_session_page, id))


async def _read(calls: ToolCallRunner, make: Callable[[ToolContext], str]) -> str:
    try:
        return await calls.work(make, _SECONDS)
    except TurnlogError as error:
        is_callers = isinstance(error, NotFound | UsageError)
        kind = ResourceNotFoundError if is_callers else ResourceError
        raise kind(calls.error_text(error)) from None


def _session_list(ctx: ToolContext) -> str:
    answer = list_sessions(ctx, PageStart(), limit=_LISTED)
    return bounded(
        answer,
        ctx.rules,
        most_bytes=ctx.settings.answer_bytes,
        more="The tool `list_sessions` continues from here.",
    )


_PAGE_TEXT: Final = 1_500
_AT_ONCE: Final = 100
_MOST_RECORDS: Final = 2_000
_MOST_NAMES: Final = 10


def _session_page(name: str, ctx: ToolContext) -> str:
    """Return a session as Markdown: facts, then the latest turns, as many as fit.

    Text from the log is quoted, so that its headings are not taken for ours.
    """
    with ctx.index() as index:
        known = ctx.session(index, name)
        cleaner = Cleaner(ctx.rules, longest=_PAGE_TEXT)
        left = ctx.settings.answer_bytes - frame_bytes() - _ROOM_FOR_OURS
        head = "\n".join(_facts(cleaner, session_figures(index, known.number)))
        head = head.encode()[: left // 2].decode(errors="ignore")
        left -= len(head.encode())
        sections: list[str] = []
        is_all = False
        for section in _latest_first(index, known.number, cleaner):
            if section is None:
                is_all = True
                break
            size = len(section.encode()) + 2
            if size > left:
                break
            sections.append(section)
            left -= size
    gap = "" if is_all else "\n\n… earlier turns left out"
    page = head + gap + "".join(f"\n\n{section}" for section in reversed(sections))
    if is_all:
        return framed(page)
    ours = "`session_turns` returns all of it; `session_overview` returns a whole record."
    return framed(page, ours)


def _latest_first(index: BoundedIndex, number: int, cleaner: Cleaner) -> Iterator[str | None]:
    """Yield a section for each prompt and answer, the newest first; None after the first one."""
    for offset in range(0, _MOST_RECORDS, _AT_ONCE):
        records = newest_records(
            index, number, ("human", "assistant"), limit=_AT_ONCE, offset=offset
        )
        for position in records:
            if text := _conversation_text(index, position):
                uuid = f" (record {_line(cleaner, position.uuid)})" if position.uuid else ""
                head = f"## {position.author}, {_day(position.at)}{uuid}"
                yield f"{head}\n\n{_quoted(cleaner.text(text))}"
        if len(records) < _AT_ONCE:
            yield None
            return


def _conversation_text(index: BoundedIndex, position: RecordPosition) -> str:
    texts = index.texts(position.record, position.length)
    text = "\n\n".join(each.text for each in texts if each.kind in _CONVERSATION)
    return text if text.strip() else ""


def _facts(cleaner: Cleaner, figures: SessionFigures) -> Iterator[str]:
    """Yield a heading and the facts of a session, a line each."""
    yield f"# {_line(cleaner, figures.title or 'untitled')}"
    yield ""
    calls = ", ".join(
        f"{each.tool} {each.calls:,}" + (f" ({each.errors:,} failed)" if each.errors else "")
        for each in figures.calls[:_MOST_NAMES]
    )
    files = ", ".join(each.path for each in figures.files[:_MOST_NAMES] if each.changes)
    tokens = figures.input + figures.cache_write_5m + figures.cache_write_1h + figures.cache_read
    for name, value in (
        ("session", figures.id),
        ("project", figures.project),
        ("branch", figures.git_branch),
        ("time", f"{_day(figures.started_at)} to {_day(figures.last_active_at)} UTC"),
        ("models", ", ".join(figures.models)),
        ("prompts", f"{figures.prompts:,} in {figures.records:,} records"),
        ("tokens", f"{tokens:,} in, {figures.output:,} out" if figures.messages else ""),
        ("calls", calls),
        ("files changed", files),
        ("subagents", f"{figures.subagents_in_all:,}" if figures.subagents_in_all else ""),
    ):
        if value:
            yield f"- {name}: {_line(cleaner, value)}"


def _day(at: datetime | None) -> str:
    return "?" if at is None else f"{at:%Y-%m-%d %H:%M}"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _line(cleaner: Cleaner, text: str) -> str:
    return " ".join(cleaner.text(text).split())


_PROMPT_TEXT: Final = 1_200
_LAST_PROMPTS: Final = 5
_LAST_ANSWERS: Final = 20
_MOST_TODOS: Final = 40
_REQUEST: Final = (
    "Continue the work of the session above. First summarize in a few sentences what was done and"
    " what is left to do, checked against the files as they are now; look up more with"
    " `session_turns`, `past_calls` and `search_history` where you need it. Then ask me what to"
    " continue with."
)


def add_prompt(server: MCPServer[None], calls: ToolCallRunner) -> None:
    """Add the prompt ``continue`` to *server*: recorded facts in a frame, and a request."""

    async def continue_session(
        session: Annotated[
            str, Field(description="Session to continue: its id, or a prefix of it.")
        ] = LATEST,
    ) -> str:
        try:
            return await calls.work(partial(_continuation, session), _SECONDS)
        except TurnlogError as error:
            raise MCPError(code=INVALID_PARAMS, message=calls.error_text(error)) from None

    server.add_prompt(
        Prompt.from_function(
            continue_session,
            name="continue",
            title="Continue a session",
            description="Continue the latest session of this project.",
        )
    )


def _continuation(session: str, ctx: ToolContext) -> str:
    with ctx.index() as index:
        known = _session_to_continue(ctx, index, session)
        cleaner = Cleaner(ctx.rules, longest=_PROMPT_TEXT)
        left = ctx.settings.answer_bytes - frame_bytes(_REQUEST) - 100
        parts: list[str] = []
        for part in _parts(index, known, cleaner):
            size = len(part.encode()) + 2
            if size > left:
                break
            parts.append(part)
            left -= size
    return framed("\n\n".join(parts), _REQUEST)


def _session_to_continue(ctx: ToolContext, index: BoundedIndex, session: str) -> KnownSession:
    """Return the named session, or the latest one except the asking agent's own."""
    if session.strip() not in {"", LATEST}:
        return ctx.session(index, session.strip())
    known = ctx.session(index, LATEST, but=ctx.asking_sessions())
    if not newest_records(index, known.number, ["human"], limit=1):
        raise NotFound("no sessions in this project yet", hint="start a session first")
    return known


def _parts(index: BoundedIndex, known: KnownSession, cleaner: Cleaner) -> Iterator[str]:
    """Yield the parts of the prompt, the most important first."""
    yield "\n".join(_facts(cleaner, session_figures(index, known.number)))
    todos = [f"{state}: {text}" for state, text in open_todos(known.home, known.id)]
    if todos:
        lines = (_quoted(cleaner.text(todo)) for todo in todos[:_MOST_TODOS])
        yield "## To do\n\n" + "\n".join(lines)
    for position in newest_records(index, known.number, ["assistant"], limit=_LAST_ANSWERS):
        if text := _conversation_text(index, position).strip():
            yield f"## Last answer, {_day(position.at)}\n\n{_quoted(cleaner.text(text))}"
            break
    for position in newest_records(index, known.number, ["human"], limit=_LAST_PROMPTS):
        if text := _conversation_text(index, position).strip():
            yield f"## Prompt, {_day(position.at)}\n\n{_quoted(cleaner.text(text))}"
