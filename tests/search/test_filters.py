"""Filters mean what they say however they are asked: where their texts lie is only a short cut."""

import json
from datetime import UTC, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sampling import examples
from search.search_world import NOW, ONE, ORCHARD, START, TWO, World
from search.test_search import ask, expected, filters, keys, prefixes, tree_search, words
from turnlog.catalog.indexed_sessions import list_indexed
from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh
from turnlog.keep.copies.keep import keep
from turnlog.search import filters as search_filters
from turnlog.search import search as searching
from turnlog.search import sql
from turnlog.search.filters import Filters
from turnlog.search.language import All, Any, FieldFilter, Not, Word, parse
from turnlog.search.search import search
from turnlog.search.sql import Renderer, has_prefix, make_vocabulary

SESSIONS = [f"{each * 8}-bbbb-4bbb-8bbb-{each * 12}" for each in "456"]
bounding = st.sampled_from(
    [
        FieldFilter("project", "orchard"),
        FieldFilter("project", "nowhere"),
        FieldFilter("session", "1111"),
        FieldFilter("session", "2"),
        FieldFilter("file", "*.py"),
        FieldFilter("file", "src/"),
        FieldFilter("file", "none"),
    ]
)


@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))
@given(
    bound=bounding,
    others=st.lists(st.one_of(words, prefixes, filters), max_size=2),
    with_results=st.booleans(),
)
def test_only_where_the_texts_lie_is_looked_at_and_all_are_found(
    index, world, bound, others, with_results
):
    tree = All((bound, *others, Not(Word("never"))))
    for also in (None, ("stems", '"retry"')):
        plan = Renderer(index.db).statement(tree, "said", also=also)
        assert " BETWEEN " in plan.sql
    for most in (1, 3, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sql, "_FEW_RANGES", most)
            found = tree_search(index, tree, with_results=with_results)
        assert keys(found) == expected(world, tree, with_results=with_results)
    asked = searching._Search(index, NOW)
    newest = searching.HitPage(newest=True, limit=1000)
    found = asked.find(tree, newest, searching._tables(with_results=with_results))
    assert keys(found) == expected(world, tree, with_results=with_results)
    assert [hit.at for hit in found.hits] == sorted((hit.at for hit in found.hits), reverse=True)


def record(session, second, text, **more):
    said = {"type": "user", "message": {"role": "user", "content": text}, "sessionId": session}
    if second is not None:
        at = START + timedelta(seconds=second)
        said["timestamp"] = at.isoformat().replace("+00:00", "Z")
    return json.dumps(said | {"cwd": ORCHARD} | more)


def opened(tmp_path, monkeypatch, logs):
    for name, lines in logs.items():
        path = tmp_path / "home" / "projects" / "-home-ada-orchard" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    return open_fresh(find_homes((tmp_path / "home",)))


def texts_of(index, session):
    rows = index.db.execute(
        "SELECT t.id FROM texts t JOIN records r ON r.id = t.record"
        " JOIN sessions s ON s.id = r.session WHERE s.session = ?",
        (session,),
    )
    return [row[0] for row in rows]


@settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.integers(0, 40), st.integers(0, 10**6)), max_size=45),
        min_size=1,
        max_size=3,
    )
)
def test_all_texts_of_a_session_lie_in_its_ranges(tmp_path_factory, seconds):
    logs = {
        session: [record(session, second, f"apple {number}") for number, second in enumerate(each)]
        for session, each in zip(SESSIONS, seconds, strict=False)
    }
    place = tmp_path_factory.mktemp("dated")
    with pytest.MonkeyPatch.context() as patch, opened(place, patch, logs) as index:
        for session, each in zip(logs, seconds, strict=True):
            ranges = Filters(index.db).ranges(FieldFilter("session", session))
            if ranges is None:
                undated = "".join(" " if second is None else "|" for second in each)
                assert " " * search_filters._NEAR in undated
                continue
            for text in texts_of(index, session):
                assert sum(first <= text <= last for first, last in ranges) == 1
            assert ranges == sorted(ranges)


def test_records_without_a_time_lie_where_the_one_before_them_does(tmp_path, monkeypatch):
    seconds = [None, None, 500_000, None, None, 0, None]
    lines = [record(SESSIONS[0], second, "apple") for second in seconds]
    with opened(tmp_path, monkeypatch, {SESSIONS[0]: lines}) as index:
        ranges = Filters(index.db).ranges(FieldFilter("session", SESSIONS[0]))
        assert len(ranges) == 3
        assert ranges[0][0] == 0
        assert len(texts_of(index, SESSIONS[0])) == len(seconds)


def test_a_log_without_times_is_not_read_over_and_over(tmp_path, monkeypatch):
    lines = [record(SESSIONS[0], None, "apple") for _ in range(50)]
    with opened(tmp_path, monkeypatch, {SESSIONS[0]: lines}) as index:
        assert Filters(index.db).ranges(FieldFilter("session", SESSIONS[0])) is None
        assert len(ask(index, f"session:{SESSIONS[0]}").hits) == 50


def test_a_second_in_which_much_was_said_hides_nothing(tmp_path, monkeypatch):
    crowd = [record(SESSIONS[0], 7, "apple") for _ in range(600)]
    late = [record(SESSIONS[1], 7, "apple pear")]
    logs = {SESSIONS[0]: crowd, SESSIONS[1]: late}
    with opened(tmp_path, monkeypatch, logs) as index:
        assert len(ask(index, f"apple session:{SESSIONS[1]}").hits) == 1
        assert len(ask(index, f"apple session:{SESSIONS[0]}").hits) == 600


def test_many_records_are_not_bounded(index, monkeypatch):
    assert Filters(index.db).ranges(FieldFilter("project", "orchard"))
    monkeypatch.setattr(search_filters, "_FEW_RECORDS", 3)
    assert Filters(index.db).ranges(FieldFilter("project", "orchard")) is None


def failing(session, second, number):
    """A call and the result that says that it failed."""
    call = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"said": "apple"}}
    asks = {"role": "assistant", "id": f"m{number}", "model": "opus", "content": [call]}
    block = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "ow", "is_error": True}
    answers = {"role": "user", "content": [block]}
    return [
        record(session, second, "", type="assistant", message=asks),
        record(session, second, "", message=answers),
    ]


def check_errors(index, count, *, is_known):
    filters = Filters(index.db)
    wanted = FieldFilter("is", "error")
    meant = set()
    for table in ("said", "answered"):
        condition = filters.condition(wanted, table)
        listed = filters.error_texts(wanted, table)
        assert (listed is not None) == is_known
        here = {row[0] for row in index.db.execute(
            "SELECT t.id FROM texts t JOIN records r ON r.id = t.record"
            f" WHERE t.kind {'NOT ' if table == 'said' else ''}IN (5, 8) AND {condition.sql}",
            condition.values,
        )}  # fmt: skip
        assert listed is None or here == set(listed)
        meant |= here
    assert len(meant) == 2 * count
    assert len(ask(index, "apple is:error").hits) == count
    assert len(ask(index, "apple is:error", newest=True, with_results=True).hits) == count
    assert len(ask(index, "is:error").hits) == 2 * count
    assert len(ask(index, "ow is:error").hits) == len(ask(index, "role:tool ow").hits) == count
    assert not ask(index, "ow", all_words=True).hits
    assert {hit.is_error for hit in ask(index, "apple -is:error").hits} <= {False}


def test_where_errors_lie_is_known(tmp_path, monkeypatch):
    lines = [record(SESSIONS[0], each, "apple") for each in range(9)]
    lines += [line for each in range(5) for line in failing(SESSIONS[0], each, each)]
    with opened(tmp_path, monkeypatch, {SESSIONS[0]: lines}) as index:
        check_errors(index, 5, is_known=True)
        monkeypatch.setattr(search_filters, "_FEW_ERRORS", 3)
        check_errors(index, 5, is_known=False)


def test_errors_of_a_crowded_second_are_found_as_well(tmp_path, monkeypatch):
    lines = [record(SESSIONS[0], 7, "apple") for _ in range(300)]
    lines += failing(SESSIONS[0], 7, 1)
    with opened(tmp_path, monkeypatch, {SESSIONS[0]: lines}) as index:
        check_errors(index, 1, is_known=False)


def test_errors_without_a_time_are_found_as_well(tmp_path, monkeypatch):
    lines = [record(SESSIONS[0], 7, "apple"), *failing(SESSIONS[0], None, 1)]
    with opened(tmp_path, monkeypatch, {SESSIONS[0]: lines}) as index:
        check_errors(index, 1, is_known=False)


PATHS = [
    "/home/ada/Kiwi.py", "/home/ada/\u212aiwi.py", "/home/ada/\u0130nk.rs", "/home/ada/100%_a.txt",
    "/home/ada/CAFÉ/menu", "/home/ada/straße", "/home/ada/b\\c.md",
]  # fmt: skip


@pytest.fixture(scope="module")
def touched(tmp_path_factory):
    lines = []
    for number, path in enumerate(PATHS):
        given = {"file_path": path}
        call = {"type": "tool_use", "id": f"c{number}", "name": "Read", "input": given}
        message = {"role": "assistant", "id": f"m{number}", "model": "opus", "content": [call]}
        lines.append(record(SESSIONS[0], number, "", type="assistant", message=message))
    with pytest.MonkeyPatch.context() as patch:
        index = opened(tmp_path_factory.mktemp("touched"), patch, {SESSIONS[0]: lines})
    with index:
        yield index


@given(st.sampled_from(PATHS), st.integers(0, 20), st.integers(1, 8), st.booleans())
@settings(suppress_health_check=list(HealthCheck))
def test_a_part_of_a_path_is_found_whatever_its_case(touched, path, begin, length, is_upper):
    part = path[begin : begin + length]
    part = part.upper() if is_upper else part
    if not part or any(each in part for each in "*?["):
        return
    rows = dict(touched.db.execute("SELECT id, path FROM paths"))
    wanted = sorted(key for key, each in rows.items() if part.lower() in each.lower())
    assert sorted(Filters(touched.db).ids(FieldFilter("file", part))) == wanted


def test_any_part_of_a_path_may_be_asked_for(touched):
    for value in ("x" * 60_000, "%" * 2_000, "_" * 400, "a\0b", "\u212a" * 9):
        assert Filters(touched.db).ids(FieldFilter("file", value)) == []
        assert ask(touched, f'file:"{value}"').hits == []


def test_the_signs_of_a_pattern_are_only_signs(touched):
    for value, count in (("100%_", 1), ("%", 1), ("_", 1), ("0%a", 0), ("k_wi", 0)):
        assert len(Filters(touched.db).ids(FieldFilter("file", value))) == count, value


def test_what_a_table_cannot_hold_is_not_asked_of_it(index):
    for text, table in (("+retry is:result", "said"), ("+retry is:prompt", "answered")):
        tree = parse(text, now=NOW, zone=UTC).tree
        plan = Renderer(index.db).statement(tree, table)
        assert " AND 0 AND " in plan.sql
        assert index.db.execute(plan.sql, plan.values).fetchall() == []


@pytest.mark.parametrize("table", ["said", "answered"])
def test_the_vocabulary_knows_how_words_begin(index, table):
    make_vocabulary(index.db)
    for begins in ("r", "retr", "retry"):
        assert has_prefix(index.db, table, begins)
    for begins in ("retryx", "q", "zz", "\U0010ffff"):
        assert not has_prefix(index.db, table, begins)


@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))
@given(
    text=st.lists(st.sampled_from(["re", "lo", "app", "zq", "retr", "x"]), min_size=1, max_size=3),
    newest=st.booleans(),
)
def test_a_beginning_of_no_word_ends_the_search_and_nothing_else(index, world, text, newest):
    tree = All(tuple(Word(each, True) for each in text)) if len(text) > 1 else Word(text[0], True)
    asked = " ".join(f"{each}*" for each in text)
    found = search(index, asked, now=NOW, zone=UTC, newest=newest, limit=1000, per_session=0)
    assert keys(found) == expected(world, tree)
    either = " OR ".join(f"{each}*" for each in text)
    tree = Any(tuple(Word(each, True) for each in text)) if len(text) > 1 else tree
    assert keys(ask(index, either, newest=newest)) == expected(world, tree)


def test_what_is_read_from_a_kept_copy_is_gone_at_its_source(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    world = World()
    world.prompt("the lantern is kept", session=ONE)
    world.prompt("the lantern stays", session=TWO)
    world.write(tmp_path / "home")
    homes = find_homes([tmp_path / "home"])
    keep(homes)
    (kept,) = (tmp_path / "home").rglob(f"{ONE}.jsonl")
    kept.unlink()
    with open_fresh(homes) as index:
        told = {hit.session: hit.gone for hit in ask(index, "lantern").hits}
        assert told == {ONE: True, TWO: False}
        for query, found in (("is:gone", [ONE]), ("lantern is:gone", [ONE]), ("-is:gone", [TWO])):
            assert [hit.session for hit in ask(index, query).hits] == found
        assert [row.id for row in list_indexed(index, gone=True).sessions] == [ONE]
