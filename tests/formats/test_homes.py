"""Homes: where to look, and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnlog.errors import NotFound
from turnlog.formats import Home, find_homes, turnlog_home


@pytest.fixture
def user(tmp_path):
    directory = tmp_path / "user"
    directory.mkdir()
    return directory


def made(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_without_a_word_the_two_usual_homes_that_exist_are_taken(user):
    environ = {"HOME": str(user)}
    assert find_homes(environ=environ) == ()
    legacy = made(user / ".claude")
    assert find_homes(environ=environ) == (Home(legacy),)
    xdg = made(user / ".config" / "claude")
    assert find_homes(environ=environ) == (Home(legacy), Home(xdg))


def test_xdg_config_home_moves_the_second_home_if_it_is_absolute(user, tmp_path):
    elsewhere = made(tmp_path / "xdg" / "claude")
    usual = made(user / ".config" / "claude")
    environ = {"HOME": str(user), "XDG_CONFIG_HOME": str(elsewhere.parent)}
    assert find_homes(environ=environ) == (Home(elsewhere),)
    assert find_homes(environ={**environ, "XDG_CONFIG_HOME": "xdg"}) == (Home(usual),)


def test_two_ways_to_one_home_give_it_once(user):
    legacy = made(user / ".claude")
    made(user / ".config")
    (user / ".config" / "claude").symlink_to(legacy)
    assert find_homes(environ={"HOME": str(user)}) == (Home(legacy),)
    assert find_homes([legacy, str(legacy) + "/", user / ".config" / "claude"]) == (Home(legacy),)


def test_claude_config_dir_replaces_the_usual_homes(user, tmp_path):
    made(user / ".claude")
    own = made(tmp_path / "own")
    environ = {"HOME": str(user), "CLAUDE_CONFIG_DIR": str(own)}
    assert find_homes(environ=environ) == (Home(own),)


def test_a_claude_config_dir_that_is_absent_does_not_fall_back_to_the_users_home(user, tmp_path):
    made(user / ".claude")
    environ = {"HOME": str(user), "CLAUDE_CONFIG_DIR": str(tmp_path / "absent")}
    assert find_homes(environ=environ) == ()


def test_an_empty_claude_config_dir_counts_as_unset(user):
    legacy = made(user / ".claude")
    assert find_homes(environ={"HOME": str(user), "CLAUDE_CONFIG_DIR": " "}) == (Home(legacy),)


def test_claude_config_dir_may_be_a_list(tmp_path):
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    setting = f"{one}, {two},,{tmp_path / 'absent'},{one}"
    assert find_homes(environ={"HOME": "/nobody", "CLAUDE_CONFIG_DIR": setting}) == (
        Home(one),
        Home(two),
    )


def test_a_directory_whose_name_has_a_comma_wins_over_the_list(tmp_path):
    one = made(tmp_path / "one")
    both = made(tmp_path / f"one,{tmp_path.name}")
    environ = {"HOME": "/nobody", "CLAUDE_CONFIG_DIR": str(both)}
    assert find_homes(environ=environ) == (Home(both),)
    both.rmdir()
    assert find_homes(environ=environ) == (Home(one),)


def test_a_tilde_that_no_shell_replaced_means_the_users_directory(user):
    legacy = made(user / ".claude")
    environ = {"HOME": str(user), "CLAUDE_CONFIG_DIR": "~/.claude"}
    assert find_homes(environ=environ) == (Home(legacy),)
    assert find_homes(["~/.claude"], environ) == (Home(legacy),)


def test_the_setting_is_composed_as_claude_code_does_unless_only_the_other_exists(tmp_path):
    decomposed = made(tmp_path / "cafe\u0301")
    environ = {"HOME": "/nobody", "CLAUDE_CONFIG_DIR": str(decomposed)}
    assert find_homes(environ=environ)[0].path.exists()
    composed = tmp_path / "caf\u00e9"
    composed.mkdir(exist_ok=True)
    assert find_homes(environ=environ) == (Home(composed),)


def test_named_homes_win_over_everything_and_keep_their_order(user, tmp_path):
    made(user / ".claude")
    two, one = made(tmp_path / "two"), made(tmp_path / "one")
    environ = {"HOME": str(user), "CLAUDE_CONFIG_DIR": str(one)}
    assert find_homes([str(two), one], environ) == (Home(two), Home(one))


def test_a_named_home_must_exist(tmp_path):
    with pytest.raises(NotFound, match="does not exist") as caught:
        find_homes([tmp_path / "absent"])
    assert caught.value.hint
    (tmp_path / "file").touch()
    with pytest.raises(NotFound, match="is not a directory"):
        find_homes([tmp_path / "file"])


def test_naming_the_projects_directory_means_its_home(tmp_path, monkeypatch):
    projects = made(tmp_path / "home" / "projects")
    assert find_homes([projects]) == (Home(tmp_path / "home"),)
    monkeypatch.chdir(projects)
    assert find_homes(["."]) == (Home(tmp_path / "home"),)


def test_a_home_that_happens_to_be_called_projects_stays_itself(tmp_path):
    home = made(tmp_path / "projects")
    made(home / "projects")
    assert find_homes([home]) == (Home(home),)


def test_a_home_serves_wherever_a_path_is_asked_for(tmp_path):
    assert Path(Home(tmp_path)) == tmp_path


def test_turnlogs_own_home_is_the_setting_or_the_platforms_data_directory(tmp_path, monkeypatch):
    assert turnlog_home({"TURNLOG_HOME": str(tmp_path)}) == tmp_path
    assert turnlog_home({"TURNLOG_HOME": "~/t", "HOME": str(tmp_path)}) == tmp_path / "t"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for environ in ({}, {"TURNLOG_HOME": ""}):
        path = turnlog_home(environ)
        assert path.is_absolute()
        assert path.name == "turnlog"
        assert not path.exists()
