"""A session store for the Claude Agent SDK, and transfers between it and a Claude home.

    store = TurnlogSessionStore("~/sessions")

    await import_sessions("~/.claude", store)
    await export_sessions(store, "~/.claude", project_key="-home-u-orchard")

Both directions compare with what is there and add what is missing: doing it again changes nothing,
and what grew in between is carried over. They run on asyncio and on trio.
"""

from __future__ import annotations

from turnlog.integrations.claude_agent_sdk.export import Exported, SkippedExport, export_sessions
from turnlog.integrations.claude_agent_sdk.export_files import ExportedFile, ExportOutcome
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
