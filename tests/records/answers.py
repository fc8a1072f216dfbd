"""Builders for records of API responses, as logs hold them."""

from __future__ import annotations

import copy
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from strategies import to_line
from turnlog.records.dates import iso

SESSION = "11111111-1111-4111-8111-111111111111"
FORK = "22222222-2222-4222-8222-222222222222"
MODEL = "claude-sonnet-4-5-20250929"
AT = "2026-03-04T05:06:07.089Z"
UUIDS = [f"{number}0000000-1111-4111-8111-111111111111" for number in range(3)]
UUID = UUIDS[0]


def usage(output: Any = 10, **more: Any) -> dict[str, Any]:
    """A usage object with a little of everything."""
    return {
        "input_tokens": 3,
        "cache_creation_input_tokens": 300,
        "cache_read_input_tokens": 5000,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
        "output_tokens": output,
        "service_tier": "standard",
        **more,
    }


def answer(
    message_id: str | None = "msg_1",
    request_id: str | None = "req_1",
    *,
    said: Any = None,
    model: str | None = MODEL,
    **more: Any,
) -> dict[str, Any]:
    """One record of an API response; *said* is its usage."""
    message = {"role": "assistant", "content": [{"type": "text", "text": "kites"}]}
    ids = {"id": message_id, "model": model}
    message |= {key: value for key, value in ids.items() if value is not None}
    message["usage"] = usage() if said is None else said
    record = {
        "type": "assistant",
        "sessionId": SESSION,
        "cwd": "/srv/kites",
        "isSidechain": False,
        "timestamp": AT,
        "message": message,
    }
    if request_id is not None:
        record["requestId"] = request_id
    return record | more


def echo(record: dict[str, Any], subagent: str = "a1", **more: Any) -> dict[str, Any]:
    """A record of progress that repeats a subagent's *record*."""
    kept = ("type", "message", "requestId", "uuid", "timestamp")
    inner = {key: copy.deepcopy(record[key]) for key in kept if key in record}
    return {
        "type": "progress",
        "sessionId": record.get("sessionId"),
        "cwd": record.get("cwd"),
        "timestamp": "2026-03-05T00:00:00.000Z",
        "uuid": "e-1",
        "data": {"type": "agent_progress", "agentId": subagent, "message": inner},
        **more,
    }


def log_of(*records: Any) -> bytes:
    """The records as a log."""
    return b"".join(to_line(record) + b"\n" for record in records)


# Few ids, few figures, few instants: whatever can be confused is.
INSTANTS = [iso(datetime(2026, 3, 4, tzinfo=UTC) + timedelta(hours=7 * n)) for n in range(5)]
tellings = st.builds(
    answer,
    st.sampled_from([None, "msg_1", "msg_2", "msg_3"]),
    st.sampled_from([None, "req_1", "req_2"]),
    said=st.builds(
        usage,
        st.integers(0, 3),
        input_tokens=st.integers(0, 2),
        speed=st.sampled_from([None, "fast"]),
        iterations=st.none() | st.just([{"type": "compaction", "output_tokens": 1}]),
    ),
    model=st.sampled_from([None, MODEL, "claude-opus-4-6", "<synthetic>"]),
    sessionId=st.sampled_from([SESSION, FORK, None]),
    isSidechain=st.booleans(),
    agentId=st.sampled_from([None, "a1", "a2"]),
    cwd=st.sampled_from([None, "/srv/kites", "/srv/boats"]),
    timestamp=st.sampled_from([*INSTANTS, None, "never"]),
    uuid=st.sampled_from(["u-1", *UUIDS, None]),
    forkedFrom=st.sampled_from(
        [None, {"sessionId": SESSION}, {"sessionId": SESSION, "messageUuid": UUID}]
    ),
    costUSD=st.none() | st.floats(0, 1),
)
logs = st.lists(tellings | tellings.map(echo), max_size=12)


def as_set(responses):
    return Counter(repr(response) for response in responses)
