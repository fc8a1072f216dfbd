"""However the newest texts are found, they are the same ones, in the same order."""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from sampling import examples
from search.query_text import written
from search.search_world import NOW, ORCHARD, START
from search.test_search import ask, expected, filters, keys, prefixes, trees, words
from turnlog.formats import find_homes
from turnlog.index import connection
from turnlog.index.connection import open_fresh
from turnlog.index.texts import texts_of
from turnlog.search import scan, search
from turnlog.search import search as searching
from turnlog.search.language import All
from turnlog.search.regex import TimeBudget
from turnlog.search.sql import pages_of

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"
SESSION = "77777777-cccc-4ccc-8ccc-777777777777"


def newest(index, tree, *, with_results=False):
    asked = searching._Search(index, NOW)
    wanted = searching.HitPage(newest=True, limit=1000)
    return asked.find(tree, wanted, searching._tables(with_results=with_results))


def look_through(patch, *, texts=200, read=100, in_vain=20):
    """Let every beginning be worth a glance at the texts themselves."""
    patch.setattr(search, "_MANY_PAGES", 0)
    patch.setattr(search, "_MOST_TEXTS", texts)
    patch.setattr(search, "_MOST_READ", read)
    patch.setattr(search, "_IN_VAIN", in_vain)


begun = st.builds(
    lambda first, others: All((first, *others)) if others else first,
    prefixes,
    st.lists(st.one_of(words, prefixes, filters, trees), max_size=2),
)


@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))
@given(
    tree=begun,
    with_results=st.booleans(),
    bounds=st.fixed_dictionaries({
        "texts": st.sampled_from([1, 5, 20, 200]), "in_vain": st.sampled_from([1, 3, 100]),
    }),
)  # fmt: skip
def test_a_glance_finds_what_the_words_would(index, world, tree, with_results, bounds):
    plain = newest(index, tree, with_results=with_results)
    with pytest.MonkeyPatch.context() as patch:
        look_through(patch, **bounds)
        found = newest(index, tree, with_results=with_results)
    assert found.hits == plain.hits, written(tree)
    assert keys(found) == expected(world, tree, with_results=with_results)
    times = [hit.at for hit in found.hits]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("options", [{}, {"with_results": True}])
def test_a_glance_may_end_in_the_middle_of_a_page(index, monkeypatch, options):
    whole = ask(index, "b* OR lo* OR a*", newest=True, **options).hits
    for texts in range(1, 12):
        look_through(monkeypatch, texts=texts)
        pages, offset = [], 0
        while offset is not None:
            page = ask(index, "b* OR lo* OR a*", newest=True, limit=3, offset=offset, **options)
            pages += page.hits
            offset = page.next
        assert pages == whole


def prompts(texts):
    lines = []
    for number, text in enumerate(texts):
        at = (START + timedelta(minutes=number)).isoformat().replace("+00:00", "Z")
        said = {"type": "user", "message": {"role": "user", "content": text}, "timestamp": at}
        lines.append(json.dumps(said | {"sessionId": SESSION, "cwd": ORCHARD}) + "\n")
    return lines


def test_what_cannot_be_read_back_is_told_as_without_a_glance(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    log = tmp_path / "home" / "projects" / "-home-ada-orchard" / f"{SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    lines = prompts(f"{each} {number}" for number, each in enumerate(["apple", "pear"] * 10))
    log.write_text("".join(lines))
    with open_fresh(find_homes((tmp_path / "home",))) as index:
        log.write_text("".join(lines[:8]) + "x" * sum(map(len, lines[8:12])) + "".join(lines[12:]))
        plain = ask(index, "app*", newest=True)
        assert len(plain.hits) == 8
        assert plain.notes == ["left out: 2 records that can no longer be read from the log"]
        look_through(monkeypatch)
        assert ask(index, "app*", newest=True) == plain


@pytest.mark.parametrize(
    ("query", "options"),
    [("app-le", {"exact": True}), ("app-le", {"regex": True}), ("ap*", {"newest": True})],
)
def test_beginnings_are_looked_up_while_what_was_said_is_read(
    tmp_path, monkeypatch, query, options
):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    home = tmp_path / "home"
    log = home / "projects" / "-home-ada-orchard" / f"{SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    result = {"type": "tool_result", "tool_use_id": "t", "content": "an app-le"}
    log.write_text("".join(prompts(["pick app-le", "wash app-le", [result]])))
    typed = {"display": "pick app-le", "timestamp": 1, "project": ORCHARD, "sessionId": SESSION}
    (home / "history.jsonl").write_text(json.dumps(typed) + "\n")
    with open_fresh(find_homes((home,))) as index:
        found = ask(index, query, with_results=True, **options)
    assert [hit.kind for hit in found.hits] == ["result", "prompt", "prompt"]


def said(session, second, text, **more):
    """A prompt; with a title in place of a text, what says no time."""
    at = (START + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")
    message = {"type": "user", "message": {"role": "user", "content": text}, "timestamp": at}
    return json.dumps({"sessionId": session, "cwd": ORCHARD} | (more or message)) + "\n"


SCANNED = [
    ("->", {"newest": True}), ("->", {}), ("->", {"exact": True}), ("x->", {"exact": True}),
    ("-.y", {"regex": True}),
]  # fmt: skip


@pytest.mark.parametrize(("query", "options"), SCANNED)
@pytest.mark.parametrize("at_once", [1, 2, 20_000])
def test_what_is_found_in_the_logs_themselves_is_newest_first(
    tmp_path, monkeypatch, query, options, at_once
):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    monkeypatch.setattr(scan, "_TEXTS_AT_ONCE", at_once)
    seconds = {"a": [90, 5, 50, 51], "b": [60, 20, 40], "c": [61, 10, 70], "d": [8]}
    for name, times in seconds.items():
        session = SESSION.replace("7", name)
        log = tmp_path / "home" / "projects" / "-home-ada-orchard" / f"{session}.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(said(session, each, f"{each} x->y") for each in times))
    known = sorted((each for times in seconds.values() for each in times), reverse=True)
    with open_fresh(find_homes((tmp_path / "home",))) as index:
        for limit in (1, 3, 100):
            hits = ask(index, query, limit=limit, **options).hits
            assert [int(hit.snippet.split()[0]) for hit in hits] == known[:limit]
        monkeypatch.setattr(TimeBudget, "runs_short", patient_for(2))
        found = ask(index, query, **options)
        times = [hit.at for hit in found.hits]
        assert times == sorted(times, reverse=True)
        assert 0 < len(times) < len(known)
        assert found.notes == [
            "stopped after 5 seconds; narrow it by project, by time or to a whole word"
        ]


def patient_for(steps):
    left = [steps]

    def runs_short(self):
        left[0] -= 1
        self.is_short = left[0] < 0
        return self.is_short

    return runs_short


@pytest.mark.parametrize("since", [None, -1, 0, 1, 10, 11])
@pytest.mark.parametrize("until", [None, 0, 1, 10, 11])
def test_what_says_no_time_has_that_of_the_record_before(tmp_path, monkeypatch, since, until):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    log = tmp_path / "home" / "projects" / "-home-ada-orchard" / f"{SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    titles = [{"type": "custom-title", "customTitle": f"pear->plum {each}"} for each in range(4)]
    lines = [said(SESSION, 0, "", **titles[0]), said(SESSION, 0, "one"), said(SESSION, 0, "two")]
    lines += [said(SESSION, 0, "", **titles[1]), said(SESSION, 0, "", **titles[2])]
    log.write_text("".join([*lines, said(SESSION, 10, "ten"), said(SESSION, 0, "", **titles[3])]))
    bounds = {
        name: START + timedelta(seconds=second)
        for name, second in (("since", since), ("until", until))
        if second is not None
    }
    times = [None, 0, 0, 10]  # The first is older than anything.
    known = {
        number
        for number, second in enumerate(times)
        if (since is None or (second is not None and second >= since))
        and (until is None or second is None or second < until)
    }
    with open_fresh(find_homes((tmp_path / "home",))) as index:
        ways = (("plum", {}), ("r->plum", {"exact": True}), *SCANNED[:3], ("-.p", {"regex": True}))
        for query, options in ways:
            hits = ask(index, query, **options, **bounds).hits
            assert {int(hit.snippet.split()[-1]) for hit in hits} == known, query


def test_a_glance_is_not_taken_for_rare_words(index, monkeypatch):
    monkeypatch.setattr(searching._Search, "_newest_texts", None)  # Whoever calls it fails.
    assert ask(index, "retr*", newest=True).hits


@pytest.mark.parametrize("table", ["said", "answered"])
def test_pages_are_counted_for_any_beginning(index, table):
    for begins in ("", "r", "retry", "zz", "漢", "\U0010ffff", "'", "\ud800", "a\0b"):
        assert 0 <= pages_of(index.db, table, begins) <= pages_of(index.db, table, "") < 10
    assert pages_of(index.db, "no_such_table", "r") == 0


def test_words_that_fill_pages_have_many(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    log = tmp_path / "home" / "projects" / "-home-ada-orchard" / f"{SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("".join(prompts("loop the loop " * 40 for _ in range(600))))
    with open_fresh(find_homes((tmp_path / "home",))) as index:
        many = pages_of(index.db, "said", "lo")
        assert many >= 3 * pages_of(index.db, "said", "x")
        assert pages_of(index.db, "said", "") >= many + pages_of(index.db, "said", "th") - 2
        assert len(ask(index, "lo*", newest=True).hits) == 600


@pytest.mark.parametrize("query", ["", "retry OR loop", "tool:*", "is:error", "type:result"])
def test_a_hit_is_the_same_whether_read_alone_or_with_others(index, query):
    whole = ask(index, query, newest=True, with_results=True).hits
    assert whole
    for number, hit in enumerate(whole):
        (alone,) = ask(index, query, newest=True, with_results=True, limit=1, offset=number).hits
        assert structs.asdict(alone) == structs.asdict(hit)


def test_texts_are_those_that_were_indexed(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path))
    with open_fresh(find_homes((SAMPLES,))) as index:
        rows = index.db.execute(
            "SELECT r.id FROM records r JOIN logs l ON l.id = r.id >> 40 WHERE l.layout <> 'beside'"
        ).fetchall()
        assert rows
        for (record,) in rows:
            assert index.texts(record) == texts_of(index.record(record))


def test_a_glance_is_not_taken_where_many_filters_would_have_to_be_told(index, monkeypatch):
    many = " ".join(f"-type:t{number}" for number in range(500))
    plain = ask(index, f"lo* {many}", newest=True)
    assert plain.hits
    look_through(monkeypatch)
    assert ask(index, f"lo* {many}", newest=True) == plain


@pytest.mark.skipif(sys.platform != "linux", reason="nobody lists the descriptors")
def test_a_search_leaves_no_log_open(index):
    before = set(os.listdir("/proc/self/fd"))
    assert len({hit.log for hit in ask(index, "", newest=True, with_results=True).hits}) > 1
    assert set(os.listdir("/proc/self/fd")) == before


def test_few_logs_are_open_at_once(index, monkeypatch):
    whole = ask(index, "", newest=True, with_results=True).hits
    monkeypatch.setattr(connection, "_MOST_OPEN", 1)
    assert ask(index, "", newest=True, with_results=True).hits == whole
    assert {len(index._open) for hit in whole if index.texts(_record_of(index, hit))} == {1}


def _record_of(index, hit):
    asked = "SELECT id << 40 FROM logs WHERE path = ?"
    return index.db.execute(asked, (hit.log,)).fetchone()[0] | hit.offset
