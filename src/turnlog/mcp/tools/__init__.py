"""The tools, one module each."""

from __future__ import annotations

from typing import Final

from turnlog.mcp.tool import Tool
from turnlog.mcp.tools.calls import CALLS
from turnlog.mcp.tools.costs import COST
from turnlog.mcp.tools.errors import ERRORS
from turnlog.mcp.tools.files import FILES
from turnlog.mcp.tools.insights import INSIGHTS
from turnlog.mcp.tools.query import QUERY
from turnlog.mcp.tools.search import SEARCH
from turnlog.mcp.tools.session import SESSION
from turnlog.mcp.tools.sessions import SESSIONS
from turnlog.mcp.tools.turns import TURNS

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
