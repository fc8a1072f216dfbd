"""An id that several sessions begin with: they are listed with what tells them apart."""

import pytest
from rich.cells import cell_len

from cli.conftest import line, prompt

IDS = {
    "ab111111-aaaa-4aaa-8aaa-111111111111": ("/home/ada/orchard", "Prune the pears"),
    "ab222222-bbbb-4bbb-8bbb-222222222222": ("/srv/lamps", "日の出の時刻を直す"),
    "ab222222-cccc-4bbb-8bbb-222222222222": ("/srv/lamps", ""),
}


@pytest.fixture
def home(tmp_path):
    for number, (session, (cwd, title)) in enumerate(IDS.items()):
        log = tmp_path / "home" / "projects" / cwd.replace("/", "-") / f"{session}.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        asked = prompt(session, "hello", cwd=cwd).replace(b"11-01T", b"11-0%dT" % (number + 1))
        named = line(type="custom-title", customTitle=title, sessionId=session)
        log.write_bytes(asked + b"\n" + named + b"\n")
    return tmp_path / "home"


@pytest.mark.parametrize(
    "words", [("show",), ("info",), ("export",), ("files",), ("recover",), ("pin",)], ids=" ".join
)
def test_every_command_lists_ids_times_projects_and_titles(turnlog, home, words):
    code, out, err = turnlog(*words, "ab", "--home", home)
    assert (code, out) == (2, "")
    first, *rows, hint = err.splitlines()
    assert first == "error: 'ab' begins the ids of 3 sessions"
    assert rows == [
        "  ab222222-c  2026-11-03 10:00  lamps    hello",
        "  ab222222-b  2026-11-02 10:00  lamps    日の出の時刻を直す",
        "  ab111111-a  2026-11-01 10:00  orchard  Prune the pears",
    ]
    assert hint == "hint: give more characters of the id"
    for row in rows:  # What is shown is enough to name one.
        assert turnlog("info", row.split()[0], "--home", home)[0] == 0


def test_rows_fit_the_terminal(turnlog, home):
    _, _, err = turnlog("show", "ab", "--home", home, COLUMNS="50")
    assert all(cell_len(row) <= 50 for row in err.splitlines())
    assert "日の出の…" in err


def test_of_many_the_newest_are_listed(turnlog, home):
    log = next(home.rglob("ab111111*.jsonl"))
    for number in range(20):
        other = f"ac{number:06}-aaaa-4aaa-8aaa-111111111111"
        log.with_name(f"{other}.jsonl").write_bytes(prompt(other, "hello") + b"\n")
    _, _, err = turnlog("show", "a", "--home", home)
    assert "begins the ids of 23 sessions" in err
    assert err.index("ab222222-c") < err.index("ac0000")
    assert "  … and 13 more\n" in err
