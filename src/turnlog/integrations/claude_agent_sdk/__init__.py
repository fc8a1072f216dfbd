"""A session store for the Claude Agent SDK, and transfers between it and a Claude home.

    store = TurnlogSessionStore("~/sessions")

    await import_sessions("~/.claude", store)
    await export_sessions(store, "~/.claude", project_key="-home-u-orchard")

Both directions add only records that are missing, so repeating them is harmless. They run on
asyncio and on trio.
"""

from __future__ import annotations

from turnlog.integrations.claude_agent_sdk.export import (
    Exported,
    ExportedFile,
    ExportOutcome,
    SkippedExport,
    export_sessions,
)
from turnlog.integrations.claude_agent_sdk.importer import Imported, ImportedLog, import_sessions
from turnlog.integrations.claude_agent_sdk.store import TurnlogSessionStore

__all__ = [
    "ExportOutcome",
    "Exported",
    "ExportedFile",
    "Imported",
    "ImportedLog",
    "SkippedExport",
    "TurnlogSessionStore",
    "export_sessions",
    "import_sessions",
]
