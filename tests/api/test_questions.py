"""The store answers what its index knows: search, query, SQL; and follows what is appended."""

import json
import threading
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

import turnlog
from turnlog.cli.app import run
from turnlog.errors import UsageError


@pytest.fixture
def store(tmp_path):
    with turnlog.open(tmp_path / "subagent") as opened:
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
    with pytest.raises(UsageError, match="empty"):
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


def test_costs_are_the_documents_that_the_command_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.toml").write_text("[budgets]\nmonthly = 0.01\n")
    now = datetime.now(UTC)
    usage = {"input_tokens": 1000, "output_tokens": 100_000}
    home = tmp_path / "subagent"
    with turnlog.open(home) as store:
        with store.create(project=tmp_path / "kites", session_id="one") as session:
            for number, days in enumerate((0, 0, 8)):
                said = turnlog.build.assistant(f"{number}", model="claude-sonnet-4-5", usage=usage)
                at = (now - timedelta(days=days)).isoformat()
                session.append(said | {"timestamp": at})

        def printed(*words):
            code = run(["cost", *words, "--home", str(home), "--timezone", "UTC", "--json"])
            return code, json.loads(capsys.readouterr().out)

        for asked, words in (
            (store.cost(by="model", timezone="UTC"), ("model",)),
            (
                store.compare_costs(by="project", since="yesterday", timezone="UTC"),
                ("project", "--since", "yesterday", "--compare"),
            ),
            (
                store.explain_cost(f"{now:%Y-%m-%d}", limit=1, timezone="UTC"),
                ("--explain", f"{now:%Y-%m-%d}", "--limit", "1"),
            ),
            (store.blocks(since="yesterday"), ("blocks", "--since", "yesterday")),
            (store.blocks(model="opus"), ("blocks", "--model", "opus")),
            (store.budgets(timezone="UTC"), ("budgets",)),
        ):
            code, document = printed(*words)
            told = json.loads(msgspec.json.encode(asked))
            for each in (told, document):  # What is reckoned from now on differs.
                for row in each.get("rows", each.get("budgets")):
                    for name in ("usd_per_hour", "projected_usd", "tokens_per_min", "left_min"):
                        row.pop(name, None)
                for name in ("now", "before", "period"):
                    each.pop(name, None)
            assert told == document, words
        assert code == 1
        with pytest.raises(UsageError):
            store.explain_cost("nothing")
        with pytest.raises(TypeError):
            store.blocks(sinse="yesterday")
