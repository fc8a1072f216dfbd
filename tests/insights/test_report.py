"""Every number of insights is that of a plain look at the logs."""

import json
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from insights import insights_plain as plainly
from turnlog.catalog.indexed_sessions import list_projects
from turnlog.catalog.pages import tokens_of
from turnlog.costs.ledger import ledger
from turnlog.costs.usage import IndexSource
from turnlog.errors import UsageError
from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh
from turnlog.index.refresh.refresh import refresh
from turnlog.insights import cache
from turnlog.insights.edits import lines_at_end, lines_in
from turnlog.insights.explanation import FIGURES, explain
from turnlog.insights.groups import streaks_of
from turnlog.insights.report import insights
from turnlog.insights.scope import Scope
from turnlog.pricing.cost import load_prices
from turnlog.query.errors import error_patterns
from turnlog.query.patterns import METRICS, file_access, time_series, tool_sequences
from turnlog.sessions.session import Session
from turnlog.sessions.writing.fork import fork_records

CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus" / "claude"
)
DOCS = Path(__file__).parents[2] / "docs" / "guides" / "insights.md"
BEGIN = datetime(2026, 7, 20, 22, tzinfo=UTC)
NOW = datetime(2026, 8, 1, tzinfo=UTC)
SESSIONS = ("aaaaaaaa-1111-4111-8111-111111111111", "bbbbbbbb-2222-4222-8222-222222222222")
PROJECTS = ("/home/ada/orchard", "/home/ada/lighthouse")
SUBAGENT = "a1b2c3d"
PRICES = load_prices()


# -- small homes -----------------------------------------------------------------------------

KINDS = (
    *("prompt", "prompt", "say", "say", "call", "call", "answer", "answer", "fail", "edit"),
    *("command", "own command", "printed", "stopped", "compaction", "subagent"),
)
events = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(KINDS),
        st.integers(0, 900),
        st.sampled_from(("Read", "Bash", "Edit")),
        st.integers(0, 3),
    ),
    max_size=45,
)


class Home:
    """A home of two sessions, a subagent's log, and a fork of the first session."""

    def __init__(self, plan):
        self.lines = {"main0": [], "main1": [], "subagent": []}
        self._open = defaultdict(list)
        self._minutes = Counter()
        self._last = {}
        for number, event in enumerate(plan):
            self._add(number, event)

    def _add(self, number, event):
        which, kind, pause, tool, size = event
        log = "subagent" if kind == "subagent" else f"main{which}"
        self._minutes[log] += pause
        at = BEGIN + timedelta(seconds=13 * self._minutes[log])
        uuid = f"{number:08x}-0000-4000-8000-00000000000a"
        common = {
            "uuid": uuid,
            "parentUuid": self._last.get(log),
            "sessionId": SESSIONS[0 if log == "subagent" else which],
            "cwd": PROJECTS[0 if log == "subagent" else which],
            "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.250Z"),
            "version": "2.1.200",
        }
        if log == "subagent":
            common |= {"isSidechain": True, "agentId": SUBAGENT}
        for line in self._said(number, kind, log, tool, size):
            self.lines[log].append(common | line)
            self._last[log] = uuid

    def _said(self, number, kind, log, tool, size):
        command = f"<command-name>/c{size}</command-name>"
        texts = {
            "prompt": f"graft the pear {size}",
            "command": f"<command-message>x</command-message>\n{command}",
            "printed": "<local-command-stdout>done</local-command-stdout>",
            "stopped": "[Request interrupted by user]",
        }
        if kind in texts:
            return [{"type": "user", "message": {"role": "user", "content": texts[kind]}}]
        if kind == "own command":
            return [{"type": "system", "subtype": "local_command", "content": command}]
        if kind == "compaction":
            told = {"trigger": ("auto", "manual")[size % 2], "preTokens": 1000 * size}
            over = {"type": "system", "subtype": "compact_boundary", "compactMetadata": told}
            own = f"{number:08x}-0000-4000-8000-00000000000b"
            words = {"role": "user", "content": f"In short: {size}"}
            return [
                over | {"uuid": own},
                {"type": "user", "isCompactSummary": True, "parentUuid": own, "message": words},
            ]
        if kind in ("answer", "fail") and self._open[log]:
            return [self._answer(self._open[log].pop(0), kind == "fail", size)]
        return [self._response(number, kind, log, tool, size)]

    def _answer(self, call, is_error, size):
        name, tool = call
        block = {"type": "tool_result", "tool_use_id": name, "content": f"word {size}"}
        if is_error:
            block["is_error"] = True
        line = {"type": "user", "message": {"role": "user", "content": [block]}}
        if tool == "Edit" and size:
            patch = [{"lines": [" same", '+new "+quoted', '-"-old', "+\\"][: size + 1]}]
            line["toolUseResult"] = {"filePath": "x", "structuredPatch": patch}
            if size == 3:
                line["toolUseResult"] = {"structuredPatch": [], "content": "a\nb\nc"}
        return line

    def _response(self, number, kind, log, tool, size):
        block = {"type": "text", "text": "ripe"}
        if kind in ("call", "edit"):
            tool = "Edit" if kind == "edit" else tool
            name = f"toolu_{log}_{number}"
            given = {"file_path": f"/barn/{size}.py"} if tool != "Bash" else {"command": "ls"}
            block = {"type": "tool_use", "id": name, "name": tool, "input": given}
            self._open[log].append((name, tool))
        usage = {
            "input_tokens": 7 * size,
            "output_tokens": 5,
            "cache_read_input_tokens": (0, 9000, 30000, 2000)[size],
            "cache_creation": {
                "ephemeral_5m_input_tokens": 1500 * size,
                "ephemeral_1h_input_tokens": 600 if size == 2 else 0,
            },
            "cache_creation_input_tokens": 1500 * size + (600 if size == 2 else 0),
        }
        model = ("claude-opus-4-6", "claude-haiku-4-5")[number % 7 == 0]
        message = {"role": "assistant", "id": f"msg_{number}", "model": model, "usage": usage}
        message |= {"content": [block], "type": "message"}
        return {"type": "assistant", "requestId": f"req_{number}", "message": message}

    def write(self, home):
        folders = [home / "projects" / each.replace("/", "-") for each in PROJECTS]
        for folder in folders:
            folder.mkdir(parents=True)
        put(folders[0] / f"{SESSIONS[0]}.jsonl", self.lines["main0"])
        put(folders[1] / f"{SESSIONS[1]}.jsonl", self.lines["main1"])
        if self.lines["subagent"]:
            subagents = folders[0] / SESSIONS[0] / "subagents"
            subagents.mkdir(parents=True)
            put(subagents / f"agent-{SUBAGENT}.jsonl", self.lines["subagent"])
        fork = "cccccccc-3333-4333-8333-333333333333"
        carried = [line | {"sessionId": fork} for line in self.lines["main0"][:9]]
        put(folders[0] / f"{fork}.jsonl", carried)
        return home


def put(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def opened(home):
    return open_fresh(find_homes([home]))


asked_for = st.builds(
    lambda zone, since, until, project: Scope(
        now=NOW,
        zone=ZoneInfo(zone),
        since=None if since is None else BEGIN + timedelta(hours=since),
        until=None if until is None else BEGIN + timedelta(hours=until),
        project=project,
        limit=None,
    ),
    st.sampled_from(("UTC", "Asia/Kathmandu", "America/Los_Angeles")),
    st.sampled_from((None, 0, 3)),
    st.sampled_from((None, 12, 30)),
    st.sampled_from((None, None, PROJECTS[0])),
)


# -- the comparison --------------------------------------------------------------------------


def only(plain, asked):
    """Leave out of a plain home what is not of the project."""
    if asked.project is None:
        return plain
    chosen = object.__new__(plainly.Plain)
    chosen.responses, chosen.mains = plain.responses, plain.mains
    inside = {
        session
        for session, rows in plain.logs
        if any((row.get("cwd") or "").startswith(asked.project) for row in rows[:1])
    }
    chosen.logs = [(session, rows) for session, rows in plain.logs if session in inside]
    return chosen


def check_ledger(found, plain, asked):
    responses = plainly.responses_of(plain, asked)
    everything = plainly.grouped(responses, lambda _: "all", PRICES)
    messages, tokens, cost = everything.get("all", (0, 0, Decimal(0)))
    top = found.overview
    assert (top.messages, top.tokens, Decimal(top.cost_usd)) == (messages, tokens, cost)
    assert tokens_of(found.totals) == tokens

    def same(rows, name, key, places=responses):
        expected = plainly.grouped(places, key, PRICES)
        told = {
            getattr(row, name): (row.messages, tokens_of(row), Decimal(row.cost_usd))
            for row in rows
            if row.messages or tokens_of(row)
        }
        assert told == {each: figures for each, figures in expected.items() if any(figures)}

    dated = [each for each in responses if each.at is not None]
    local = {id(each): each.at.astimezone(asked.zone) for each in dated}
    same(found.days, "day", lambda each: f"{local[id(each)]:%Y-%m-%d}", dated)
    same(
        found.weeks,
        "week",
        lambda each: f"{local[id(each)] - timedelta(days=local[id(each)].weekday()):%Y-%m-%d}",
        dated,
    )
    same(found.models, "model", lambda each: each.model_name)
    same(found.projects, "project", lambda each: each.project)
    heat = Counter()
    for each in dated:
        heat[local[id(each)].weekday(), local[id(each)].hour] += each.messages
    assert all(
        found.hours.messages[day][hour] == heat[day, hour] for day in range(7) for hour in range(24)
    )
    main = [each for each in responses if each.subagent is None]
    told = {row.kind: row for row in found.subagents}
    assert (told["main"].messages if "main" in told else 0) == sum(e.messages for e in main)
    assert sum(row.messages for row in found.subagents) == messages
    assert sum(Decimal(row.cost_usd) for row in found.subagents) == cost
    assert sum(row.subagents for row in found.subagents) == len(
        {(each.session, each.subagent) for each in responses if each.subagent is not None}
    )
    days = Counter(f"{local[id(each)]:%Y-%m-%d}" for each in dated for _ in range(each.messages))
    best = max(days, key=lambda day: (days[day], day), default=None)
    assert top.most_active_day == best
    assert found.streaks.active_days == len(days)


def check_cache(found, plain, asked):
    expected = plainly.misses_of(plain, asked, PRICES)
    assert {row.reason: (row.misses, row.tokens) for row in found.cache.reasons} == {
        why: (len(each), sum(tokens for tokens, _ in each)) for why, each in expected.items()
    }
    for row in found.cache.reasons:
        assert Decimal(row.cost_usd) == sum(cost for _, cost in expected[row.reason])
    saved = Decimal(0)
    for each in plainly.responses_of(plain, asked):
        counters = structs.replace(each.counters)
        counters.input, counters.cache_read = counters.input + counters.cache_read, 0
        afresh = structs.replace(each, counters=counters)
        saved += PRICES.bill((afresh,)).total_usd - PRICES.bill((each,)).total_usd
    assert Decimal(found.cache.saved_usd) == saved


def check_calls(found, plain, asked):
    calls = plainly.calls_of(plain, asked)
    expected = plainly.tools_of(calls)
    assert {row.tool for row in found.tools} == set(expected)
    for row in found.tools:
        told = expected[row.tool]
        assert (row.calls, row.failed, row.unanswered) == (
            told["calls"], told["failed"], told["unanswered"],
        )  # fmt: skip
        assert row.failure_rate == (None if told["rate"] is None else round(told["rate"], 4))
        for name in ("total_ms", "median_ms", "longest_ms"):
            value = getattr(row, name)
            assert (value is None) == (told[name] is None)
            assert value is None or abs(value - told[name]) <= 1
    assert {tuple(row.tools): row.count for row in found.sequences} == plainly.sequences_of(calls)
    assert found.overview.calls == len(calls)
    assert found.overview.failed == sum(bool(call["failed"]) for call in calls)
    assert found.interruptions.unanswered == sum(call["failed"] is None for call in calls)
    by_model = Counter(call["model"] for call in calls)
    for row in found.models:
        assert row.calls == by_model[row.model]


def check_edits(found, plain, asked):
    files, tries, unknown = plainly.edits_of(plainly.calls_of(plain, asked))
    edits = found.edits
    told = {
        row.file: {name: getattr(row, name) for name in ("edits", "failed", "added", "removed")}
        for row in edits.rows
    }
    assert told == dict(files)
    for row in edits.rows:
        counts = [count for (path, _), count in tries.items() if path == row.file]
        assert (row.sessions, row.most_in_a_session) == (len(counts), max(counts, default=0))
    assert edits.unknown == unknown
    assert (edits.added, edits.removed) == tuple(
        sum(file[name] for file in files.values()) for name in ("added", "removed")
    )
    once = sum(count == 1 for count in tries.values())
    assert edits.first_try_rate == (round(once / len(tries), 4) if tries else None)
    assert edits.files == len({path for path, _ in tries})


def check_prompts(found, plain, asked):
    prompts = plainly.prompts_of(plain, asked)
    assert found.overview.prompts == len(prompts) == sum(row.prompts for row in found.projects)
    days = Counter(
        f"{plainly.instant(record).astimezone(asked.zone):%Y-%m-%d}"
        for _, record in prompts
        if plainly.instant(record) is not None
    )
    assert {row.day: row.prompts for row in found.days if row.prompts} == days
    assert {row.command: row.count for row in found.commands} == plainly.commands_of(plain, asked)
    stopped = plainly.interruptions_of(plain, asked)
    assert found.interruptions.interruptions == stopped
    turns = plainly.turns_of(plain, asked)
    assert found.turns.turns == len(turns)
    worked = [took for took in turns if took is not None]
    assert found.turns.working_ms == sum(worked) == found.overview.working_ms
    assert [row.duration_ms for row in found.turns.longest] == sorted(worked, reverse=True)
    told = plainly.compactions_of(plain, asked)
    assert found.compactions.compactions == len(told)
    assert found.compactions.automatic == sum(trigger == "auto" for trigger, _ in told)
    assert found.compactions.manual == sum(trigger == "manual" for trigger, _ in told)
    answered = {each.session for each in plainly.responses_of(plain, asked) if each.session}
    # A prompt that a fork copied belongs to the session that was answered.
    copies = defaultdict(set)
    for session, rows in plain.logs:
        for row in rows:
            copies[row.get("uuid")].add(session)
    typed = {session for session, row in prompts if copies[row["uuid"]].isdisjoint(answered)}
    sessions = (answered | typed) & plain.mains
    assert found.overview.sessions == len(sessions)
    average = found.overview.average_messages
    assert average == (round(found.totals.messages / len(sessions), 1) if sessions else None)


def check(index, plain, asked):
    found = insights(index, PRICES, asked)
    chosen = only(plain, asked)
    check_ledger(found, chosen, asked)
    check_cache(found, chosen, asked)
    check_calls(found, chosen, asked)
    check_edits(found, chosen, asked)
    check_prompts(found, chosen, asked)
    return found


# The fork has nothing that the first session lacks, so it pays for what both have; the response of
# the first session's own subagent is from before the period.
PAID_BY_THE_FORK = [
    (0, "subagent", 10, "Read", 1),
    (0, "prompt", 900, "Read", 1),
    (0, "say", 10, "Read", 1),
]
# Three responses at one time: their order is that of the log, not that of their names.
AT_ONCE = [(1, "say", 0, "Read", size) for size in (0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 3)]


@given(events, asked_for)
@example(PAID_BY_THE_FORK, Scope(now=NOW, zone=UTC, since=BEGIN + timedelta(hours=3), limit=None))
@example(AT_ONCE, Scope(now=NOW, zone=UTC, limit=None))
def test_every_number_is_that_of_a_plain_look(plan, asked):
    with tempfile.TemporaryDirectory() as tmp:
        home = Home(plan).write(Path(tmp) / "home")
        plain = plainly.Plain(home)
        with opened(home) as index:
            found = check(index, plain, asked)
            check_explained(index, found, asked)


BUSY = [
    (number // 5 % 2, kind, 150 + number % 300, ("Read", "Bash", "Edit")[number % 3], number % 4)
    for number, kind in enumerate(KINDS * 9)
]


@pytest.mark.parametrize("since", [None, 5, 20])
@pytest.mark.parametrize("until", [None, 48])
@pytest.mark.parametrize("project", [None, PROJECTS[0]])
def test_a_busy_home_in_every_period(tmp_path, since, until, project):
    home = Home(BUSY).write(tmp_path / "home")
    asked = Scope(
        now=NOW,
        zone=ZoneInfo("Asia/Kathmandu"),
        since=None if since is None else BEGIN + timedelta(hours=since),
        until=None if until is None else BEGIN + timedelta(hours=until),
        project=project,
        limit=None,
    )
    with opened(home) as index:
        found = check(index, plainly.Plain(home), asked)
    assert found.sequences or since
    for figure in (
        *(found.commands, found.edits.rows, found.cache.reasons, found.turns.longest),
        *(found.compactions.compactions, found.interruptions.interruptions, found.tools),
    ):
        assert figure


@pytest.fixture(scope="module")
def corpus():
    if not CORPUS.is_dir():
        pytest.skip("no corpus: TURNLOG_CORPUS names none")
    with opened(CORPUS) as index:
        yield index, plainly.Plain(CORPUS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        Scope(now=NOW, limit=None),
        Scope(
            now=NOW,
            zone=ZoneInfo("Asia/Kolkata"),
            since=datetime(2026, 2, 1, tzinfo=UTC),
            until=datetime(2026, 5, 17, 3, 21, 7, tzinfo=UTC),
            limit=None,
        ),
    ],
    ids=["all", "a period"],
)
def test_every_number_of_the_corpus_is_that_of_a_plain_look(corpus, asked):
    index, plain = corpus
    found = check(index, plain, asked)
    assert found.overview.messages > 1000
    assert found.edits.added > 1000
    assert (
        found.errors
        == error_patterns(index, since=asked.since, until=asked.until, limit=None).errors
    )


def test_sequences_are_those_of_the_query(corpus):
    index, _ = corpus
    found = insights(index, PRICES, Scope(now=NOW, limit=None)).sequences
    known = tool_sequences(index, shortest=2, longest=3, limit=None).sequences
    assert {tuple(row.tools): row.count for row in found} == {
        tuple(row.tools): row.count for row in known if len(set(row.tools)) > 1
    }


# -- opening figures -------------------------------------------------------------------------


def check_explained(index, found, asked):
    """What is behind a figure is as much as the figure says."""

    def behind(name):
        return explain(index, PRICES, asked, name)

    top = found.overview
    totals = {
        "sessions": top.sessions,
        "prompts": top.prompts,
        "messages": top.messages,
        "tools": top.calls,
        "failures": top.failed,
        "unanswered": found.interruptions.unanswered,
        "edits": found.edits.edits + found.edits.failed,
        "cache": found.cache.misses,
        "compactions": found.compactions.compactions,
        "interruptions": found.interruptions.interruptions,
        "turns": found.turns.turns,
        "commands": sum(row.count for row in found.commands),
    }
    for name, count in totals.items():
        assert behind(name).total == count, name
    rows = {f"tools:{row.tool}": row.calls for row in found.tools}
    rows |= {f"days:{row.day}": row.messages for row in found.days}
    rows |= {f"weeks:{row.week}": row.messages for row in found.weeks}
    rows |= {f"models:{row.model}": row.messages for row in found.models}
    rows |= {f"projects:{row.project}": row.messages for row in found.projects}
    rows |= {f"subagents:{row.kind or 'not known'}": row.messages for row in found.subagents}
    rows |= {f"edits:{row.file}": row.edits + row.failed for row in found.edits.rows}
    rows |= {f"cache:{row.reason}": row.misses for row in found.cache.reasons}
    rows |= {f"commands:{row.command}": row.count for row in found.commands}
    rows |= {f"sequences:{' -> '.join(row.tools)}": row.count for row in found.sequences}
    rows |= {f"errors:{row.signature} {row.tool}": row.count for row in found.errors}
    for name, count in rows.items():
        assert behind(name).total == count, name
    days = explain(index, PRICES, asked, "days")
    assert sum(Decimal(row.cost_usd) for row in days.rows) == sum(
        Decimal(row.cost_usd) for row in found.days
    )
    for row in behind("messages").rows:
        record = json.loads(Path(row.log).read_bytes()[row.offset :].split(b"\n")[0])
        assert record["type"] == "assistant"


def test_pages_of_what_is_behind_join(tmp_path):
    home = Home([(0, "prompt", 1, "Read", n % 4) for n in range(7)]).write(tmp_path / "home")
    asked = Scope(now=NOW, limit=3)
    with opened(home) as index:
        first = explain(index, PRICES, asked, "prompts")
        second = explain(index, PRICES, asked, "prompts", first.next)
        whole = explain(index, PRICES, structs.replace(asked, limit=None), "prompts")
    assert (first.next, second.next) == (3, 6)
    assert first.rows + second.rows == whole.rows[:6]
    assert whole.total == 7  # And seven that the fork carries along.


@pytest.mark.parametrize("name", ["prompts", "tools", "tools:Read", "unanswered"])
def test_what_is_behind_a_figure_comes_newest_first(tmp_path, name):
    plan = [(n % 2, ("prompt", "call")[n % 4 > 1], 1, "Read", n % 4) for n in range(12)]
    home = Home(plan).write(tmp_path / "home")
    with opened(home) as index:
        rows = explain(index, PRICES, Scope(now=NOW, limit=None), name).rows
    instants = [row.at for row in rows if row.at]
    assert len(set(instants)) > 1
    assert instants == sorted(instants, reverse=True)


@pytest.mark.parametrize(
    "name", ["nothing", "sequences", "errors", "turns:1", "sequences:Read", ""]
)
def test_a_figure_that_is_none_is_refused_with_what_there_is(tmp_path, name):
    home = Home([]).write(tmp_path / "home")
    with opened(home) as index, pytest.raises(UsageError) as error:
        explain(index, PRICES, Scope(now=NOW), name)
    assert error.value.hint


def test_the_documentation_defines_every_figure_in_the_same_words():
    text = DOCS.read_text("utf-8")
    rows = dict(
        line.strip("| ").split(" | ")[:2] for line in text.splitlines() if line[:3] == "| `"
    )
    assert {name.strip("`"): about.strip() for name, about in rows.items()} == {
        name: figure.about for name, figure in FIGURES.items()
    }


# -- the edges -------------------------------------------------------------------------------


def test_totals_are_those_of_the_ledger(tmp_path):
    plan = [(n % 2, "say", 40 * n, "Read", n % 4) for n in range(20)]
    home = Home(plan).write(tmp_path / "home")
    asked = Scope(now=NOW, since=BEGIN + timedelta(minutes=7, seconds=3), limit=None)
    with opened(home) as index:
        found = insights(index, PRICES, asked)
        book = ledger(IndexSource(index, PRICES).sums(asked.period), PRICES, asked.by("day"))
    assert found.totals == book.totals
    assert [row.cost_usd for row in found.days] == [row.cost_usd for row in book.rows]


def test_a_refresh_meanwhile_changes_no_answer(tmp_path, monkeypatch):
    """It is put together from many statements, and all of them see one state."""
    home = Home(BUSY).write(tmp_path / "home")
    asked = Scope(zone=UTC, now=NOW)
    with opened(home) as index:
        expected = insights(index, PRICES, asked)
    rewritten = []

    def rewriting(*given):
        if not rewritten:
            for log in home.rglob("*.jsonl"):
                log.write_text('{"type":"summary","summary":"x","leafUuid":"y"}\n')
            rewritten.append(refresh(find_homes([home])))
        return response(*given)

    response = cache._response
    monkeypatch.setattr(cache, "_response", rewriting)
    with opened(home) as index:
        found = insights(index, PRICES, asked)
    assert rewritten
    assert found.overview == expected.overview
    assert found.cache.reasons == expected.cache.reasons
    assert found.days == expected.days  # Texts are read from the logs, which are others now.
    with opened(home) as index:
        assert not insights(index, PRICES, asked).overview.messages


@pytest.mark.parametrize("damage", [b"", b"{", b"\0\0\0\n", b'{"type":"user","message":{"ro'])
def test_a_home_with_nothing_in_it_divides_by_nothing(tmp_path, damage):
    folder = tmp_path / "home" / "projects" / "-home-ada-orchard"
    folder.mkdir(parents=True)
    (folder / f"{SESSIONS[0]}.jsonl").write_bytes(damage)
    with opened(tmp_path / "home") as index:
        found = insights(index, PRICES, Scope(now=NOW))
        for name, figure in FIGURES.items():
            if not figure.needs_row:
                assert explain(index, PRICES, Scope(now=NOW), name).rows == []
    top = found.overview
    assert (top.sessions, top.prompts, top.messages, top.tokens, top.cost_usd) == (0, 0, 0, 0, "0")
    assert top.average_messages is top.average_prompts is top.average_working_ms is None
    assert top.failure_rate is found.cache.efficiency is found.edits.first_try_rate is None
    assert found.days == found.models == found.tools == found.turns.longest == []


@pytest.mark.parametrize("is_fork_first", [False, True])
def test_a_turn_that_a_fork_carries_along_is_the_longest_whichever_log_was_read_first(
    tmp_path, monkeypatch, is_fork_first
):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    home = Home([(0, "prompt", 0, "Read", 1), (0, "say", 5, "Read", 1), (0, "say", 70, "Read", 1)])
    home.write(tmp_path / "home")
    logs = sorted((tmp_path / "home").glob("projects/*/*.jsonl"))
    fork = next(path for path in logs if path.name.startswith("cccccccc"))
    lines = fork.read_text().splitlines(keepends=True)
    fork.unlink()

    def figures():
        with open_fresh(find_homes((tmp_path / "home",))) as index:
            return insights(index, PRICES, Scope(now=NOW)).turns

    whole = figures()
    assert (whole.turns, whole.working_ms) == (1, 75 * 13_000)
    if is_fork_first:
        shutil.rmtree(tmp_path / "own")
        kept = {path: path.read_bytes() for path in logs if path != fork}
        for path in kept:
            path.unlink()
        fork.write_text("".join(lines[:2]))
        figures()
        for path, data in kept.items():
            path.write_bytes(data)
    fork.write_text("".join(lines[:2]))
    assert figures().working_ms == whole.working_ms
    fork.write_text("".join(lines))
    assert figures() == whole  # Both as long: the first by its place.
    shutil.rmtree(tmp_path / "own")
    assert figures() == whole


@pytest.mark.parametrize("keeps_uuids", [True, False])
def test_what_was_forked_and_forked_again_counts_once(tmp_path, monkeypatch, keeps_uuids):
    """Whoever forks: Claude Code keeps the uuids, its SDK and turnlog give new ones."""
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    home = Home(event for event in BUSY if event[1] != "subagent").write(tmp_path / "home")
    folder = home / "projects" / PROJECTS[0].replace("/", "-")
    next(folder.glob("cccccccc*")).unlink()

    def figures():
        with open_fresh(find_homes([home])) as index:
            found = insights(index, PRICES, Scope(now=NOW, limit=None))
            return (
                *(found.overview, found.days, found.projects, found.tools, found.sequences),
                *(found.edits, found.turns, found.compactions, found.interruptions),
                *(found.commands, [each.count for each in found.errors]),
                *({row.path: row.prompts for row in list_projects(index).projects},),
                *(tool_sequences(index, limit=None), file_access(index, limit=None)),
                *(time_series(index, metric=metric) for metric in METRICS),
            )

    before = figures()
    path = folder / f"{SESSIONS[0]}.jsonl"
    for number in range(2):
        name = f"dddddddd-4444-4444-8444-44444444444{number}"
        copied = [*map(json.loads, path.read_text().splitlines())]
        if not keeps_uuids:
            copied = [*fork_records(Session.find(find_homes([home]), path.stem))]
            assert len(copied) > 30
        path = folder / f"{name}.jsonl"
        put(path, [line | {"sessionId": name} for line in copied])
        assert figures() == before
    shutil.rmtree(tmp_path / "own")
    assert figures() == before


def test_a_fork_is_no_session_of_the_time_before_it_was_made(tmp_path):
    """Whichever of the two comes first by its name."""
    home = Home([(0, "prompt", 0, "Read", 1), (0, "say", 5, "Read", 1), (0, "say", 9, "Read", 1)])
    home.write(tmp_path / "home")
    fork = "00000000-4444-4444-8444-444444444444"
    own = home.lines["main0"][1] | {"uuid": fork, "parentUuid": None, "requestId": "req_own"}
    own |= {"timestamp": "2026-07-28T10:00:00Z"}
    own["message"] = own["message"] | {"id": "msg_own"}
    copied = [line | {"sessionId": fork} for line in [*home.lines["main0"], own]]
    folder = tmp_path / "home" / "projects" / PROJECTS[0].replace("/", "-")
    put(folder / f"{fork}.jsonl", copied)
    with opened(tmp_path / "home") as index:
        early = Scope(now=NOW, until=BEGIN + timedelta(days=1))
        found = insights(index, PRICES, early)
        behind = explain(index, PRICES, early, "sessions")
        both = insights(index, PRICES, Scope(now=NOW))
    assert found.overview.sessions == 1
    assert [(row.project, row.sessions, row.prompts) for row in found.projects] == [
        (PROJECTS[0], 1, 1)
    ]
    assert [row.session for row in behind.rows] == [SESSIONS[0]]
    assert both.overview.sessions == 2


def test_the_week_against_the_week_before(tmp_path):
    plan = [(0, "say", 0, "Read", 2), (0, "prompt", 0, "Read", 1)]
    plan += [(0, "say", 13_000, "Read", 2)] * 4  # Nearly two days each.
    home = Home(plan).write(tmp_path / "home")
    end = BEGIN + timedelta(days=10)
    with opened(home) as index:
        found = insights(index, PRICES, Scope(now=end, since=end - timedelta(days=1)))
    week = found.week_against_week
    assert (week.messages, week.before_messages) == (3, 2)
    assert (week.prompts, week.before_prompts) == (0, 1)
    assert (week.sessions, week.before_sessions) == (1, 1)
    assert found.overview.messages == 0


def test_dates_at_the_ends_of_the_calendar_are_days_like_others(tmp_path):
    lines = Home([(0, "prompt", 0, "Read", 1), (0, "say", 0, "Read", 1)]).lines["main0"]
    folder = tmp_path / "home" / "projects" / "-home-ada-orchard"
    folder.mkdir(parents=True)
    times = ["0001-01-01T00:00:10.000Z", "9999-12-31T23:59:59.000Z"]
    put(
        folder / f"{SESSIONS[0]}.jsonl",
        [line | {"timestamp": at} for line, at in zip(lines, times, strict=True)],
    )
    for zone in ("UTC", "Pacific/Kiritimati", "America/Los_Angeles"):
        with opened(tmp_path / "home") as index:
            found = insights(index, PRICES, Scope(now=NOW, zone=ZoneInfo(zone)))
        assert sum(row.messages for row in found.days) == 1
        assert sum(row.prompts for row in found.days) == 1
        assert found.streaks.longest_days == 1


@given(st.sets(st.integers(0, 40)), st.integers(0, 42))
def test_streaks_are_runs_of_days(numbers, last):
    begin = datetime(2026, 2, 10, tzinfo=UTC)
    days = {f"{begin + timedelta(days=n):%Y-%m-%d}" for n in numbers}
    found = streaks_of(days, f"{begin + timedelta(days=last):%Y-%m-%d}")
    runs = "".join("x" if n in numbers else " " for n in range(44)).split()
    assert found.longest_days == max(map(len, runs), default=0)
    assert found.active_days == len(numbers)
    past = max(numbers, default=-9)
    if last in (past, past + 1):
        assert found.current_days == len(runs[-1])
    else:
        assert found.current_days == 0


json_lines = st.lists(st.text(alphabet='+-" \\,[]{}:a\n\u2028é\ud800', max_size=12), max_size=6)


@given(st.lists(json_lines, max_size=3), st.one_of(st.none(), st.text(max_size=20)), st.booleans())
def test_lines_of_edits_are_counted_without_decoding_them(hunks, content, is_ascii):
    told = {"structuredPatch": [{"oldStart": 1, "lines": lines} for lines in hunks]}
    told |= {} if content is None else {"content": content}
    record = {"type": "user", "toolUseResult": told | {"originalFile": '"+x'}}
    data = json.dumps(record, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:
        return
    assert lines_in(data) == plainly.lines_of(record)


@given(
    st.lists(json_lines, max_size=2),
    st.sampled_from(
        [{}, {"nested": {"structuredPatch": [{"lines": ["+x"]}]}}, {"a": '"structuredPatch":['}]
    ),
    st.sampled_from([{}, {"uuid": "x", "cwd": "/a"}, {"last": {"structuredPatch": []}}]),
    st.integers(1, 400),
)
def test_the_end_of_a_result_tells_the_same_lines_or_nothing(hunks, within, behind, length):
    patch = [{"lines": lines} for lines in hunks]
    for told in ({"structuredPatch": patch} | within, within | {"structuredPatch": patch}):
        record = {"type": "user", "toolUseResult": told} | behind
        data = json.dumps(record, separators=(",", ":")).encode()
        assert lines_at_end(data[-length:]) in (None, plainly.lines_of(record))
    record = {"type": "user", "toolUseResult": {"structuredPatch": patch}, "uuid": "x"}
    data = json.dumps(record, separators=(",", ":")).encode()
    if any(hunks) and b"\\ud8" not in data:  # Then it is enough.
        assert lines_at_end(data) == plainly.lines_of(record)


@pytest.mark.parametrize(
    "told",
    [None, "text", [], 7, {}, {"structuredPatch": None}, {"structuredPatch": "x"},
     {"structuredPatch": [1, None, {"lines": 3}, {"lines": ["+a", 2]}]}, {"content": ["x"]}],
)  # fmt: skip
def test_odd_results_stop_nothing(told):
    found = lines_in(json.dumps({"type": "user", "toolUseResult": told}).encode())
    assert found in (None, (1, 0))
