"""What a store answers is what the command line prints with ``--json``: the same code, once."""

import json
import logging
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

import turnlog as library
from cli.conftest import DAMAGED, WHOLE, prompt
from records.answers import MODEL, SESSION, answer, log_of

USED = {"input_tokens": 15_000, "output_tokens": 2_150, "cache_creation_input_tokens": 8_000}
OTHER = "99999999-cccc-4ccc-8ccc-999999999999"
DAYS = ["2025-11-16", "2025-11-17", "2025-11-18"]
SECRET = "ghp_" + "Zq8vT1xWb4nLs7Rk2YdHm5Gc9PjE3oAu1b2c"


@pytest.fixture
def spent(tmp_path):
    """A home with two sessions in two projects, three days and three models."""
    told = {
        ("-srv-kites", "/srv/kites", SESSION): [
            answer("msg_1", "req_1", said=USED, timestamp="2025-11-16T23:30:00.000Z"),
            answer("msg_1", "req_1", said=USED, timestamp="2025-11-16T23:30:01.000Z"),
            answer("msg_2", "req_2", said=USED, timestamp="2025-11-17T10:00:00.000Z"),
        ],
        ("-srv-orchard", "/srv/orchard", OTHER): [
            answer("msg_3", said=USED, model="nobody-1", timestamp="2025-11-17T11:00:00.000Z"),
            answer("msg_4", said=USED, model="claude-opus-4-1", timestamp="2025-11-18T11:00:00Z"),
        ],
    }
    for (key, cwd, session), records in told.items():
        project = tmp_path / "spent" / "projects" / key
        project.mkdir(parents=True)
        mine = [each | {"cwd": cwd, "sessionId": session} for each in records]
        (project / f"{session}.jsonl").write_bytes(log_of(*mine))
    return tmp_path / "spent"


@pytest.fixture
def store(spent):
    with library.open(spent) as opened:
        yield opened


@pytest.fixture
def printed(turnlog, spent):
    """Give what a command prints as JSON of that home."""

    def run(*words):
        code, out, err = turnlog(*words, "--home", spent, "--json")
        assert code in (0, 1), err
        return json.loads(out)

    return run


def plain(document):
    return json.loads(msgspec.json.encode(document))


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), {}),
        (("monthly",), {"by": "month"}),
        (("weekly",), {"by": "week"}),
        (("--by", "day,model"), {"by": "day,model"}),
        (("--by", "day", "model"), {"by": "day,model"}),
        (("day", "model"), {"by": ["daily", "model"]}),
        (("--by", "model,project"), {"by": ["model", "project"]}),
        (("subagent",), {"by": ("session", "subagent")}),
        (("branch",), {"by": ("project", "branch")}),
        (("tool",), {"by": "tool"}),
        (("session", "--session", "latest"), {"by": "session", "session": "latest"}),
        (("session", "--session", "9999"), {"by": "session", "session": "9999"}),
        (("--model", "OPUS"), {"model": "OPUS"}),
        (("--project", "orchard"), {"project": "orchard"}),
        (("--project", "/srv"), {"project": Path("/srv")}),
        (("--since", "2025-11-17"), {"since": "2025-11-17", "timezone": "UTC"}),
        (("--until", "2025-11-17"), {"until": date(2025, 11, 17), "timezone": "UTC"}),
        (("--since", "2025-11-17T10:30"), {"since": datetime(2025, 11, 17, 10, 30, tzinfo=UTC)}),
        (("--timezone", "Asia/Tokyo"), {"timezone": "Asia/Tokyo"}),
        (("--timezone", "Asia/Tokyo"), {"timezone": timezone(timedelta(hours=9))}),
        (("project", "--limit", "1"), {"by": "project", "limit": 1}),
        (("daily", "--limit", "1"), {"limit": 1}),
        (("--mode", "recorded"), {"mode": "recorded"}),
        (("--since", "1d"), {"since": "1d"}),
    ],
)
def test_costs_are_those_of_the_command(store, printed, words, asked):
    asked = {"timezone": "UTC"} | asked
    words = words if "--timezone" in words else (*words, "--timezone", "UTC")
    if not {"since", "until", "session"} & asked.keys():
        asked, words = asked | {"since": "2025"}, (*words, "--since", "2025")
    found, shown = plain(store.cost(**asked)), printed("cost", *words)
    if asked.get("since") == "1d":  # Counted from two moments.
        assert found.pop("since_at") < shown.pop("since_at")
    assert found == shown


def test_costs_can_be_reckoned_with(store):
    found = store.cost(by="day", timezone="UTC")
    assert [row.day for row in found.rows] == DAYS
    assert found.totals.messages == 4
    assert Decimal(found.totals.cost_usd) == sum(Decimal(row.cost_usd) for row in found.rows) > 0
    assert [each.model for each in found.skipped.unpriced] == ["nobody-1"]
    assert isinstance(found, library.Ledger)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"by": "fortnight"}, "hour, day, week"),
        ({"by": ""}, "hour, day, week"),
        ({"by": ["day", "colour"]}, "hour, day, week"),
        ({"since": "someday"}, "yesterday"),
        ({"since": 7}, "7d"),
        ({"until": datetime.max, "timezone": "America/New_York"}, "out of range"),  # noqa: DTZ901
        ({"timezone": "Nowhere/Land"}, "Europe/Berlin"),
        ({"week_starts": "someday"}, "monday"),
        ({"mode": "guess"}, "calculate"),
        ({"by": "tool", "no_index": True}, "index"),
        ({"by": "day", "trend": True}, "by project"),
    ],
)
def test_a_mistake_is_told_with_a_way_out(store, asked, hint):
    with pytest.raises(library.UsageError) as told:
        store.cost(**asked)
    assert hint in f"{told.value} {told.value.hint}"


def test_costs_are_told_where_no_index_can_be_written(store, tmp_path, monkeypatch):
    known, traced = store.cost(by="model"), store.cost(by="tool")
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "file"))
    assert plain(store.cost(by="model")) == plain(known)
    assert plain(store.cost(by="tool")) == plain(traced)


def test_a_price_that_cannot_be_read_is_told_to_the_programs_log(
    store, tmp_path, monkeypatch, caplog
):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.toml").write_text('[prices."nobody-1"]\ninput = "dear"\n')
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    with caplog.at_level(logging.WARNING, "turnlog"):
        assert store.cost(by="model").skipped.unpriced
    assert "nobody-1" in caplog.text


def test_insights_are_those_of_the_command(store, printed):
    words = ("--since", "2025-11-16", "--until", "2025-11-19", "--timezone", "UTC")
    asked = {"since": "2025-11-16", "until": "2025-11-19", "timezone": "UTC"}
    assert plain(store.insights(**asked)) == printed("insights", *words)
    few = plain(store.insights(**asked, project="orchard", limit=1))
    assert few == printed("insights", *words, "--project", "orchard", "--limit", "1")
    assert few["overview"]["messages"] == 2
    assert store.insights().overview.messages == 0  # Thirty days, unless told otherwise.
    assert store.insights(since=None).overview.messages == 4
    with pytest.raises(library.UsageError, match="ends before it begins"):
        store.insights(since="2025-11-18", until="2025-11-16")


def test_sessions_are_those_of_the_command(store, printed):
    for words, asked in (
        (("--sort", "title"), {"sort": "title"}),
        (("--model", "opus"), {"model": "opus"}),
        (("--project", "kites", "--sort", "size"), {"project": "kites", "sort": "size"}),
        (("--since", "2025-11-17T12:00Z"), {"since": "2025-11-17T12:00Z"}),
        (("--until", "2025-11-17", "--reverse"), {"until": "2025-11-17", "reverse": True}),
        (("--is", "damaged"), {"damaged": True}),
        (("--is", "subagents"), {"with_subagents": True}),
        (("--tag", "green"), {"tag": "green"}),
        (("Cost",), {"title": "Cost"}),
        (("--is", "expired"), {"state": "expired"}),
        (("--sort", "cost"), {"sort": "cost"}),
        (("--sort", "tokens", "--limit", "1"), {"sort": "tokens", "limit": 1}),
        (("--sort", "tokens", "--offset", "1"), {"sort": "tokens", "offset": 1}),
    ):
        shown = printed("sessions", *words)["sessions"]
        assert plain(store.find_sessions(**asked)) == shown, words
    assert plain(store.find_sessions()) == printed("sessions")["sessions"]
    assert [row.id for row in store.sessions()] == [row.id for row in store.find_sessions()]
    assert [row.id for row in store.sessions(project="orchard")] == [OTHER]
    assert [row.id for row in store.sessions(project=Path("/srv/kites"))] == [SESSION]


def test_searches_and_sql_are_those_of_the_command(home, turnlog):
    with library.open(home) as store:
        for words, asked in (
            ((), {}),
            (("--sort", "newest", "--limit", "1"), {"newest": True, "limit": 1}),
            (("--limit", "0"), {"limit": 0}),
            (("--session", WHOLE[:4]), {"session": WHOLE[:4]}),
            (("--since", "2026-11-02"), {"since": "2026-11-02"}),
            (("--exact",), {"exact": True}),
        ):
            _, out, _ = turnlog("search", "one OR two", *words, "--home", home, "--json")
            found = plain(store.search("one OR two", **asked))["hits"]
            shown = json.loads(out)["hits"]
            for hit in found:
                hit["score"] = pytest.approx(hit["score"], rel=1e-3)  # It falls with age.
            assert found == shown, words
        statement = "SELECT session, records FROM v_sessions ORDER BY session"
        for words, asked in (
            ((), {}),
            (("--limit", "1"), {"limit": 1}),
            (("--limit", "0"), {"limit": 0}),
            (("--since", "2026-11-02"), {"since": date(2026, 11, 2)}),
        ):
            _, out, _ = turnlog("sql", statement, *words, "--home", home, "--json")
            assert plain(store.sql(statement, **asked)) == json.loads(out), words
        named = store.sql("SELECT session FROM v_sessions WHERE session = :id", {"id": WHOLE})
        assert named.rows == [[WHOLE]]


def test_days_of_a_query_are_those_of_this_machine(tmp_path, turnlog, monkeypatch):
    project = tmp_path / "home" / "projects" / "-srv-kites"
    project.mkdir(parents=True)
    (project / f"{WHOLE}.jsonl").write_bytes(prompt(WHOLE, "ten in the morning") + b"\n")
    which = {"time_range": {"start": "2026-11-01", "end": "2026-11-02"}}
    monkeypatch.setenv("TZ", "Etc/GMT-14")
    import time

    time.tzset()
    try:
        with library.open(tmp_path / "home") as store:
            assert store.query("entries", which).rows == []
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_a_check_is_that_of_the_command(home, turnlog):
    with library.open(home) as store:
        for words, asked in (((), ()), ((WHOLE[:4],), (WHOLE[:4],)), ((DAMAGED[:4],), ("2222",))):
            _, out, _ = turnlog("check", *words, "--home", home, "--json")
            assert plain(store.check(*asked)) == json.loads(out)
        _, out, _ = turnlog("check", "--strict", "--home", home, "--json")
        assert plain(store.check(strict=True)) == json.loads(out)
        assert store.check(WHOLE).is_well
        assert not store.check().is_well
        assert isinstance(store.check(), library.Health)
        with pytest.raises(library.NotFound):
            store.check("nobody")


def test_an_export_is_that_of_the_command(store, spent, turnlog):
    with store.resume(SESSION, project="/srv/kites") as session:
        session.append(library.build.user(f"The key is {SECRET}."))
        session.append(library.build.assistant("Keep it.", model=MODEL))
    for words, asked in (
        ((), {}),
        (("--format", "html"), {"format": "html"}),
        (("--format", "json"), {"format": "json"}),
        (("--turns", "1", "--tools", "none"), {"turns": (1, 1), "tools": "none"}),
        (("--turns", "1:", "--tools", "line"), {"turns": (1, None), "tools": "line"}),
        (("--thread", "current", "--anonymize"), {"thread": "current", "anonymize": True}),
        (("--thread", "all", "--no-thinking"), {"thread": "all", "thinking": False}),
        (("--no-redact",), {"redact": False}),
    ):
        code, out, _ = turnlog("export", SESSION, *words, "--home", spent)
        found = store.export(SESSION, **asked)
        assert code == 0
        assert found == out, words
        assert (SECRET in found) == (asked == {"redact": False})
    for wrong in ({"format": "jsonl"}, {"tools": "some"}):
        with pytest.raises(library.UsageError) as told:
            store.export(SESSION, **wrong)
        assert "there are" in told.value.hint
    with pytest.raises(library.NotFound):
        store.export(SESSION, thread="some")


def test_what_is_kept_comes_back(store, spent, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    run = store.keep()
    assert (run.copied, run.problems) == (2, [])
    assert store.keep(OTHER).copied == 0
    (log,) = spent.glob(f"projects/*/{OTHER}.jsonl")
    data = log.read_bytes()
    log.unlink()
    assert {row.id: row.keeping for row in store.sessions()}[OTHER] == "restorable"
    done = store.restore(OTHER[:4])
    assert (done.session, done.written, done.path) == (OTHER, 1, str(log))
    assert log.read_bytes() == data
    assert {row.id: row.keeping for row in store.sessions()}[OTHER] == "kept"
    assert store.restore(OTHER, to=tmp_path / "spare").written == 1
    with pytest.raises(library.NotFound):
        store.restore("nobody")
    log.write_bytes(b"another\n")
    with pytest.raises(library.TurnlogError):
        store.restore(OTHER)
    assert log.read_bytes() == b"another\n"


def test_a_home_that_is_gone_is_restored_by_the_users_own_store(tmp_path, monkeypatch):
    import shutil

    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "subagent"))
    with library.open(tmp_path / "subagent") as store:
        with store.create(project=tmp_path) as session:
            session.append(library.build.user("Hello"))
        store.keep()
    shutil.rmtree(tmp_path / "subagent")
    with library.open() as store:
        assert store.restore(session.session_id).written
    assert session.path.exists()
