"""docs/guides/mcp.md: its example runs, its tables and settings are those there are."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from mcp_contexts import ONE, Log
from turnlog import loopback
from turnlog.mcp import http
from turnlog.mcp.context import LEAST_BYTES, MOST_BYTES, MOST_SECONDS, Settings, settings_from
from turnlog.mcp.resources import SESSION_URI, SESSIONS_URI
from turnlog.mcp.tools import TOOLS
from turnlog.mcp.untrusted_text import NOTICE

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "mcp.md").read_text("utf-8")


def block(language):
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def test_the_example_runs(tmp_path):
    project = tmp_path / "orchard"
    project.mkdir()
    Log(tmp_path / "home", ONE, os.path.realpath(project)).say_everything()
    # The time of the example is not that of the test's session.
    example = block("python").replace('"since": "30d"', '"since": "2026-01-01"')
    (project / "example.py").write_text(example)
    programs = tmp_path / "bin"
    programs.mkdir()
    turnlog = programs / "turnlog"
    turnlog.write_text(f"#!{sys.executable}\nfrom turnlog.cli import main\n\nmain()\n")
    turnlog.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=project,
        capture_output=True,
        text=True,
        # The client hands on only what is harmless, HOME and PATH among it.
        env={"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path / "nobody")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(NOTICE)
    # HOME is nobody's: nothing is found, and that is what it says.
    assert '"total": 0' in done.stdout
    (tmp_path / "nobody" / ".claude").symlink_to(tmp_path / "home")
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=project,
        capture_output=True,
        text=True,
        env={"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path / "nobody")},
    )
    assert ONE in done.stdout, done.stderr


def test_the_tools_are_those_there_are():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [tool.name for tool in TOOLS]


def test_resources_and_refusals_are_those_there_are():
    assert f"`{SESSIONS_URI}`" in PAGE
    assert f"`{SESSION_URI}`" in PAGE
    source = "".join(Path(each.__file__).read_text("utf-8") for each in (http, loopback))
    refusals = set(re.findall(r'Refusal\((\d+), "(\w+)"', source))
    assert set(re.findall(r"^\| (\d+) \| `(\w+)` \|", PAGE, re.MULTILINE)) == refusals


def test_the_settings_are_those_there_are():
    said = tomllib.loads(block("toml"))["mcp"]
    settings, problems = settings_from(said)
    assert not problems
    assert set(said) == set(Settings.__struct_fields__)
    plain = Settings()
    assert (said["answer_bytes"], said["seconds"]) == (plain.answer_bytes, plain.seconds)
    assert settings.scope == "all"
    assert f"from {LEAST_BYTES:,} to {MOST_BYTES:,}" in PAGE
    assert f"from 1 to {MOST_SECONDS}" in PAGE


def test_the_frame_is_shown_as_it_is():
    shown = re.search(r"^    (The following is .*) …$", PAGE, re.MULTILINE)
    assert NOTICE.startswith(shown[1])
