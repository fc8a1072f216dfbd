"""Is the index whole, and in step with the logs? The commands that ask it can do without."""

from __future__ import annotations

import os
import sqlite3

from turnlog.index.freshness import has_leftovers, path_of_index
from turnlog.index.refresh.plan import has_changed, is_absent, known_logs, look
from turnlog.questions.doctor_checks import Example, Finding, Patient, Urgency, counted, finding


def index(patient: Patient) -> list[Finding]:
    """Find out whether the index can be had, is whole, and has read all that there is."""
    if not patient.homes:
        return []
    path = path_of_index([str(home.path) for home in patient.homes])
    if patient.index is None:
        return _wrong(patient, path, patient.no_index or "it cannot be read")
    db = patient.index.db
    try:
        said = [row[0] for row in db.execute("PRAGMA quick_check")]
        behind = _changed(patient, db)
        is_behind = behind or has_leftovers(db)
    except sqlite3.Error as error:
        return _wrong(patient, path, str(error))
    # SQLite before 3.41 says this of sound tables whose key is not their first columns.
    wrong = [each for each in said if each != "ok" and not each.startswith("NULL value in ")]
    if wrong:
        return _wrong(patient, path, wrong[0])
    if not is_behind:
        return []
    detail = f"{counted(behind, 'log')} changed since" if behind else "a refresh was cut off"
    return finding(
        "index",
        Urgency.LOOK,
        "The index is out of step with the logs",
        [Example(path=path, detail=detail)],
        patient.command("refresh"),
    )


def _changed(patient: Patient, db: sqlite3.Connection) -> int:
    """Count the logs that the index knows otherwise than they are."""
    live = {os.fspath(log.path) for log in patient.everything if patient.is_live(log)}
    seen, known = look(patient.everything), known_logs(db)
    behind = sum(
        has_changed(each, known.get(path), usage_only=False)
        for path, each in seen.items()
        if path not in live
    )
    gone = sum(
        entry.gone_at is None and is_absent(entry, seen, usage_only=True)
        for entry in known.values()
        if not os.path.exists(entry.path)
    )
    return behind + gone


def _wrong(patient: Patient, path: str, reason: str) -> list[Finding]:
    place = os.path.dirname(path)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    can_be_made = os.path.isdir(place) and os.access(place, os.W_OK)
    return finding(
        "index",
        Urgency.LOOK,
        "The index cannot be used; logs are read instead, which takes longer",
        [Example(path=path, detail=reason)],
        patient.command("refresh", "--rebuild")
        if can_be_made
        else patient.shell("ls", "-ld", place),
    )
