"""Recent sessions: those that a person may want to resume, the latest first."""

from __future__ import annotations

from turnlog.catalog.recent import RecentSession, RecentSessions, recent_sessions

__all__ = ["RecentSession", "RecentSessions", "recent_sessions"]
