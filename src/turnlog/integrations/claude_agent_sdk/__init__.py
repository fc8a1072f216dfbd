"""Sessions moved between a Claude home on disk and any session store of the Claude Agent SDK.

    await import_sessions("~/.claude", store)
    await export_sessions(store, "~/.claude", project_key="-home-u-orchard")

Both directions compare with what is there and add what is missing: doing it again changes nothing,
and what grew in between is carried over. They run on asyncio and on trio.
"""

from __future__ import annotations

from turnlog.integrations.claude_agent_sdk.export import Exported, SkippedExport, export_sessions
from turnlog.integrations.claude_agent_sdk.export_files import ExportedFile, ExportOutcome
from turnlog.integrations.claude_agent_sdk.importer import Imported, ImportedLog, import_sessions

__all__ = [
    "ExportOutcome",
    "Exported",
    "ExportedFile",
    "Imported",
    "ImportedLog",
    "SkippedExport",
    "export_sessions",
    "import_sessions",
]
