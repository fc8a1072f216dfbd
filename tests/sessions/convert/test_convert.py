"""A session in another layout and back: the same lines, whatever stood between."""

import contextlib
import gzip
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from itertools import permutations, product
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import turnlog
from records.samples import CLAUDE, FLAT, ORCHESTRATOR, said
from sessions.conversions import (
    DAY,
    HASH,
    ID,
    KEY,
    LAYOUTS,
    NAMELESS,
    PROJECT,
    bytes_under,
    found,
    lines_of,
    named,
    sessions,
    subagents_of,
    write,
)
from strategies import to_line
from turnlog import build
from turnlog.errors import FormatTooNew, InvalidId, NotFound, NotSerialisable, UsageError
from turnlog.formats import Home, find_logs, is_uuid
from turnlog.records.codec import decode
from turnlog.records.damage import Damage
from turnlog.records.dates import iso
from turnlog.records.record_types import Marker
from turnlog.sessions.convert import carry
from turnlog.sessions.convert.convert import convert
from turnlog.sessions.session import Session
from turnlog.storage.reader import read_log

CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS", Path(__file__).parents[4] / "shared" / "corpus" / "claude")
)
DIALECTS = ("keep", "native")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "from"


def prompt(text, at=None, **more):
    fields = said("user", text, sessionId=ID) | more
    return to_line(fields if at is None else fields | {"timestamp": at})


def there_and_back(root, session, *ways, dialect="keep"):
    """Convert *session* along *ways* and back to where it was; give it as it is then."""
    home = session.layout
    for number, layout in enumerate((*ways, home)):
        done = convert(session, root / str(number), layout, dialect=dialect)
        session = found(root / str(number), done.id)
        dialect = "keep"
    return session


# -- nothing is lost ------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("home", "away"), list(permutations(LAYOUTS, 2)))
@given(data=st.data())
def test_there_and_back_gives_the_same_bytes(home, away, dialect, data):
    lines, session_id = data.draw(sessions(home))
    assume(lines)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        log = write(root / "home", home, lines, session_id)
        untouched = bytes_under(root / "home")
        session = found(root / "home", session_id)
        back = there_and_back(root, session, away, dialect=dialect)
        assert lines_of(back) == lines
        assert (back.id, back.layout) == (session_id, home)
        if home != "dated" or session_id == NAMELESS:
            assert back.path.relative_to(root / "1") == log.relative_to(root / "home")
            assert back.path.read_bytes() == log.read_bytes()
        assert bytes_under(root / "home") == untouched


@given(data=st.data())
def test_any_way_home_gives_the_same_bytes(data):
    home = data.draw(st.sampled_from(LAYOUTS))
    lines, session_id = data.draw(sessions(home))
    assume(lines)
    ways = data.draw(st.lists(st.sampled_from(LAYOUTS), max_size=4))
    dialect = data.draw(st.sampled_from(DIALECTS))
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        write(root / "home", home, lines, session_id)
        back = there_and_back(root, found(root / "home", session_id), *ways, dialect=dialect)
        if (*ways, home)[0] == home and dialect == "native":
            back = there_and_back(root / "again", back)  # It was told anew at home.
        else:
            assert lines_of(back) == lines
        assert (back.id, back.layout) == (session_id, home)


@given(data=st.data())
def test_a_converted_log_is_a_log_like_any_other(data):
    home, away = data.draw(st.sampled_from(list(product(LAYOUTS, LAYOUTS))))
    lines, session_id = data.draw(sessions(home))
    assume(lines)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        write(root / "home", home, lines, session_id)
        session = found(root / "home", session_id)
        dialect = data.draw(st.sampled_from(DIALECTS))
        done = convert(session, root / "away", away, dialect=dialect)
        assert done.records == len(lines)
        assert done.damage == 0
        assert done.rewritten <= done.records
        for path in done.paths:
            assert not [item for item in read_log(path) if isinstance(item, Damage)]
            assert path.stat().st_mode & 0o777 == 0o600
        other = found(root / "away", done.id)
        assert (other.id, other.layout) == (done.id, away)
        assert list(other.paths) == done.paths
        if away == "claude" and home != "claude":
            assert is_uuid(done.id)
        if away == "flat" and home != "flat":
            assert decode(done.paths[0].read_bytes().split(b"\n")[0]).type == "system_init"


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
@pytest.mark.parametrize("away", ["dated", "flat"])
def test_real_sessions_come_back_byte_for_byte(away, tmp_path):
    logs = [log for log in find_logs(Home(CORPUS)) if log.kind == "session"]
    logs.sort(key=lambda log: log.path.stat().st_size)
    with_subagents = [log for log in logs if (log.path.parent / log.session_id).is_dir()]
    sample = [*logs[::9], *with_subagents[:15]]
    assert sample
    for number, log in enumerate(sample):
        session = found(CORPUS, log.session_id)
        dialect = DIALECTS[number % 2]
        back = there_and_back(tmp_path / str(number), session, away, dialect=dialect)
        assert lines_of(back) == lines_of(session)
        assert subagents_of(back) == subagents_of(session)
        assert back.path.parent.name == session.path.parent.name
        shutil.rmtree(tmp_path / str(number))


# -- ids and places -------------------------------------------------------------------------


def test_a_session_keeps_its_id_where_it_can(root, tmp_path):
    write(root, "flat", [to_line(FLAT["user"])], "kite_1")
    session = found(root, "kite_1")
    assert convert(session, tmp_path / "1", "dated").id == "kite_1"
    claude = convert(session, tmp_path / "2", "claude")
    assert is_uuid(claude.id)
    assert convert(session, tmp_path / "3", "claude").id == claude.id
    flat = convert(found(tmp_path / "2", claude.id), tmp_path / "4", "flat")
    assert flat.id == "kite_1"


def test_logs_lie_where_their_programs_look_for_them(root, tmp_path):
    write(root, "flat", [to_line(line) for line in FLAT.values()], ID)
    session = found(root)
    assert convert(session, tmp_path / "a", "claude").paths == [
        tmp_path / "a" / "projects" / KEY / f"{ID}.jsonl"
    ]
    assert convert(session, tmp_path / "b", "dated").paths == [
        tmp_path / "b" / "projects" / HASH / "2026-03-04.jsonl"
    ]
    assert convert(session, tmp_path / "c" / "sessions", "flat").paths == [
        tmp_path / "c" / "sessions" / f"{ID}.jsonl"
    ]


def test_records_without_ids_come_home_to_the_log_of_their_day(root, tmp_path):
    lines = [to_line({**fields, "metadata": {}}) for fields in ORCHESTRATOR.values()]
    late = to_line({**ORCHESTRATOR["user"], "metadata": {}, "timestamp": "2026-03-09T00:00:00Z"})
    log = write(root, "dated", [*lines, late], day=DAY)
    session = found(root, NAMELESS)
    claude = convert(session, tmp_path / "1", "claude", project="/srv/elsewhere")
    assert "-srv-elsewhere" in str(claude.paths[0])
    back = convert(found(tmp_path / "1", claude.id), tmp_path / "2", "dated")
    assert back.id == NAMELESS
    assert back.paths == [tmp_path / "2" / "projects" / HASH / f"{DAY}.jsonl"]
    assert back.paths[0].read_bytes() == log.read_bytes()


def test_a_project_may_be_named_by_hand(root, tmp_path):
    write(root, "claude", [prompt("hello")])
    done = convert(found(root), tmp_path / "1", "claude", project="/srv/elsewhere")
    assert done.paths == [tmp_path / "1" / "projects" / "-srv-elsewhere" / f"{ID}.jsonl"]


@pytest.mark.parametrize(
    ("cwd", "key"),
    [
        ("C:\\Users\\ada\\kites", "C--Users-ada-kites"),
        ("kites", "kites"),
        ("/srv/\0kites", "-srv--kites"),
        ("/srv/\ud800", "-srv--"),
    ],
)
def test_a_path_of_another_world_still_makes_a_name(root, tmp_path, cwd, key):
    line = to_line(said("user", "hello", cwd=cwd, sessionId=ID), ascii_only=True)
    write(root, "flat", [line])
    done = convert(found(root), tmp_path / "1", "claude")
    assert done.paths[0].parent.name == key
    assert lines_of(there_and_back(tmp_path / "2", found(root), "claude", "dated")) == [line]


def test_two_sessions_of_one_id_in_one_root_are_two(root, tmp_path):
    write(root, "claude", [prompt("hello")])
    convert(found(root), root, "dated")
    convert(found(root, layout="claude"), root, "flat")
    with pytest.raises(UsageError, match="exists"):
        convert(found(root, layout="flat"), root, "claude")
    back = convert(found(root, layout="dated"), tmp_path / "1", "claude")
    assert lines_of(found(tmp_path / "1", back.id)) == [prompt("hello")]
    assert len({log.layout for log in found(root).logs}) == 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_exists_is_never_written_to(root, tmp_path, layout):
    write(root, "claude", [prompt("hello")])
    target = root if layout == "claude" else tmp_path / "to"
    if layout != "claude":
        convert(found(root), target, layout)
    before = bytes_under(target)
    with pytest.raises(UsageError, match="exists") as error:
        convert(found(root), target, layout)
    assert error.value.hint
    assert bytes_under(target) == before


def test_an_archive_in_the_target_counts_as_existing(root, tmp_path):
    write(root, "claude", [prompt("hello")])
    packed = tmp_path / "to" / "sessions" / "compressed" / f"{ID}.jsonl.gz"
    packed.parent.mkdir(parents=True)
    packed.write_bytes(gzip.compress(prompt("hello") + b"\n"))
    with pytest.raises(UsageError, match="exists"):
        convert(found(root), tmp_path / "to", "flat")


@pytest.mark.parametrize("name", ["../../../gone", "/gone", "a\0b", "..", ""])
@pytest.mark.parametrize("field", ["originalId", "originalProject"])
def test_what_a_head_says_cannot_lead_out_of_the_root(root, tmp_path, field, name):
    head = {"type": "turnlog", "format": 1, "convertedFrom": "claude", "originalId": ID}
    write(root, "flat", [to_line(head | {field: name}), prompt("hello")])
    with pytest.raises(InvalidId):
        convert(found(root), tmp_path / "to" / "deep" / "root", "claude")
    assert not (tmp_path / "to").exists()


def test_nor_can_what_the_head_of_an_agent_says(root, tmp_path):
    head = {"type": "turnlog", "format": 1, "convertedFrom": "flat", "originalId": ID}
    subagent = write(root, "claude", [prompt("hello")]).parent / ID / "subagents" / "agent-a1.jsonl"
    subagent.parent.mkdir(parents=True)
    subagent.write_bytes(to_line(head | {"originalProject": "outside"}) + b"\n")
    done = convert(found(root), tmp_path / "to" / "sessions", "flat")
    assert done.subagents == 1
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["sessions"]


def test_a_link_below_the_root_is_not_followed(root, tmp_path):
    write(root, "claude", [prompt("hello")])
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "sessions").symlink_to(outside)
    with pytest.raises(turnlog.LogError):
        convert(found(root), tmp_path / "to", "flat")
    assert not list(outside.iterdir())


def test_nonsense_is_refused(root, tmp_path):
    write(root, "claude", [prompt("hello")])
    with pytest.raises(UsageError, match="layout"):
        convert(found(root), tmp_path / "to", "round")
    with pytest.raises(UsageError, match="choice"):
        convert(found(root), tmp_path / "to", "flat", dialect="morse")
    with pytest.raises(NotFound):
        convert(Session(ID, []), tmp_path / "to", "flat")
    assert not (tmp_path / "to").exists()


def test_a_log_of_a_later_format_is_not_copied(root, tmp_path):
    write(root, "claude", [b'{"type":"turnlog","format":2,"writer":"turnlog 9"}', prompt("hello")])
    with pytest.raises(FormatTooNew):
        convert(found(root), tmp_path / "to", "flat")


# -- days -----------------------------------------------------------------------------------


def logs_of_days(root):
    """Give what stands in each day's log, but for its head."""
    return {
        path.name.removesuffix(".jsonl"): [
            item.record for item in read_log(path) if not isinstance(item.record, Marker)
        ]
        for path in sorted(root.rglob("????-??-??.jsonl"))
    }


def texts(records):
    return [getattr(record, "text", "") for record in records]


def test_a_session_crosses_midnight(root, tmp_path):
    lines = [
        prompt("before", "2026-03-04T23:59:59.999Z"),
        prompt("after", "2026-03-05T00:00:00.000Z"),
        prompt("elsewhere", "2026-03-06T01:00:00.000+02:00"),
    ]
    write(root, "claude", lines)
    done = convert(found(root), tmp_path / "to", "dated")
    assert [path.stem for path in done.paths] == ["2026-03-04", "2026-03-05"]
    days = logs_of_days(tmp_path / "to")
    assert {day: texts(records) for day, records in days.items()} == {
        "2026-03-04": ["before"],
        "2026-03-05": ["after", "elsewhere"],
    }


def test_clocks_that_step_back_do_not_change_the_order(root, tmp_path):
    lines = [
        to_line(CLAUDE["summary"]),  # No time of its own: it goes with what follows.
        prompt("one", "2026-03-05T12:00:00Z"),
        prompt("two", "2026-03-01T12:00:00Z"),
        to_line(CLAUDE["mode"]),
        prompt("three", "2026-03-07T12:00:00Z"),
        prompt("four", "9999-99-99T99:99:99Z"),
        prompt("five", "2026-03-05T12:00:00Z"),
    ]
    write(root, "claude", lines)
    convert(found(root), tmp_path / "to", "dated")
    days = logs_of_days(tmp_path / "to")
    assert [len(records) for records in days.values()] == [4, 3]
    assert list(days) == ["2026-03-05", "2026-03-07"]
    assert [item.record.raw for item in found(tmp_path / "to").items()][1:] != lines
    assert lines_of(there_and_back(tmp_path / "x", found(root), "dated")) == lines


def test_without_any_time_the_log_s_own_counts(root, tmp_path):
    log = write(root, "claude", [to_line(CLAUDE["mode"]), to_line(CLAUDE["summary"])])
    os.utime(log, (1_700_000_000, 1_700_000_000))
    done = convert(found(root), tmp_path / "to", "dated")
    assert [path.stem for path in done.paths] == ["2023-11-14"]


def test_sessions_that_share_a_day_stay_apart(root, tmp_path):
    ids = [ID, ID.replace("7", "8"), "kite_1"]
    for session_id in ids:
        lines = [to_line(fields) for fields in (*CLAUDE.values(), *FLAT.values())]
        layout = "flat" if session_id == "kite_1" else "claude"
        write(root, layout, [*lines, prompt(f"I am {session_id}")], session_id)
        convert(found(root, session_id), tmp_path / "to", "dated")
    for session_id in ids:
        session = found(root, session_id)
        shared = found(tmp_path / "to", session_id)
        back = convert(shared, tmp_path / session_id, session.layout)
        assert lines_of(found(tmp_path / session_id, back.id)) == lines_of(session)
    heads = [line for line in shared.path.read_bytes().split(b"\n") if b'"format":1' in line]
    assert b"sessionId" not in heads[0]


def test_other_sessions_of_the_day_are_not_touched(root, tmp_path):
    other = [named(to_line(CLAUDE["user"]), "somebody"), b'{"type":"user","content":"nobody"}']
    log = write(tmp_path / "to", "dated", other)
    before = log.read_bytes()
    write(root, "claude", [prompt("hello")])
    convert(found(root), tmp_path / "to", "dated")
    assert log.read_bytes().startswith(before)
    assert lines_of(found(tmp_path / "to", "somebody")) == other[:1]
    assert lines_of(found(tmp_path / "to", NAMELESS)) == other[1:]


# -- kills and failures ---------------------------------------------------------------------


def many_days(count=40):
    start = datetime(2026, 3, 4, 20, tzinfo=UTC)
    return [prompt(f"hour {n}", iso(start + timedelta(hours=n))) for n in range(count)]


@given(data=st.data())
def test_converting_again_after_a_kill_completes_and_repeats_nothing(data):
    lines = many_days(30)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        write(root / "from", "claude", lines)
        session = found(root / "from")
        whole = convert(session, root / "to", "dated")
        wanted = {path: path.read_bytes() for path in whole.paths}
        # A kill leaves the days before one, a part of that one, and none after it.
        cut = data.draw(st.integers(0, len(whole.paths) - 1))
        last = whole.paths[cut]
        # Without its newline alone, the last line would be whole.
        keep = data.draw(st.integers(0, len(wanted[last]) - 2))
        last.write_bytes(wanted[last][:keep])
        for path in whole.paths[cut + 1 :]:
            path.unlink()
        again = convert(session, root / "to", "dated")
        assert again.records == len(lines)
        assert set(again.paths) == set(whole.paths)
        back = convert(found(root / "to"), root / "back", "claude")
        assert lines_of(found(root / "back", back.id)) == lines
        with pytest.raises(UsageError, match="exists"):
            convert(session, root / "to", "dated")


def test_a_beginning_that_somebody_went_on_from_is_a_session(root, tmp_path):
    write(root, "claude", many_days(10))
    done = convert(found(root), tmp_path / "to", "dated")
    last = done.paths[-1]
    *kept, _ = last.read_bytes().split(b"\n")[:-1]
    last.write_bytes(b"".join(line + b"\n" for line in (*kept, prompt("mine"))))
    before = bytes_under(tmp_path / "to")
    with pytest.raises(UsageError, match="exists"):
        convert(found(root), tmp_path / "to", "dated")
    assert bytes_under(tmp_path / "to") == before


CHILD = """
import sys
from pathlib import Path
from turnlog.formats import Home
from turnlog.sessions.session import Session
from turnlog.sessions.convert.convert import convert
print("ready", flush=True)
convert(Session.find((Home(Path(sys.argv[1])),), sys.argv[2]), sys.argv[3], sys.argv[4])
"""


def start(root, session_id, target, layout, **more):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, root, session_id, target, layout],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_kill_leaves_no_session_that_only_looks_whole(root, tmp_path, layout):
    lines = [*many_days(200), *[prompt("x" * 2_000, "2026-03-30T00:00:00Z")] * 2_000]
    home = "flat" if layout == "claude" else "claude"
    log = write(root, home, lines)
    subagent = log.parent / ID / "subagents" / "agent-a1.jsonl"
    subagent.parent.mkdir(parents=True)
    subagent.write_bytes(prompt("I help") + b"\n")
    dice = random.Random(layout)
    interrupted = 0
    for number in range(4):
        target = tmp_path / f"to-{number}"
        with start(root, ID, target, layout) as child:
            child.stdout.readline()
            time.sleep(dice.uniform(0, 0.5) if number else 0)
            child.send_signal(signal.SIGKILL)
        standing = [log for log in find_logs(Home(target)) if log.kind != "subagent"]
        if layout == "dated" or not standing:
            interrupted += 1
            with contextlib.suppress(UsageError):  # It exists: the kill came too late.
                convert(found(root), target, layout)
        back = convert(found(target), tmp_path / f"back-{number}", home)
        there = found(tmp_path / f"back-{number}", back.id)
        assert lines_of(there) == lines
        assert list(subagents_of(there).values()) == [[prompt("I help")]]
    assert interrupted


LIMITED = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
"""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_full_disk_is_told_and_leaves_nothing_half(root, tmp_path, layout):
    write(root, "flat", [prompt("x" * 1_000)] * 60)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED + CHILD, root, ID, tmp_path / "to", layout],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "StorageFull" in done.stderr
    if layout != "dated":
        assert not [path for path in (tmp_path / "to").rglob("*") if path.is_file()]
    assert convert(found(root), tmp_path / "to", layout).records == 60
    back = convert(found(tmp_path / "to"), tmp_path / "back", "flat")
    assert len(lines_of(found(tmp_path / "back", back.id))) == 60


def test_a_record_that_has_no_room_for_a_note_stays_as_it_is(root, tmp_path, monkeypatch):
    long = to_line(FLAT["user"] | {"content": [{"type": "text", "text": "x" * 900}]})
    write(root, "flat", [long])
    monkeypatch.setattr(carry, "LINE_CAP", 1_200)
    done = convert(found(root), tmp_path / "to", "claude")
    assert (done.records, done.rewritten) == (1, 0)
    assert lines_of(found(tmp_path / "to", done.id))[1:] == [long]
    monkeypatch.setattr(carry, "LINE_CAP", len(long) + 10)
    with pytest.raises(NotSerialisable):
        convert(found(root), tmp_path / "days", "dated")


# -- damage and archives --------------------------------------------------------------------


def test_damage_is_counted_and_left_behind(root, tmp_path):
    whole = [prompt("one"), prompt("two"), prompt("three")]
    log = write(root, "claude", [])
    data = whole[0] + whole[1] + b"\n// a comment\n" + b"\0" * 9 + b"\n\n" + whole[2] + b"\n" + b"{"
    log.write_bytes(data)
    done = convert(found(root), tmp_path / "to", "flat")
    assert (done.records, done.damage) == (3, 3)
    back = convert(found(tmp_path / "to"), tmp_path / "back", "claude")
    assert lines_of(found(tmp_path / "back", back.id)) == whole
    assert log.read_bytes() == data


def test_damage_in_a_shared_log_is_counted_too(root, tmp_path):
    log = write(root, "dated", [prompt("one")])
    log.write_bytes(log.read_bytes() + b"what?\n" + prompt("two") + b"\n")
    done = convert(found(root), tmp_path / "to", "claude")
    assert (done.records, done.damage) == (2, 1)


@pytest.mark.parametrize("layout", ["dated", "claude"])
def test_an_archive_is_read_as_its_log(root, tmp_path, layout):
    lines = [to_line(fields) for fields in FLAT.values()]
    packed = root / "sessions" / "compressed" / f"{ID}.jsonl.gz"
    packed.parent.mkdir(parents=True)
    packed.write_bytes(gzip.compress(b"".join(line + b"\n" for line in lines)))
    assert lines_of(there_and_back(tmp_path, found(root), layout)) == lines


# -- subagents ---------------------------------------------------------------------------------


def subagent_line(agent_id, text="I help"):
    return to_line(said("user", text, sessionId=ID, agentId=agent_id, isSidechain=True))


@pytest.fixture
def with_subagents(root):
    """A session with agents in all places where versions of Claude Code put them."""
    main = write(root, "claude", [prompt("hello")])
    for place, agent_id in [
        (f"{ID}/subagents/agent-a1.jsonl", "a1"),
        (f"{ID}/subagents/workflows/run-7/agent-a2.jsonl", "a2"),
        ("agent-a3.jsonl", "a3"),
    ]:
        path = main.parent / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(subagent_line(agent_id) + b"\n" + to_line(FLAT["user"]) + b"\n")
    beside = main.parent / ID / "subagents" / "agent-a1.meta.json"
    beside.write_text('{"agentType":"Plan"}')
    return found(root)


@pytest.mark.parametrize("away", ["dated", "flat"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_agents_go_along_and_come_back_to_their_places(with_subagents, tmp_path, away, dialect):
    done = convert(with_subagents, tmp_path / "to", away, dialect=dialect)
    assert (done.subagents, done.records) == (3, 7)
    there = found(tmp_path / "to")
    assert set(subagents_of(there)) == {
        f"{ID}/subagents/agent-a1.jsonl",
        f"{ID}/subagents/workflows/run-7/agent-a2.jsonl",
        f"{ID}/subagents/agent-a3.jsonl",
    }
    assert {subagent.kind for subagent in there.subagents} == {"Plan", None}
    convert(there, tmp_path / "back", "claude")
    back = found(tmp_path / "back")
    assert subagents_of(back) == subagents_of(with_subagents)
    assert {subagent.kind for subagent in back.subagents} == {"Plan", None}


def test_agents_of_other_dialects_are_told_to_claude_code(root, tmp_path):
    main = write(root, "flat", [to_line(FLAT["user"])], "kite_1")
    subagent = main.parent / "kite_1" / "subagents" / "agent-a1.jsonl"
    subagent.parent.mkdir(parents=True)
    subagent.write_bytes(b"".join(to_line(fields) + b"\n" for fields in FLAT.values()))
    done = convert(found(root, "kite_1"), tmp_path / "to", "claude")
    there = found(tmp_path / "to", done.id)
    (path,) = [log.path for log in there.logs if log.kind == "subagent"]
    told = [item.record for item in read_log(path) if item.record.type in ("user", "assistant")]
    assert len(told) == 4
    assert {(record.agent_id, record.is_sidechain, record.session_id) for record in told} == {
        ("a1", True, done.id)
    }
    back = convert(there, tmp_path / "back", "flat")
    assert subagents_of(found(tmp_path / "back", back.id)) == subagents_of(found(root, "kite_1"))


def test_two_logs_of_one_agent_are_two(with_subagents, tmp_path):
    twin = with_subagents.path.parent / ID / "subagents" / "agent-a3.jsonl"
    twin.write_bytes(subagent_line("a3", "I am the other") + b"\n")
    session = found(with_subagents.logs[0].home.path)
    assert convert(session, tmp_path / "to", "flat").subagents == 4
    lines = sorted(subagents_of(session).values())
    back = there_and_back(tmp_path / "x", session, "flat")
    assert sorted(subagents_of(back).values()) == lines


def test_agents_that_a_killed_conversion_left_are_no_obstacle(with_subagents, tmp_path):
    done = convert(with_subagents, tmp_path / "to", "flat")
    done.paths[0].unlink()
    again = convert(with_subagents, tmp_path / "to", "flat")
    assert (again.records, again.subagents) == (done.records, done.subagents)
    again.paths[0].unlink()
    subagent = tmp_path / "to" / "sessions" / ID / "subagents" / "agent-a1.jsonl"
    subagent.write_bytes(subagent.read_bytes() + subagent_line("a1", "more") + b"\n")
    with pytest.raises(UsageError, match="agent-a1"):
        convert(with_subagents, tmp_path / "to", "flat")
    assert not again.paths[0].exists()


# -- what is added after a conversion -------------------------------------------------------


@pytest.mark.parametrize(("home", "away"), list(permutations(LAYOUTS, 2)))
def test_what_was_added_meanwhile_comes_home_behind_the_rest(root, tmp_path, home, away):
    lines = [named(to_line(fields), ID) for fields in (FLAT["user"], CLAUDE["user"])]
    write(root, home, lines)
    convert(found(root), tmp_path / "away", away)
    with turnlog.open(tmp_path / "away").resume(ID) as writer:
        writer.append(build.user("meanwhile"))
        writer.append(build.assistant([build.call("Bash", {"command": "ls"})], model="m"))
    convert(found(tmp_path / "away"), tmp_path / "home", home)
    back = found(tmp_path / "home")
    first, *_ = [item.record for item in back.items()]
    kept = [line for line in lines_of(back) if line in lines]
    assert len(lines_of(back)) >= len(lines) + 2
    if home == "claude" and away != "claude":
        # What is new was told anew, and with it the log has a head.
        assert isinstance(first, Marker)
        assert "meanwhile" in [getattr(item.record, "text", "") for item in back.items()]
        assert all(item.record.dialect == "claude" for item in list(back.items())[3:])
        again = found(tmp_path / "again", convert(back, tmp_path / "again", away).id)
        assert [record.dialect for record in records_after(again, "meanwhile")]
    else:
        assert kept == lines


def records_after(session, text):
    records = [item.record for item in session.items()]
    places = [n for n, record in enumerate(records) if getattr(record, "text", "") == text]
    return records[places[0] :]


# -- the flat store's caches ----------------------------------------------------------------


def test_a_flat_session_is_in_the_registry(root, tmp_path):
    write(
        root, "claude", [to_line(said("user", "hello", sessionId=ID)), to_line(CLAUDE["assistant"])]
    )
    done = convert(found(root), tmp_path / "to", "flat")
    store = done.paths[0].parent
    meta = msgspec.json.decode((store / f"{ID}.meta.json").read_bytes())
    assert (meta["sessionId"], meta["messageCount"], meta["cwd"]) == (ID, 2, PROJECT)
    before = {path.name: path.read_bytes() for path in store.glob("*.json")}
    assert ID.encode() in before["index.json"]
    turnlog.open(tmp_path / "to").reindex()
    assert {path.name: path.read_bytes() for path in store.glob("*.json")} == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_new_directory_is_on_the_disk_before_its_session_counts(tmp_path, monkeypatch, layout):
    """Every directory that got a new entry is synced, those above the root as well."""
    write(tmp_path / "old", "claude", [prompt("one")])
    synced = set()
    real = os.fsync

    def fsync(fd):
        synced.add(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    done = convert(found(tmp_path / "old"), tmp_path / "new" / "store", layout)
    above = {str(each) for each in done.paths[0].parents if each.is_relative_to(tmp_path)}
    assert above <= synced
