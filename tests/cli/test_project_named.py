"""``--project`` takes a path, or the name that lists show."""

import json

import pytest

from cli.conftest import prompt

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
    assert "2 projects are called my.app: /home/ada/my.app, /srv/old/my.app" in err
    assert "hint: give the whole path" in err
