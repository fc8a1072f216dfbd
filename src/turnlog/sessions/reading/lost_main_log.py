"""A session whose main log is lost: what its subagents' logs still say about it."""

from __future__ import annotations

from functools import cached_property

from turnlog.formats import LayoutName
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.metadata import MetadataFold
from turnlog.sessions.reading.tree import Tree
from turnlog.sessions.session import Session


class LostSession(Session):
    """What is left of a session. It has no messages of its own."""

    @property
    def layout(self) -> LayoutName:
        """The layout of the logs that are left."""
        return self.logs[0].layout

    @cached_property
    def facts(self) -> MetadataFold:
        """When and where its subagents worked; its title and messages are lost."""
        seen = MetadataFold()
        for log in self.logs:
            for item in self.read(log):
                seen.take(item.record)
        seen_summary, life = seen.summary, seen.life
        summary = SessionSummary(
            started_at=seen_summary.started_at,
            last_active_at=seen_summary.last_active_at,
            cwd=seen_summary.cwd,
            git_branch=seen_summary.git_branch,
            version=seen_summary.version,
            models=seen_summary.models,
        )
        return MetadataFold(summary=summary, life=life)

    @cached_property
    def tree(self) -> Tree:
        return Tree(())


def readable_session(session: Session) -> Session:
    """Return *session* in a readable form: by its subagents alone, if its main log is gone."""
    return session if session.main_logs else LostSession(session.id, session.logs)
