"""What turnlog has made is found, all of it, and nothing that others have made."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import turnlog
from turnlog.api.health.doctor import footprint
from turnlog.api.homes import all_homes
from turnlog.formats.settings_changes import carry_out
from turnlog.keep.schedule import install_steps, uninstall_steps
from turnlog.sessions.journal import Journal

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"
SESSION = "123544bf-f884-4e5a-bfb9-ec940bd313ac"


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A user with Claude Code's home and a systemd that agrees to everything."""
    (tmp_path / "bin").mkdir()
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.write_text("#!/bin/sh\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "ada" / "my data"))
    for name in ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(SAMPLES, tmp_path / "ada" / ".claude")
    return tmp_path / "ada"


def look():
    return footprint(all_homes())


def of_kind(kind):
    return [each for each in look().files if each.kind == kind]


def use(user):
    """Have every part of the data directory made by the code that makes it."""
    own = user / "my data"
    with turnlog.open() as store:
        store.keep()
        store.search("frost")
        store.cost()
        store.delete(SESSION)
        with store.create(project=user) as session:
            session.append(turnlog.build.user("Prune the apple trees"))
        with store.create(project=user, layout="flat") as session:
            session.append(turnlog.build.user("Prune the pear trees"))
    Journal.in_root(own).pin(SESSION, pinned=True)
    (own / "config.toml").write_text("[budgets]\ndaily = 5\n")
    (own / "statusline").mkdir()
    return own


def test_where_nothing_was_made_nothing_is_listed(user):
    found = look()
    assert (found.files, found.size_bytes, found.remove_data) == ([], 0, "")
    assert found.data_directory == str(user / "my data")


def test_everything_in_the_data_directory_is_listed(user):
    own = use(user)
    found = look()
    assert {each.path for each in found.files} == {str(path) for path in own.iterdir()}
    assert all(each.what for each in found.files)
    everything = [path for path in own.rglob("*") if path.is_file()]
    assert found.size_bytes == sum(path.stat().st_size for path in everything)
    assert shlex.split(found.remove_data) == ["rm", "-r", str(own)]


def test_the_commands_remove_what_they_are_listed_with(user, monkeypatch):
    monkeypatch.setenv("PATH", os.defpath)
    own = use(user)
    for each in look().files:
        subprocess.run(each.remove, shell=True, check=True)
        assert not os.path.lexists(each.path)
    assert list(own.iterdir()) == []


def test_files_of_others_in_the_data_directory_are_not_removed(user):
    own = use(user)
    (own / "thesis.tex").write_text("years of work")
    found = look()
    assert str(own / "thesis.tex") not in {each.path for each in found.files}
    assert str(own) not in shlex.split(found.remove_data)
    assert str(own / "kept") in shlex.split(found.remove_data)


def test_sessions_of_an_agent_are_not_removed(user, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(user / ".claude"))
    (user / ".claude" / "sessions").mkdir()
    with turnlog.open() as store:
        store.keep()
    found = look()
    assert str(user / ".claude" / "kept") in {each.path for each in found.files}
    named = {*(each.path for each in found.files), *shlex.split(found.remove_data)}
    assert not named & {str(user / ".claude" / name) for name in ("", "projects", "sessions")}
    assert str(user / ".claude") not in named


def test_what_keep_installed_is_listed_until_it_is_removed(user):
    settings = user / ".claude" / "settings.json"
    settings.write_text('{"model": "opus"}\n')
    for step in install_steps():
        carry_out(step)
    (hook,) = of_kind("hook")
    assert (hook.path, hook.size_bytes) == (str(settings), None)
    units = user / ".config" / "systemd" / "user"
    assert {each.path for each in of_kind("timer")} == {str(path) for path in units.iterdir()}
    for step in uninstall_steps():
        carry_out(step)
    assert of_kind("hook") == of_kind("timer") == []


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        ("turnlog statusline", True),
        ("TURNLOG_HOME='/my data' /opt/bin/turnlog statusline --home /x", True),
        ("python3 -m turnlog.cli statusline", True),
        ("ccusage statusline", False),
        ("turnlog refresh", False),
        ("echo turnlog statusline", False),
        ("turnlog 'statusline", False),
        ("", False),
        (5, False),
    ],
)
def test_the_status_line_is_listed_if_it_is_turnlogs(user, command, is_ours):
    settings = user / ".claude" / "settings.json"
    settings.write_text(json.dumps({"statusLine": {"type": "command", "command": command}}))
    assert [each.path for each in of_kind("statusline")] == [str(settings)] * is_ours


@pytest.mark.parametrize("text", ["", "[]", "{", '{"statusLine": 1}', "[" * 100_000, "\xff"])
def test_settings_that_cannot_be_read_have_no_entries(user, text):
    (user / ".claude" / "settings.local.json").write_text(text, "latin-1")
    (user / ".claude.json").write_text(text, "latin-1")
    assert look().files == []


def test_mcp_servers_are_listed_with_their_scope(user):
    ours = {"command": "/opt/turnlog", "args": ["mcp", "--project", "all"]}
    others = {"command": "npx", "args": ["other"]}
    settings = {
        "mcpServers": {"memory": ours, "other": others, "odd": 5, "bare": {"command": "turnlog"}},
        "projects": {"/home/ada/pear trees": {"mcpServers": {"turnlog": ours}}, "/odd": []},
    }
    (user / ".claude.json").write_text(json.dumps(settings))
    assert [each.remove for each in of_kind("mcp")] == [
        "claude mcp remove --scope user memory",
        "cd '/home/ada/pear trees' && claude mcp remove --scope local turnlog",
    ]
