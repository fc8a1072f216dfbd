"""The real `claude` program and turnlog read each other's logs."""

import pytest

import turnlog
from e2e.orchard import ID, write_session
from turnlog import build
from turnlog.sessions.writing.fork import fork


def roles(messages):
    return [message["role"] for message in messages]


def test_claude_resumes_a_session_that_turnlog_wrote(claude, api):
    log = write_session(claude)
    before = log.read_bytes()
    done = claude("--resume", ID, "-p", "And pears?")
    assert done.returncode == 0, done.stderr
    sent = api.requests[-1]
    assert roles(sent)[:5] == ["user", "assistant", "user", "assistant", "user"]
    assert "How many apples?" in str(sent[0])
    assert "forty-two" in str(sent[2])
    assert "Forty-two apples." in str(sent[3])
    assert log.read_bytes().startswith(before)


def test_turnlog_reads_what_claude_wrote(claude):
    write_session(claude)
    claude("--resume", ID, "-p", "And pears?")
    session = claude.store.session(ID)
    checked = turnlog.validate(session.path)
    assert checked.is_valid
    assert checked.records > 10
    texts = [record.text for _, record in session.records(session.thread) if record.type == "user"]
    assert texts[0] == "How many apples?"
    assert any("And pears?" in text for text in texts)
    assert not session.tree.gaps


def test_turnlog_goes_on_where_claude_stopped(claude):
    log = write_session(claude)
    claude("--resume", ID, "-p", "And pears?")
    with claude.store.resume(ID) as session:
        session.append(build.user("Thank you"))
    found = claude.store.session(ID)
    assert not found.tree.gaps
    *_, (_, last) = found.records(found.thread)
    assert last.text == "Thank you"
    assert turnlog.validate(log).is_valid


def test_claude_resumes_a_fork(claude, api):
    write_session(claude)
    with claude.store.create(project=claude.project) as writer:
        fork(claude.store.session(ID), writer)
    done = claude("--resume", writer.session_id, "-p", "And pears?")
    assert done.returncode == 0, done.stderr
    assert roles(api.requests[-1])[:5] == ["user", "assistant", "user", "assistant", "user"]


@pytest.mark.parametrize(
    "injury",
    [
        lambda data: data + b'{"parentUuid":"x","type":"user","mess',
        lambda data: data.replace(b"}\n{", b"}{", 3),
        lambda data: data.replace(b'\n{"parentUuid"', b"\n" + b"\0" * 300 + b'{"parentUuid"'),
    ],
    ids=["a torn tail", "glued records", "runs of NULs"],
)
def test_claude_resumes_a_damaged_session_after_its_repair(claude, api, injury):
    log = write_session(claude)
    log.write_bytes(injury(log.read_bytes()))
    assert turnlog.repair(log, write=True).written
    done = claude("--resume", ID, "-p", "And pears?")
    assert done.returncode == 0, done.stderr
    assert roles(api.requests[-1])[:5] == ["user", "assistant", "user", "assistant", "user"]
