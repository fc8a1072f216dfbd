"""The README's examples: each command runs on the bundled samples, and prints what is shown there.

After an intended change run with TURNLOG_UPDATE_SNAPSHOTS=1, which rewrites the README, and read
the difference. A line with only `…` stands for lines that are left out.
"""

import os
import re
import shlex
from pathlib import Path

import pytest

from cli.screens import Home
from snapshots import UPDATE

README = Path(__file__).parents[1] / "README.md"
_BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```)", re.DOTALL)
_COMMAND = re.compile(r"^(?=\$ )", re.MULTILINE)
LEFT_OUT = "…"


def examples(text):
    """Give each command of *text* with what is shown below it."""
    for block in _BLOCK.findall(text):
        for part in filter(None, _COMMAND.split(block)):
            command, _, shown = part.partition("\n")
            yield command.removeprefix("$ "), shown.rstrip("\n")


def test_examples_print_what_the_readme_shows(tmp_path):
    home = Home(tmp_path / "ada", has_side_files=False)
    text = README.read_text("utf-8")
    commands = list(examples(text))
    assert len(commands) >= 5
    for command, shown in commands:
        program, *words = shlex.split(command)
        assert program == "turnlog"
        code, out, err = home.screen(*words, columns=80)
        printed = out.strip("\n")
        assert code in (0, 1), (command, err)
        if os.environ.get(UPDATE) and LEFT_OUT not in shown.splitlines():
            text = text.replace(f"$ {command}\n{shown}", f"$ {command}\n{printed}".rstrip("\n"))
            continue
        parts = [re.escape(part) for part in re.split(rf"^{LEFT_OUT}$", shown, flags=re.MULTILINE)]
        assert re.fullmatch(".*".join(parts), printed, re.DOTALL), f"{command}\n{printed}"
    if os.environ.get(UPDATE):
        README.write_text(text, "utf-8")


@pytest.mark.parametrize("path", re.findall(r"\]\((?!https?:)([^)#]+)", README.read_text("utf-8")))
def test_links_lead_somewhere(path):
    assert (README.parent / path).exists()
