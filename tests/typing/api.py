"""What a user's type checker sees. Checked by mypy, never run."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import assert_type

import turnlog


def writing() -> None:
    with turnlog.open_log("s.jsonl") as log:
        assert_type(log, turnlog.LogWriter)
        assert_type(log.append({"type": "user"}), turnlog.Appended)
        assert_type(log.append_many([{"type": "user"}]), tuple[turnlog.Appended, ...])
    with turnlog.open_log("s.jsonl", durability="buffered") as later:
        assert_type(later, turnlog.BufferedLog)


def stores() -> None:
    with turnlog.open() as store:
        assert_type(store, turnlog.Store)
        assert_type(store.sessions(), list[turnlog.SessionRow])
        assert_type(store.find_sessions(since="7d"), list[turnlog.IndexedSession])
        assert_type(store.session("latest"), turnlog.KeptSession)
        assert_type(store.search("apples", since=date(2026, 11, 1)), turnlog.SearchDocument)
        assert_type(store.query("tools"), turnlog.QueryDocument)
        assert_type(store.sql("SELECT 1"), turnlog.SqlDocument)
        assert_type(store.cost(by=["day", "model"], since=datetime.now(UTC)), turnlog.Ledger)
        assert_type(store.insights(), turnlog.Insights)
        assert_type(store.check(), turnlog.Health)
        assert_type(store.keep(), turnlog.KeepRun)
        assert_type(store.restore("latest"), turnlog.Restored)
        assert_type(store.export("latest", format="html"), str)
        with store.create(project=".") as session:
            assert_type(session, turnlog.SessionWriter)
            assert_type(session.totals.cost_usd, Decimal)
        for _, record in store.session("latest").records():
            assert_type(record, turnlog.Record)
        for each in store.follow("latest"):
            assert_type(each.record, turnlog.Record | None)
    assert_type(turnlog.cost({}, "claude-sonnet-4-5"), Decimal | turnlog.Unpriced)


def reading() -> None:
    for item in turnlog.read_log("s.jsonl"):
        assert_type(item, turnlog.Placed | turnlog.Damage)
        match item:
            case turnlog.Placed(record=turnlog.Assistant() as answer):
                assert_type(answer.usage, turnlog.Usage | None)
            case turnlog.Placed(record=record):
                assert_type(record, turnlog.Record)
            case turnlog.Damage(reason=reason):
                assert_type(reason, turnlog.Reason)
    assert_type(turnlog.read_last("s.jsonl", 5), list[turnlog.Placed | turnlog.Damage])
    assert_type(turnlog.decode(b"{}"), turnlog.Record | turnlog.Damage)
    assert_type(turnlog.validate("s.jsonl"), turnlog.Validation)
    assert_type(turnlog.repair("s.jsonl"), turnlog.Repair)
