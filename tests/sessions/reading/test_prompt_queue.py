"""Prompts that wait in the subagent's queue, as the operations in the log tell."""

import json

import pytest

import turnlog
from sessions.homes import log, make_home, prompt, write
from turnlog.sessions.session import Session

AT = "2026-11-01T10:00:00.000Z"
NOTICE = "<task-notification>\n<task-id>b1</task-id>"


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path)


def op(operation, content=None):
    fields = {"type": "queue-operation", "operation": operation, "timestamp": AT}
    return fields if content is None else fields | {"content": content}


def waiting(home, *operations):
    log(home, "s1", prompt("u1"), *operations)
    return [each.text for each in Session.find((home,), "s1").queued]


@pytest.mark.parametrize(
    ("operations", "left"),
    [
        ((), []),
        ((op("enqueue", "one"),), ["one"]),
        ((op("enqueue", "one"), op("enqueue", "two"), op("dequeue")), ["two"]),
        ((op("enqueue", "one"), op("enqueue", "two"), op("remove", "two")), ["one"]),
        ((op("enqueue", "one"), op("enqueue", "two"), op("remove")), ["two"]),
        ((op("enqueue", "one"), op("enqueue", "two"), op("popAll", "one\ntwo")), []),
        ((op("dequeue"), op("remove"), op("enqueue", "one")), ["one"]),
        ((op("enqueue", "one"), op("juggle"), op("enqueue", "one")), ["one", "one"]),
    ],
)
def test_what_entered_and_did_not_leave_waits(home, operations, left):
    assert waiting(home, *operations) == left


def test_a_notice_of_the_program_is_no_prompt(home):
    older = '{"task_id":"b1","description":"tests"}'
    notices = op("enqueue", NOTICE), op("enqueue", older)
    assert waiting(home, *notices, op("enqueue", "mine")) == ["mine"]
    # One that leaves takes a prompt along: rather that than to call an answered one unanswered.
    assert waiting(home, *notices, op("enqueue", "mine"), op("dequeue")) == []


def test_blocks_are_told_by_their_text_and_nonsense_is_none(home):
    image = {"type": "image", "source": {}}
    blocks = [{"type": "text", "text": "look"}, image, {"type": "text", "text": "here"}]
    odd = op("enqueue", 7), op("enqueue", [image]), op("enqueue", {"text": "no"}), op("enqueue")
    assert waiting(home, op("enqueue", blocks), *odd) == ["look\nhere"]


def test_words_about_queues_and_other_sessions_do_not_count(home):
    quoted = prompt("u2", message={"role": "user", "content": '{"type":"queue-operation"}'})
    other = op("enqueue", "not mine") | {"sessionId": "s2"}
    assert waiting(home, quoted, other, op("enqueue", "mine")) == ["mine"]


def test_damage_costs_its_own_line_only(home):
    lines = [json.dumps(op("enqueue", "one")), '{"type":"queue-operation","oper', "\0"]
    write(home, "projects/-home-ada-orchard/s1.jsonl", "\n".join(lines))
    assert [each.text for each in Session.find((home,), "s1").queued] == ["one"]


@pytest.mark.parametrize("layout", ["claude", "dated", "flat"])
def test_a_session_of_ones_own_has_a_queue_too(tmp_path, layout):
    with turnlog.open(tmp_path / "root") as store:
        with store.create(project=tmp_path, layout=layout) as session:
            session.append(turnlog.build.user("begin"))
            session.append(turnlog.build.queue_operation("enqueue", "then this"))
            session.append(turnlog.build.queue_operation("enqueue", "and that"))
            session.append(turnlog.build.queue_operation("dequeue"))
        found = store.session(session.session_id).queued
    assert [each.text for each in found] == ["and that"]
    assert found[0].at is not None
