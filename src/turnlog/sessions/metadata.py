"""What is known of a session beside what was said in it.

One fold over its records gives all of it but the pin, which stands in the journal. Nothing here is
stored: it is gathered from the log, so it cannot be out of date or lost.
"""

# Annotations are no strings here: msgspec would have to evaluate them at every start.

from datetime import UTC, datetime

from msgspec import Struct, field

from turnlog.records.record import Record
from turnlog.records.record_types import Format
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.life import Life, State


class Metadata(Struct, frozen=True, kw_only=True):
    """A session's metadata at one moment."""

    id: str
    project: str | None
    title: str | None
    tag: str | None
    is_pinned: bool
    started_at: datetime | None
    last_active_at: datetime | None
    ended_at: datetime | None
    state: State
    crashed: bool
    records: int
    prompts: int
    models: dict[str, int]
    git_branch: str | None
    git_commit: str | None
    version: str | None


class MetadataFold(Struct):
    """Gathers metadata; feed it a session's records with ``take``."""

    summary: SessionSummary = field(default_factory=SessionSummary)
    life: Life = field(default_factory=Life)
    git_commit: str | None = None
    """The commit that was checked out when the session was created."""

    def take(self, record: Record) -> None:
        """Fold one more record in."""
        self.life.take(record)
        self.summary.take(record)
        if isinstance(record, Format):
            self.git_commit = self.git_commit or record.git_commit

    def metadata(
        self, session_id: str, *, is_pinned: bool = False, now: datetime | None = None
    ) -> Metadata:
        """Give the metadata at *now*."""
        found, life = self.summary, self.life
        return Metadata(
            id=session_id,
            project=found.cwd,
            title=found.title,
            tag=found.tag,
            is_pinned=is_pinned,
            started_at=found.started_at,
            last_active_at=found.last_active_at,
            ended_at=life.ended_at,
            state=life.state(now or datetime.now(UTC)),
            crashed=life.crashed,
            records=found.records,
            prompts=found.prompts,
            models=found.models,
            git_branch=found.git_branch,
            git_commit=self.git_commit,
            version=found.version,
        )
