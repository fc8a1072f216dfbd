"""Whoever starts turnlog may close its streams, or give it one that takes nothing."""

import json
import os
import subprocess
import sys

import pytest

from cli.conftest import WHOLE
from sampling import sampled

MAIN = "from turnlog.cli import main; main()"


@pytest.fixture
def shell(tmp_path):
    """Run the command behind a shell's redirections; give its exit code, stdout and stderr."""

    def run(redirected, *arguments, **environ):
        words = [sys.executable, "-c", MAIN, *map(str, arguments)]
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$@" {redirected}', "sh", *words],
            capture_output=True,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "nobody"), **environ},
            cwd=tmp_path,
            timeout=60,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


@pytest.mark.parametrize("closed", sampled([">&-", "2>&-", "<&-", "<&- >&- 2>&-"], 3))
def test_the_work_is_done_though_nobody_listens(shell, home, tmp_path, closed):
    own = {"TURNLOG_HOME": str(tmp_path / "own")}
    code, _, told = shell(closed, "keep", "--quiet", "--home", home, **own)
    assert (code, told) == (0, "")
    assert list((tmp_path / "own").rglob(f"{WHOLE}.jsonl.zst"))
    for words in (["sessions"], ["verify"], ["refresh"], ["cost", "--json"]):
        code, _, told = shell(closed, *words, "--home", home, **own)
        assert code in {0, 1}, words
        assert "Traceback" not in told
    assert shell(closed, "--version")[0] == 0


def test_a_hook_keeps_though_its_stdout_is_closed(shell, home, tmp_path):
    own = {"TURNLOG_HOME": str(tmp_path / "own"), "CLAUDE_CONFIG_DIR": str(home)}
    log = home / "projects" / "-home-ada-orchard" / f"{WHOLE}.jsonl"
    told = tmp_path / "told.json"
    told.write_text(json.dumps({"session_id": WHOLE, "transcript_path": str(log)}))
    assert shell(f"<'{told}' >&-", "keep", "--hook", **own)[0] == 0
    assert list((tmp_path / "own").rglob(f"{WHOLE}.jsonl.zst"))


def test_errors_keep_their_exit_code_where_stderr_is_closed(shell, home):
    assert shell("2>&-", "sessions", "--no-such-option", "--home", home)[0] == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
@pytest.mark.parametrize("words", ["--version", "--help"])
def test_a_stream_that_takes_nothing_is_a_failure_in_words(shell, words):
    code, _, told = shell(">/dev/full", words)
    assert code == 3
    assert told == "error: no space left on device\nhint: free some space and try again\n"
