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

from questions.search_world import NOW, ORCHARD, START
from questions.test_search import ask, expected, filters, keys, prefixes, trees, words
from turnlog.index import read_back
from turnlog.index.opening import open_fresh
from turnlog.index.texts import texts_of
from turnlog.layout import find_homes
from turnlog.questions import search as searching
from turnlog.questions import search_newest
from turnlog.questions.search_language import All, written
from turnlog.questions.vocabulary import pages_of

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"
SESSION = "77777777-cccc-4ccc-8ccc-777777777777"


def newest(index, tree, *, with_results=False):
    asked = searching._Searching(index, NOW)
    wanted = searching.Wanted(newest=True, limit=1000)
    return asked._words(tree, wanted, with_results=with_results)


def look_through(patch, *, texts=200, read=100, in_vain=20):
    """Let every beginning be worth a glance at the texts themselves."""
    patch.setattr(search_newest, "_MANY_PAGES", 0)
    patch.setattr(search_newest, "_MOST_TEXTS", texts)
    patch.setattr(search_newest, "_MOST_READ", read)
    patch.setattr(search_newest, "_IN_VAIN", in_vain)


begun = st.builds(
    lambda first, others: All((first, *others)) if others else first,
    prefixes,
    st.lists(st.one_of(words, prefixes, filters, trees), max_size=2),
)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
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
        assert plain.notes == ["left out: 2 records, which cannot be read from the log any more"]
        look_through(monkeypatch)
        assert ask(index, "app*", newest=True) == plain


def test_a_glance_is_not_taken_for_rare_words(index, monkeypatch):
    monkeypatch.setattr(search_newest, "_seen", None)  # Whoever calls it fails.
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
    monkeypatch.setattr(read_back, "_MOST_OPEN", 1)
    assert ask(index, "", newest=True, with_results=True).hits == whole
    assert {len(index._back._open) for hit in whole if index.texts(_record_of(index, hit))} == {1}


def _record_of(index, hit):
    asked = "SELECT id << 40 FROM logs WHERE path = ?"
    return index.db.execute(asked, (hit.log,)).fetchone()[0] | hit.offset
