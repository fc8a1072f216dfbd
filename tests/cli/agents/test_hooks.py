"""`turnlog hooks`: what is set up, what would change, and that only our own settings do."""

import json
import os
import pty
import subprocess
import sys

import pytest

SYSTEMCTL = """#!/bin/sh
case "$*" in
  *show-environment*) exit 0 ;;
  *is-enabled*) test -e "$NOTES/enabled" ;;
  *disable*) rm -f "$NOTES/enabled" ;;
  *enable*) touch "$NOTES/enabled" ;;
esac
"""
NONE = "#!/bin/sh\necho no crontab for ada >&2; exit 1\n"
CLAUDE = """#!/bin/sh
echo "$*" >> "$NOTES/claude.notes"
test "$2" = add && echo '{"mcpServers": {"turnlog": {}}}' > "$HOME/.claude.json"
test "$2" = remove && echo '{"mcpServers": {}}' > "$HOME/.claude.json"
exit 0
"""
START = [sys.executable, "-c", "from turnlog.cli import main; main()", "hooks"]
MINE = '{"model": "opus"}\n'


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "nobody").mkdir()
    # None of the real ones is reached: no test sets anything up for whoever runs it.
    for name, script in (
        ("systemctl", SYSTEMCTL), ("crontab", NONE), ("launchctl", NONE), ("claude", CLAUDE),
    ):  # fmt: skip
        program = tmp_path / "tools" / name
        program.write_text(script)
        program.chmod(0o755)
    return {
        "PATH": f"{tmp_path / 'tools'}:/usr/bin:/bin",
        "HOME": str(tmp_path / "nobody"),
        "TURNLOG_HOME": str(tmp_path / "own"),
        "NOTES": str(tmp_path / "tools"),
        "COLUMNS": "80",
        "PYTHONUTF8": "1",
    }


@pytest.fixture
def run(turnlog, environ, home):
    def hooks(*arguments, **more):
        return turnlog("hooks", *arguments, "--home", home, **environ | more)

    return hooks


def states(run):
    found = json.loads(run("--json")[1])["hooks"]
    return {hook["name"]: hook["state"] for hook in found}


def test_it_lists_what_is_set_up_and_what_is_not(run, home):
    code, out, _ = run()
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines() if line[0] == "✗"] == [
        ["✗", "keep"], ["✗", "statusline"], ["✗", "mcp"],
    ]  # fmt: skip
    assert "hint: turnlog hooks install keep" in out
    run("install", "keep", "--yes")
    assert states(run) == {"keep": "installed", "statusline": "missing", "mcp": "missing"}
    out = run()[1]
    assert "✓ keep" in out
    assert "✓ every hour, by systemd" in out
    assert "hint: turnlog hooks install statusline" in out


def test_nothing_is_changed_without_consent(run, home, tmp_path):
    code, out, _ = run("install")
    assert code == 0
    assert "hooks.SessionEnd" in out
    assert "ExecStart=" in out
    assert "systemctl --user enable --now turnlog-keep.timer" in out
    assert "statusLine: " in out
    assert "claude mcp add --scope user turnlog" in out
    assert out.endswith("Nothing was changed. Run again with --yes to set this up.\n")
    code, out, _ = run("install", "--json")
    assert (code, json.loads(out)["done"]) == (0, False)
    assert not (home / "settings.json").exists()
    assert list((tmp_path / "nobody").iterdir()) == []
    assert not (tmp_path / "tools" / "enabled").exists()
    assert not (tmp_path / "tools" / "claude.notes").exists()


@pytest.mark.parametrize("before", [None, MINE, '{"hooks": {"Stop": []}, "model": "opus"}\n'])
def test_all_is_set_up_and_removed_again(run, home, tmp_path, before):
    if before is not None:
        (home / "settings.json").write_text(before)
    listed = sorted(os.listdir(home))
    code, _, err = run("install", "--yes")
    assert (code, err) == (0, "")
    assert set(states(run).values()) == {"installed"}
    assert "statusline" in json.loads((home / "settings.json").read_text())["statusLine"]["command"]
    code, out, _ = run("install", "--yes")
    assert (code, "Nothing to do." in out) == (0, True)
    code, out, err = run("remove", "--yes")
    assert (code, err) == (0, "")
    assert "Kept copies stay." in out
    assert set(states(run).values()) == {"missing"}
    assert sorted(os.listdir(home)) == listed
    if before is not None:
        assert (home / "settings.json").read_text() == before
    assert not list((tmp_path / "nobody").rglob("turnlog*"))
    assert run("remove", "--yes")[1].strip() == "Nothing was set up."


def test_one_can_be_removed_and_the_others_stay(run):
    run("install", "--yes")
    assert run("remove", "keep", "--yes")[0] == 0
    assert states(run) == {"keep": "missing", "statusline": "installed", "mcp": "installed"}


def test_what_cannot_be_set_up_is_reported_and_the_rest_is_done(run, home, tmp_path):
    (home / "settings.json").write_text("{ // mine\n}\n")
    code, out, _ = run("install", "keep", "--yes")
    assert code == 1
    assert "it is not valid JSON" in out
    assert (home / "settings.json").read_text() == "{ // mine\n}\n"
    assert (tmp_path / "tools" / "enabled").exists()


def test_another_status_line_stays(run, home):
    theirs = '{"statusLine": {"type": "command", "command": "npx ccusage statusline"}}\n'
    (home / "settings.json").write_text(theirs)
    code, out, _ = run("install", "statusline", "--yes")
    assert (code, "another program's status line" in out) == (1, True)
    assert run("remove", "statusline", "--yes")[0] == 1
    assert (home / "settings.json").read_text() == theirs


def test_options_of_the_status_line_stay(run, home):
    ours = {"type": "command", "command": "/old/turnlog statusline --format '{model} {today}'"}
    (home / "settings.json").write_text(json.dumps({"statusLine": ours}))
    assert states(run)["statusline"] == "outdated"
    assert run("install", "statusline", "--yes")[0] == 0
    command = json.loads((home / "settings.json").read_text())["statusLine"]["command"]
    assert "/old/turnlog" not in command
    assert command.endswith("statusline --format '{model} {today}'")
    assert states(run)["statusline"] == "installed"


def test_the_server_is_added_by_claude_itself(run, tmp_path):
    assert run("install", "mcp", "--yes")[0] == 0
    said = (tmp_path / "tools" / "claude.notes").read_text()
    assert said.startswith("mcp add --scope user turnlog --env TURNLOG_HOME=")
    assert " mcp --home " in said
    assert run("remove", "mcp", "--yes")[0] == 0
    assert states(run)["mcp"] == "missing"


def test_without_claude_the_settings_of_others_are_printed(run, tmp_path):
    (tmp_path / "tools" / "claude").unlink()
    code, out, _ = run("install", "mcp", "--yes")
    assert (code, "claude is not on the PATH" in out) == (1, True)
    assert "turnlog hooks install mcp --json" in out
    settings = json.loads(run("install", "mcp", "--json")[1])["settings"]
    assert [each["program"] for each in settings] == [
        "Claude Code", "Claude Code, for one project", "Claude Desktop", "Cursor", "VS Code",
        "Codex",
    ]  # fmt: skip


@pytest.mark.parametrize("words", [("--yes",), ("install", "nothing"), ("start",)])
def test_mistakes_are_told(run, words):
    code, _, err = run(*words)
    assert (code, err.startswith("error: ")) == (2, True)


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)])
def test_somebody_at_a_terminal_is_asked(environ, home, answer, code):
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [*START, "install", "keep", "--home", str(home)],
        stdin=inner,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    os.write(outer, answer)
    out, err = process.communicate(timeout=60)
    os.close(outer)
    os.close(inner)
    assert b"Set this up?" in out + err
    assert process.returncode == code
    assert (home / "settings.json").exists() == (code == 0)
