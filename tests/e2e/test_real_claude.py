"""The real `claude` program and turnlog read each other's logs."""

import os
import subprocess
from pathlib import Path

import claude_agent_sdk
import pytest

import turnlog
from e2e.fake_api import FakeApi
from turnlog import build
from turnlog.sessions.fork import fork

CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
ID = "66666666-ffff-4fff-8fff-666666666666"
MODEL = "claude-sonnet-4-5-20250929"

pytestmark = pytest.mark.skipif(not CLAUDE.exists(), reason="no `claude` for this platform")


@pytest.fixture
def api():
    with FakeApi() as server:
        yield server


@pytest.fixture
def claude(api, tmp_path):
    """Run the program in a directory and a home of its own."""
    project = tmp_path / "orchard"
    project.mkdir()

    def run(*arguments):
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "CLAUDE_CONFIG_DIR": str(tmp_path / "home"),
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",
        }
        return subprocess.run(
            [CLAUDE, *arguments],
            cwd=project,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    run.project = project
    run.store = turnlog.open(tmp_path / "home")
    return run


def write_session(claude):
    """Four messages: a prompt, a call, its result, an answer."""
    with claude.store.create(project=claude.project, session_id=ID) as session:
        session.append(build.user("How many apples?"))
        asked = build.call("Bash", {"command": "cat apples", "description": "Count"})
        session.append(build.assistant([asked], model=MODEL, stop_reason="tool_use"))
        session.append(build.result(asked["id"], "forty-two"))
        session.append(build.assistant("Forty-two apples.", model=MODEL))
    return session.path


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
