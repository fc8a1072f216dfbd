"""The page of what agents are doing, beside programs that really run."""

import re

import pytest

from live.live_world import World, call, prompt, result, said
from web.served import served
from web.test_pages import words_of

ONE, TWO, THREE = (f"{each * 8}-aaaa-4aaa-8aaa-{each * 12}" for each in "123")


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def server(world, tmp_path):
    with served(tmp_path) as found:
        yield found


def rows_of(page):
    """Give each session's row in words, by its id, in the order of the page."""
    rows = re.findall(
        r"<li(?: class=\"(\w+)\")? id=\"[^\"]+\"><a href=\"/session/([^\"]+)\">(.*?)</li>", page
    )
    return {session: (kind, " ".join(words_of(rest).split())) for kind, session, rest in rows}


def test_who_waits_comes_first_and_who_works_says_on_what(world, server):
    world.write(ONE, prompt("Fly the kite"), call(1, "Bash", command="make kite"))
    world.run(ONE)
    world.write(TWO, prompt("Sell the kite"), call(2, "AskUserQuestion", questions=[]), ago=9)
    world.run(TWO, "waiting", waitingFor="permission prompt")
    world.write(THREE, prompt("Fold it"), said("Folded."), ago=600)
    page = server.ask("/now").text
    rows = rows_of(page)
    assert list(rows) == [TWO, ONE, THREE]
    assert rows[TWO][0] == "waiting"
    assert "waits for you: permission" in rows[TWO][1]
    assert rows[ONE][0] == "working"
    assert "Bash make kite" in rows[ONE][1]
    assert rows[THREE][0] == ""
    assert 'http-equiv="refresh"' not in page  # A reload loses what one types.
    assert '<section id="now" data-live="now"' in page
    assert '<noscript><a href="/now" class="button">Reload</a></noscript>' in page
    words = " ".join(words_of(page).split())
    assert "1 waits for you 2 running" in words


def test_it_follows_what_happens(world, server):
    world.write(ONE, prompt("Fly the kite"), call(1, "Bash", command="make kite"))
    pid = world.run(ONE)
    assert "make kite" in rows_of(server.ask("/now").text)[ONE][1]
    world.write(ONE, result(1, "It flies."), said("It flies."))
    world.say(pid, ONE, "idle")
    kind, words = rows_of(server.ask("/now").text)[ONE]
    assert kind == ""
    assert "your turn" in words
    assert "make kite" not in words
    world.kill(pid)
    assert "your turn" not in rows_of(server.ask("/now").text)[ONE][1]


def test_where_nobody_runs_it_says_so(server):
    assert "No agent runs" in server.ask("/now").text


def test_it_tells_what_a_hostile_log_says_as_text(world, server):
    evil = "<script>window.pwned=1</script>\x1b[31m\u202e"
    world.write(ONE, prompt(evil), call(1, evil, command=evil))
    world.run(ONE, "waiting", waitingFor=evil)
    page = server.ask("/now").text
    assert "<script>" not in page
    assert "window.pwned=1" in page
    assert not {"\x1b", "\u202e"} & set(page)
