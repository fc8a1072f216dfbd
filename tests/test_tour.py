"""The tour: every command in it runs, and says what the page says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOUR = (ROOT / "docs" / "quickstart.md").read_text("utf-8")


def steps():
    """Give every command of the tour, and the lines that stand below it."""
    for block in re.findall(r"```console\n(.*?)```", TOUR, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, said = part.partition("\n")
            yield command, said.splitlines()


def test_the_tour_is_as_it_says(tmp_path):
    home, programs = tmp_path / "home", tmp_path / "bin"
    shutil.copytree(ROOT / "samples" / "claude", home / ".claude")
    programs.mkdir()
    program = programs / "turnlog"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m turnlog.cli "$@"\n')
    program.chmod(0o755)
    environ = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(home),
        "TURNLOG_HOME": str(tmp_path / "own"),
        "COLUMNS": "80",
        "TZ": "UTC",
        "PYTHONUTF8": "1",
    }
    commands = list(steps())
    assert len(commands) > 15
    for command, said in commands:
        done = subprocess.run(
            command, shell=True, env=environ, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode in (0, 1), (command, done.stderr)
        assert not done.stderr.startswith("error:"), (command, done.stderr)
        for line in said:
            wanted = [re.escape(part) for part in line.rstrip().split("…")]
            pattern = ".*".join(wanted)
            assert re.search(f"^{pattern}", done.stdout, re.MULTILINE), (command, line, done.stdout)
    assert os.path.getsize(tmp_path / "frost.html") > 1000
