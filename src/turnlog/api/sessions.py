"""Sessions: which there are, as the logs themselves tell.

The document is the one that ``turnlog sessions`` prints with ``--json``; ``indexed_sessions``
knows more of each.
"""

from __future__ import annotations

from turnlog.catalog.sessions import Keeping, SessionList, SessionRow, list_sessions

__all__ = ["Keeping", "SessionList", "SessionRow", "list_sessions"]
