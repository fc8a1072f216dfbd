"""Which session paid, and how much: the same whatever was read first, and whatever came later."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.homes import SESSIONS, answered, lines, log_path, made_home, own_index
from records.answers import UUIDS
from turnlog.costs.usage import scan_usage
from turnlog.index.database import open_for_reading
from turnlog.index.ids import microseconds
from turnlog.index.refresh.refresh import refresh
from turnlog.index.usage import deduplicate
from turnlog.index.usage.deduplicate import _aged
from turnlog.index.usage.entries import OFFSET_BITS

_FIELDS = (
    "message_id, request_id, part, s.name, messages.subagent, is_sidechain, at, output, c.name,"
    " p.name"
)


@st.composite
def usage_records(draw) -> dict:
    """A record of one of few responses, told by one of few sessions, as forks and replays do."""
    number = draw(st.integers(0, 5))
    second = draw(st.integers(0, 9))
    uuid = draw(st.sampled_from([f"u{second}", *UUIDS, None]))
    record = answered(number, draw(st.sampled_from(["", "", "", *SESSIONS[:4]])), uuid=uuid)
    record["timestamp"] = f"2026-03-04T05:06:0{second}.000Z"
    record["requestId"] = draw(st.sampled_from([f"req_{number}", "another", None, None]))
    record["message"]["model"] = draw(st.sampled_from(["claude-opus-4-6", "glm-4.6"]))
    record["message"]["usage"]["output_tokens"] = draw(st.integers(1, 4))
    record["cwd"] = draw(st.sampled_from(["/srv/kites", "/srv/wind", None]))
    if draw(st.booleans()):
        record["isSidechain"] = True
    if draw(st.integers(0, 4)) == 0:
        origin = draw(st.sampled_from(UUIDS))
        record["forkedFrom"] = {"sessionId": SESSIONS[0], "messageUuid": origin}
    return record


@st.composite
def histories(draw) -> list[tuple[str, str | None, list[dict] | None, str]]:
    """Logs that grow, are written anew (None: what stands there goes), and what is refreshed."""
    steps = []
    for _ in range(draw(st.integers(1, 8))):
        session = draw(st.sampled_from(SESSIONS[:4]))
        subagent = draw(st.sampled_from([None, None, None, "a1b2c3"]))
        more = draw(st.lists(usage_records(), max_size=4) | st.none())
        steps.append((session, subagent, more, draw(st.sampled_from(["usage", "text", "none"]))))
    return steps


@given(histories())
def test_messages_are_those_of_a_scan_over_all(steps):
    check(steps)


def test_who_is_not_concerned_is_not_settled_by_half_of_what_is_known():
    one, two, three = SESSIONS[:3]

    def at(second, number, session):
        return answered(number, session, timestamp=f"2026-03-04T05:06:0{second}.000Z")

    steps = [
        (two, None, [at(1, 2, two), at(5, 1, two)], "none"),
        (three, None, [at(1, 2, three), at(9, 3, three)], "none"),
        (one, None, [at(5, 1, one)], "usage"),
        (one, None, [at(6, 7, one)], "usage"),
    ]
    check(steps)


def test_what_a_lost_log_decided_is_decided_anew():
    one, two = SESSIONS[:2]

    def at(second, number, session):
        return answered(number, session, timestamp=f"2026-03-04T05:06:0{second}.000Z")

    steps = [
        (one, None, [at(1, 1, one)], "none"),
        (two, None, [at(1, 1, two), at(5, 2, two)], "none"),
        (one, "a1b2c3", [at(3, 4, one)], "usage"),
        (one, "a1b2c3", None, "usage"),
        (two, None, [], "usage"),
    ]
    check(steps)


def test_a_fork_that_goes_on_is_as_old_as_it_was(monkeypatch):
    one, two = SESSIONS[:2]
    aged = []
    monkeypatch.setattr(deduplicate, "_aged", lambda *given: aged.append(_aged(*given)) or aged[-1])

    def at(second, number, session, **more):
        return answered(number, session, timestamp=f"2026-03-04T05:06:0{second}.000Z", **more)

    shared = [(one, None, [at(1, 1, one)], "none"), (two, None, [at(1, 1, two)], "none")]
    own = [(one, None, [at(3, 2, one)], "none"), (two, None, [at(2, 3, two)], "usage")]
    with monkeypatch.context() as nobody:
        nobody.setattr(deduplicate, "_rivals", lambda *_: pytest.fail("nobody need be asked for"))
        check([*shared, *own, (one, None, [at(4, 4, one)], "usage")])
    assert list(map(len, aged)) == [0]
    # What is told again later may have been what made a session the older one.
    check([*shared, *own, (two, None, [at(5, 3, two)], "usage")])
    assert list(map(len, aged)) == [0, 1]
    check([*shared, (one, None, [at(3, 2, one)], "usage"), (two, None, [at(2, 3, two)], "usage")])
    assert list(map(len, aged)) == [0, 1, 1]


def check(steps) -> None:
    """Take the steps; compare what the index says with a fold over all logs at once."""
    with tempfile.TemporaryDirectory() as directory, own_index():
        homes = made_home(Path(directory) / "home")
        for session, subagent, more, stage in steps:
            path = log_path(homes, session, subagent=subagent)
            for record in more or ():
                record["sessionId"] = record["sessionId"] or session
            if more is None:
                path.write_bytes(b"")
            else:
                with path.open("ab") as log:
                    log.write(lines(*more))
            if stage != "none":
                assert not refresh(homes, stage=stage).notices
        assert not refresh(homes, stage="usage").notices
        scan = scan_usage(homes)
        expected = sorted(
            repr((
                each.message_id, each.request_id, each.part, each.session, each.subagent,
                int(each.is_sidechain), microseconds(each.at), each.counters.output, each.cwd,
                each.project, each.log, each.offset,
            ))
            for each in scan.responses
        )  # fmt: skip
        with closing(open_for_reading(homes)) as db:
            found = db.execute(
                f"SELECT {_FIELDS}, logs.path, record & {(1 << OFFSET_BITS) - 1} FROM messages"
                " LEFT JOIN names s ON s.id = messages.session"
                " LEFT JOIN names c ON c.id = messages.cwd"
                " LEFT JOIN names p ON p.id = messages.project"
                f" JOIN logs ON logs.id = record >> {OFFSET_BITS}"
            ).fetchall()
            query = "SELECT sum(usage_count + tail_usage_count) FROM logs"
            sums = db.execute(query).fetchone()[0] or 0
        assert sorted(map(repr, found)) == expected
        assert sums == scan.entries + scan.synthetic
