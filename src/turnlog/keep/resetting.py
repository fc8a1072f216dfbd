"""Forgetting what was done in a project: all its sessions go to the trash.

A project is one directory, not those below it. If any of its sessions cannot go, because it runs or
shares a log with one of another project, none does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from turnlog.formats import Home, LogFile, Problem
from turnlog.formats.projects import absolute
from turnlog.formats.walk import refuse_unseen
from turnlog.keep.activity import glance_at
from turnlog.keep.belongings import Belongings
from turnlog.keep.deleting import (
    Deletion,
    Terms,
    delete_together,
    refuse_if_shared,
)
from turnlog.keep.expiry import sessions_of, sharers
from turnlog.keep.running import refuse_if_running
from turnlog.keep.trash import Trash


def reset_project(
    homes: Iterable[Home], project: str | os.PathLike[str], *, own: Path, terms: Terms
) -> list[Deletion]:
    """Move all sessions of *homes* that worked in *project* to the trash."""
    wanted = PurePath(absolute(project))
    groups = []
    for home in homes:
        problems: list[Problem] = []
        sessions = sessions_of(home, problems)
        refuse_unseen(problems)
        found = {each: logs for each, logs in sessions.items() if _project_of(each, logs) == wanted}
        for session_id, logs in found.items():
            refuse_if_running(session_id, logs, (home,))
            refuse_if_shared(session_id, logs, tuple(found))
        groups += [(home, {each: found[each] for each in ids}) for ids in sharers(found)]
    trash = Trash(own)
    done = [delete_together(group, Belongings(home), trash, terms) for home, group in groups]
    return [deletion for each in done for deletion in each.values()]


def _project_of(session_id: str, logs: Sequence[LogFile]) -> PurePath | None:
    told = glance_at(session_id, [log for log in logs if log.kind != "agent"]).project
    return PurePath(told) if told is not None else None
