"""Sessions moved between a Claude home on disk and any session store of the Claude Agent SDK.

    await import_sessions("~/.claude", store)
    await export_sessions(store, "~/.claude", project_key="-home-u-orchard")

Both directions compare with what is there and add what is missing: doing it again changes nothing,
and what grew in between is carried over. They run on asyncio and on trio.
"""

from __future__ import annotations

from turnlog.adapters.claude_exporting import Exported, Skipped, export_sessions
from turnlog.adapters.claude_importing import Imported, ImportedLog, import_sessions
from turnlog.adapters.claude_placing import ExportedFile, Outcome

__all__ = [
    "Exported",
    "ExportedFile",
    "Imported",
    "ImportedLog",
    "Outcome",
    "Skipped",
    "export_sessions",
    "import_sessions",
]
