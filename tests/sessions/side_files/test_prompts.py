"""Prompts, from a history that may be damaged."""

from datetime import UTC, datetime

import pytest

from sessions.homes import make_home, write
from turnlog.errors import LogError
from turnlog.sessions.side_files import prompts
from turnlog.sessions.side_files.prompts import find_prompts

MS = 1_793_527_200_000  # 2026-11-01T10:00:00Z


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path)


def line(text, minute=0, **more):
    import json

    fields = {"display": text, "pastedContents": {}, "timestamp": MS + minute * 60_000}
    return json.dumps(fields | {"project": "/home/ada/orchard", "sessionId": "s1"} | more) + "\n"


def texts(page):
    return [prompt.text for prompt in page.prompts]


def test_the_newest_come_first_with_aware_instants(home):
    write(home, "history.jsonl", line("one") + line("three", 2) + line("two", 1))
    page = find_prompts((home,))
    assert texts(page) == ["three", "two", "one"]
    assert page.prompts[-1].at == datetime(2026, 11, 1, 10, tzinfo=UTC)
    assert (page.total, page.damaged, page.odd) == (3, 0, 0)


def test_of_one_instant_the_later_line_is_newer(home):
    write(home, "history.jsonl", line("first") + line("second"))
    assert texts(find_prompts((home,))) == ["second", "first"]


def test_damage_costs_its_own_line_only(home):
    odd = '{"display":7}\n{"timestamp":1}\n[]\n'
    torn = line("three", 2)[:30]
    data = line("one") + "\0\0\0\n" + "{broken\n" + odd + line("two", 1) + torn
    write(home, "history.jsonl", data)
    page = find_prompts((home,))
    assert texts(page) == ["two", "one"]
    assert page.damaged == 3
    assert page.odd == 2


def test_a_timestamp_that_is_none_comes_last(home):
    bad = line("odd", timestamp="9999-99-99T99:99:99Z") + line("none", timestamp=None)
    write(home, "history.jsonl", bad + line("good"))
    page = find_prompts((home,))
    assert texts(page)[0] == "good"
    assert {prompt.at for prompt in page.prompts[1:]} == {None}


def test_filters_take_project_session_and_text(home):
    below = line("Below", 1, project="/home/ada/orchard/app", sessionId="s2")
    apart = line("apart", 2, project="/home/ada/orchard-2", sessionId=None)
    pasted = {"1": {"id": 1, "type": "text", "content": "FROST at noon"}}
    write(home, "history.jsonl", line("root") + below + apart + line("x", 3, pastedContents=pasted))
    assert texts(find_prompts((home,), project="/home/ada/orchard")) == ["x", "Below", "root"]
    assert texts(find_prompts((home,), session="s2")) == ["Below"]
    assert texts(find_prompts((home,), session="")) == []
    assert texts(find_prompts((home,), text="below")) == ["Below"]
    assert texts(find_prompts((home,), text="frost")) == ["x"]
    assert texts(find_prompts((home,), text="absent")) == []


def test_pages_follow_one_another(home):
    write(home, "history.jsonl", "".join(line(str(n), n) for n in range(7)))
    assert texts(find_prompts((home,), limit=3)) == ["6", "5", "4"]
    page = find_prompts((home,), limit=3, offset=6)
    assert (texts(page), page.total) == (["0"], 7)


def test_pasted_things_of_any_shape_are_taken(home):
    pasted = {"1": {"type": "image", "contentHash": "ab"}, "2": "bare", "3": 5}
    write(home, "history.jsonl", line("x", pastedContents=pasted) + line("y", pastedContents=[]))
    y, x = find_prompts((home,)).prompts
    assert y.pasted == ()
    assert [(each.id, each.text, each.hash) for each in x.pasted] == [
        ("1", None, "ab"),
        ("2", "bare", None),
        ("3", None, None),
    ]


def test_homes_are_read_together_and_one_without_a_history_is_none(home, tmp_path):
    from turnlog.formats import Home

    write(home, "history.jsonl", line("here"))
    other = Home(tmp_path / "other")
    write(other, "history.jsonl", line("there", 1))
    assert texts(find_prompts((home, other, Home(tmp_path / "none")))) == ["there", "here"]


def test_a_history_that_cannot_be_read_is_a_problem(home, monkeypatch):
    def refuse(path):
        raise LogError("no permission", path=path)

    write(home, "history.jsonl", line("x"))
    monkeypatch.setattr(prompts, "read_log", refuse)
    problems = []
    assert find_prompts((home,), problems=problems).prompts == []
    assert len(problems) == 1


def test_reading_changes_nothing(home):
    path = write(home, "history.jsonl", line("one") + "{torn")
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    find_prompts((home,))
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
