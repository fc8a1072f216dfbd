"""``turnlog info``, run as a person runs it."""

import json
from decimal import Decimal

from index.homes import SESSIONS, answered, lines, log_path, made_home


def test_what_a_fork_took_for_its_own_is_told_as_the_ledger_has_it(turnlog, tmp_path):
    homes = made_home(tmp_path)
    for session, numbers in ((SESSIONS[0], (1, 2)), (SESSIONS[1], (1, 2, 3))):
        times = [f"2026-03-04T05:0{number}:00.000Z" for number in numbers]
        told = zip(numbers, times, strict=True)
        records = [answered(number, session, timestamp=at) for number, at in told]
        log_path(homes, session).write_bytes(lines(*records))

    def told(session):
        found = json.loads(turnlog("info", session, "--home", tmp_path, "--json")[1])
        own = Decimal(found["cost_usd"]) - Decimal(found["carried_usd"])
        return found["messages"], found["carried_messages"], own

    assert [told(session)[:2] for session in SESSIONS[:2]] == [(2, 0), (3, 0)]
    found = json.loads(turnlog("cost", "session", "--home", tmp_path, "--json")[1])
    costs = {row["session"]: Decimal(row["cost_usd"]) for row in found["rows"]}
    assert told(SESSIONS[0]) == (2, 0, costs[SESSIONS[0]])
    assert told(SESSIONS[1]) == (3, 2, costs[SESSIONS[1]])
    _, out, _ = turnlog("info", SESSIONS[1], "--home", tmp_path)
    assert "2 responses from another session, counted there" in " ".join(out.split())


def test_a_message_id_that_two_sessions_share_by_chance_is_carried_by_neither(turnlog, tmp_path):
    """A gateway gave both the same id; the third session is a fork of the first."""
    homes = made_home(tmp_path)
    shared = {"message": {"id": "msg_20260215055127"}, "requestId": None}
    uuids = [f"{n}0000000-1111-4111-8111-111111111111" for n in range(2)]
    for session, uuid, more in (
        (SESSIONS[0], uuids[0], ()),
        (SESSIONS[1], uuids[1], ()),
        (SESSIONS[2], uuids[0], (answered(9, SESSIONS[2]),)),
    ):
        record = answered(1, session, uuid=uuid, **shared)
        log_path(homes, session).write_bytes(lines(record, *more))
    found = json.loads(turnlog("cost", "session", "--home", tmp_path, "--json")[1])
    assert found["totals"]["messages"] == 3
    turnlog("refresh", "--home", tmp_path)
    indexed = json.loads(turnlog("cost", "session", "--home", tmp_path, "--json")[1])
    assert indexed["totals"] == found["totals"]
    told = [turnlog("info", session, "--home", tmp_path) for session in SESSIONS[:3]]
    assert ["from another session" in out for _, out, _ in told] == [False, False, True]
    assert "1 response from another session" in " ".join(told[2][1].split())
