"""Having keep run by itself: which turnlog, with which environment, in which homes."""

import os
import shlex
import sys

import pytest

from turnlog.errors import UsageError
from turnlog.formats.claude_code.hooks import hooks_in
from turnlog.formats.settings_changes import carry_out
from turnlog.keep import schedule
from turnlog.keep.schedule import install_steps, program, uninstall_steps

SYSTEMCTL = '#!/bin/sh\ncase "$2" in is-enabled) exit 0;; esac\n'


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A user with a home of Claude Code, and a systemd that says yes to everything."""
    (tmp_path / "bin").mkdir()
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    # Nothing else is to be found: no test sets anything up for whoever runs it.
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    for name in ("TURNLOG_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "ada" / ".claude" / "projects").mkdir(parents=True)
    return tmp_path / "ada"


def do(steps):
    for step in steps:
        carry_out(step)


def files_of(user):
    return {
        str(path.relative_to(user)): path.read_bytes() for path in user.rglob("*") if path.is_file()
    }


def service(user):
    return (user / ".config" / "systemd" / "user" / "turnlog-keep.service").read_text()


def test_everything_comes_and_goes(user):
    settings = user / ".claude" / "settings.json"
    settings.write_text('{\n  "model": "opus"\n}\n')
    before = files_of(user)
    do(install_steps())
    assert set(files_of(user)) - set(before) == {
        ".claude/settings.json.before-turnlog",
        ".config/systemd/user/turnlog-keep.service",
        ".config/systemd/user/turnlog-keep.timer",
    }
    assert hooks_in(settings.read_text())
    after = files_of(user)
    again = install_steps()
    assert [step.state for step in again] == ["installed", "installed"]
    do(again)
    assert files_of(user) == after
    do(uninstall_steps())
    assert files_of(user) == before
    assert uninstall_steps() == []


def test_an_older_program_is_replaced_and_nothing_doubled(user, monkeypatch, tmp_path):
    do(install_steps())
    newer = tmp_path / "new place" / "turnlog"
    newer.parent.mkdir()
    newer.write_text("#!/bin/sh\n")
    newer.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(newer), "keep", "--install"])
    steps = install_steps()
    assert [step.state for step in steps] == ["outdated", "outdated"]
    do(steps)
    (command,) = hooks_in((user / ".claude" / "settings.json").read_text())
    assert shlex.split(command)[0] == str(newer)
    assert service(user).count("ExecStart=") == 1
    assert f'ExecStart="{newer}" keep --quiet\n' in service(user)
    do(uninstall_steps())
    assert set(files_of(user)) == set()


def test_the_environment_goes_along(user, monkeypatch, tmp_path):
    odd = tmp_path / 'an "odd" 100% place'
    (odd / "projects").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNLOG_HOME", "own")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(odd))
    do(install_steps())
    text = service(user)
    assert f"Environment=TURNLOG_HOME={tmp_path / 'own'}\n" in text
    quoted = str(odd).replace('"', '\\"').replace("%", "%%")
    assert f'Environment="CLAUDE_CONFIG_DIR={quoted}"\n' in text
    (command,) = hooks_in((odd / "settings.json").read_text())
    assert shlex.split(command)[0] == f"TURNLOG_HOME={tmp_path / 'own'}"
    assert not (user / ".claude" / "settings.json").exists()


def test_several_homes_in_one_setting(user, monkeypatch, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / "projects").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"one, {tmp_path / 'two'}")
    do(install_steps())
    assert f"CLAUDE_CONFIG_DIR={tmp_path / 'one'},{tmp_path / 'two'}\n" in service(user)
    for name in ("one", "two"):
        assert hooks_in((tmp_path / name / "settings.json").read_text())


def test_named_homes_are_named_in_the_timer(user, monkeypatch, tmp_path):
    named = tmp_path / "other home"
    (named / "projects").mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/elsewhere")
    do(install_steps((named,)))
    assert f'keep --quiet --home "{named}"\n' in service(user)
    assert "/elsewhere" not in service(user)
    assert hooks_in((named / "settings.json").read_text())
    do(uninstall_steps((named,)))
    assert not (named / "settings.json").exists()


def test_a_store_of_another_program_gets_no_hook(user, tmp_path):
    store = tmp_path / "store"
    (store / "sessions").mkdir(parents=True)
    (hourly,) = install_steps((store,))
    assert hourly.kind == "systemd"
    do([hourly])
    assert os.listdir(store) == ["sessions"]


def test_without_any_schedule_the_hook_is_still_set_up(user, tmp_path):
    (tmp_path / "bin" / "systemctl").unlink()
    hook, hourly = install_steps()
    assert (hook.state, hourly.state, hourly.kind) == ("missing", "refused", "none")
    assert "--watch" in hourly.hint
    do([hook, hourly])
    assert hooks_in((user / ".claude" / "settings.json").read_text())


def test_one_broken_file_does_not_stop_the_rest(user):
    (user / ".claude" / "settings.json").write_text("{ // mine\n}")
    hook, hourly = install_steps()
    assert (hook.state, hourly.state) == ("refused", "missing")
    units = user / ".config" / "systemd" / "user" / "turnlog-keep.timer"
    units.mkdir(parents=True)
    hook, hourly = install_steps()
    assert (hook.state, hourly.state) == ("refused", "refused")
    assert "cannot be read" in hourly.reason


@pytest.mark.parametrize("name", ["a\nb", "a\x1bb", os.fsdecode(b"a\xffb")])
def test_names_that_no_settings_can_hold_are_refused(user, tmp_path, name):
    named = tmp_path / name
    (named / "projects").mkdir(parents=True)
    with pytest.raises(UsageError, match="a command line in settings cannot have") as caught:
        install_steps((named,))
    assert caught.value.hint


def test_the_program_is_the_one_that_runs(monkeypatch, tmp_path):
    script = tmp_path / "turnlog"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    link = tmp_path / "bin" / "turnlog"
    link.parent.mkdir()
    link.symlink_to(script)
    monkeypatch.setattr(sys, "argv", [str(link)])
    assert program() == [str(link)]  # The link outlives what it points to.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["./turnlog"])
    assert program() == [str(script)]
    monkeypatch.setattr(sys, "argv", ["-c"])
    beside = os.path.join(os.path.dirname(sys.executable), "turnlog")
    module = [sys.executable, "-m", "turnlog.cli"]
    assert program() == ([beside] if os.path.exists(beside) else module)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "python"))
    assert program() == [str(tmp_path / "elsewhere" / "python"), "-m", "turnlog.cli"]


def test_a_program_in_a_cache_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert schedule.passing_place([f"{tmp_path}/cache/uv/archive/turnlog"])
    assert not schedule.passing_place([f"{tmp_path}/bin/turnlog"])
