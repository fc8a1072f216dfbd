"""Compaction: smaller logs, and nothing that anybody sees of the session is different."""

from __future__ import annotations

import json
import logging
import os
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keep.compaction.compacting import (
    ID,
    LARGE,
    echo,
    found,
    lines_of,
    result,
    seen,
    spoken_by_subagent,
    task,
    title,
    told,
    types_of,
    u,
    written,
)
from sessions.homes import edit
from sessions.shapes import logs as shapes
from sessions.trees import answer, call, line, record
from storage.logs import add
from turnlog.api.store import open_store
from turnlog.errors import FormatTooNew, LogLocked, NotALog, UsageError
from turnlog.formats import Home, find_logs
from turnlog.keep.compaction.compact import compact
from turnlog.keep.compaction.rules import Rule
from turnlog.keep.compaction.undo import undo
from turnlog.keep.copies.keep import keep
from turnlog.sessions.session import Session
from turnlog.storage.blobs import STUB

CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or Path(__file__).parents[4] / "shared" / "corpus" / "claude"
)


@pytest.fixture(scope="module")
def hushed():
    """Keep warnings about damage out of a failing test's report."""
    logger = logging.getLogger("turnlog.storage")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def shrunk(home, *, blobs=False):
    """Compact the session of *home*, and see that nothing looks different; give what was done."""
    before = seen(found(home))
    done = compact(found(home), write=True, blobs=blobs, blob_bytes=LARGE)
    assert seen(found(home)) == before
    assert not any(log.left_out for log in done.logs)
    return done


def rules_of(done):
    return {each.rule.value: each.lines for log in done.logs for each in log.savings}


# -- duplicates -----------------------------------------------------------------------------


def test_of_equal_lines_the_last_stays(home):
    asked = told(1)
    said = answer("a", asked["uuid"], "m", {"type": "text", "text": "yes"})
    other = answer("b", "a", "m2", {"type": "text", "text": "well"})
    log = written(home, asked, said, other, said, told(3, "b"))
    done = shrunk(home)
    assert rules_of(done) == {"duplicates": 1}
    assert lines_of(log) == [line(each) for each in (asked, other, said, told(3, "b"))]


def test_lines_that_share_a_uuid_and_differ_both_stay(home):
    said = answer("a", u(1), "m", {"type": "text", "text": "yes"})
    more = answer("a", u(1), "m", {"type": "text", "text": "yes indeed"})
    written(home, told(1), said, more, told(2, "a"))
    assert rules_of(shrunk(home)) == {}


def test_a_line_that_an_other_replaced_for_a_while_goes_all_the_same(home):
    said = answer("a", u(1), "m", {"type": "text", "text": "yes"})
    more = answer("a", u(1), "m", {"type": "text", "text": "yes indeed"})
    log = written(home, told(1), said, more, said, told(2, "a"))
    assert rules_of(shrunk(home)) == {"duplicates": 1}
    assert lines_of(log)[1:3] == [line(more), line(said)]


def test_records_without_a_uuid_are_no_duplicates(home):
    snapshot = {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}
    queued = {"type": "queue-operation", "operation": "enqueue", "content": "kite"}
    written(home, told(1), *[snapshot, queued] * 3, told(2, u(1)))
    assert rules_of(shrunk(home)) == {}


def test_prompts_and_edits_that_were_told_twice_are_still_told_twice(home):
    first, again = told(1), told(2, u(1))
    asked, wrote = edit("e", u(2), "/home/ada/orchard/kite.py", structuredPatch=[])
    written(home, first, again, asked, wrote, first, again, asked, wrote, told(3, "e"))
    done = shrunk(home)
    assert found(home).summary.prompts == 5
    assert rules_of(done) == {}


def test_equal_lines_with_other_endings_are_not_equal(home):
    said = line(answer("a", u(1), "m", {"type": "text", "text": "yes"}))
    log = written(home, told(1), said + b"\r\n", said + b"\n", said + b"\r\n", told(2, "a"))
    assert rules_of(shrunk(home)) == {"duplicates": 1}
    assert lines_of(log)[1:3] == [said, said + b"\r"]


# -- states ---------------------------------------------------------------------------------


def test_of_titles_and_modes_the_last_stays_and_the_last_that_says_something(home):
    log = written(
        home,
        told(1),
        title("one"), title("two"), title(""),
        title("plan", "mode", "mode"), title("default", "mode", "mode"),
        title("a", "tag", "tag"), title("", "tag", "tag"),
        told(2, u(1)),
    )  # fmt: skip
    done = shrunk(home)
    assert rules_of(done) == {"states": 2}
    assert types_of(log) == ["user", "ai-title", "ai-title", "mode", "tag", "tag", "user"]
    assert found(home).summary.ai_title == "two"
    assert found(home).summary.tag is None


def test_a_title_of_another_session_in_the_log_stays(home):
    other = title("theirs") | {"sessionId": "88888888-dddd-4ddd-8ddd-888888888888"}
    written(home, told(1), other, title("mine"), told(2, u(1)))
    assert rules_of(shrunk(home)) == {}


def test_a_title_that_tells_when_the_session_began_stays(home):
    early = title("one") | {"timestamp": "2026-10-01T10:00:00.000Z"}
    inside = title("two") | {"timestamp": "2026-11-01T10:00:01.500Z"}
    written(home, told(1), early, inside, title("three"), told(2, u(1)))
    assert rules_of(shrunk(home)) == {"states": 1}


def test_what_is_not_known_to_be_replaced_stays(home):
    links = [{"type": "pr-link", "prNumber": number, "sessionId": ID} for number in (1, 1, 2)]
    odd = [{"type": "kite-state", "sessionId": ID}] * 3
    written(home, told(1), *links, *odd, told(2, u(1)))
    assert rules_of(shrunk(home)) == {}


# -- echoes ---------------------------------------------------------------------------------


def told_by(home, *echoes, subagents, before=()):
    answered = result("r", "a", "c1", toolUseResult={"agentId": "a1"})
    written(home, *subagents, subagent="a1")
    return written(home, told(1), task("a", u(1)), *before, *echoes, answered, told(50, "r"))


def test_progress_that_stands_in_the_agents_own_log_goes(home):
    said = [spoken_by_subagent(number, None, f"kite {number}") for number in (11, 12, 13)]
    said[0]["message"] |= {"content": "plain"}
    echoes = [echo(20 + number, "a", each) for number, each in enumerate(said)]
    echoes[0]["data"]["message"]["message"] = said[0]["message"] | {
        "content": [{"type": "text", "text": "plain"}], "context_management": None,
    }  # fmt: skip
    log = told_by(home, *echoes, subagents=said)
    done = shrunk(home)
    assert rules_of(done) == {"echoes": 2}  # The last one tells whose subagent it is.
    assert types_of(log).count("progress") == 1
    assert found(home).totals.tokens.output == 120


def test_echoes_that_hang_from_one_another_go_together(home):
    said = [spoken_by_subagent(number, None, f"kite {number}") for number in (11, 12, 13)]
    chain = [echo(20, "a", said[0]), echo(21, u(20), said[1])]
    told_by(home, *chain, echo(22, "a", said[2]), subagents=said)
    assert rules_of(shrunk(home)) == {"echoes": 2}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda said: said["message"].update(content=[{"type": "text", "text": "other"}]),
        lambda said: said["message"].update(usage={"input_tokens": 3, "output_tokens": 41}),
        lambda said: said.update(uuid=u(99)),
        lambda said: said.update(timestamp="2026-11-01T10:00:59.000Z"),
        lambda said: said["message"].update(id="m99"),
    ],
)
def test_an_echo_of_something_else_stays(home, spoil):
    said = [spoken_by_subagent(number, None, f"kite {number}") for number in (11, 12)]
    echoes = [echo(20, "a", said[0]), echo(21, "a", said[1])]
    own = json.loads(json.dumps(said))
    spoil(own[0])
    told_by(home, *echoes, subagents=own)
    assert rules_of(shrunk(home)) == {}


@pytest.mark.parametrize(
    "named",
    [
        lambda name: record(u(30), name, "system", content="a note"),
        lambda name: {"type": "summary", "summary": "kites", "leafUuid": name},
        lambda name: record(u(30), None, "system", logicalParentUuid=name),
        lambda name: record(u(30), "a", "system", kite={"anchor": [name]}),
    ],
)
def test_an_echo_that_somebody_names_stays(home, named):
    said = [spoken_by_subagent(number, None, f"kite {number}") for number in (11, 12)]
    echoes = [echo(20, "a", said[0]), named(u(20)), echo(21, "a", said[1])]
    told_by(home, *echoes, subagents=said)
    assert rules_of(shrunk(home)) == {}


@pytest.mark.parametrize("more", [{"resume": "x"}, {"prompt": "kite"}, {"normalizedMessages": [1]}])
def test_an_echo_that_says_more_stays(home, more):
    said = [spoken_by_subagent(number, None, f"kite {number}") for number in (11, 12)]
    told_by(home, echo(20, "a", said[0], **more), echo(21, "a", said[1]), subagents=said)
    assert rules_of(shrunk(home)) == {}


@pytest.mark.parametrize(
    "more", [{"gitBranch": "kites"}, {"version": "2.1.9"}, {"timestamp": "2026-11-02T10:00:00Z"}]
)
def test_an_echo_that_was_the_last_to_tell_something_stays(home, more):
    said = [spoken_by_subagent(number, None, f"kite {number}") for number in (11, 12)]
    told_by(home, echo(20, "a", said[0]) | more, echo(21, "a", said[1]), subagents=said)
    assert rules_of(shrunk(home)) == {}


def test_an_echo_of_an_agent_without_a_log_stays(home):
    said = [spoken_by_subagent(number, None, f"kite {number}") for number in (11, 12)]
    written(home, told(1), task("a", u(1)), *(echo(20, "a", each) for each in said), told(2, "a"))
    assert rules_of(shrunk(home)) == {}


def test_progress_of_another_kind_stays(home):
    ticks = [record(u(20 + n), "a", "progress", data={"type": "bash_progress"}) for n in range(4)]
    written(home, told(1), task("a", u(1)), *ticks, told(2, "a"))
    assert rules_of(shrunk(home)) == {}


# -- blobs ----------------------------------------------------------------------------------


def long_session(home, **more):
    asked = answer("a", u(1), "m", call("c1", "Bash", command="fly"))
    text = "kite " * 4000
    return written(home, told(1), asked, result("r", "a", "c1", text, **more), told(2, "r"))


def test_a_long_result_moves_and_is_followed(home):
    log = long_session(home)
    moved = lines_of(log)[2]
    done = shrunk(home, blobs=True)
    assert rules_of(done) == {"blobs": 1}
    assert lines_of(log)[2].startswith(STUB)
    assert len(log.read_bytes()) < 2000
    (blob,) = (log.parent / ID / "blobs").iterdir()
    assert stat.S_IMODE(blob.stat().st_mode) == 0o600
    assert stat.S_IMODE(blob.parent.stat().st_mode) == 0o700
    assert done.saved_bytes == len(moved) - len(lines_of(log)[2]) - blob.stat().st_size
    assert found(home).tree.by_uuid["r"].results == ("c1",)


def test_only_where_nobody_else_reads_lines_move_by_default(home, tmp_path, monkeypatch):
    log = long_session(home)
    assert compact(found(home), blob_bytes=LARGE).blobs is False
    assert not compact(found(home), write=True, blob_bytes=LARGE).written
    assert b"kite" in log.read_bytes()
    monkeypatch.setenv("TURNLOG_HOME", str(home))
    assert compact(found(home), write=True, blob_bytes=LARGE).written
    assert not compact(found(home), blobs=False, blob_bytes=LARGE).blobs


def test_the_results_of_agents_move_beside_their_own_logs(home):
    asked = answer("b", u(9), "m9", call("c9")) | {"agentId": "a1", "isSidechain": True}
    long = result("s", "b", "c9", "kite " * 4000) | {"agentId": "a1", "isSidechain": True}
    subagent = written(home, told(9), asked, long, told(10, "s"), subagent="a1")
    written(home, told(1), told(2, u(1)))
    assert rules_of(shrunk(home, blobs=True)) == {"blobs": 1}
    assert len(list((subagent.parent / "agent-a1" / "blobs").iterdir())) == 1
    logs = list(find_logs(Home(home)))
    assert len(logs) == 2


def test_a_kept_copy_takes_its_blobs_along(home, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    long_session(home)
    before = seen(found(home))
    shrunk(home, blobs=True)
    keep((Home(home),))
    shutil.rmtree(home / "projects")
    assert [log.is_kept for log in found(home).logs] == [True]
    assert seen(found(home)) == before


@pytest.mark.parametrize(
    "more",
    [
        {"toolUseResult": {"usage": {"output_tokens": 3}}},
        {"toolUseResult": {"plan": "fly kites", "filePath": "/p/kite.md"}},
        {"slug": "brave-kite"},
    ],
)
def test_what_is_searched_for_in_the_log_itself_does_not_move(home, more):
    long_session(home, **more)
    assert rules_of(shrunk(home, blobs=True)) == {}


def test_only_results_move_and_never_the_first_or_last_record(home):
    long = "kite " * 4000
    written(
        home,
        result("q", None, "c0", long),
        told(1, message={"role": "user", "content": long}),
        answer("a", u(1), "m", {"type": "text", "text": long}),
        result("r", "a", "c1", long),
    )
    assert rules_of(shrunk(home, blobs=True)) == {}


def test_what_is_hardly_smaller_packed_does_not_move(home):
    noise = os.urandom(3000).hex()
    asked = answer("a", u(1), "m", call("c1"))
    written(home, told(1), asked, result("r", "a", "c1", noise), told(2, "r"))
    assert rules_of(shrunk(home, blobs=True)) == {}


def test_the_same_result_twice_is_one_blob(home):
    text = "kite " * 4000
    asked = answer("a", u(1), "m", call("c1"))
    one = line(result("r", "a", "c1", text)) + b"\n"
    log = written(home, told(1), asked, one, one, told(2, "r"))
    assert rules_of(shrunk(home, blobs=True)) == {"duplicates": 1, "blobs": 1}
    assert not compact(found(home), write=True, blobs=True, blob_bytes=LARGE).written
    assert len(list((log.parent / ID / "blobs").iterdir())) == 1


# -- how it is done -------------------------------------------------------------------------


def duplicated(home):
    said = answer("a", u(1), "m", {"type": "text", "text": "yes"})
    return written(home, told(1), said, said, told(2, "a"))


def beside(log):
    return sorted(path.name.partition("-2")[0] for path in log.parent.iterdir() if path != log)


def test_without_being_told_to_it_only_says_what_it_would_do(home):
    log = duplicated(home)
    before = log.read_bytes(), log.stat()
    done = compact(found(home))
    assert (done.needed, done.written, rules_of(done)) == (True, False, {"duplicates": 1})
    assert done.saved_bytes > 0
    assert (log.read_bytes(), log.stat()) == before
    assert beside(log) == []


def test_the_log_as_it_was_stays_beside_it(home):
    log = duplicated(home)
    log.chmod(0o640)
    before = log.read_bytes()
    done = compact(found(home), write=True)
    original = Path(done.logs[0].original)
    assert original.read_bytes() == before
    assert stat.S_IMODE(original.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.stat().st_mode) == 0o640
    assert beside(log) == [f"{ID}.jsonl.original"]
    assert len(before) - log.stat().st_size == done.saved_bytes
    assert [each.path for each in find_logs(Home(home))] == [log]


def test_a_log_keeps_the_time_at_which_it_changed(home):
    log = duplicated(home)
    os.utime(log, ns=(1, 1_700_000_000_123_456_789))
    compact(found(home), write=True)
    assert log.stat().st_mtime_ns == 1_700_000_000_123_456_789


def test_with_nothing_to_gain_nothing_is_written(home):
    log = written(home, told(1), told(2, u(1)))
    before = log.stat()
    done = compact(found(home), write=True, blobs=True)
    assert (done.needed, done.written, done.logs[0].original) == (False, False, None)
    assert log.stat() == before
    assert beside(log) == []


def test_a_second_compaction_finds_nothing_more(home):
    duplicated(home)
    assert shrunk(home).written
    assert not compact(found(home), write=True).written


def test_damage_stays_where_it_is(home):
    said = line(answer("a", u(1), "m", {"type": "text", "text": "yes"}))
    glued = said + said
    junk = b"junk\n" + b"\0" * 9 + b"\n\n" + glued + b"\n" + b"x" * 20 + said + b"\n"
    log = written(home, told(1), said + b"\n", junk, said + b"\n", told(2, "a"), b'{"torn')
    before = log.read_bytes()
    done = shrunk(home)
    assert rules_of(done) == {"duplicates": 1}
    assert log.read_bytes() == before.replace(said + b"\n", b"", 1)


def test_a_line_over_the_cap_stays_where_it_is(home):
    said = line(answer("a", u(1), "m", {"type": "text", "text": "yes"})) + b"\n"
    log = written(home, told(1), said, b"x" * 5_000_000 + b"\n", said, told(2, "a"))
    before = log.read_bytes()
    done = compact(found(home), write=True, cap=1000)
    assert rules_of(done) == {"duplicates": 1}
    assert log.read_bytes() == before.replace(said, b"", 1)


@pytest.mark.parametrize("torn", [b"", b'{"type":"us', line(told(3, u(2)))])
def test_a_last_line_without_its_newline_stays_as_it_is(home, torn):
    said = line(answer("a", u(1), "m", {"type": "text", "text": "yes"})) + b"\n"
    log = written(home, told(1), said, said, told(2, "a"), torn)
    shrunk(home)
    assert log.read_bytes().endswith(line(told(2, "a")) + b"\n" + torn)


def test_a_session_that_turnlog_writes_is_left_alone(tmp_path):
    store = open_store(tmp_path)
    with store.create(project="/home/ada/orchard") as writer:
        writer.append({"type": "user", "message": {"role": "user", "content": "kite"}})
        for _ in range(3):
            writer.update(title="kites")
        with pytest.raises(LogLocked, match="is running") as refusal:
            compact(store.session(writer.session_id), write=True)
        assert refusal.value.hint
        assert compact(store.session(writer.session_id)).needed
    assert compact(store.session(writer.session_id), write=True).written
    with store.resume(writer.session_id) as again:
        again.append({"type": "user", "message": {"role": "user", "content": "more"}})
    assert store.session(writer.session_id).summary.prompts == 2


def test_a_session_that_claude_code_runs_is_left_alone(home):
    log = duplicated(home)
    before = log.read_bytes()
    pids = home / "sessions"
    pids.mkdir()
    (pids / f"{os.getpid()}.json").write_text(
        json.dumps({"pid": os.getpid(), "sessionId": ID, "status": "busy"})
    )
    with pytest.raises(LogLocked) as refusal:
        compact(found(home), write=True)
    assert refusal.value.holder == os.getpid()
    assert log.read_bytes() == before


def test_archives_and_shared_logs_and_newer_formats_are_left_alone(home, tmp_path):
    log = duplicated(home)
    zipped = log.with_name(log.name + ".gz")
    import gzip

    zipped.write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    with pytest.raises(NotALog, match="archives are never changed"):
        compact(found(home))
    zipped.unlink()
    days = home / "projects" / ("a" * 16)
    days.mkdir()
    (days / "2026-11-01.jsonl").write_bytes(line(told(1) | {"sessionId": ID}) + b"\n")
    with pytest.raises(UsageError, match="shares the logs of days"):
        compact(found(home), write=True)
    shutil.rmtree(days)
    log = written(home, b'{"type":"turnlog","format":99}\n', told(1), title("a"), title("a"))
    with pytest.raises(FormatTooNew):
        compact(found(home), write=True)


def test_a_flat_store_says_how_many_messages_there_are_now(tmp_path):
    store = open_store(tmp_path)
    with store.create(project="/home/ada/orchard", layout="flat") as writer:
        for number in range(3):
            said = answer(f"a{number}", None, f"m{number}")
            writer.append({key: said[key] for key in said if key != "sessionId"})
    session = store.session(writer.session_id)
    lines = lines_of(session.path)
    again = next(each for each in lines if b'"a0"' in each)
    at = lines.index(again)
    session.path.write_bytes(b"\n".join([*lines[: at + 1], again, *lines[at + 1 :]]) + b"\n")
    store.reindex()
    meta = session.path.with_name(f"{session.id}.meta.json")
    assert json.loads(meta.read_bytes())["messageCount"] == 4
    done = compact(store.session(session.id), write=True)
    assert rules_of(done) == {"duplicates": 1}
    assert json.loads(meta.read_bytes())["messageCount"] == 3


# -- whatever the session -------------------------------------------------------------------


@st.composite
def sessions(draw):
    """The lines of a main log and of a subagent's, with all that there is to take out of them."""
    records = draw(shapes)
    said = [spoken_by_subagent(number, None, f"kite {number}") for number in range(900, 904)]
    kinds = st.sampled_from(["again", "title", "mode", "echo", "long", "damage", "sum", "cwd"])
    for number, kind in enumerate(draw(st.lists(kinds, max_size=14))):
        at = draw(st.integers(0, len(records)))
        above = draw(st.sampled_from([None, *(f"u{each}" for each in range(12))]))
        match kind:
            case "again":
                more = [draw(st.sampled_from(records))] if records else []
            case "title":
                more = [title(draw(st.sampled_from(["", "one", "two"])))]
            case "mode":
                more = [title(draw(st.sampled_from(["plan", "default"])), "mode", "mode")]
            case "echo":
                more = [echo(800 + number, above, draw(st.sampled_from(said)))]
            case "long":
                more = [result(f"u{draw(st.integers(0, 30))}", above, "c3", "kite " * 2000)]
            case "damage":
                more = [draw(st.sampled_from([b"junk\n", b"\n", b"\0\0\n", b'{"a":1}{"b":2}\n']))]
            case "sum":
                more = [{"type": "summary", "summary": "kites", "leafUuid": above}]
            case "cwd":
                more = [record(f"u{draw(st.integers(0, 30))}", above, cwd=f"/{number}")]
        records[at:at] = more
    torn = draw(st.sampled_from([b"", b'{"type":"us', line(record("last"))]))
    return [*records, torn], said[: draw(st.integers(0, 4))]


def test_a_log_whose_views_would_change_stays_as_it_was(home):
    inside = record("b", "a", isSidechain=True)
    log = written(home, record("a"), inside, record("a", "a", isSidechain=True), inside)
    before, views = log.read_bytes(), seen(found(home))
    done = compact(found(home), write=True)
    (left,) = done.logs[0].left_out
    assert (left.rule, left.views) == (Rule.DUPLICATES, ["subagents"])
    assert log.read_bytes() == before
    assert seen(found(home)) == views


@given(lines=sessions())
def test_every_view_of_any_session_is_the_same_and_comes_back(tmp_path_factory, hushed, lines):
    home = tmp_path_factory.mktemp("any")
    main, subagent = lines
    log = written(home, *main)
    if subagent:
        written(home, *subagent, subagent="a1")
    if not log.stat().st_size:
        return
    bytes_before, before = log.read_bytes(), seen(found(home))
    planned = compact(found(home), blobs=True, blob_bytes=LARGE)
    done = compact(found(home), write=True, blobs=True, blob_bytes=LARGE)
    assert seen(found(home)) == before
    left = [each for log in done.logs for each in log.left_out]
    if left:  # A duplicate decides where an inline sidechain begins, which a plan cannot know.
        assert {view for each in left for view in each.views} == {"subagents"}
    else:
        assert rules_of(done) == rules_of(planned)
        assert done.written == planned.needed
    if not done.written:
        assert log.read_bytes() == bytes_before
    add(log, b"" if log.read_bytes()[-1:] == b"\n" else b"\n", line(told(3)) + b"\n")
    undo(found(home), write=True)
    assert log.read_bytes().startswith(bytes_before)
    assert log.read_bytes().endswith(line(told(3)) + b"\n")


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_every_view_of_real_sessions_is_the_same(tmp_path, hushed):
    home = tmp_path / "home"
    shutil.copytree(CORPUS / "projects", home / "projects", copy_function=shutil.copyfile)
    for directory, _, _ in os.walk(home):
        os.chmod(directory, 0o700)
    logs = [log for log in find_logs(Home(home)) if log.kind == "session"]
    rules: set[Rule] = set()
    for log in sorted(logs, key=lambda each: each.path.stat().st_size)[-60::4]:
        session = Session.find((Home(home),), log.session_id)
        before = seen(session)
        done = compact(session, write=True, blobs=True, blob_bytes=16 * 1024)
        assert seen(Session.find((Home(home),), log.session_id)) == before
        assert not any(each.left_out for each in done.logs)
        rules |= {each.rule for one in done.logs for each in one.savings}
    assert {Rule.STATES, Rule.BLOBS} <= rules
