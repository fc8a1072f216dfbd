"""An index as rows that can be compared: what an id stands for in the place of every id.

Left out is what may differ between two indexes of the same logs: generations, devices, inodes,
times of files, dead texts, and when a log was found to be gone.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from turnlog.index.database import open_for_reading
from turnlog.index.ids import OFFSET_BITS, long_uuid
from turnlog.index.refresh.log_state import unpacked
from turnlog.index.usage.entries import SELECT, usage_entry_of

_OFFSET = (1 << OFFSET_BITS) - 1

Rows = dict[str, list[Any]]

_LOGS = (
    "path, home, layout, kind, session, subagent, project_key, usage_offset, usage_size_bytes,"
    " usage_fingerprint, text_offset, text_size_bytes, text_fingerprint, usage_count, synthetic,"
    " tail_usage_count, tail_synthetic, is_pending, gone_at IS NOT NULL, problem"
)
_USAGE_OF_LOGS = (
    "path, usage_offset, usage_size_bytes, usage_fingerprint, usage_count, synthetic,"
    " tail_usage_count, tail_synthetic, is_pending"
)
_SESSIONS = (
    "session, home, layout, sessions.path, size_bytes, projects.path, title, tag, started_at,"
    " last_active_at, records, prompts, subagents, damages, git_branch, version, models, life,"
    " is_sidechain, errors,"
    + "".join(
        f" (SELECT names FROM name_sets WHERE id = {each}_set),"
        for each in ("model", "branch", "tool")
    )
    + " gone_at IS NOT NULL"
)
_MESSAGES = (
    "message_id, request_id, part, s.name, subagent, is_sidechain, at, m.name, speeds.name,"
    " tiers.name, geos.name, input, output, cache_write_5m, cache_write_1h, cache_read,"
    " web_searches, others, recorded_usd, c.name, p.name, record FROM messages"
    " LEFT JOIN names s ON s.id = messages.session LEFT JOIN names m ON m.id = messages.model"
    " LEFT JOIN names c ON c.id = messages.cwd LEFT JOIN names p ON p.id = messages.project"
    " LEFT JOIN names speeds ON speeds.id = messages.speed"
    " LEFT JOIN names tiers ON tiers.id = messages.service_tier"
    " LEFT JOIN names geos ON geos.id = messages.inference_geo"
)


def rows_of(homes: Any, *, words: bool = True) -> Rows:
    """Give all that the index of *homes* says."""
    db = open_for_reading(homes)
    assert db is not None, "there is no index to read"
    with closing(db):
        return rows_in(db, words=words)


def rows_in(db: sqlite3.Connection, *, words: bool = True) -> Rows:
    """Give all that an index says, table by table, in an order."""
    paths = dict(db.execute("SELECT id, path FROM logs"))
    names = dict(db.execute("SELECT id, name FROM names"))
    sessions = {
        row[0]: row[1:] for row in db.execute("SELECT id, session, home FROM sessions").fetchall()
    }

    def place(record: int | None) -> Any:
        if record is None:
            return None
        return paths.get(record >> OFFSET_BITS, "no such log"), record & _OFFSET

    rows: Rows = usage_rows_in(db)
    rows["logs"] = db.execute(f"SELECT {_LOGS} FROM logs").fetchall()
    rows["folds"] = [
        (path, *map(_unpacked, folds))
        for path, *folds in db.execute("SELECT path, folded, tail_folded FROM logs")
    ]
    rows["records"] = [
        (
            place(row[0]),
            row[1],
            names[row[2]],
            names[row[3]],
            sessions[row[4]] if row[4] is not None else None,
            long_uuid(row[5]),
            long_uuid(row[6]),
            row[7],
            names.get(row[8]),
            names.get(row[9]),
            *row[10:],
        )
        for row in db.execute("SELECT * FROM records")
    ]
    rows["carried"] = [
        (place(row[0]), long_uuid(row[1])) for row in db.execute("SELECT * FROM carried")
    ]
    rows["repeats"] = [tuple(map(place, row)) for row in db.execute("SELECT * FROM repeats")]
    rows["damages"] = [(place(row[0]), *row[1:]) for row in db.execute("SELECT * FROM damages")]
    rows["calls"] = [
        (place(row[0]), row[1], row[2], names[row[3]], row[4], place(row[5]), *row[6:])
        for row in db.execute("SELECT * FROM calls")
    ]
    rows["touches"] = [
        (place(row[0]), *row[1:])
        for row in db.execute(
            "SELECT record, block, paths.path, action FROM touches"
            " LEFT JOIN paths ON paths.id = touches.path"
        )
    ]
    rows["texts"] = [
        (place(row[0]), *row[1:])
        for row in db.execute("SELECT record, part, kind FROM texts WHERE record IS NOT NULL")
    ]
    rows["sessions"] = db.execute(
        f"SELECT {_SESSIONS} FROM sessions LEFT JOIN projects ON projects.id = sessions.project"
    ).fetchall()
    rows["subagents"] = [
        (paths.get(row[0], "no such log"), *row[1:])
        for row in db.execute("SELECT * FROM subagents")
    ]
    rows["pending_sessions"] = db.execute("SELECT * FROM pending_sessions").fetchall()
    if words:
        rows |= _words(db, place)
    return {table: sorted(found, key=repr) for table, found in rows.items()}


def usage_rows_in(db: sqlite3.Connection) -> Rows:
    """Give what an index says of usage: all of it, if only that stage was refreshed."""
    paths = dict(db.execute("SELECT id, path FROM logs"))
    rows: Rows = {
        "usage of logs": db.execute(f"SELECT {_USAGE_OF_LOGS} FROM logs").fetchall(),
        "usage_entries": [
            (usage_entry_of((_plain(row[0], paths), *row[1:6])),)
            for row in db.execute(SELECT).fetchall()
        ],
        "messages": [
            (*row[:-1], paths.get(row[-1] >> OFFSET_BITS, "no such log"), row[-1] & _OFFSET)
            for row in db.execute(f"SELECT {_MESSAGES}").fetchall()
        ],
        "skipped": [
            (paths.get(row[0], "no such log"), *row[1:])
            for row in db.execute("SELECT * FROM skipped")
        ],
        "pending_usage": db.execute("SELECT * FROM pending_usage").fetchall(),
    }
    return {table: sorted(found, key=repr) for table, found in rows.items()}


def differences(one: Rows, two: Rows) -> str:
    """Tell the first rows in which two indexes differ; nothing if they do not."""
    told = []
    for table in one:
        ours, theirs = list(map(repr, one[table])), list(map(repr, two[table]))
        if ours != theirs:
            only, others = sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))
            told.append(
                f"{table} ({len(ours)}, {len(theirs)}): only here {only[:2]}, only there"
                f" {others[:2]}"
            )
    return "\n".join(told)


def _plain(name: str, paths: dict[int, str]) -> str:
    """Replace the log's id in the name of a response that has none."""
    if not name.startswith("nameless "):
        return name
    log, _, rest = name.removeprefix("nameless ").partition(" ")
    return f"nameless {paths.get(int(log), 'no such log')} {rest}"


def _unpacked(fold: bytes | None) -> Any:
    return None if fold is None else unpacked(fold)


def _words(db: sqlite3.Connection, place: Any) -> Rows:
    """Give every word of the full-text tables with the text it stands in, dead ones left out."""
    texts = {
        row[0]: (place(row[1]), row[2])
        for row in db.execute("SELECT id, record, part FROM texts WHERE record IS NOT NULL")
    }
    rows: Rows = {}
    for table in ("said", "answered"):
        db.execute(
            f"CREATE VIRTUAL TABLE temp.words_of_{table} USING fts5vocab('main', '{table}',"
            " 'instance')"
        )
        found = db.execute(f"SELECT doc, term, offset FROM temp.words_of_{table}")
        rows[f"words {table}"] = [(texts[row[0]], *row[1:]) for row in found if row[0] in texts]
        db.execute(f"DROP TABLE temp.words_of_{table}")
    return rows
