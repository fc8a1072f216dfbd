"""Which tools there are, one module each."""

from __future__ import annotations

from typing import Final

from turnlog.mcp.calls_tool import CALLS
from turnlog.mcp.cost_tool import COST
from turnlog.mcp.errors_tool import ERRORS
from turnlog.mcp.files_tool import FILES
from turnlog.mcp.insights_tool import INSIGHTS
from turnlog.mcp.query_tool import QUERY
from turnlog.mcp.search_tool import SEARCH
from turnlog.mcp.session_tool import SESSION
from turnlog.mcp.sessions_tool import SESSIONS
from turnlog.mcp.tool import Tool
from turnlog.mcp.turns_tool import TURNS

TOOLS: Final[tuple[Tool, ...]] = (
    SEARCH,
    SESSIONS,
    SESSION,
    TURNS,
    CALLS,
    ERRORS,
    FILES,
    COST,
    QUERY,
    INSIGHTS,
)
