"""What a user's type checker sees. Checked by mypy, never run."""

from typing import assert_type

import turnlog


def writing() -> None:
    with turnlog.open_log("s.jsonl") as log:
        assert_type(log, turnlog.LogWriter)
        assert_type(log.append({"type": "user"}), turnlog.Appended)
        assert_type(log.append_many([{"type": "user"}]), tuple[turnlog.Appended, ...])
    with turnlog.open_log("s.jsonl", durability="buffered") as later:
        assert_type(later, turnlog.BufferedLog)


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
