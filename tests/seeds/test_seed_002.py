"""Seed 002: the minimal session, incremental reading, and who said what."""

from __future__ import annotations

import pytest

from turnlog.formats import project_key
from turnlog.records.codec import decode, encode
from turnlog.records.meaning import Author, Meaning, author_of, meaning_of
from turnlog.records.usage import Usage
from turnlog.storage.reader import Placed, Reader, read_log
from turnlog.storage.tail import Restart, follow_log
from turnlog.storage.writer import LogWriter

PROMPT = (
    b'{"uuid":"msg-001","sessionId":"sess-123","type":"user","timestamp":"2025-12-06T10:00:00Z",'
    b'"message":{"role":"user","content":"Ahoy"}}'
)
REPLY = (
    b'{"uuid":"msg-002","sessionId":"sess-123","type":"assistant",'
    b'"timestamp":"2025-12-06T10:00:05Z","message":{"model":"claude-opus-4-5-20251101",'
    b'"role":"assistant","content":[{"type":"text","text":"Ahoy! Where to?"}],'
    b'"usage":{"input_tokens":10,"output_tokens":15}}}'
)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "sess-123.jsonl"


def read_from(log, offset=0):
    with Reader(log, start=offset, tail="wait") as reader:
        found = [item.record.uuid for item in reader if isinstance(item, Placed)]
        return found, reader.offset


# -- Z4: the minimal session ----------------------------------------------------------------


def test_the_minimal_session_of_two_records_is_read(log):
    log.write_bytes(PROMPT + b"\n" + REPLY + b"\n")
    prompt, reply = (item.record for item in read_log(log))
    assert (prompt.text, reply.text) == ("Ahoy", "Ahoy! Where to?")
    assert prompt.session_id == reply.session_id == "sess-123"
    assert reply.model == "claude-opus-4-5-20251101"
    assert reply.usage == Usage(input=10, output=15)
    assert (reply.at - prompt.at).total_seconds() == 5
    assert (encode(prompt), encode(reply)) == (PROMPT, REPLY)


def test_missing_common_fields_are_defaults(log):
    record = decode(PROMPT)
    assert (record.cwd, record.version, record.git_branch, record.parent_uuid) == (None,) * 4
    assert record.is_sidechain is False


# -- incremental reading --------------------------------------------------------------------


def test_reading_goes_on_where_it_stopped(log):
    log.write_bytes(PROMPT + b"\n")
    first, offset = read_from(log)
    with LogWriter(log) as writer:
        writer.append(decode(REPLY))
    second, end = read_from(log, offset)
    assert (first, second) == (["msg-001"], ["msg-002"])
    assert end == log.stat().st_size
    assert read_from(log, end) == ([], end)


@pytest.mark.parametrize("cut", [1, 40, len(REPLY) - 1, len(REPLY)])
def test_an_incomplete_line_at_the_end_is_left_for_the_next_time(log, cut):
    log.write_bytes(PROMPT + b"\n" + REPLY[:cut])
    found, offset = read_from(log)
    assert (found, offset) == (["msg-001"], len(PROMPT) + 1)
    log.write_bytes(PROMPT + b"\n" + REPLY + b"\n")
    assert read_from(log, offset)[0] == ["msg-002"]


def test_the_offset_is_right_with_windows_line_ends_and_without_a_final_one(log):
    log.write_bytes(PROMPT + b"\r\n" + REPLY)
    _, offset = read_from(log)
    assert offset == len(PROMPT) + 2
    assert offset <= log.stat().st_size


def test_a_log_shorter_than_the_offset_is_read_from_its_start(log):
    log.write_bytes(PROMPT + b"\n")
    watcher = follow_log(log, start=5000)
    assert isinstance(next(watcher), Restart)
    assert next(watcher).record.uuid == "msg-001"
    watcher.close()


def test_an_invalid_line_does_not_stop_the_reading(log):
    log.write_bytes(PROMPT + b"\n{broken\n" + REPLY + b"\n")
    assert read_from(log)[0] == ["msg-001", "msg-002"]


# -- who and what ---------------------------------------------------------------------------

TOOL = (
    b'{"uuid":"m-3","parentUuid":"m-2","type":"user","message":{"role":"user","content":'
    b'[{"type":"tool_result","tool_use_id":"toolu_1","content":"Land."}]},"toolUseResult":'
    b'{"status":"completed","agentId":"a4767a09","prompt":"Look for land"}}'
)
TASK = (
    b'{"uuid":"m-2","type":"assistant","message":{"content":[{"type":"tool_use","id":"toolu_1",'
    b'"name":"Task","input":{"subagent_type":"Plan","prompt":"Look for land"}}]}}'
)


@pytest.mark.parametrize(
    ("line", "author", "meaning"),
    [
        (PROMPT, Author.HUMAN, Meaning.PROMPT),
        (REPLY, Author.ASSISTANT, Meaning.RESPONSE),
        (TASK, Author.ASSISTANT, Meaning.CALL),
        (TOOL, Author.TOOL, Meaning.RESULT),
    ],
)
def test_author_and_meaning_are_as_the_seed_maps_them(line, author, meaning):
    record = decode(line)
    assert (author_of(record), meaning_of(record)) == (author, meaning)


def test_an_agent_is_linked_to_the_call_that_spawned_it():
    task, result = decode(TASK), decode(TOOL)
    assert result.tool_use_result["agentId"] == "a4767a09"
    assert result.parent_uuid == task.uuid
    assert result.results[0].tool_use_id == task.calls[0].id
    assert task.calls[0].input["subagent_type"] == "Plan"


def test_an_agents_records_carry_the_parents_session():
    line = PROMPT[:-1] + b',"agentId":"a1a93487","slug":"warm-tern","isSidechain":true}'
    record = decode(line)
    assert (record.agent_id, record.slug, record.is_sidechain) == ("a1a93487", "warm-tern", True)
    assert record.session_id == "sess-123"
    assert author_of(record) is Author.CALLER


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/Users/mira/dev/boat", "-Users-mira-dev-boat"),
        ("/home/user/projects/myapp", "-home-user-projects-myapp"),
    ],
)
def test_project_paths_are_encoded_as_the_seed_shows(path, key):
    assert project_key(path, environ={}) == key
