"""Resources: the list of sessions, and each session as a page of Markdown.

    turnlog://sessions
    turnlog://session/{id}

They say no more than the tools do, and the same holds for them: framed, bounded, within the scope.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from turnlog.errors import NotFound, TurnlogError, UsageError
from turnlog.mcp.context import ToolContext
from turnlog.mcp.pages import bounded
from turnlog.mcp.session_markdown import session_page
from turnlog.mcp.tool import PageStart
from turnlog.mcp.tool_calls import ToolCallRunner, error_text
from turnlog.mcp.tool_names import spelled
from turnlog.mcp.tools.sessions import list_sessions

if TYPE_CHECKING:
    from mcp.server import MCPServer

SESSIONS_URI: Final = "turnlog://sessions"
SESSION_URI: Final = "turnlog://session/{id}"
_SECONDS: Final = 20
_LISTED: Final = 50


def add_resources(server: MCPServer[None], calls: ToolCallRunner) -> None:
    """Let *server* serve the resources."""

    @server.resource(
        SESSIONS_URI,
        name="sessions",
        title="Past sessions",
        description="The sessions that were active last, as JSON in a frame.",
        mime_type="text/plain",
    )
    async def listed() -> str:
        return await _read(calls, _list)

    @server.resource(
        SESSION_URI,
        name="session",
        title="One past session",
        description="A session as Markdown in a frame: what is known of it, and its latest turns.",
        mime_type="text/markdown",
    )
    async def one(id: str) -> str:  # noqa: A002 - As the address has it.
        return await _read(calls, partial(_page, id))


async def _read(calls: ToolCallRunner, make: Callable[[ToolContext], str]) -> str:
    try:
        return await calls.work(make, _SECONDS)
    except TurnlogError as error:
        is_callers = isinstance(error, NotFound | UsageError)
        kind = ResourceNotFoundError if is_callers else ResourceError
        raise kind(error_text(error, calls.desk)) from None


def _list(desk: ToolContext) -> str:
    answer = list_sessions(desk, PageStart(), limit=_LISTED)
    return bounded(
        answer,
        desk.rules,
        most_bytes=desk.settings.answer_bytes,
        more=spelled("The tool `list_sessions` continues from here.", desk.prefix),
    )


def _page(name: str, desk: ToolContext) -> str:
    with desk.index() as index:
        return session_page(desk, index, desk.session(index, name))
