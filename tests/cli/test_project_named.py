"""``--project`` takes a path, or the name that lists show."""

import json
from pathlib import Path

import pytest

from cli.conftest import prompt
from records.answers import answer, log_of
from turnlog.formats import key_of

SESSIONS = {
    "11111111-aaaa-4aaa-8aaa-111111111111": "/home/ada/orchard",
    "22222222-bbbb-4bbb-8bbb-222222222222": "/home/ada/my.app",
    "33333333-cccc-4ccc-8ccc-333333333333": "/srv/old/my.app",
    "44444444-dddd-4ddd-8ddd-444444444444": "/home/ada/big-orchard",
}


@pytest.fixture
def listed(turnlog, tmp_path):
    """Give the sessions that are listed for a --project, or what is said on stderr."""
    for session, cwd in SESSIONS.items():
        key = cwd.replace("/", "-").replace(".", "-")
        log = tmp_path / "home" / "projects" / key / f"{session}.jsonl"
        log.parent.mkdir(parents=True)
        log.write_bytes(prompt(session, "hello", cwd=cwd) + b"\n")

    def run(project, *more, command="sessions"):
        arguments = ("--project", project, *more, "--home", tmp_path / "home", "--json")
        code, out, err = turnlog(command, *arguments)
        return err if code == 2 else sorted(row["id"][:4] for row in json.loads(out)["sessions"])

    return run


def test_a_project_goes_by_the_name_that_lists_show(listed):
    assert listed("orchard") == ["1111"]
    assert listed("big-orchard") == ["4444"]
    assert listed("orchard", "--sort", "title") == ["1111"]
    assert listed("nobody") == listed("chard") == []


def test_a_path_is_a_path_and_a_directory_that_is_here_comes_first(listed, tmp_path):
    assert listed("/home/ada") == ["1111", "2222", "4444"]
    assert listed("/home/ada/orchard") == ["1111"]
    (tmp_path / "orchard").mkdir()
    assert listed("orchard") == listed("./orchard") == listed(".") == []


def test_a_name_that_several_share_is_a_mistake(listed):
    err = listed("my.app")
    assert "my.app matches 2 projects: /home/ada/my.app, /srv/old/my.app" in err
    assert "hint: use the full path" in err


WINDOWS = {
    "55555555-aaaa-4aaa-8aaa-555555555555": "S:\\Repos\\Docs",
    "66666666-aaaa-4aaa-8aaa-666666666666": "S:\\Repos\\Docs\\api",
    "77777777-aaaa-4aaa-8aaa-777777777777": "D:/work/orchard-press",
    "88888888-aaaa-4aaa-8aaa-888888888888": "\\\\farm\\share\\barn",
}


@pytest.fixture
def windows(turnlog, tmp_path):
    """Ask any command about sessions that worked on Windows."""
    for session, cwd in WINDOWS.items():
        log = tmp_path / "home" / "projects" / key_of(cwd) / f"{session}.jsonl"
        log.parent.mkdir(parents=True)
        said = answer(f"msg_{session[0]}", f"req_{session[0]}", sessionId=session, cwd=cwd)
        log.write_bytes(prompt(session, "hello", cwd=cwd) + b"\n" + log_of(said))

    def run(*words):
        code, out, err = turnlog(*words, "--home", tmp_path / "home", "--json")
        assert code in (0, 1), err
        return json.loads(out)

    return run


@pytest.mark.parametrize(
    ("project", "found"),
    [
        ("S:\\Repos\\Docs", "56"),
        ("s:/repos/docs/", "56"),
        ("S:\\", "56"),
        ("Docs", "56"),
        ("api", "6"),
        ("D:\\work", "7"),
        ("orchard-press", "7"),
        ("\\\\farm\\share", "8"),
        ("barn", "8"),
        ("S:\\Repos\\Do", ""),
        ("S:\\Other", ""),
    ],
)
def test_windows_paths_are_found_on_any_system(windows, project, found):
    for words in (("sessions",), ("sessions", "--wide")):
        rows = windows(*words, "--project", project)["sessions"]
        assert "".join(sorted(row["id"][0] for row in rows)) == found
    assert windows("cost", "month", "--project", project)["totals"]["messages"] == len(found)
    hits = windows("search", "hello", "--project", project)["hits"]
    assert "".join(sorted(hit["session"][0] for hit in hits)) == found


@pytest.mark.parametrize("session", WINDOWS)
def test_a_fork_keeps_the_windows_path_of_its_session(turnlog, windows, tmp_path, session):
    into = tmp_path / "into"
    into.mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/not-theirs\n")
    made = windows("fork", session, "--to", into)
    cwd = WINDOWS[session]
    assert made["path"].startswith(str(into / "projects" / key_of(cwd)))
    records = [json.loads(each) for each in Path(made["path"]).read_text("utf-8").splitlines()]
    assert {each["cwd"] for each in records if "cwd" in each} == {cwd}
    assert not any(each.get("gitBranch") for each in records)
