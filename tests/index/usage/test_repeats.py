"""What a fork or a resume carried along stands in several logs, and counts in one of them."""

from __future__ import annotations

import json
import tempfile
from contextlib import closing
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from index.homes import SESSIONS, asked, lines, log_path, made_home, own_index, rebuilt
from index.rows import differences, rows_of
from turnlog.index.database import open_for_reading
from turnlog.index.refresh.refresh import refresh

UUIDS = [f"7c1d9f0e-5a52-4c11-9a3d-2f6f0d0c4c{number:02x}" for number in range(6)]


@st.composite
def copies(draw) -> dict:
    """One of few records, as its session tells it, or a fork that kept its uuid or gave another."""
    number = draw(st.integers(0, 5))
    record = asked(number, draw(st.sampled_from(["", "", *SESSIONS[:3]])), uuid=UUIDS[number])
    if draw(st.booleans()):
        origin = draw(st.sampled_from(UUIDS))
        record["forkedFrom"] = draw(
            st.sampled_from(
                [{"sessionId": "x", "messageUuid": origin}, {}, "x", {"messageUuid": 3}]
            )
        )
    return record


@st.composite
def histories(draw) -> list[tuple[str, list[dict] | None, bool]]:
    """Logs that grow or are written anew (None: what stands there goes), and when is refreshed."""
    return [
        (
            draw(st.sampled_from(SESSIONS[:3])),
            draw(st.lists(copies(), max_size=4) | st.none()),
            draw(st.booleans()),
        )
        for _ in range(draw(st.integers(1, 8)))
    ]


@given(histories())
def test_repeats_are_told_alike_whatever_was_read_first(steps):
    with tempfile.TemporaryDirectory() as directory, own_index():
        homes = made_home(Path(directory))
        for session, more, is_refreshed in steps:
            path = log_path(homes, session)
            if more is None:
                path.write_bytes(lines(asked(9, session, uuid=f"own {session}")))
            else:
                with path.open("ab") as log:
                    log.write(
                        lines(
                            *(each | {"sessionId": each["sessionId"] or session} for each in more)
                        )
                    )
            if is_refreshed:
                refresh(homes)
        refresh(homes)
        assert repeats(homes) == plain_repeats(homes)
        assert not differences(rows_of(homes), rebuilt(homes))


def repeats(homes):
    """Give every record that repeats another one, and that one, as log and number of the line."""
    with closing(open_for_reading(homes)) as db:
        paths = dict(db.execute("SELECT id, path FROM logs"))

        def place(record):
            path = Path(paths[record >> 40])
            before = path.read_bytes()[: record & ((1 << 40) - 1)]
            return path.stem, before.count(b"\n")

        return {place(one): place(two) for one, two in db.execute("SELECT * FROM repeats")}


def plain_repeats(homes):
    """Give the same, by reading all logs and putting all together that are one."""
    found = []
    for path in Path(homes[0].path).rglob("*.jsonl"):
        for number, line in enumerate(path.read_text().splitlines()):
            record = json.loads(line)
            copied = record.get("forkedFrom")
            origin = copied.get("messageUuid") if isinstance(copied, dict) else None
            is_copy = copied is not None or record["sessionId"] != path.stem
            origin = origin if isinstance(origin, str) else record["uuid"]
            found.append((is_copy, path.stem, number, record["uuid"], origin))
    origins = {
        uuid: origin for is_copy, *_, uuid, origin in sorted(found) if is_copy and origin != uuid
    }
    groups: dict[str, list] = {}
    for each in sorted(found):
        groups.setdefault(root_of(each[3], origins), []).append(each)
    return {
        (log, number): group[0][1:3]
        for group in groups.values()
        for _, log, number, *_ in group
        if log != group[0][1]
    }


def root_of(uuid, origins):
    passed = [uuid]
    while passed[-1] in origins and origins[passed[-1]] not in passed:
        passed.append(origins[passed[-1]])
    return passed[-1]


def test_what_is_no_uuid_names_a_record_of_its_log_alone(tmp_path):
    homes = made_home(tmp_path)
    for session in SESSIONS[:2]:
        log_path(homes, session).write_bytes(lines(asked(1, session, uuid="1")))
    with own_index():
        refresh(homes)
        assert repeats(homes) == {}


def test_what_an_agent_begins_with_is_its_callers(tmp_path):
    """In older homes subagents' logs lie beside those of sessions, and may come first by name."""
    homes = made_home(tmp_path)
    session = f"b{SESSIONS[0][1:]}"
    prompt = asked(1, session, uuid=UUIDS[0])
    log_path(homes, session).write_bytes(lines(prompt))
    begun = prompt | {"isSidechain": True, "agentId": "a1b2c3"}
    log_path(homes, "agent-a1b2c3").write_bytes(lines(begun))
    with own_index():
        refresh(homes)
        assert repeats(homes) == {("agent-a1b2c3", 0): (session, 0)}
