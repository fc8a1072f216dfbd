"""The settings that are printed: whole, right for each program, and written nowhere."""

import json
import os
import shlex
import subprocess
import tomllib

import pytest

import forked
from turnlog.api.mcp_clients import client_settings, own_command
from turnlog.errors import UsageError
from turnlog.mcp.command import make_context, scope_of


def run(tmp_path, *arguments, **environ):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)} | environ
    done = forked.run(["mcp", *arguments], env=env, cwd=tmp_path, text=True)
    return done.returncode, done.stdout, done.stderr


def by_program(**given):
    given.setdefault("environ", {})
    return {each.program: each.text for each in client_settings(command=["/opt/turnlog"], **given)}


def test_every_program_gets_what_it_reads(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = by_program()
    assert shlex.split(found["Claude Code"]) == [
        "claude", "mcp", "add", "--scope", "user", "turnlog", "--", "/opt/turnlog", "mcp",
    ]  # fmt: skip
    project = json.loads(found["Claude Code, for one project"])["mcpServers"]["turnlog"]
    assert project == {"command": "/opt/turnlog", "args": ["mcp"]}
    # This one is started nowhere in particular, so that it must be told.
    desktop = json.loads(found["Claude Desktop"])["mcpServers"]["turnlog"]
    assert desktop["args"] == ["mcp", "--project", str(tmp_path)]
    cursor = json.loads(found["Cursor"])["mcpServers"]["turnlog"]
    assert cursor["args"] == ["mcp", "--project", "${workspaceFolder}"]
    code = json.loads(found["VS Code"])["servers"]["turnlog"]
    assert (code["type"], code["args"]) == ("stdio", ["mcp", "--project", "${workspaceFolder}"])
    codex = tomllib.loads(found["Codex"])["mcp_servers"]["turnlog"]
    assert codex == {"command": "/opt/turnlog", "args": ["mcp"]}


def test_homes_scope_and_surroundings_come_along(tmp_path):
    hostile = 'a "b" \\ c\x7f é'
    found = by_program(
        homes=("~/agents",),
        environ={"TURNLOG_HOME": hostile, "PATH": "/bin", "CLAUDE_CONFIG_DIR": ""},
    )
    home = os.path.expanduser("~/agents")
    codex = tomllib.loads(found["Codex"])["mcp_servers"]["turnlog"]
    assert codex["args"] == ["mcp", "--home", home]
    assert codex["env"] == {"TURNLOG_HOME": hostile}
    for name in ("Claude Desktop", "Cursor"):
        server = json.loads(found[name])["mcpServers"]["turnlog"]
        assert (server["args"][:3], server["env"]) == (codex["args"], codex["env"])
    assert f"TURNLOG_HOME={hostile}" in shlex.split(found["Claude Code"])


def test_the_command_starts_turnlog(tmp_path):
    done = subprocess.run([*own_command(), "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("turnlog ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "--host"),
        (["--http", "--port", "70000"], "70000"),
        (["--project", "/"], "as a project"),
        (["--project", "${workspaceFolder}"], "was not filled in"),
        (["--project", "a\x01/../../../../../../../../.."], "as a project"),
    ],
)
def test_mistakes_in_the_call_are_told(tmp_path, arguments, said):
    code, out, err = run(tmp_path, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "hint: " in err


def test_the_scope_is_the_true_directory(tmp_path, monkeypatch):
    (tmp_path / "orchard").mkdir()
    (tmp_path / "link").symlink_to("orchard")
    assert scope_of(str(tmp_path / "link")) == str(tmp_path / "orchard")
    monkeypatch.chdir(tmp_path / "link")
    assert scope_of(None) == str(tmp_path / "orchard")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match="no such directory"):
        scope_of(None)


@pytest.mark.parametrize(
    ("said", "given", "is_wide"),
    [
        ("", {}, False),
        ('scope = "project"', {}, False),
        ('scope = "all"', {}, True),
        ('scope = "All"', {}, False),
        ("scope = true", {}, False),
        ('scope = ["all"]', {}, False),
        ('scope = "all"', {"project": "."}, False),
        ("", {"project": "all"}, True),
    ],
)
def test_only_the_owner_widens_the_scope(tmp_path, monkeypatch, said, given, is_wide):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text(f"[mcp]\n{said}\n")
    ctx = make_context((str(tmp_path),), **({"project": None} | given))
    assert ctx.scope == (None if is_wide else str(tmp_path))


def test_settings_that_cannot_be_read_are_told_and_change_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text(
        "[mcp]\nanswer_bytes = 10\nseconds = 0.1\nscope = 3\ncolour = 1\n[redact]\npatterns = 5\n"
    )
    ctx = make_context((str(tmp_path),), str(tmp_path))
    assert (ctx.settings.answer_bytes, ctx.settings.seconds) == (24_000, 20)
    said = capsys.readouterr().err
    for name in ("mcp.answer_bytes", "mcp.seconds", "mcp.scope", "mcp.colour", "redact.patterns"):
        assert f"config.toml: {name}: " in said
    (tmp_path / "config.toml").write_text("[mcp]\nanswer_bytes = 9000\nseconds = 5\n")
    ctx = make_context((str(tmp_path),), str(tmp_path))
    assert (ctx.settings.answer_bytes, ctx.settings.seconds) == (9_000, 5)
    (tmp_path / "config.toml").write_text("mcp = 5")
    assert make_context((), str(tmp_path)).scope == str(tmp_path)
