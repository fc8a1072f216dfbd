"""Whatever is wrong with the world, every command says so in a sentence: it never falls over.

Commands run in this process: an exception that nobody expects fails its test by itself.
"""

import os
import shlex
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.screens import Home
from cli.test_grammar import ALL, options
from cli.test_snapshots import ALONE, BEFORE, CHANGING, SHOWN
from sampling import sampled
from turnlog.cli.app import COMMANDS

# Each command as it is asked most, with a session where it takes one.
ASKED = {
    name: next((words for words in shown if "--help" not in words), "")
    for name, shown in SHOWN.items()
    if name not in {"completion", "statusline"}
} | {"sql": "'SELECT session FROM v_sessions'"}
TAKES_A_SESSION = {
    name: words
    for name, words in ASKED.items()
    if words[:4] in {"f38b", "0b29", "2d3f", "1235"} and name != "watch"
}
ELSEWHERE = {"trash", "prices", "watch", "keep", "prune", "check"}
"""They are told of homes in words of their own."""


def typed(name, words):
    return shlex.split(f"{'' if name == ALONE else name} {words}")


def is_told(code, err):
    """Whether a mistake was told as mistakes are."""
    return code in {2, 3} and "error: " in err and "Traceback" not in err


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return Home(tmp_path_factory.mktemp("bad") / "ada")


@pytest.mark.parametrize("name", [name for name in ASKED if name not in ELSEWHERE])
def test_a_home_that_is_not_there(name, home):
    words = [*typed(name, ASKED[name]), "--home", home.path / "nowhere"]
    code, out, err = home.screen(*words)
    assert is_told(code, err), (code, out, err)
    assert "nowhere" in err
    assert "hint: " in err
    assert not out


@pytest.mark.parametrize("name", [name for name in ASKED if name != "watch"])
@pytest.mark.parametrize("content", ["nothing", "projects", "a file"])
def test_a_home_with_nothing_in_it(name, content, tmp_path):
    home = Home(tmp_path / "ada", is_empty=True)
    if content == "a file":
        home.claude.write_text("not a directory")
    else:
        (home.claude / ("projects" if content == "projects" else "")).mkdir(parents=True)
    code, out, err = home.screen(*typed(name, ASKED[name]))
    assert is_told(code, err) or (code in {0, 1} and out + err)


@contextmanager
def somebody():
    """Be nobody for a while, if we are root: root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture(scope="module")
def locked():
    """A home that its owner may not read, outside of pytest's own private directories."""
    directory = Path(tempfile.mkdtemp(prefix="turnlog-locked-"))
    home = Home(directory / "ada")
    for name, words in ASKED.items():  # Nobody may not read this interpreter's modules, either.
        if name != "watch":
            home.screen(*typed(name, words))
    shutil.rmtree(home.path)
    home = Home(home.path)
    (home.path / ".turnlog").mkdir()
    if os.geteuid() == 0:
        for path in (directory, home.path, home.path / ".turnlog"):
            os.chown(path, 65534, 65534)
    home.claude.chmod(0)
    yield home
    home.claude.chmod(0o700)
    shutil.rmtree(directory)


@pytest.mark.parametrize("name", [name for name in ASKED if name not in {"watch", "prices"}])
def test_a_home_that_may_not_be_read(name, locked):
    with somebody():
        code, out, err = locked.screen(*typed(name, ASKED[name]))
    assert code in {0, 1, 2, 3}
    assert out + err
    assert "Traceback" not in err
    if name in TAKES_A_SESSION:
        assert is_told(code, err), (code, out, err)


@pytest.mark.parametrize("name", sampled(ASKED, 3))
def test_a_terminal_of_twenty_columns(name, home, tmp_path):
    for number, words in enumerate(SHOWN[name]):
        codes = []
        for columns in (20, 80):
            here = home
            if name in CHANGING:
                here = Home(tmp_path / f"{number}-{columns}" / "ada")
                for before in BEFORE.get(name, ()):
                    here.do(*shlex.split(before))
            code, out, err = here.screen(*typed(name, words), columns=columns)
            codes.append(code)
            assert out + err
        assert codes[0] == codes[1]


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(
    "line", [b'{"type":"user","mess', b"\0" * 300, b"\xff\xfe\n[]\n"], ids=["torn", "nul", "odd"]
)
def test_a_session_of_one_damaged_line(name, line, tmp_path):
    home = Home(tmp_path / "ada", is_empty=True)
    project = home.claude / "projects" / "-home-ada-orchard"
    project.mkdir(parents=True)
    log = project / "f38b2ffc-80a4-4f5a-91c9-bc701e7ea419.jsonl"
    log.write_bytes(line)
    words = ASKED[name]
    for other in ("0b29", "2d3f", "1235"):
        words = words.replace(other, "f38b")
    if name == "watch":
        words = "--since soon"
    code, out, err = home.screen(*typed(name, words))
    assert code in {0, 1, 2, 3}
    assert out + err
    if name not in CHANGING:
        assert log.read_bytes() == line


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("export f38b -o there.md", "there.md"),
        ("export f38b -o there.html", "there.html"),
        ("export f38b -o there.json", "there.json"),
        ("export f38b -o there.jsonl", "there.jsonl"),
        ("export f38b -o there.csv", "there.csv"),
        ("insights --since 30d --output there.html", "there.html"),
        ("insights 2026-10 --output there.html", "there.html"),
        ("files f38b schedule.py --at v1 --restore there.py", "there.py"),
    ],
)
def test_what_exists_is_not_overwritten(words, path, tmp_path):
    home = Home(tmp_path / "ada")
    there = home.path / path
    there.write_text("precious")
    code, out, err = home.screen(*shlex.split(words))
    assert code in {1, 2}
    assert there.read_text() == "precious"
    assert {each.name for each in home.path.iterdir()} - {".turnlog"} == {".claude", path}
    if not words.startswith("files"):
        assert is_told(code, err)
        assert "--force" in out + err
        code, _, _ = home.screen(*shlex.split(words), "--force")
        assert code == 0
        assert there.read_text() != "precious"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("shape", ["", "--json", "--csv"])
def test_a_disk_that_is_full(name, shape, home, tmp_path):
    if shape and (
        name == ALONE or shape not in {long for o in options(ALL[name]) for long in o.opts}
    ):
        pytest.skip("it has no such shape")
    if name in CHANGING:
        home = Home(tmp_path / "ada")
    words = ASKED[name] if name != "insights" or shape != "--csv" else "--explain tools:Bash"
    words = words if name != "restore" else "--list"
    with open("/dev/full", "w") as full:
        code, _, err = home.screen(*typed(name, f"{words} {shape}"), stdout=full)
        is_silent = code == 0 and name in {"export", "resume"}
        assert is_silent or is_told(code, err), (code, err)
        # What could not be written is dropped: closing would try it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_nothing_is_left_out():
    assert set(ASKED) | {"completion", "statusline", "mcp", "top", "web"} == {ALONE, *COMMANDS}
