"""Every command on plain and on narrow terminals: pure ASCII; ids and money are never cut."""

import io
import os
import pty
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest
from rich.cells import cell_len

from cli.screens import Home, Terminal
from cli.test_snapshots import ALONE, BEFORE, CHANGING, SHOWN
from turnlog.cli.app import run
from turnlog.cli.terminal.ascii_symbols import ascii_symbols, use_ascii
from turnlog.cli.terminal.tables import Need, cut_left, cut_right, widths_for

IDS = ("0b29ae83", "123544bf", "2d3f0bf3", "f38b2ffc")
CUT = re.compile("|".join([r"\$[\d,.]*…", *(rf"\b{each[:3]}[0-9a-f]{{0,4}}…" for each in IDS)]))
DOCUMENTS = {"export"}  # What it writes is in UTF-8, whatever the terminal.


class Ascii(io.TextIOWrapper):
    """A terminal whose encoding has no symbols."""

    def __init__(self):
        super().__init__(io.BytesIO(), encoding="ascii", write_through=True)
        use_ascii(self)

    def isatty(self):
        return True

    def fileno(self):
        raise OSError("no descriptor")


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    return Home(tmp_path_factory.mktemp("plain") / "ada")


@pytest.fixture
def home(request, read, tmp_path):
    """A home for the command of this test: its own, if the command changes something."""
    name = request.node.callspec.params["name"]
    if name not in CHANGING:
        return read
    own = Home(tmp_path / "ada")
    for before in BEFORE.get(name, ()):
        own.do(*shlex.split(before))
    return own


def screens(name):
    first = [] if name == ALONE else [name]
    return [[*first, *shlex.split(words)] for words in (*SHOWN[name], "--help")]


@pytest.mark.parametrize("name", [name for name in SHOWN if name not in DOCUMENTS])
def test_a_command_prints_ascii_where_there_is_nothing_else(home, name):
    for words in screens(name):
        out, err = Ascii(), Ascii()
        with redirect_stdout(out), redirect_stderr(err), home.inside(80):
            run(words)
        for stream in (out, err):
            shown = stream.buffer.getvalue()
            assert shown.isascii(), (words, shown.decode("utf-8", "replace"))


@pytest.mark.parametrize("name", SHOWN)
def test_ids_and_money_are_whole_at_40_columns(home, name):
    for words in screens(name):
        _, out, _ = home.screen(*words, columns=40)
        assert not CUT.findall(out), (words, out)


def test_latin_1_keeps_letters_and_replaces_symbols():
    out = Terminal()
    out.reconfigure(encoding="latin-1")
    use_ascii(out)
    out.write("✓ Reykjavík · 雪 … 3 more\nA long ti…  …/path\n")
    expected = "+ Reykjavík - ? ... 3 more\nA long ti~  ~/path\n"
    assert out.buffer.getvalue() == expected.encode("latin-1")


def test_each_symbol_takes_the_place_of_one_character():
    table = "session  ✓  Fix the…  █▇▆▅▄▃▂▁  ★ ●  ├─└ │"
    assert ascii_symbols(table).isascii()
    assert len(ascii_symbols(table)) == len(table)


@pytest.mark.parametrize(("term", "has_symbols"), [("dumb", False), ("xterm", True)])
def test_a_dumb_terminal_gets_ascii(read, term, has_symbols):
    leader, follower = pty.openpty()
    program = [sys.executable, "-c", "from turnlog.cli import main; main()", "check"]
    environ = read.environ(80) | {"TERM": term, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.Popen(
        program, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, env=environ
    )
    os.close(follower)
    shown = b""
    try:
        while chunk := os.read(leader, 4096):
            shown += chunk
    except OSError:  # The other end is closed.
        pass
    os.close(leader)
    assert done.wait(60) in {0, 1}
    assert ("✓".encode() in shown) is has_symbols
    assert shown.isascii() is not has_symbols


# -- tables ------------------------------------------------------------------------------


def test_text_is_cut_before_columns_are_dropped():
    needs = [Need(8, 8, 0), Need(40, 12, 1), Need(10, 10, 2), Need(30, 8, 3)]
    assert widths_for(needs, 100) == [8, 40, 10, 30]
    assert widths_for(needs, 60) == [8, 18, 10, 18]
    assert widths_for(needs, 44) == [8, 12, 10, 8]
    assert widths_for(needs, 43) == [8, 21, 10, 0]
    assert widths_for(needs, 24) == [8, 14, 0, 0]
    assert widths_for(needs, 5) == [8, 0, 0, 0]


@pytest.mark.parametrize("text", ["orchard", "果樹園の春", "a果b樹c園d", "é" * 30])
@pytest.mark.parametrize("width", range(1, 12))
def test_text_is_cut_by_cells(text, width):
    for cut in (cut_left, cut_right):
        shown = cut(text, width)
        assert cell_len(shown) <= width
        assert shown == text or "…" in shown
