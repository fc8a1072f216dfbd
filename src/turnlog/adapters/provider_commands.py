"""What people typed in a project: the home's history of prompts, read and written."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from turnlog.adapters.provider_places import Project, check_ids
from turnlog.errors import UsageError
from turnlog.formats import history_log
from turnlog.sessions.side_files.prompts import Prompt, find_prompts
from turnlog.storage.writer import LogWriter


def commands_of(project: Project, session_id: str | None, limit: int | None) -> list[Prompt]:
    """Give what was typed in the project itself, or in one session, oldest first."""
    if session_id is not None:
        check_ids(session_id)
    page = find_prompts((project.home,), project=project.directory, session=session_id)
    found = [
        each
        for each in page.prompts
        if session_id in (None, each.session_id) and _is_here(project, each)
    ]
    return found[:limit][::-1]


def log_command(project: Project, command: str, session_id: str | None) -> None:
    """Add to the home's history what somebody typed."""
    if not isinstance(command, str) or not command:
        raise UsageError("nothing was typed", hint="give the command or the prompt as text")
    if session_id is not None:
        check_ids(session_id)
    said = {
        "display": command,
        "pastedContents": {},
        "timestamp": round(datetime.now(UTC).timestamp() * 1000),
        "project": project.directory,
        **({"sessionId": session_id} if session_id is not None else {}),
    }
    path = history_log(project.home) or project.home.path / "history.jsonl"
    with LogWriter(path, root=project.home.path) as log:
        log.append(said)


def _is_here(project: Project, prompt: Prompt) -> bool:
    there = os.path.abspath(os.path.expanduser(prompt.project or ""))
    return there == project.directory
