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
from turnlog.mcp.calling import Calls, told
from turnlog.mcp.desk import Desk
from turnlog.mcp.naming import spelled
from turnlog.mcp.paging import bounded
from turnlog.mcp.session_page import session_page
from turnlog.mcp.sessions_tool import list_sessions
from turnlog.mcp.tool import Page

if TYPE_CHECKING:
    from mcp.server import MCPServer

SESSIONS_URI: Final = "turnlog://sessions"
SESSION_URI: Final = "turnlog://session/{id}"
_SECONDS: Final = 20
_LISTED: Final = 50


def add_resources(server: MCPServer[None], calls: Calls) -> None:
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


async def _read(calls: Calls, make: Callable[[Desk], str]) -> str:
    try:
        return await calls.work(make, _SECONDS)
    except TurnlogError as error:
        is_callers = isinstance(error, NotFound | UsageError)
        kind = ResourceNotFoundError if is_callers else ResourceError
        raise kind(told(error, calls.desk)) from None


def _list(desk: Desk) -> str:
    answer = list_sessions(desk, Page(), limit=_LISTED)
    return bounded(
        answer,
        desk.rules,
        most_bytes=desk.settings.answer_bytes,
        more=spelled("The tool `list_sessions` continues from here.", desk.prefix),
    )


def _page(name: str, desk: Desk) -> str:
    with desk.index() as index:
        return session_page(desk, index, desk.session(index, name))
