"""The real `claude` goes on with a session whose whole home was deleted, as if nothing was lost.

It is kept, the home is deleted, the session restored and resumed: the API receives the very same
messages as from an untouched copy of the home. Moved to another directory, it resumes there.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

from e2e.fake_api import said_since
from e2e.orchard import ID, arrived
from sampling import sampled
from turnlog import build
from turnlog.formats import Home, key_of
from turnlog.keep.copies.keep import keep
from turnlog.keep.restore.restorable import all_mirrors, find_restorable
from turnlog.keep.restore.restore import RestoreOutcome, restore
from turnlog.keep.verify import verify
from turnlog.sessions.reading.subagents import SUBAGENT_TOOLS
from turnlog.sessions.reading.threads import visible

OTHER = "66666666-ffff-4fff-8fff-777777777777"
LONG_AGO = 1_700_000_000
FREELY = "--dangerously-skip-permissions"


class Orchardist:
    """Answers as a model would: it looks, writes a file, keeps todos, and asks an agent."""

    def __init__(self, project):
        self.project = project

    def __call__(self, asked):
        said = said_since(asked)
        words = " ".join(block["text"] for block in said if block["type"] == "text")
        if any(block["type"] == "tool_result" for block in said):
            return None
        names = {tool["name"] for tool in asked.get("tools", ())}
        if "Count the figs" in words:
            return [bash("toolu_figs", "echo nine")]
        if "Walk the orchard" in words:
            told = {
                "description": "Count",
                "prompt": "Count the figs",
                "subagent_type": "general-purpose",
                "run_in_background": False,
            }
            (agent,) = SUBAGENT_TOOLS & names
            return [
                build.text("I walk."),
                # More than is shown to the model at once: it goes to a file beside the log.
                bash("toolu_long", "seq 1 30000"),
                build.call(agent, told, call_id="toolu_agent"),
            ]
        if "Write it down" in words:
            path = str(self.project / "apples.txt")
            return [
                build.call("Write", {"file_path": path, "content": "42\n"}, call_id="toolu_write")
            ]
        return None


def bash(call_id, command):
    return build.call("Bash", {"command": command, "description": "Look"}, call_id=call_id)


@pytest.fixture
def walked(claude, api, tmp_path, monkeypatch):
    """A session of three turns, with an agent, long output and a file that was written; kept."""
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    api.answer = Orchardist(claude.project)
    for arguments in (
        ("--session-id", ID, "-p", "Walk the orchard"),
        ("--resume", ID, "-p", "Write it down"),
        ("--resume", ID, "-p", "Thank you"),
    ):
        done = claude(*arguments, FREELY)
        assert done.returncode == 0, done.stderr
    run = keep([Home(claude.home)])
    assert not run.problems
    assert ID in run.sessions
    api.answer = lambda _asked: None
    return claude.store.session(ID)


def lost(home):
    """Delete the home, and whatever its copies do not bring back."""
    shutil.rmtree(home)
    return find_restorable(all_mirrors([Home(home)]), ID)


def resumed(claude, api):
    """Go on with the session; give the messages that arrive."""
    count = len(api.requests)
    done = claude("--resume", ID, "-p", "And pears?")
    assert done.returncode == 0, done.stderr
    (messages,) = api.requests[count:]
    return messages


def test_claude_goes_on_as_if_its_home_had_never_been_deleted(claude, api, walked):
    thread = [node.uuid for node in visible(walked.thread)]
    agents = [agent.id for agent in walked.subagents]
    untouched = claude.home.with_name("untouched")
    shutil.copytree(claude.home, untouched)
    before = {path.relative_to(claude.home) for path in claude.home.rglob("*") if path.is_file()}
    session = lost(claude.home)
    done = restore(session)
    assert {file.outcome for file in done.files} == {RestoreOutcome.WRITTEN}
    names = {file.name for file in done.files}
    assert any("/subagents/agent-" in name and name.endswith(".jsonl") for name in names)
    assert any("/tool-results/" in name for name in names)
    for path in before:
        if ID in str(path):  # All that is the session's came back, byte for byte.
            assert (claude.home / path).read_bytes() == (untouched / path).read_bytes()
    assert [node.uuid for node in visible(claude.store.session(ID).thread)] == thread
    assert [agent.id for agent in claude.store.session(ID).subagents] == agents
    assert not verify([Home(claude.home)]).findings

    sent = resumed(claude, api)
    shutil.rmtree(claude.home)
    untouched.rename(claude.home)
    assert sent == resumed(claude, api)
    words = [said for role, kind, said in arrived(sent) if (role, kind) == ("user", "text")]
    assert words == ["Walk the orchard", "Write it down", "Thank you", "And pears?"]
    kinds = [kind for _, kind, _ in arrived(sent)]
    assert kinds.count("tool_use") == kinds.count("tool_result") == 3


def emptied(_data):
    return b""


def without_its_middle(data):
    return data[: len(data) // 3] + data[2 * len(data) // 3 :]


@pytest.mark.slow
@pytest.mark.parametrize("injure", sampled([without_its_middle, emptied], 2))
def test_claude_goes_on_from_a_log_that_its_kept_copy_made_whole(claude, api, walked, injure):
    whole = walked.path.read_bytes()
    sent = resumed(claude, api)
    injured = injure(whole)
    walked.path.write_bytes(injured)
    done = restore(find_restorable(all_mirrors([Home(claude.home)]), ID), replace=True)
    (replaced,) = [file for file in done.files if file.outcome is RestoreOutcome.REPLACED]
    assert walked.path.read_bytes() == whole
    assert Path(replaced.aside).read_bytes() == injured
    assert arrived(resumed(claude, api)) == arrived(sent)


@pytest.mark.slow
def test_claude_goes_on_in_another_directory(claude, api, walked, read_by_sdk):
    original = resumed(claude, api)
    old, thread = claude.project, read_by_sdk(ID)
    session = lost(claude.home)
    new = old.with_name("Obst Garten ü")
    old.rename(new)
    claude.project = new
    count = len(api.requests)
    done = restore(session, project=new)
    assert done.project == os.path.realpath(new)
    assert done.moved > 0
    assert done.elsewhere == 0
    assert read_by_sdk(ID) == thread[: len(read_by_sdk(ID))]
    sent = resumed(claude, api)
    assert len(api.requests) == count + 1
    # The same history, word for word: what was said is what was said, wherever it goes on.
    assert arrived(sent) == arrived(original)
    log = claude.home / "projects" / key_of(os.path.realpath(new)) / f"{ID}.jsonl"
    assert [str(path) for path in claude.home.glob("projects/*/*.jsonl")] == [str(log)]
    told = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert {each["cwd"] for each in told if "cwd" in each} == {os.path.realpath(new)}
    assert not claude.store.session(ID).tree.gaps


@pytest.mark.slow
def test_a_session_that_was_restored_is_not_deleted_at_the_next_start(claude, api, walked):
    """Claude Code deletes what was not changed for thirty days, by the time of its file."""
    log = walked.path.relative_to(claude.home)
    for path in claude.home.rglob("*"):
        if path.is_file():
            os.utime(path, (LONG_AGO, LONG_AGO))
    keep([Home(claude.home)])
    restore(lost(claude.home))
    forgotten = claude.home / log.with_name(OTHER + ".jsonl")
    shutil.copy(claude.home / log, forgotten)
    os.utime(forgotten, (LONG_AGO, LONG_AGO))
    api.pause_seconds = 1.5  # It cleans up when it has been up for a while.
    claude("-p", "Hello")
    api.pause_seconds = 0
    assert not forgotten.exists()
    assert ("user", "text", "Walk the orchard") in arrived(resumed(claude, api))
