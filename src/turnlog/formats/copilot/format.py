"""Copilot CLI's sessions: ``session-state/ID/events.jsonl``, next to the session's other files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from turnlog.formats.format import HOME, Format, Place
from turnlog.formats.ids import is_session_id
from turnlog.formats.log_file import LogName, read_name

if TYPE_CHECKING:
    from turnlog.formats.walk import Item

SESSIONS: Final = "session-state"
_SESSIONS, _SESSION = "sessions", "session"
_EVENTS: Final = "events"


class CopilotCli(Format):
    """The sessions of GitHub Copilot CLI."""

    name = "copilot"
    dialect = "copilot"
    agent = "Copilot CLI"
    program: ClassVar[str] = "copilot"
    home_variable: ClassVar[str] = "COPILOT_HOME"
    may_rewrite = False
    why_not_rewritten = "alone writes its logs"
    kept_directories = frozenset({SESSIONS})
    session_directories = (SESSIONS,)
    program_files = frozenset({"config.json", "logs", "mcp-config.json"})

    def is_home(self, items: Iterable[Item]) -> bool:
        return any(item.name == SESSIONS and item.kind != "broken" for item in items)

    def places(self, place: Place, items: Sequence[Item]) -> Mapping[str, Place]:
        if place.role == HOME:
            return {SESSIONS: Place(self, _SESSIONS, has_logs=False)}
        if place.role != _SESSIONS:
            return {}
        names = (item.name for item in items if is_session_id(item.name))
        return {name: Place(self, _SESSION, session_id=name) for name in names}

    def log_name(self, place: Place, name: str) -> LogName | None:
        parsed = read_name(name)
        if parsed is None or parsed.id != _EVENTS or place.session_id is None:
            return None
        return LogName("session", place.session_id, parsed.compression)

    def owner_of(self, name: str) -> str | None:
        top, _, rest = name.partition("/")
        owner, _, inner = rest.partition("/")
        return owner if top == SESSIONS and inner and is_session_id(owner) else None

    def own_home(self) -> str:
        return os.environ.get(self.home_variable) or os.path.expanduser("~/.copilot")

    def resume_command(self, session_id: str) -> list[str]:
        return [self.program, "--resume", session_id]


FORMAT = CopilotCli()
