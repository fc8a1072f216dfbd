"""The strict rules: what a record of each type must carry."""

from __future__ import annotations

import pytest

from records.samples import CLAUDE, answered, said
from strategies import DIALECTS, to_line
from turnlog.records.codec import decode
from turnlog.records.record_types import REQUIRED, breaches

# Seen in real logs, and breaking the rules all the same.
LAX = {"progress/none", "queue-operation/none"}


def broken_by(sample):
    return list(breaches(decode(to_line(sample))))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_good_records_break_no_rule(dialect):
    for name, sample in DIALECTS[dialect].items():
        assert name in LAX or broken_by(sample) == []


@pytest.mark.parametrize(("dialect", "kind"), REQUIRED)
def test_a_missing_field_is_named(dialect, kind):
    sample = next(
        sample
        for name, sample in DIALECTS[dialect].items()
        if sample["type"] == kind and name not in LAX
    )
    for wanted in REQUIRED[dialect, kind]:
        names = wanted.split("|")
        less = {key: value for key, value in sample.items() if key not in names}
        record = decode(to_line(less))
        if record.dialect == dialect:  # Without its content a line may be nobody's.
            assert any(names[0] in breach for breach in breaches(record)), wanted


@pytest.mark.parametrize(
    ("sample", "word"),
    [
        (CLAUDE["queue-operation/enqueue"] | {"operation": "juggle"}, "juggle"),
        (CLAUDE["file-history"] | {"operation": "paint"}, "paint"),
        (CLAUDE["permission-mode"] | {"permissionMode": "free"}, "free"),
        (CLAUDE["system/informational"] | {"level": "loud"}, "loud"),
        (CLAUDE["user"] | {"timestamp": "9999-99-99T99:99:99Z"}, "invalid timestamp"),
        (CLAUDE["user"] | {"sessionId": 7}, "sessionId"),
        (said("user", "x") | {"message": {"role": "assistant", "content": "x"}}, "role"),
        (answered() | {"message": {"role": "assistant", "stop_reason": "bored"}}, "bored"),
        (DIALECTS["orchestrator"]["user"] | {"metadata": {"source": "pigeon"}}, "pigeon"),
        (DIALECTS["orchestrator"]["tool_result"] | {"error": "both"}, "both"),
    ],
)
def test_a_value_outside_its_set_is_named(sample, word):
    assert any(word in breach for breach in broken_by(sample))
