"""Words may be missing, inflected or misspelled: what is found, and in which order."""

from __future__ import annotations

from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

import pytest

from search.search_world import NOW, ONE, THREE, TWO, World, open_world
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


FLAKY = "The retry is flaky: it never waits. Mended in the uploader."


@pytest.mark.parametrize(
    "query",
    [
        "where did we fix the flaky retry?",
        "Where was it that the retries never waited",
        "flaky retry number zebra",
        "uploader's retry ->> ?",
        "flakey retry",
    ],
)
def test_missing_words_cost_rank_and_never_the_result(retries, query):
    texts, _ = told(found(retries, query))
    assert texts[0] == FLAKY


def test_the_more_and_the_rarer_words_a_text_has_the_better(retries):
    texts, _ = told(found(retries, "mended upload flaky", flat=True))
    assert texts[0] == FLAKY
    assert texts[1] == "Why does the upload test fail now and then?"


def test_sorted_by_time_all_words_must_match_if_any_text_has_them(retries):
    texts, _ = told(found(retries, "mended retry", newest=True))
    assert texts == [FLAKY]
    texts, _ = told(found(retries, "flaky number", newest=True))
    assert FLAKY in texts


@pytest.mark.parametrize(
    "query",
    [
        "+flaky +number", "flaky AND number", '"flaky retry" number', "+retry -uploader",
        "flak* numb*", "flaky before:2026-01-01", "+flaky role:human", "(flaky number) OR zqxv",
    ],
)  # fmt: skip
def test_what_is_required_quoted_or_excluded_is_never_dropped(retries, query):
    assert not found(retries, query).hits


def test_all_words_requires_all_words(retries):
    assert not found(retries, "flaky number", all_words=True).hits
    assert told(found(retries, "flaky retry", all_words=True))[0] == [FLAKY]


@pytest.mark.parametrize(
    ("query", "notes"),
    [
        ("retry zqxv", ['no text has "zqxv"']),
        ("retry zq qz xq zx", ['no text has "zq" or "qz" or "xq"']),
        ("retry ->>", []),
    ],
)
def test_a_word_that_no_text_has_is_named(retries, query, notes):
    assert told(found(retries, query)) == ([FLAKY], notes)


@pytest.mark.parametrize(
    "query", ["zqxv", "zqxv is:response", "->>", '"zqxv flaky"', "zqxv OR qqxv"]
)
def test_words_that_no_text_has_find_nothing(retries, query):
    assert not found(retries, query).hits


def test_a_misspelled_word_finds_its_neighbour_if_nothing_else_matches(retries):
    notes = ['no text has "configuraiton": showing "configuration"']
    assert told(found(retries, "configuraiton")) == (["Configuration of tests"], notes)
    assert told(found(retries, "configuraiton flaky")) == ([FLAKY], ['no text has "configuraiton"'])
    assert told(found(retries, "configuraiton", mask=str)) == ([], [])


def test_a_beginning_of_a_word_finds_it(retries):
    assert told(found(retries, "configurat test"))[0][0] == "Configuration of tests"
    assert not found(retries, "configurat", mask=str).hits


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("parseHttpUrl crashed", "parse url"),
        ("parseHttpUrl crashed", "parseHttpUrl"),
        ("the XMLHttpRequest", "http request"),
        ("in retry_with_backoff", "backoff"),
        ("in retry_with_backoff", "retry_with_backoff"),
        ("see src/net/retry.py:12", "retry.py"),
        ("failed with ENOSPC 28", "ENOSPC"),
        ("error TS2345: bad", "ts2345"),
        ("we were testing libraries", "tests library"),
        ("Señor Müller, naïve", "senor muller naive"),
        ("Caroline's caf\u00e9", "carolines cafe's"),
    ],
)
def test_words_are_found_as_people_write_them(tmp_path, text, query):
    world = World()
    world.prompt("nothing of the kind")
    world.prompt(text)
    with open_world(world, tmp_path) as index:
        (hit,) = found(index, query).hits
        assert hit.snippet == text
        assert hit.highlights


def test_an_identifier_counts_more_as_a_whole(tmp_path):
    world = World()
    world.prompt("getUserName is slow", session=ONE)
    for _ in range(3):
        world.prompt("get the name of the user, get the user name", session=TWO)
    with open_world(world, tmp_path) as index:
        assert found(index, "getUserName").hits[0].session == ONE


def test_words_that_are_close_and_in_order_count_more(tmp_path):
    world = World()
    far = "retry " + "and so on with many other words " * 3 + "backoff"
    for number, text in enumerate((far, "backoff for the retry", "the retry backoff of it", far)):
        world.prompt(text, session=f"{number}" * 8 + "-aaaa-4aaa-8aaa-aaaaaaaaaaaa")
    with open_world(world, tmp_path) as index:
        texts = [hit.snippet for hit in found(index, "retry backoff").hits]
        assert texts[:2] == ["the retry backoff of it", "backoff for the retry"]


def test_a_session_that_has_more_of_the_words_comes_first(tmp_path):
    world = World()
    world.prompt("about the lantern", session=ONE)
    world.answer("the wick of it", session=ONE)
    world.answer("and the oil", session=ONE)
    world.prompt("about the lantern", session=TWO)
    world.answer("something else", session=TWO)
    world.answer("and again", session=TWO)
    with open_world(world, tmp_path) as index:
        assert found(index, "lantern wick oil").hits[0].session == ONE
        hits = found(index, "lantern").hits
        assert hits[0].session == TWO  # It is newer.


def test_a_session_with_only_common_words_is_no_result(tmp_path):
    world = World()
    world.prompt("why was the alert late?", session=ONE)
    world.prompt("what is the plan for the week?", session=TWO)
    with open_world(world, tmp_path) as index:
        hits = found(index, "why was the alert late").hits
        assert {hit.session for hit in hits} == {ONE}
        hits = found(index, "what was the").hits  # There is nothing else to find.
        assert {hit.session for hit in hits} == {ONE, TWO}


def test_what_the_program_noted_comes_last(tmp_path):
    world = World()
    world.prompt(
        "<local-command-stdout>release notes: lantern lantern</local-command-stdout>", session=ONE
    )
    world.prompt("where is the old lantern of the orchard, and who lit it", session=TWO)
    with open_world(world, tmp_path) as index:
        hits = found(index, "lantern").hits
        assert [hit.session for hit in hits] == [TWO, ONE]


def test_tool_output_is_searched_if_nothing_else_matches(retries, tmp_path):
    world = World()
    world.prompt("where is the log")
    world.result("Read", "/srv/a.py", "look", "flaky lock")
    with open_world(world, tmp_path) as index:
        document = found(index, "flaky")
        assert [hit.kind for hit in document.hits] == ["result"]
        assert document.notes == ["found only in tool output"]
        document = found(index, "log look")
        assert (document.in_results, len(document.hits)) == (0, 2)
        assert found(index, "look").in_results == 0
        assert found(index, "look", with_results=True).in_results is None
        assert found(index, "log lock").notes == ['only tool output has "lock"']
        assert found(index, "log lock").in_results == 0
        assert found(index, "lcok").notes == []


def test_matches_in_tool_output_are_counted(tmp_path):
    world = World()
    world.prompt("the lantern")
    for number in range(3):
        world.result("Read", "/srv/a.py", "look", f"a lantern {number}")
    with open_world(world, tmp_path) as index:
        assert found(index, "lantern").in_results == 3
        assert found(index, "lantern is:prompt").in_results == 0


def test_sessions_are_known_by_their_commits(tmp_path):
    world = World()
    world.prompt("commit it", session=ONE)
    world.answer(("Bash", None, 'git commit -m "Light the old lantern"'), session=ONE)
    world.result("Bash", None, "git commit -m x", "[main 1a2b3c4] Light the wick", session=TWO)
    world.prompt("see 1a2b3c4 and the old lantern", session=THREE)
    with open_world(world, tmp_path) as index:
        for value, session in (
            ("1a2b3c4", TWO), ("1a2b3", TWO), ("1a2b3c4" + "0" * 33, TWO), ('"old lantern"', ONE),
        ):  # fmt: skip
            assert {hit.session for hit in found(index, f"commit:{value}").hits} == {session}, value
        assert not found(index, "commit:fffffff").hits


def test_errors_are_known_by_their_message(index):
    hits = found(index, "error:replace").hits
    assert hits
    assert all(hit.is_error for hit in hits)
    assert not found(index, 'error:"never heard of"').hits


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
    for query in ("retry zqxv", "retry type:promt"):
        assert told(found(retries, query, mask=str))[1] == []


def test_pages_go_on(retries):
    whole = [hit.snippet for hit in found(retries, "mended number uploader", per_session=0).hits]
    pages, offset = [], 0
    while offset is not None:
        page = found(retries, "mended number uploader", limit=2, offset=offset, per_session=0)
        pages += [hit.snippet for hit in page.hits]
        offset = page.next
    assert pages == whole
    assert len(pages) == 8
