"""Usage told from logs alone: exact, each response once, and nothing skipped in silence."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.answers import AT, FORK, MODEL, SESSION, answer, as_set, echo, log_of, logs, usage
from strategies import rubble, to_line
from turnlog.costs import usage as costs_usage
from turnlog.costs.usage import scan_usage
from turnlog.errors import LogError
from turnlog.formats import find_homes
from turnlog.records.responses import RunningTotals
from turnlog.records.usage import Counters
from turnlog.storage import scan as search_of_lines
from turnlog.storage.reader import Placed, read_log

SHARED = Path(__file__).resolve().parents[3] / "shared"
GENERATOR = SHARED / "kit" / "gen_corpus.py"
CORPUS = Path(os.environ.get("TURNLOG_CORPUS") or SHARED / "corpus" / "claude")
COLUMNS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")


class Place:
    """A home to put logs into."""

    def __init__(self, path):
        self.path = path
        (path / "projects" / "-srv-kites").mkdir(parents=True)

    def put(self, data, *parts, session=SESSION):
        name = parts or (f"{session}.jsonl",)
        log = self.path.joinpath("projects", "-srv-kites", *name)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(data)
        return log

    def scan(self):
        return scan_usage(find_homes([self.path]))


@pytest.fixture
def home(tmp_path):
    return Place(tmp_path / "home")


def figures(responses, key=lambda _response: None):
    """Sum up what truth is told in, by any key."""
    sums = defaultdict(lambda: [0] * 6)
    for response in responses:
        row = sums[key(response)]
        for number, column in enumerate(COLUMNS):
            row[number] += getattr(response.counters, column)
        row[5] += response.messages
    return dict(sums)


def by_day_and_model(response):
    return f"{response.at:%Y-%m-%d}|{response.model_name}"


# -- the truth ------------------------------------------------------------------------------


@pytest.mark.skipif(not GENERATOR.is_file(), reason="the generator is not here")
# Three with forks, one with fast mode.
@pytest.mark.parametrize("seed", [13, 22, 41, 101])
def test_generated_trees_come_out_exactly(tmp_path, seed):
    command = [sys.executable, GENERATOR, "--out", tmp_path / "tree", "--edge"]
    sizes = ["--size", "4M", "--seed", str(seed), "--projects", "4", "--days", "9"]
    subprocess.run([*map(str, command), *sizes], check=True, capture_output=True)
    truth = json.loads((tmp_path / "tree" / "TRUTH.json").read_bytes())
    scan = scan_usage(find_homes([tmp_path / "tree" / ".claude"]))
    assert figures(scan.responses, by_day_and_model) == truth["by_day_model"]
    assert figures(scan.responses, lambda response: response.session) == truth["by_session"]
    aside = [response for response in scan.responses if response.is_sidechain]
    assert figures(aside).get(None, [0] * 6) == truth["sidechain"]
    searches = sum(response.counters.web_searches for response in scan.responses)
    assert searches == truth["web_search_requests"]
    assert scan.skipped == []


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_a_scan_of_real_sessions_says_what_reading_them_whole_says():
    homes = find_homes([CORPUS])
    scan = scan_usage(homes)
    totals: dict[str | None, RunningTotals] = defaultdict(RunningTotals)
    for log in sorted(CORPUS.rglob("projects/**/*.jsonl")):
        for item in read_log(log):
            if isinstance(item, Placed):
                totals[None].take(item.record)
    whole = totals[None]
    assert whole.messages == len(scan.responses) > 5_000
    found = Counters()
    for response in scan.responses:
        found.add(response.counters)
        assert (response.session, response.project, response.at) != (None, None, None)
    assert found == whole.counters


# -- what others get wrong ------------------------------------------------------------------


def test_lines_that_others_drop_in_silence_are_counted(home):
    """Null keys in a tool's input, surrogates, bad UTF-8, odd instants, floats, spaces, versions.

    And an unknown speed, an empty request id, an empty breakdown of cache writes.
    """
    tool = {
        "type": "tool_use",
        "id": "t",
        "name": "Put",
        "input": {"model": None, "id": None, "cwd": None},
    }
    nulls = answer("m0", "r0")
    nulls["message"]["content"] = [tool]
    lines = [
        to_line(nulls),
        to_line(answer("m1", "r1")).replace(b"kites", b"\\ud83d", 1),
        to_line(answer("m2", "r2")).replace(b'"text":"kites"', b'"text":"\xff"', 1),
        to_line(answer("m3", "r3", timestamp="2026-03-04T05:06:07.089123Z")),
        to_line(answer("m4", "r4", said=usage(10.0))),
        to_line(answer("m5", "r5", said=usage(speed="ludicrous"))),
        to_line(answer("m6", "r6"), spaced=True),
        to_line(answer("m7", "r7", version="dev")),
        to_line(answer("m8", "")),
        to_line(answer("m9", "r9", said=usage(cache_creation={}))),
    ]
    home.put(b"\n".join(lines) + b"\n")
    scan = home.scan()
    assert sorted(response.message_id for response in scan.responses) == [
        f"m{n}" for n in range(10)
    ]
    assert all(response.counters.output == 10 for response in scan.responses)
    assert all(response.counters.total == 5313 for response in scan.responses)
    assert {by_day_and_model(response) for response in scan.responses} == {f"2026-03-04|{MODEL}"}


def test_by_day_and_by_session_add_up_to_the_same(home):
    subagent = answer("m2", "r2", isSidechain=True, agentId="a1")
    home.put(
        log_of(
            answer("m1", None, said=usage(5)),
            answer("m1", None, said=usage(50), timestamp="2026-03-06T00:00:00Z"),
            echo(subagent),
        )
    )
    home.put(log_of(subagent), SESSION, "subagents", "agent-a1.jsonl")
    home.put(log_of(answer("m3", "r3", sessionId=FORK)), session=FORK)
    responses = home.scan().responses
    total = figures(responses)[None]
    for key in (by_day_and_model, lambda r: r.session, lambda r: r.subagent, lambda r: r.project):
        rows = figures(responses, key).values()
        assert [sum(column) for column in zip(*rows, strict=True)] == total
    assert total[5] == 3


def test_agents_belong_to_their_session_at_any_depth(home):
    def said(number):
        return answer(f"m{number}", f"r{number}", isSidechain=True, agentId=f"a{number}")

    home.put(log_of(answer()))
    home.put(log_of(said(2)), SESSION, "subagents", "agent-a2.jsonl")
    home.put(log_of(said(3)), SESSION, "subagents", "workflows", "wf_1", "agent-a3.jsonl")
    home.put(log_of(said(4)), SESSION, "subagents", "a", "b", "c", "agent-a4.jsonl")
    home.put(log_of(said(5)), "agent-a5.jsonl")  # Beside the session, as early versions did.
    nameless = {
        key: value
        for key, value in said(6).items()
        if key not in ("sessionId", "agentId", "isSidechain")
    }
    home.put(log_of(nameless), SESSION, "subagents", "agent-a6.jsonl")
    responses = home.scan().responses
    assert {response.session for response in responses} == {SESSION}
    assert {response.subagent for response in responses} == {None, "a2", "a3", "a4", "a5", "a6"}
    assert sum(response.is_sidechain for response in responses) == 5


def test_a_home_below_a_directory_called_projects_is_like_any_other(tmp_path):
    home = Place(tmp_path / "projects" / "me" / "projects" / "home")
    home.put(log_of(answer()))
    (response,) = home.scan().responses
    assert (response.session, response.project) == (SESSION, "/srv/kites")


def test_a_project_is_where_a_session_worked_not_what_its_directory_is_called(home):
    home.put(log_of(answer(cwd="/srv/my-kites/v2.0")))
    assert home.scan().responses[0].project == "/srv/my-kites/v2.0"


def test_a_linked_project_is_counted_and_counted_once(home, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{SESSION}.jsonl").write_bytes(log_of(answer()))
    (home.path / "projects" / "-linked").symlink_to(elsewhere)
    (home.path / "projects" / "-linked-again").symlink_to(elsewhere)
    assert home.scan().entries == 1


@pytest.mark.parametrize(("original", "fork"), [(SESSION, FORK), (FORK, SESSION)])
def test_forks_are_given_to_the_session_that_first_paid(home, original, fork):
    def said(session, number):
        return answer(
            f"m{number}", f"r{number}", sessionId=session, timestamp=f"2026-03-04T0{number}:00:00Z"
        )

    home.put(log_of(*(said(original, n) for n in (1, 2))), session=original)
    copied = [said(fork, n) for n in (1, 2)]
    home.put(log_of(*copied, said(fork, 7)), session=fork)
    paid = {response.message_id: response.session for response in home.scan().responses}
    assert paid == {"m1": original, "m2": original, "m7": fork}


def test_records_that_kept_their_first_sessions_id_are_that_sessions(home):
    home.put(log_of(answer(sessionId=SESSION), answer("m2", "r2", sessionId=FORK)), session=FORK)
    assert {response.session for response in home.scan().responses} == {SESSION, FORK}
    home.put(log_of(answer()))
    scan = home.scan()
    assert (len(scan.responses), scan.duplicates) == (2, 1)
    own = next(response for response in scan.responses if response.session == SESSION)
    assert own.log.endswith(f"{SESSION}.jsonl")


def test_tokens_of_made_up_messages_are_in_a_row_and_empty_ones_are_told(home):
    home.put(
        log_of(
            answer("m1", None, model="<synthetic>"),
            answer("m2", None, model="<synthetic>", said={"input_tokens": 0}),
        )
    )
    scan = home.scan()
    assert [response.model_name for response in scan.responses] == ["<synthetic>"]
    assert scan.synthetic == 1


# -- damage and oddities --------------------------------------------------------------------


def test_usage_in_damaged_lines_is_not_lost_and_the_rest_is_told(home):
    glued = to_line(answer("m1", "r1")) + to_line(answer("m2", "r2"))
    torn_then_whole = to_line(answer("m3", "r3"))[:200] + to_line(
        answer("m4", "r4", uuid="u", parentUuid="p")
    )
    nuls = b"\0" * 40 + to_line(answer("m5", "r5", uuid="v", parentUuid="p"))
    log = home.put(b"\n".join([glued, torn_then_whole, nuls]) + b"\n")
    scan = home.scan()
    assert {response.message_id for response in scan.responses} == {"m1", "m2", "m4", "m5"}
    places = {response.message_id: response.offset for response in scan.responses}
    assert places["m2"] == len(to_line(answer("m1", "r1")))
    assert {skipped.why for skipped in scan.skipped} == {"damaged"}
    assert all(skipped.path == os.fspath(log) for skipped in scan.skipped)
    assert len(glued) + 1 in {skipped.offset for skipped in scan.skipped}


def test_a_torn_tail_is_pending_and_a_whole_one_counts(home):
    home.put(log_of(answer("m1")) + to_line(answer("m2")))
    home.put(log_of(answer("m3")) + to_line(answer("m4"))[:300], session=FORK)
    scan = home.scan()
    assert {response.message_id for response in scan.responses} == {"m1", "m2", "m3"}
    assert (scan.pending, scan.skipped) == (1, [])


@pytest.mark.parametrize(
    "said", [[1, 2], "many", usage(-5), usage(10**30), usage("x"), usage(True)]
)
def test_odd_usage_is_counted_as_far_as_it_goes_and_told(home, said):
    home.put(log_of(answer(said=said)))
    scan = home.scan()
    assert len(scan.responses) == 1
    (skipped,) = scan.skipped
    assert skipped.why == "odd"
    assert skipped.detail in {"usage", "output_tokens"}


def test_a_log_that_cannot_be_read_is_told_and_stops_nothing(home):
    home.put(log_of(answer()))
    packed = gzip.compress(log_of(*(answer(f"m{n}", f"r{n}") for n in range(500))))
    home.put(packed[: len(packed) // 2], f"{FORK}.jsonl.gz")
    scan = home.scan()
    assert len(scan.responses) >= 1
    assert [skipped.detail for skipped in scan.skipped] == ["broken-archive"]


def test_what_was_read_before_a_disk_failed_counts(home, monkeypatch):
    log = home.put(log_of(answer("m1", "r1"), answer("m2", "r2")))
    real = search_of_lines.FoundLines

    def failing(*arguments, **how):
        lines = real(*arguments, **how)
        whole = lines._lines

        def some():
            yield next(whole)
            raise LogError("reading failed", path=log)

        lines._lines = some()
        return lines

    monkeypatch.setattr(search_of_lines, "FoundLines", failing)
    scan = home.scan()
    assert [response.message_id for response in scan.responses] == ["m1"]
    assert [skipped.why for skipped in scan.skipped] == ["unreadable"]


def test_an_undated_response_is_counted_and_told(home):
    home.put(log_of(answer(timestamp="9999-99-99T99:99:99Z")))
    scan = home.scan()
    assert (len(scan.responses), scan.undated) == (1, 1)


# -- other writers --------------------------------------------------------------------------


def test_other_layouts_and_dialects_are_counted(tmp_path):
    spoken = {
        "type": "assistant",
        "content": "Aye.",
        "timestamp": AT,
        "model": MODEL,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    camel = {
        "role": "assistant",
        "content": "Aye.",
        "timestamp": AT,
        "inputTokens": 5,
        "outputTokens": 6,
    }
    dated = tmp_path / "home" / "projects" / "hash" / "2026-03-04.jsonl"
    dated.parent.mkdir(parents=True)
    dated.write_bytes(log_of(spoken, camel, camel))
    flat = tmp_path / "home" / "sessions" / "kites.jsonl"
    flat.parent.mkdir()
    init = {"type": "system_init", "timestamp": 1772600000000, "cwd": "/srv/kites", "model": MODEL}
    flat.write_bytes(
        log_of(
            init,
            {
                "type": "assistant",
                "uuid": "f-1",
                "content": [],
                "timestamp": 1772600000001,
                "usage": usage(8),
            },
        )
    )
    responses = scan_usage(find_homes([tmp_path / "home"])).responses
    told = sorted(
        (response.session or "", response.model or "", response.counters.output)
        for response in responses
    )
    assert told == [("", "", 6), ("", MODEL, 2), ("kites", MODEL, 8)]


def test_homes_that_share_sessions_count_them_once(tmp_path):
    homes = [Place(tmp_path / name) for name in ("one", "two")]
    for home in homes:
        home.put(log_of(answer()))
    scan = scan_usage(find_homes([home.path for home in homes]))
    assert (len(scan.responses), scan.duplicates, scan.logs) == (1, 1, 2)


def test_several_processes_find_what_one_finds(home, monkeypatch):
    for number in range(12):
        session = f"{number:08d}-0000-4000-8000-000000000000"
        more = [answer(f"m{n}", f"r{n}", sessionId=session) for n in range(number, number + 4)]
        home.put(log_of(*more) + b'{"usage":\n', session=session)
    alone = home.scan()
    monkeypatch.setattr(costs_usage, "_WORTH_SHARING_BYTES", 0)
    for workers in (2, 3, 40):
        shared = scan_usage(find_homes([home.path]), workers=workers)
        assert as_set(shared.responses) == as_set(alone.responses)
        assert sorted(map(repr, shared.skipped)) == sorted(map(repr, alone.skipped))
        counts = ("logs", "size_bytes", "entries", "synthetic", "pending", "duplicates")
        assert [getattr(shared, name) for name in counts] == [
            getattr(alone, name) for name in counts
        ]


# -- nothing depends on how logs lie --------------------------------------------------------


def split_over(path, data, chance, names):
    """Cut a log into several, at lines' ends, under names that say nothing."""
    home = Place(path)
    lines = data.splitlines(keepends=True)
    for name in names:
        cut = chance.randint(0, len(lines)) if name != names[-1] else len(lines)
        home.put(b"".join(lines[:cut]), f"agent-{name}.jsonl")
        lines = lines[cut:]
    return home


def _is_identified(record):
    ids = (record.get("uuid"), record.get("timestamp"), record.get("requestId"))
    return any((*ids, record.get("message", {}).get("id")))


@given(logs, st.integers(0, 2**32))
def test_splitting_and_repeating_logs_changes_nothing(tmp_path_factory, records, seed):
    chance = random.Random(seed)
    base = tmp_path_factory.mktemp("split")
    # Without an id and a timestamp, a copy cannot be told from another response: both count.
    identified = [record for record in records if _is_identified(record)]
    subagents = [record | {"agentId": record.get("agentId") or "a0"} for record in identified]
    data = log_of(*subagents)
    whole = split_over(base / "whole", data, chance, ["x"]).scan()
    parts = split_over(base / "parts", data, chance, ["q", "b", "z"])
    parts.put(data, "agent-again.jsonl")

    def told(scan):
        # Where the record stands is what may change, and nothing else.
        return Counter(repr(response).partition("log=")[0] for response in scan.responses)

    assert told(parts.scan()) == told(whole)


@given(logs)
def test_reading_ahead_changes_nothing(tmp_path_factory, records):
    """A record that the next one supersedes is dropped early; the fold would have said the same."""
    together = Place(tmp_path_factory.mktemp("together"))
    together.put(log_of(*records))
    apart = Place(tmp_path_factory.mktemp("apart"))
    for number, record in enumerate(records):  # One record a log: nothing to read ahead of.
        log = apart.path / "projects" / f"-{number}" / f"{SESSION}.jsonl"
        log.parent.mkdir()
        log.write_bytes(log_of(record))

    def told(home):
        return Counter(repr(each).partition("log=")[0] for each in home.scan().responses)

    assert told(apart) == told(together)


@given(st.lists(rubble | logs.map(lambda each: log_of(*each).rstrip(b"\n")), max_size=5))
def test_any_bytes_are_scanned(tmp_path_factory, parts):
    home = Place(tmp_path_factory.mktemp("rubble"))
    home.put(b"\n".join([b"{}", *parts]))
    scan = home.scan()
    assert scan.logs == 1
    assert as_set(scan.responses) == as_set(home.scan().responses)
