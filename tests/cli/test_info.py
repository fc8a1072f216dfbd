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
    assert "2 responses, were made in another session and count there" in " ".join(out.split())
