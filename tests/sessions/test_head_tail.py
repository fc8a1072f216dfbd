"""Which session is the latest: the one that was active last, whatever was touched since."""

import json
import os

import pytest

from turnlog.catalog.indexed_sessions import list_indexed
from turnlog.catalog.sessions import list_sessions
from turnlog.errors import NotFound
from turnlog.formats import Home
from turnlog.index.connection import open_fresh
from turnlog.sessions.owners import find_any_session
from turnlog.sessions.session import Session

OLD, NEW, WARM = (f"{n * 8}-aaaa-4aaa-8aaa-{n * 12}" for n in "123")


@pytest.fixture
def home(tmp_path):
    (tmp_path / "projects" / "-srv").mkdir(parents=True)
    return Home(tmp_path)


def put(home, session, at, changed, **more):
    message = {"role": "user", "content": "hello"}
    fields = {"type": "user", "uuid": session, "sessionId": session, "message": message} | more
    path = home.path / "projects" / "-srv" / f"{session}.jsonl"
    path.write_text(json.dumps(fields | ({"timestamp": at} if at else {})) + "\n")
    os.utime(path, (changed, changed))


def latest(home):
    return find_any_session([home], "latest")[0].session_id


def test_latest_is_the_one_that_lists_show_first(home):
    put(home, OLD, "2026-10-01T10:00:00Z", changed=1_800_000_000)  # Restored, or renamed, lately.
    put(home, NEW, "2026-11-01T10:00:00Z", changed=1_793_527_200)
    assert latest(home) == NEW == list_sessions([home]).sessions[0].id


def test_what_lists_leave_out_is_not_the_latest(home):
    put(home, OLD, "2026-10-01T10:00:00Z", changed=1_790_848_800)
    put(home, WARM, "2026-11-01T10:00:00Z", changed=1_793_527_200, isSidechain=True)
    assert latest(home) == OLD == list_sessions([home]).sessions[0].id
    assert find_any_session([home], WARM[:8])[0].session_id == WARM


def test_without_instants_the_files_own_times_tell(home):
    put(home, OLD, None, changed=1_790_000_000)
    put(home, NEW, None, changed=1_780_000_000)
    assert latest(home) == OLD == list_sessions([home]).sessions[0].id


def test_if_none_would_be_listed_the_one_that_changed_last_is_meant(home):
    put(home, WARM, "2026-11-01T10:00:00Z", changed=1_793_527_200, isSidechain=True)
    assert latest(home) == WARM


def test_a_prompt_far_behind_a_command_names_the_session_in_every_list(home, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    printed = f"<local-command-stdout>{'news ' * 20_000}</local-command-stdout>"
    texts = [
        "<command-name>/release-notes</command-name>",
        printed,
        "Fix the gate",
        printed,
        "Go on",
    ]
    lines = [
        json.dumps(
            {
                "type": "user",
                "uuid": f"u{number}",
                "sessionId": OLD,
                "message": {"role": "user", "content": text},
                "timestamp": f"2026-10-01T10:00:0{number}Z",
            }
        )
        for number, text in enumerate(texts)
    ]
    path = home.path / "projects" / "-srv" / f"{OLD}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    with open_fresh([home]) as index:
        (indexed,) = list_indexed(index).sessions
    (listed,) = list_sessions([home]).sessions
    whole = Session.find([home], OLD).summary.title
    assert listed.title == indexed.title == whole == "Fix the gate"


def test_no_session_is_no_latest(home):
    with pytest.raises(NotFound):
        latest(home)
