"""The page of health says what the commands say, and reads the logs only when asked to."""

import json
import os
import re
import shlex
import time
from html import unescape

import pytest

from mcp_contexts import Log
from turnlog.cli.app import COMMANDS, run
from web.served import served
from web.test_pages import words_of

PROJECT = "/home/ada/orchard"
DUE, SOON, KEPT, GONE, THROWN, BROKEN = (
    f"{each * 8}-bbbb-4bbb-8bbb-{each * 12}" for each in "123456"
)
DAY = 86_400


def age(path, days):
    """Let a file look as if it was changed so many days ago."""
    at = time.time() - days * DAY
    os.utime(path, (at, at))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A home of Claude Code with sessions in every state."""
    place = tmp_path_factory.mktemp("health")
    home = place / "home"
    logs = {}
    for session in (DUE, SOON, KEPT, GONE, THROWN, BROKEN):
        log = Log(home, session, PROJECT, hostile="").prompt(f"Say {session[0]} <b>")
        logs[session] = log.answer({"type": "text", "text": "Said."}).save().path
        age(logs[session], 40 if session == DUE else 2)
    (home / "settings.json").write_text('{"cleanupPeriodDays": 30}')
    before = os.environ.get("TURNLOG_HOME")
    os.environ["TURNLOG_HOME"] = str(place / "own")
    try:
        named = ["--home", str(home)]
        run(["delete", THROWN, *named, "--yes"])
        run(["keep", *named])
    finally:
        os.environ["TURNLOG_HOME"] = before or ""
    logs[GONE].unlink()
    with logs[BROKEN].open("ab") as log:
        log.write(b'{"type": "user"\x00\n')
    with logs[SOON].open("ab") as log:
        log.write(b'{"type":"tag","tag":"new","sessionId":"%s"}\n' % SOON.encode())
    age(logs[SOON], 28)
    age(logs[BROKEN], 2)
    return place


@pytest.fixture(scope="module")
def server(place):
    with served(place) as found:
        yield found


def section(page, name):
    return " ".join(
        words_of(re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL)[0]).split()
    )


def test_findings_are_those_of_the_doctor(place, server, capsys, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(place / "own"))
    run(["doctor", "--json", "--home", str(place / "home")])
    told = json.loads(capsys.readouterr().out)
    page = section(server.ask("/health?all=1").text, "findings")
    assert {finding["kind"] for finding in told["findings"]} >= {"losses", "damage"}
    for finding in told["findings"]:
        assert finding["message"] in page
        assert finding["command"] in page
    quick = section(server.ask("/health").text, "findings")
    kinds = {finding["kind"]: finding["message"] in quick for finding in told["findings"]}
    assert kinds["losses"]
    assert not kinds["damage"]
    assert "Logs were not read. 1 session known to have damage. Check all logs" in quick


def test_what_is_about_to_be_deleted_says_when_and_whether_it_is_kept(server):
    page = section(server.ask("/health").text, "deletions")
    assert "did not change for 30 days" in page
    assert re.search(r"at the next start Say 1 <b> [\d.]+ k?B kept", page)
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d Say 2 <b> [\d.]+ k?B no copy", page)
    assert "Say 3" not in page
    assert "Say 3" in section(server.ask("/health?days=365").text, "deletions")
    assert server.ask("/health?days=1").status == 400


def test_what_is_gone_or_thrown_away_has_the_command_that_restores_it(server):
    page = section(server.ask("/health").text, "restorable")
    assert "Gone at their source: 1" in page
    assert f"turnlog restore {GONE[:8]}" in page
    assert "In the trash: 1" in page
    assert f"turnlog trash restore {THROWN[:8]}" in page


def test_places_and_copies_are_told(place, server):
    page = server.ask("/health").text
    assert str(place / "own") in section(page, "places")
    assert str(place / "home") in section(page, "copies")
    assert "5 1" in section(page, "copies")


def test_every_command_exists_and_can_be_copied(server):
    page = server.ask("/health?all=1&days=365").text
    commands = [unescape(each) for each in re.findall(r'data-copy="([^"]+)"', page)]
    assert len(commands) > 6
    for command in commands:
        words = shlex.split(command)
        assert words[0] in {"turnlog", "rm", "chmod", "ls"}
        assert words[0] != "turnlog" or words[1] in COMMANDS
        assert f"<code>{command}</code>" in unescape(page)
