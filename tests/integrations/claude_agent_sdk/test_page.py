"""The page about the Claude Agent SDK: its program runs, and its commands say what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.fake_api import FakeApi
from e2e.program import PROGRAM, Claude

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guides" / "claude-agent-sdk.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def steps():
    """Give every command of the page, and the lines that stand below it."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, said = part.partition("\n")
            yield command.split(), said.splitlines()


@pytest.mark.skipif(not PROGRAM.exists(), reason="no `claude` for this platform")
def test_the_page_is_as_it_says(tmp_path):
    with FakeApi() as api:
        claude = Claude(tmp_path, api)
        environ = claude.environ | {
            "TURNLOG_HOME": str(tmp_path / "own"),
            "COLUMNS": "80",
            "PYTHONUTF8": "1",
        }

        def run(*arguments):
            return subprocess.run(
                [sys.executable, *arguments],
                cwd=claude.project,
                env=environ,
                capture_output=True,
                text=True,
                timeout=120,
            )

        program, moving = blocks("python")
        done = run("-c", program)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 2
        # The second question was asked with all that the store had of the first.
        assert "Which trees need pruning?" in str(api.requests[-1])
        commands = list(steps())
        assert len(commands) == 4
        for (name, *arguments), said in commands:
            assert name == "turnlog"
            done = run("-m", "turnlog.cli", *arguments)
            assert done.returncode == 0, (arguments, done.stderr)
            for line in said:
                pattern = ".*".join(re.escape(part) for part in line.rstrip().split("…"))
                assert re.search(f"^{pattern}", done.stdout, re.MULTILINE), (line, done.stdout)
        done = run("-c", moving)
        assert done.returncode == 0, done.stderr
        assert [done.stdout] == blocks("text")
        (log,) = (claude.project / "home" / "projects").glob("*/*.jsonl")
        assert log.stat().st_size > 0
