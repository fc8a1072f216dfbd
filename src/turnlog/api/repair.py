"""Repair damaged logs, recover crashed sessions, and compact logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from turnlog.api.homes import Home, LogFile, row_from, turnlog_home
from turnlog.api.store import Store
from turnlog.formats.format import refuse_rewriting
from turnlog.keep.compaction.compact import Compaction, compact
from turnlog.keep.compaction.rules import Rule
from turnlog.keep.compaction.undo import CompactionUndo, undo
from turnlog.keep.copies.shortfall import Shortfalls
from turnlog.records.damage import Reason
from turnlog.sessions.recover import Recovery
from turnlog.sessions.recover_undo import UndoneRecovery
from turnlog.sessions.session import Session
from turnlog.storage.repair import Repair, repair

__all__ = [
    "CompactDocument",
    "Compaction",
    "CompactionUndo",
    "Recovery",
    "Repair",
    "RepairDocument",
    "Rule",
    "UndoDocument",
    "UndoneRecovery",
    "compact_document",
    "compact_session",
    "recover",
    "repair_document",
    "repair_logs",
    "undo_compaction",
    "undo_document",
    "undo_recovery",
]


class DamageRange(Struct, kw_only=True):
    """A range of bytes that is not a record."""

    offset: int
    length: int
    line: int
    reason: Reason


class RepairRow(Struct, kw_only=True):
    """The repair of one log, done or planned."""

    path: str
    needed: bool
    written: bool
    records: int
    salvaged: int
    rewritten: int
    """Records that the agent could not parse, rewritten as strict JSON."""
    blank: int
    adds_newline: bool
    quarantined: list[DamageRange]
    original: str | None
    quarantine: str | None
    lacking: int
    """Records that only the kept copy has: turnlog restore --force."""


class RepairDocument(Struct, kw_only=True):
    """The output of `turnlog repair --json`."""

    repairs: list[RepairRow]


class RepairedLog(NamedTuple):
    """A log, its repair, and how many records of its kept copy it lacks."""

    log: LogFile
    repair: Repair
    lacking: int


def repair_logs(logs: Iterable[LogFile], *, cap: int, write: bool = False) -> list[RepairedLog]:
    """Repair *logs*, or only return what would be done; *cap* is the longest line in bytes."""
    logs = list(logs)
    if write:
        refuse_rewriting(logs)
    plans = [(log, repair(log.path, write=write, cap=cap)) for log in logs]
    lacking = _lacking(log for log, _ in plans)
    return [RepairedLog(*plan, count) for plan, count in zip(plans, lacking, strict=True)]


def _lacking(logs: Iterable[LogFile]) -> list[int]:
    """Return how many records of its kept copy each log lacks."""
    compare = Shortfalls()
    shortfalls = [compare.of(log, is_suspect=True) for log in logs]
    return [0 if each is None else each.records for each in shortfalls]


def repair_document(repairs: Iterable[RepairedLog]) -> RepairDocument:
    """Return *repairs* as they are printed."""
    rows = []
    for _, plan, lacking in repairs:
        ranges = [row_from(DamageRange, damage) for damage in plan.quarantined]
        rows.append(row_from(RepairRow, plan, quarantined=ranges, lacking=lacking))
    return RepairDocument(repairs=rows)


def recover(homes: Sequence[Home], name: str, *, write: bool = False) -> Recovery:
    """Return what a crash left wrong in a session; with *write*, recover it."""
    store = Store(homes, turnlog_home())
    recovery = store.examine(name)
    logs = store.session(recovery.id).logs
    if write and recovery.needed:
        recovery = _home_of(store, recovery.id).recover(recovery.id)
    recovery.lacking = sum(_lacking(logs))
    return recovery


def undo_recovery(homes: Sequence[Home], name: str, *, write: bool = False) -> UndoneRecovery:
    """Return what undoing the last recovery of a session does; with *write*, undo it."""
    store = Store(homes, turnlog_home())
    undone = store.undo_recovery(name, write=False)
    if write and undone.needed:
        undone = _home_of(store, undone.id).undo_recovery(undone.id)
    return undone


def _home_of(store: Store, session_id: str) -> Store:
    """Open the home of a session for writing."""
    home = store.session(session_id).main_logs[-1].home
    return Store((home,), home.path)


class CompactRule(Struct, kw_only=True):
    """What one rule saves in a log."""

    rule: str
    lines: int
    size_bytes: int
    blob_bytes: int


class CompactLeftOut(Struct, kw_only=True):
    """A rule that was not applied because it would change these views."""

    rule: str
    views: list[str]


class CompactLog(Struct, kw_only=True):
    """The compaction of one log, done or planned."""

    path: str
    subagent: str | None
    written: bool
    size_bytes: int
    new_size_bytes: int
    blob_bytes: int
    saved_bytes: int
    rules: list[CompactRule]
    left_out: list[CompactLeftOut]
    original: str | None


class CompactDocument(Struct, kw_only=True):
    """The output of `turnlog compact --json`."""

    session: str
    written: bool
    blobs: bool
    size_bytes: int
    saved_bytes: int
    logs: list[CompactLog]


class UndoLog(Struct, kw_only=True):
    """The undo of one log's compaction, done or planned."""

    path: str
    subagent: str | None
    written: bool
    size_bytes: int
    new_size_bytes: int
    lines: int
    blobs: int
    originals: list[str]
    lost: list[str]


class UndoDocument(Struct, kw_only=True):
    """The output of `turnlog compact --undo --json`."""

    session: str
    written: bool
    logs: list[UndoLog]


def compact_session(
    homes: Sequence[Home], name: str, *, cap: int, write: bool = False, blobs: bool | None = None
) -> Compaction:
    """Return what compacting a session's logs saves; with *write*, compact them."""
    return compact(Session.find(homes, name), write=write, blobs=blobs, cap=cap)


def compact_document(done: Compaction) -> CompactDocument:
    """Return a compaction as it is printed."""
    logs = [
        row_from(
            CompactLog,
            log,
            subagent=log.agent_id,
            new_size_bytes=log.size_bytes - sum(saving.size_bytes for saving in log.savings),
            blob_bytes=sum(saving.blob_bytes for saving in log.savings),
            rules=[row_from(CompactRule, saving, rule=saving.rule.value) for saving in log.savings],
            left_out=[
                row_from(CompactLeftOut, each, rule=each.rule.value) for each in log.left_out
            ],
        )
        for log in done.logs
    ]
    return row_from(CompactDocument, done, logs=logs)


def undo_compaction(
    homes: Sequence[Home], name: str, *, cap: int, write: bool = False
) -> CompactionUndo:
    """Return what undoing the compaction of a session puts back; with *write*, undo it."""
    return undo(Session.find(homes, name), write=write, cap=cap)


def undo_document(done: CompactionUndo) -> UndoDocument:
    """Return an undone compaction as it is printed."""
    logs = [row_from(UndoLog, log, subagent=log.agent_id) for log in done.logs]
    return row_from(UndoDocument, done, logs=logs)
