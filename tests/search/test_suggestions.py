"""What is found where no text has all that was asked: beginnings, and fewer words."""

from __future__ import annotations

from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

import pytest

from search.search_world import NOW, World, open_world
from turnlog.search.search import search


@pytest.fixture(scope="module")
def retries(tmp_path_factory):
    """A home in which one text says what everybody looks for, and others most of its words."""
    world = World()
    world.prompt("Why does the upload test fail now and then?")
    world.answer("The retry is flaky: it never waits. Mended in the uploader.")
    for number in range(6):
        world.prompt(f"Mended what we did in the build number {number}, where is the log")
    world.answer("Configuration of tests")
    world.answer(("Read", None, "zebra"))
    with open_world(world, tmp_path_factory.mktemp("retries")) as opened:
        yield opened


def found(index, query, **options):
    return search(index, query, now=NOW, zone=UTC, **options)


def told(document):
    return [hit.snippet for hit in document.hits], document.notes


@pytest.mark.parametrize("newest", [True, False])
def test_a_whole_question_finds_what_it_is_about(retries, newest):
    texts, notes = told(found(retries, "where did we fix the flaky retry?", newest=newest))
    assert (texts, notes) == ([], ["no text has the word fix"])
    texts, notes = told(found(retries, "where have we mended the flaky retry?", newest=newest))
    assert texts == ["The retry is flaky: it never waits. Mended in the uploader."]
    assert notes == ["no text has all of these words; left out: where, have, we, the"]


def test_the_commonest_words_are_left_out_first_and_as_few_as_can_be(retries):
    texts, notes = told(found(retries, "mended log upload"))
    assert texts == ["Why does the upload test fail now and then?"]
    assert notes == ["no text has all of these words; left out: mended, log"]
    texts, notes = told(found(retries, "flaky retry number"))
    assert texts == ["The retry is flaky: it never waits. Mended in the uploader."]
    assert notes == ["no text has all of these words; left out: number"]


def test_what_was_quoted_or_refused_is_not_left_out(retries):
    texts, notes = told(found(retries, '"retry is flaky" number'))
    assert texts == ["The retry is flaky: it never waits. Mended in the uploader."]
    assert notes == ["no text has all of these words; left out: number"]
    assert told(found(retries, '"flaky retry" number')) == ([], [])
    assert not found(retries, "flaky retry number -uploader").hits
    assert told(found(retries, "flak* numb*")) == ([], [])


def test_filters_stay_as_they_are(retries):
    assert not found(retries, "flaky number role:human -number").hits
    texts, _ = told(found(retries, "flaky number is:response"))
    assert texts == ["The retry is flaky: it never waits. Mended in the uploader."]
    assert not found(retries, "flaky number before:2026-01-01").hits


@pytest.mark.parametrize(
    ("query", "notes"),
    [
        ("retry zqxv", ["no text has the word zqxv"]),
        ("zqxv", []),
        ("zqxv is:response", ["no text has the word zqxv"]),
        ("zq qz xq zx", [f"no text has the word {word}" for word in ("zq", "qz", "xq")]),
        ("retry ->>", []),
        ("->>", []),
        ('"zqxv flaky"', []),
        ("zqxv OR qqxv", []),
    ],
)
def test_a_word_that_nobody_said_is_named_and_never_left_out(retries, query, notes):
    assert told(found(retries, query)) == ([], notes)


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("role:nobody", ""),
        ("role:humans", "; did you mean human?"),
        ("type:promt", "; did you mean prompt?"),
        ("tool:Raed", "; did you mean Read?"),
        ("tool:human", ""),  # That is the name of something else.
        ("model:opsu", "; did you mean opus?"),
        ("branch:mian", "; did you mean main?"),
        ("file:nowhere.py", ""),
    ],
)
def test_a_filter_that_nothing_meets_is_named_with_what_comes_near(retries, wanted, near):
    assert told(found(retries, f"retry {wanted}")) == ([], [f"nothing here has {wanted}{near}"])
    assert told(found(retries, f"retry -{wanted}"))[1] == []


def test_a_filter_that_something_meets_is_not_to_blame(retries):
    assert told(found(retries, "retry type:title role:human")) == ([], [])


def test_few_words_may_be_beginnings(retries):
    texts, notes = told(found(retries, "config test"))
    assert texts == ["Configuration of tests"]
    assert notes == ["no text has these whole words; showing words that begin with them"]


def test_many_words_are_beginnings_only_if_one_was_never_said(retries):
    texts, notes = told(found(retries, "the retr is flak it never"))
    assert texts == ["The retry is flaky: it never waits. Mended in the uploader."]
    assert notes == ["no text has these whole words; showing words that begin with them"]


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("flaky since:3d", {}),
        ("flaky after:2026-11-09", {}),
        ("flaky is:response before:2026-10-01", {}),
        ("flaky", {"since": NOW - timedelta(days=3)}),
        ("flaky", {"until": NOW - timedelta(days=100), "newest": True}),
        ('"retry is flaky" since:1d', {"offset": 7}),
    ],
)
def test_what_only_another_time_has_is_told(retries, query, options):
    latest = ["only texts from another time match, the latest from 2026-11-01"]
    assert told(found(retries, query, **options)) == ([], latest)
    assert told(found(retries, query, mask=str, **options)) == ([], [])


def test_the_day_is_that_of_whoever_asks(retries):
    document = search(retries, "flaky since:3d", now=NOW, zone=ZoneInfo("Pacific/Kiritimati"))
    assert document.notes == ["only texts from another time match, the latest from 2026-11-02"]


@pytest.mark.parametrize(
    "query", ["zqxv since:3d", "since:3d", "->> since:3d", "flaky -since:2026-10-01", "flaky zqxv"]
)
def test_nothing_is_said_of_time_where_it_is_not_to_blame(retries, query):
    assert not [note for note in found(retries, query).notes if "time" in note]


def test_whoever_may_not_see_all_learns_nothing_from_what_comes_near(retries):
    for query in ("mended log upload", "retry zqxv", "retry type:promt"):
        assert told(found(retries, query, mask=str)) == ([], [])
    assert told(found(retries, "config test", mask=str))[0] == ["Configuration of tests"]


def test_pages_go_on(retries):
    first = found(retries, "mended number uploader fail", limit=1, per_session=0)
    assert len(first.hits) == 1
    assert first.next is None


def test_a_word_of_several_pieces_is_counted_in_what_tools_answered(retries):
    for query in (
        "retry tree-sitter",
        "retry well-known-word flaky number",
        "up-load now-and-then",
    ):
        assert found(retries, query, with_results=True).notes


def test_results_count_where_they_are_asked_for(tmp_path):
    world = World()
    world.prompt("where is the log")
    world.result("Read", "/srv/a.py", "look", "flaky lock")
    with open_world(world, tmp_path) as index:
        assert found(index, "log flaky").notes == ["no text has the word flaky"]
        texts, notes = told(found(index, "log flaky", with_results=True))
        assert len(texts) == 1
        assert notes[0].startswith("no text has all of these words; left out: ")
