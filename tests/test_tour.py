"""The README and the quickstart: each command runs on the bundled samples and prints what is shown.

The clock is that of ``cli.screens``. A line with only `…` stands for lines that are left out. After
an intended change run with TURNLOG_UPDATE_SNAPSHOTS=1, which rewrites what is shown in full, and
read the difference.
"""

import os
import re
import shlex
from pathlib import Path

import pytest

from cli.screens import Home
from snapshots import UPDATE

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": ROOT / "README.md", "quickstart.md": ROOT / "docs" / "quickstart.md"}
_BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```)", re.DOTALL)
_COMMAND = re.compile(r"^(?=\$ )", re.MULTILINE)
LEFT_OUT = "…"


def examples(text):
    """Give each command of *text* with what is shown below it."""
    for block in _BLOCK.findall(text):
        for part in filter(None, _COMMAND.split(block)):
            command, _, shown = part.partition("\n")
            yield command.removeprefix("$ "), shown.rstrip("\n")


@pytest.mark.parametrize("name", PAGES)
def test_commands_print_what_the_page_shows(name, tmp_path):
    home = Home(tmp_path / "ada", has_side_files=False)
    page = PAGES[name]
    text = page.read_text("utf-8")
    commands = list(examples(text))
    assert len(commands) >= 5
    for command, shown in commands:
        program, *words = shlex.split(command)
        if program == "rm":
            os.unlink(words[0].replace("~", str(home.path), 1))
            continue
        assert program == "turnlog"
        code, out, err = home.screen(*words, columns=80)
        assert code in (0, 1), (command, err)
        assert not err.startswith("error:"), (command, err)
        printed = out.strip("\n")
        if os.environ.get(UPDATE) and LEFT_OUT not in shown.splitlines():
            before = f"$ {command}\n" + (f"{shown}\n" if shown else "")
            text = text.replace(before, f"$ {command}\n" + (f"{printed}\n" if printed else ""))
            continue
        parts = [re.escape(part) for part in re.split(rf"^{LEFT_OUT}$", shown, flags=re.MULTILINE)]
        assert re.fullmatch(".*".join(parts), printed, re.DOTALL), f"{command}\n{printed}"
    if os.environ.get(UPDATE):
        page.write_text(text, "utf-8")


@pytest.mark.parametrize(
    "path", re.findall(r"\]\((?!https?:)([^)#]+)", PAGES["README.md"].read_text())
)
def test_links_lead_somewhere(path):
    assert (ROOT / path).exists()
