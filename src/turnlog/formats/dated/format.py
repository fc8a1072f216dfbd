"""The dated store's format: `projects/HASH/DATE.jsonl`, one log for each project and UTC day.

A project's hash (`v_FXjHoCS5zUJmfyn-5v`) is made from its absolute path. Days' logs are found in
the directories of a flat store as well.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turnlog.errors import UsageError
from turnlog.formats.format import HOME, Format, Place
from turnlog.formats.log_file import LogName, day_name, path_beneath, read_name
from turnlog.formats.projects import absolute, project_text

if TYPE_CHECKING:
    from turnlog.formats.walk import Item

_PROJECTS, _STORE, _DAYS = "projects", "store", "days"


class Dated(Format):
    """Several sessions in one log, each record with its session's id."""

    name = "dated"
    dialect = "orchestrator"
    shares_logs = True
    kept_directories = frozenset({"projects"})
    project_directory = "projects"
    top_role = _STORE

    def places(self, place: Place, items: Sequence[Item]) -> Mapping[str, Place]:
        if place.role == HOME:
            projects = Place(self, _PROJECTS, has_logs=False)
            return {"projects": projects, "sessions": Place(self, _STORE)}
        if place.role == _PROJECTS:
            return {item.name: Place(self, _DAYS, item.name) for item in items}
        return {"compressed": Place(self, _DAYS)} if place.role == _STORE else {}

    def log_name(self, place: Place, name: str) -> LogName | None:
        parsed = read_name(name)
        return parsed if parsed is not None and parsed.kind == "day" else None

    def project_name(self, directory: str, *, is_here: bool = True) -> str:
        return project_hash(directory) if is_here else hash_of(directory)

    def day_log(
        self, root: str | os.PathLike[str], project: str | os.PathLike[str], day: dt.date
    ) -> Path:
        return dated_log(root, project, day)


FORMAT = Dated()


def dated_log(
    home: str | os.PathLike[str], project_dir: str | os.PathLike[str], day: dt.date
) -> Path:
    """Return the path of a project's log for one UTC day: `projects/HASH/DATE.jsonl`."""
    return path_beneath(home, "projects", project_hash(project_dir), day_name(_utc_day(day)))


def project_hash(directory: str | os.PathLike[str]) -> str:
    """Return the hash of *directory*, made absolute but not resolved: links keep their name."""
    return hash_of(absolute(project_text(directory)))


def hash_of(path: str) -> str:
    """Return the dated layout's name for an absolute path: 20 URL-safe characters."""
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    digest = sha256(path.encode("utf-8", "surrogatepass")).digest()
    return urlsafe_b64encode(digest).decode("ascii")[:20]


def _utc_day(day: dt.date) -> dt.date:
    # A datetime is a date too, but its own date is the wall clock's, not UTC's.
    if not isinstance(day, dt.datetime):
        return day
    if day.tzinfo is None:
        raise UsageError(
            f"{day.isoformat()} does not say which day it is in UTC",
            hint="give a date, or a datetime with a time zone",
        )
    return day.astimezone(dt.UTC).date()
