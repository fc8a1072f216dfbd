"""The library as somebody meets it who has read one page: names, help, mistakes."""

import inspect
import os
import re
from functools import cached_property
from pathlib import Path

import pytest

import turnlog

PROJECT = "/srv/kites"


@pytest.fixture
def store(tmp_path):
    with turnlog.open(tmp_path / "subagent") as opened:
        yield opened


@pytest.fixture
def written(store):
    """A session of two turns."""
    with store.create(project=PROJECT) as session:
        for words in ("How many apples?", "And pears?"):
            session.append(turnlog.build.user(words))
            session.append(turnlog.build.assistant("Forty-two.", model="claude-sonnet-4-5"))
    return session


# -- help -----------------------------------------------------------------------------------


def members(kind):
    """Give what a class has of its own that a person may use."""
    for name, each in vars(kind).items():
        inner = getattr(each, "__func__", each)
        is_shown = inspect.isfunction(inner) or isinstance(each, property | cached_property)
        if is_shown and not name.startswith("_"):
            yield name, inner


def documented():
    for name in turnlog.__all__:
        found = getattr(turnlog, name)
        yield name, found
        if inspect.isclass(found):
            for kind in found.__mro__:
                if kind.__module__.startswith("turnlog"):
                    yield from ((f"{kind.__name__}.{each}", own) for each, own in members(kind))
        elif inspect.ismodule(found):
            yield from inspect.getmembers(found, inspect.isfunction)


def test_help_has_a_word_on_every_public_name():
    silent = {name for name, each in documented() if not (each.__doc__ or "").strip()}
    assert {name for name in silent if not name.rpartition(".")[2].startswith("_")} == set()


def test_no_method_of_the_store_hides_what_it_takes():
    for name, method in inspect.getmembers(turnlog.Store, inspect.isfunction):
        if not name.startswith("_"):
            kinds = {each.kind for each in inspect.signature(method).parameters.values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds, name


def test_things_say_what_they_are(store, written):
    session = store.session("latest")
    assert repr(store) == f"Store(homes=[{str(store.root)!r}], root={str(store.root)!r})"
    assert repr(session) == f"KeptSession({written.session_id!r})"
    assert repr(written) == f"SessionWriter({written.session_id!r})"


def test_a_long_session_can_be_printed(store):
    with store.create(project=PROJECT, durability="flush") as session:
        session.append_many(turnlog.build.user(f"step {number}") for number in range(3_000))
    turns = store.session("latest").turns
    assert len(turns) == 3_000
    assert len(repr(turns[0])) < 500


# -- the page -------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[1] / "docs" / "library.md").read_text("utf-8")


def test_the_page_lists_every_public_name_and_no_other():
    tables = [line for line in PAGE.partition("\n## Errors\n")[2].splitlines() if line[:1] == "|"]
    named = set(re.findall(r"`(\w+)`", "\n".join(tables)))
    assert named - {"ValueError", "LookupError", "OSError", "path"} == set(turnlog.__all__)


def test_the_page_speaks_of_every_method_of_a_store():
    methods = {name for name, _ in inspect.getmembers(turnlog.Store, inspect.isfunction)}
    public = {name for name in methods if not name.startswith("_")}
    assert {name for name in public if not re.search(rf"(?:\.|`){name}\b", PAGE)} == UNTOLD


UNTOLD = {"close", "index", "pins", "refresh", "reindex", "running"}
"""What help() tells, and a first reading can do without."""


# -- reading --------------------------------------------------------------------------------


def test_the_records_of_a_session_are_those_of_its_whole_thread(store, written):
    session = store.session(written.session_id)
    said = [record.text for _, record in session.records()]
    assert said == ["How many apples?", "Forty-two.", "And pears?", "Forty-two."]
    assert [each for each, _ in session.records()] == session.whole_thread
    first = session.turns[0].nodes
    assert [record.text for _, record in session.records(first)] == said[:2]


@pytest.mark.parametrize("layout", ["claude", "dated", "flat"])
def test_every_record_has_a_text(store, layout):
    with store.create(project=PROJECT, layout=layout) as session:
        session.append(turnlog.build.user("Hello"))
        session.append({"type": "attachment", "attachment": {"type": "file"}})
    read = store.session("latest")
    assert [item.record.text for item in read.items() if item.record.text] == ["Hello"]
    assert "Hello" in [record.text for _, record in read.records()]


def test_what_was_deleted_comes_back(store, written, tmp_path):
    path = store.session("latest").path
    data = path.read_bytes()
    gone = store.delete("latest")
    assert store.sessions() == []
    back = store.undelete(written.session_id[:8])
    assert (back.id, back.path.read_bytes()) == (written.session_id, data)
    with pytest.raises(turnlog.NotFound):
        store.undelete("latest")
    with pytest.raises(turnlog.NotFound):
        store.undelete(gone.entries[0])
    store.delete(written.session_id)
    with turnlog.open(tmp_path / "other") as other, pytest.raises(turnlog.NotFound):
        other.undelete("latest")
    with store.create(project=PROJECT, session_id=written.session_id) as again:
        again.append(turnlog.build.user("Again"))
    with pytest.raises(turnlog.UsageError):  # Another log lies there.
        store.undelete(written.session_id)
    entries = store.delete(written.session_id).entries
    with pytest.raises(turnlog.AmbiguousSession):
        store.undelete(written.session_id)
    assert store.undelete(entries[-1]).metadata.prompts == 1


def test_a_session_knows_that_it_is_pinned(store, written):
    assert not store.session("latest").metadata.is_pinned
    assert store.update(written.session_id, pinned=True).metadata.is_pinned
    session = store.session("latest")
    session.archive()
    assert session.metadata.is_pinned
    assert not store.update(written.session_id, pinned=False).metadata.is_pinned


def test_records_are_counted_from_0(store, written):
    path = store.session("latest").path
    first, *_ = turnlog.read_range(path, 2, 4)
    assert first.record.text == "How many apples?"
    for wrong in ((-1, 2), (0, -1)):
        with pytest.raises(turnlog.UsageError) as told:
            turnlog.read_range(path, *wrong)
        assert "read_last" in told.value.hint


def test_blocks_are_told_apart_by_public_names(store):
    made = turnlog.build
    blocks = [made.thinking("Hm."), made.text("Let me see."), made.call("Bash", {"command": "ls"})]
    with store.create(project=PROJECT) as session:
        session.append(made.assistant(blocks, model="claude-sonnet-4-5"))
        session.append(made.result(blocks[2]["id"], "apples"))
    kinds = [type(block) for _, each in store.session("latest").records() for block in each.blocks]
    assert kinds == [
        turnlog.ThinkingBlock,
        turnlog.TextBlock,
        turnlog.CallBlock,
        turnlog.ResultBlock,
    ]


# -- mistakes -------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["Hello", None, 7, ["Hello"], b"{}"])
def test_what_is_no_record_is_refused_and_nothing_written(store, wrong):
    with store.create(project=PROJECT) as session:
        before = session.path.read_bytes() if session.path.exists() else b""
        with pytest.raises(turnlog.NotSerialisable) as told:
            session.append(wrong)
        assert "build.user" in told.value.hint
        assert (session.path.read_bytes() if session.path.exists() else b"") == before
        session.append(turnlog.build.user("Hello"))
    assert [record.text for _, record in store.session("latest").records()] == ["Hello"]


@pytest.mark.parametrize("root", ["postgresql://team/turnlog", ""])
def test_an_address_is_no_directory_and_nothing_is_none(tmp_path, monkeypatch, root):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(turnlog.UsageError, match="no directory"):
        turnlog.open(root)
    assert list(tmp_path.iterdir()) == []


def test_a_log_is_no_store(store, written):
    with pytest.raises(turnlog.UsageError) as told:
        turnlog.open(written.path)
    assert "read_log" in told.value.hint


def test_a_project_in_ones_home_is_meant(store, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with store.create(project="~/kites") as session:
        session.append(turnlog.build.user("Hello"))
    with store.resume("latest", project=Path("~/kites")) as session:
        session.append(turnlog.build.user("Again"))
    (row,) = store.sessions(project="~/kites")
    assert row.project == os.path.join(tmp_path, "kites")
    assert [each.id for each in store.reset("~/kites")] == [row.id]


@pytest.mark.parametrize("asked", ["cost", "insights"])
def test_a_limit_is_a_count(store, written, asked):
    assert getattr(store, asked)(limit=0)
    with pytest.raises(turnlog.UsageError) as told:
        getattr(store, asked)(limit=-1)
    assert "0 is all" in told.value.hint


def test_one_turn_is_exported_by_its_number(store, written):
    assert store.export("latest", turns=2) == store.export("latest", turns=(2, 2))
    assert "And pears?" in store.export("latest", turns=(2, None))
    assert "How many" not in store.export("latest", turns=2).partition("\n## ")[2]
