"""The store answers what its index knows: search, query, SQL; and follows what is appended."""

import threading

import pytest

import turnlog
from turnlog.errors import UsageError


@pytest.fixture
def store(tmp_path):
    with turnlog.open(tmp_path / "agent") as opened:
        with opened.create(project=tmp_path / "kites", session_id="one") as session:
            session.append(turnlog.build.user("Why does the flaky retry fail?"))
            session.append(turnlog.build.assistant("The clock moved.", model="claude-sonnet-4-5"))
        yield opened


def test_what_was_said_is_found_and_can_be_opened(store):
    found = store.search("flaky retry")
    (hit,) = found.hits
    assert (hit.session, hit.kind) == ("one", "prompt")
    with open(hit.log, "rb") as log:
        log.seek(hit.offset)
        assert b"flaky retry" in log.read(hit.length)
    assert store.search("clock", newest=True).hits[0].kind == "response"
    assert not store.search("nobody said this").hits


@pytest.mark.parametrize("ask", ["search", "cost"])
def test_an_empty_name_is_no_session(store, ask):
    question = ("flaky",) if ask == "search" else ()
    with pytest.raises(UsageError, match="named"):
        getattr(store, ask)(*question, session="")


def test_what_is_appended_is_found_at_once(store):
    assert not store.search("umbrella").hits
    with store.resume("one") as session:
        session.append(turnlog.build.user("Take an umbrella."))
    assert len(store.search("umbrella").hits) == 1
    assert store.refresh().read == 0
    assert store.refresh(rebuild=True).read == 1
    assert len(store.search("umbrella").hits) == 1


def test_a_query_as_it_is_written_in_the_seed(store):
    found = store.query("messages", {"role": "user"})
    assert [row["session_id"] for row in found.rows] == ["one"]
    counted = store.query("messages", None, {"group_by": "role"}, {"function": "count"})
    assert {row["role"]: row["count"] for row in counted.rows} == {"user": 1, "assistant": 1}
    with pytest.raises(UsageError):
        store.query("nothing")


def test_sql_reads_and_never_writes(store):
    found = store.sql("SELECT backing_model_id FROM v_sessions WHERE session = ?", ["one"])
    assert found.rows == [["anthropic:claude-sonnet-4-5"]]
    with pytest.raises(UsageError):
        store.sql("DELETE FROM v_sessions")


def test_what_happens_is_followed(store):
    stop = threading.Event()
    followed = store.follow("one", from_start=True, stop=stop)
    texts = []
    for each in followed:
        if isinstance(each.record, turnlog.User):
            texts.append(each.record.text)
            if len(texts) == 1:
                with store.resume("one") as session:
                    session.append(turnlog.build.user("And then?"))
            else:
                stop.set()
    assert texts == ["Why does the flaky retry fail?", "And then?"]
