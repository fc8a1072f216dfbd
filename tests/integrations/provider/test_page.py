"""The page about the provider: its example runs and prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path

from turnlog.integrations import provider

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "provider.md").read_text("utf-8")


def test_the_example_runs_and_says_what_the_page_says(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (printed,) = re.findall(r"It prints\n\n```\n(.*?)```", PAGE, re.DOTALL)
    environ = {"HOME": str(tmp_path), "TURNLOG_HOME": str(tmp_path / "own"), "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
    home = tmp_path / ".claude"
    assert (home / "projects" / "-srv-orchard" / "agent-a753668.jsonl").is_file()
    assert (home / "todos" / "s-1-agent-a753668.json").read_text() == "[]"


def test_the_page_names_every_method():
    methods = {
        name
        for name, value in vars(provider.ClaudeStorageProvider).items()
        if callable(value) and not name.startswith("_")
    }
    assert {name for name in methods if f"`{name}`" not in PAGE} == set()


def test_the_page_names_every_protocol():
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 6
    for name, can in rows:
        described = set(re.findall(r"`(\w+)`", can))
        assert described == {
            method for method in vars(getattr(provider, name)) if not method.startswith("_")
        }
