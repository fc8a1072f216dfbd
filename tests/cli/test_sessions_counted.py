"""Whoever counts sessions counts the same ones, whatever lies in a home."""

import gzip

import pytest

from index.homes import SESSIONS, answered, asked, lines, log_path, made_home
from mcp_world import ask, cli, opened

NORMAL, BEREFT, ASIDE, EMPTY, NAMED = SESSIONS[:5]
THERE = {NORMAL, EMPTY, NAMED}


def make_odd(directory):
    """A session; subagents that lost theirs; one in a main log's place; two logs of no prompt."""
    homes = made_home(directory / "home")
    log_path(homes, NORMAL).write_bytes(lines(asked(1, NORMAL), answered(1, NORMAL)))
    for number, subagent in ((2, "a1"), (3, "a2")):
        theirs = {"isSidechain": True, "agentId": subagent, "timestamp": "2026-05-01T00:00:00Z"}
        log_path(homes, BEREFT, subagent=subagent).write_bytes(
            lines(answered(number, BEREFT, **theirs))
        )
    aside = (asked(4, ASIDE, isSidechain=True), answered(4, ASIDE, isSidechain=True))
    log_path(homes, ASIDE).write_bytes(lines(*aside))
    log_path(homes, EMPTY).write_bytes(b"")
    log_path(homes, NAMED).write_bytes(
        lines({"type": "ai-title", "sessionId": NAMED, "aiTitle": "Only a title"})
    )
    return homes[0].path


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("odd"), make_odd) as (home, desk):
        yield home, desk()


def ids(document):
    return [row["id"] for row in document["sessions"]]


@pytest.mark.parametrize("asked_for", [[], ["--wide"], ["--sort", "tokens"]])
def test_a_session_has_a_main_log_of_its_own(world, asked_for):
    home, _ = world
    found = cli(home, "sessions", *asked_for)
    assert found["total"] == len(found["sessions"]) == len(THERE)
    assert set(ids(found)) == THERE


def test_one_of_which_only_agents_are_left_is_gone(world):
    home, _ = world
    assert ids(cli(home, "sessions", "--is", "gone")) == [BEREFT]
    projects = cli(home, "projects")["projects"]
    assert sum(row["sessions"] for row in projects) == len(THERE)
    assert sum(row["gone"] for row in projects) == 1
    assert sum(row["messages"] for row in projects) == 4  # What they used was used.


def test_check_and_doctor_count_those_as_agents(world):
    home, _ = world
    totals = cli(home, "check")["totals"]
    assert (totals["sessions"], totals["subagents"], totals["logs"]) == (len(THERE), 3, 6)
    checkup = cli(home, "doctor")
    assert (checkup["sessions"], checkup["logs"]) == (len(THERE), 6)


def test_the_overview_counts_the_same(world):
    home, _ = world
    found = cli(home)
    assert found["total"] == len(THERE)
    assert set(ids(found)) == THERE
    # Where no record says when, the file's own time counts, as in the list.
    since = cli(home, "sessions", "--since", "30d")["total"]
    assert found["periods"][-1]["sessions"] == since == 2


def test_sql_sees_the_same(world):
    home, _ = world
    rows = cli(home, "sql", "SELECT session FROM v_sessions")["rows"]
    assert {row[0] for row in rows} == THERE
    query = "SELECT project, sessions, gone FROM v_projects"
    assert cli(home, "sql", query)["rows"] == [["/srv/kites", 1, 0]]
    assert cli(home, "sql", "SELECT count(*) FROM v_subagents")["rows"] == [[2]]


def test_agents_are_told_of_the_same(world):
    _, desk = world
    found = ask(desk, "list_sessions")
    assert found["total"] == len(THERE)
    assert set(ids(found)) == THERE
    # Also by a word instead of an id, though the subagents were active later than it.
    assert ask(desk, "session_overview", session="latest")["id"] in THERE


def test_keep_and_restore_count_the_same(world, capsys):
    from turnlog.cli.app import run

    home, _ = world
    assert run(["keep", "--home", str(home)]) == 0
    assert run(["keep", "status", "--home", str(home)]) == 0
    shown = capsys.readouterr().out
    assert "Kept 6 files of 3 sessions: " in shown
    assert "including subagent logs of 1 session without a main" in shown
    assert "kept        6 files of 3 sessions, " in shown
    assert set(ids(cli(home, "restore"))) == THERE
    # Whoever names it finds it all the same.
    assert ids(cli(home, "restore", "--session", ASIDE)) == [ASIDE]


def make_copies(directory):
    """A session whose log lies in three projects, an old archive of it, and a subagent in two."""
    homes = made_home(directory / "home")
    here = log_path(homes, NORMAL)
    theirs = lines(answered(9, NORMAL, isSidechain=True, agentId="a1"))
    later = answered(2, NORMAL, timestamp="2026-03-04T06:00:00.000Z", cwd="/srv/wind")
    for project, records in (
        ("-a-stale", [asked(1, NORMAL)]),
        ("-srv-kites", [asked(1, NORMAL), answered(1, NORMAL), later]),
        ("-z-stale", [asked(1, NORMAL), answered(1, NORMAL)]),
    ):
        log = here.parent.parent / project / here.name
        log.parent.mkdir(exist_ok=True)
        log.write_bytes(lines(*records))
        if project != "-a-stale":
            subagents = log.parent / NORMAL / "subagents"
            subagents.mkdir(parents=True)
            (subagents / "agent-a1.jsonl").write_bytes(theirs)
    (here.parent / f"{here.name}.gz").write_bytes(gzip.compress(here.read_bytes()))
    log_path(homes, NAMED).write_bytes(lines(asked(3, NAMED)))
    return homes[0].path


def test_copies_of_a_session_are_one_row_of_every_list(tmp_path):
    with opened(tmp_path, make_copies) as (home, desk):
        bare = cli(home, "sessions", "--project", "/srv")["sessions"]
        assert bare == cli(home, "sessions")["sessions"]
        wide = cli(home, "sessions", "--wide")["sessions"]
        assert ids({"sessions": bare}) == ids({"sessions": wide}) == [NORMAL, NAMED]
        shared = bare[0].keys() & wide[0].keys()
        assert [{key: row[key] for key in shared} for row in bare] == [
            {key: row[key] for key in shared} for row in wide
        ]
        # The one that was active last is also the one that is shown.
        assert bare[0]["path"] == cli(home, "info", NORMAL)["logs"][0]
        assert (bare[0]["records"], bare[0]["subagents"]) == (3, 1)
        assert ask(desk(), "list_sessions")["total"] == 2


def make_every_kind(directory):
    """Sessions of every kind: with subagents, forked, archived, kept only, empty."""
    from turnlog.cli.app import run

    homes = made_home(directory / "home")
    home = str(homes[0].path)
    for number, session in enumerate((*SESSIONS[:5], SESSIONS[5]), 1):
        log_path(homes, session).write_bytes(
            lines(asked(number, session), answered(number, session))
        )
    log_path(homes, BEREFT, subagent="a1").write_bytes(
        lines(answered(21, BEREFT, isSidechain=True, agentId="a1"))
    )
    assert run(["fork", NORMAL, "--home", home, "--to", home]) == 0
    assert run(["keep", "--home", home]) == 0
    assert run(["archive", ASIDE, "--home", home]) == 0
    assert run(["archive", EMPTY, "--home", home, "--remove", "--yes"]) == 0
    log_path(homes, NAMED).unlink()  # As the agent's own cleanup does.
    log_path(homes, SESSIONS[5]).write_bytes(b"")
    return homes[0].path


def test_every_command_counts_sessions_of_every_kind_alike(tmp_path):
    """Two archived sessions are hidden; the fork, the kept one and the empty one are not."""
    with opened(tmp_path, make_every_kind) as (home, desk):
        counts = {
            "sessions": cli(home, "sessions")["total"],
            "sessions --wide": cli(home, "sessions", "--wide")["total"],
            "overview": cli(home)["total"],
            "check": cli(home, "check")["totals"]["sessions"],
            "doctor": cli(home, "doctor")["sessions"],
            "projects": sum(row["sessions"] for row in cli(home, "projects")["projects"]),
            "mcp": ask(desk(), "list_sessions")["total"],
        }
        assert counts == dict.fromkeys(counts, 5)
        (kept,) = cli(home, "keep", "status")["homes"]
        assert kept["sessions"] == 5 + 2  # Archives are kept copies.
        assert cli(home, "sessions", "--is", "archived")["total"] == 2


def test_keep_status_counts_the_sessions_that_keep_copies(tmp_path):
    with opened(tmp_path, make_odd) as (home, _):
        (status,) = cli(home, "keep", "status")["homes"]
        run = cli(home, "keep")
    assert status["behind_sessions"] == len(run["sessions"]) - len(run["without_log"])
    assert status["behind_sessions"] == len(THERE)
