"""Forgetting a project: everything a provider would list of it goes to the trash.

With the sessions go what lies beside them and the logs of agents whose session is not there. If one
of them runs, none goes. `turnlog trash` shows what went and puts it back.
"""

from __future__ import annotations

from datetime import UTC, datetime

from turnlog.adapters.provider_places import Project, logs_in, sessions_in
from turnlog.formats import LogFile, find_logs, turnlog_home
from turnlog.formats.walk import refuse_unseen
from turnlog.keep.retention.policy import load_grace
from turnlog.keep.running import refuse_if_running
from turnlog.keep.session_files import SessionFileIndex
from turnlog.keep.trash.delete import Deletion, DeletionTerms, delete_found
from turnlog.keep.trash.trash import Trash


def reset(project: Project) -> list[Deletion]:
    """Move all sessions of the project to the trash."""
    belongings = SessionFileIndex(project.home)
    refuse_unseen(belongings.unseen)  # Agents whose session is not found go as well.
    mine = {row.id for row in sessions_in(project, archived=None)}
    mains = {log.session_id for log in find_logs(project.home) if log.kind == "session"}
    doomed: dict[str, list[LogFile]] = {}
    for owner, log in logs_in(project):
        if owner in mine or owner not in mains:
            doomed.setdefault(owner, []).append(log)
    for session_id, logs in doomed.items():
        refuse_if_running(session_id, logs, (project.home,))
    own = turnlog_home()
    terms = DeletionTerms(f"reset of {project.directory}", datetime.now(UTC), load_grace(own))
    trash = Trash(own)
    return [delete_found(each, logs, [belongings], trash, terms) for each, logs in doomed.items()]
