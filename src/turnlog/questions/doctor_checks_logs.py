"""Is each log whole? Damage, logs that cannot be read, empty ones, and very large ones."""

from __future__ import annotations

import os
from typing import Final

from turnlog.formats import LogFile
from turnlog.questions.doctor_checks import Example, Finding, Patient, Urgency, counted, finding
from turnlog.questions.doctor_checks_survey import Surveyed
from turnlog.storage.repair import Repair

LARGE_BYTES: Final = 100_000_000
"""A log beyond this is worth a word."""
_AT_ONCE: Final = 4
"""So many names fit on a line."""


def damage(patient: Patient) -> list[Finding]:
    """Find logs with bytes that are no records, or with records where nobody else sees them."""
    plans = [each for each in patient.plans if each.plan.salvaged or each.plan.quarantined]
    plans.sort(key=lambda each: (-each.plan.salvaged, -len(each.plan.quarantined)))
    hidden = sum(plan.salvaged for _, plan in plans)
    examples = [_damaged(patient, log, plan) for log, plan in plans]
    logs = counted(len(plans), "log is", "logs are")
    if hidden:
        records = counted(hidden, "record is", "records are")
        message = f"{logs} damaged, and {records} hidden from other programs"
    else:
        message = f"{logs} damaged; every whole record can be read"
    return finding("damage", Urgency.ACT if hidden else Urgency.LOOK, message, examples)


def _damaged(patient: Patient, log: LogFile, plan: Repair) -> Example:
    said = []
    if plan.salvaged:
        said.append(f"{counted(plan.salvaged, 'record')} to free")
    others = len(plan.quarantined) - plan.torn
    if others:
        said.append(counted(others, "bad range"))
    if plan.torn:
        said.append("last line cut short")
    if log.agent_id is not None:
        said.append(f"agent {log.agent_id}")
    # Archives are never changed; what is wrong with one is all there is to say.
    mend = ("check",) if log.compression else ("repair", "--write")
    return patient.example(log, ", ".join(said), *mend)


def shortened(patient: Patient) -> list[Finding]:
    """Find logs that hold less than was kept of them."""
    found = [
        (patient.shortfalls[path], seen.log)
        for seen in patient.surveyed
        if (path := os.fspath(seen.log.path)) in patient.shortfalls
    ]
    found.sort(key=lambda each: -each[0].records)
    examples = [
        patient.example(log, f"{counted(lost.records, 'record')} lost", "restore", "--replace")
        for lost, log in found
    ]
    logs = counted(len(found), "log holds", "logs hold")
    return finding("shortened", Urgency.ACT, f"{logs} less than was kept", examples)


def unreadable(patient: Patient) -> list[Finding]:
    """Find what looks like a log, or may hold some, and cannot be read."""
    examples = [
        patient.example(seen.log, seen.problem) for seen in patient.surveyed if seen.problem
    ]
    examples += [
        Example(path=os.fspath(problem.path), detail=problem.reason) for problem in patient.problems
    ]
    what = counted(len(examples), "file or directory", "files or directories")
    first = examples[0].path if examples else ""
    return finding(
        "unreadable",
        Urgency.LOOK,
        f"{what} among the logs cannot be read",
        examples,
        patient.shell("ls", "-ld", first),
    )


def empty(patient: Patient) -> list[Finding]:
    """Find session files in which nothing stands."""
    plans = {each.log.path: each.plan for each in patient.plans}
    found = [
        seen.log
        for seen in patient.surveyed
        if seen.log.kind == "session"
        and os.fspath(seen.log.path) not in patient.shortfalls
        and _is_empty(seen, plans.get(seen.log.path))
        and not patient.is_live(seen.log)
    ]
    examples = [patient.example(log, "no records", "delete") for log in found]
    message = f"{counted(len(found), 'session file is', 'session files are')} empty"
    names = [patient.name_of(log) for log in found]
    command = patient.command("delete", *names) if len(names) <= _AT_ONCE else ""
    return finding("empty", Urgency.LOOK, message, examples, command)


def _is_empty(seen: Surveyed, plan: Repair | None) -> bool:
    if plan is not None:
        return not (plan.records or plan.quarantined)
    return not seen.problem and (seen.size_bytes == 0 or seen.records == 0)


def large(patient: Patient) -> list[Finding]:
    """Find logs that have grown very large."""
    found = [seen for seen in patient.surveyed if seen.size_bytes > LARGE_BYTES]
    found.sort(key=lambda seen: -seen.size_bytes)
    examples = [
        patient.example(seen.log, f"{seen.size_bytes / 1e6:,.0f} MB", "compact") for seen in found
    ]
    logs = counted(len(found), "log is", "logs are")
    return finding("large", Urgency.NOTE, f"{logs} larger than 100 MB", examples)
