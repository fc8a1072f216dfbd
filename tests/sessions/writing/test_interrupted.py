"""Uuids of any type, and calls in the middle of a call: neither breaks the thread."""

from __future__ import annotations

import signal
import uuid

import pytest

import turnlog
from turnlog.errors import LogLocked, UsageError
from turnlog.sessions.writing import build

LAYOUTS = ["claude", "dated", "flat"]
KNOWN = uuid.UUID("0b29ae83-1111-4111-8111-111111111111")


@pytest.fixture
def store(tmp_path):
    return turnlog.open(tmp_path / "root")


@pytest.fixture
def session(store):
    return store.create(project="/srv/mill", session_id="s-1")


@pytest.fixture
def alarms():
    """Call a handler every half a millisecond, wherever the program is."""
    before = signal.getsignal(signal.SIGALRM)

    def start(handler):
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)

    yield start
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def said(store):
    return [item.record for item in store.session("s-1").items() if item.record.text]


# -- uuids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_uuid_object_is_written_as_text_and_once(store, layout, buffered):
    writer = store.create(project="/srv/mill", layout=layout, session_id="s-1")
    with turnlog.BufferedSession(writer) if buffered else writer as session:
        for _ in range(2):
            assert session.append(build.user("one") | {"uuid": KNOWN}) == str(KNOWN)
        assert session.append(build.user("one") | {"uuid": str(KNOWN)}) == str(KNOWN)
        session.append_many([build.user("one") | {"uuid": KNOWN}] * 2)
    assert [record.uuid for record in said(store)] == [str(KNOWN)]


def test_a_parent_may_be_a_uuid_object(store, session):
    with session:
        session.append(build.user("one") | {"uuid": KNOWN})
        session.append(build.user("two"))
        branch = session.append(build.user("not two") | {"parentUuid": KNOWN})
    assert store.session("s-1").tree.by_uuid[branch].parent_uuid == str(KNOWN)


@pytest.mark.parametrize("key", ["uuid", "parentUuid", "logicalParentUuid", "leafUuid"])
@pytest.mark.parametrize("value", [5, "", True, {}, ["x"], b"x", 1.5])
@pytest.mark.parametrize("buffered", [False, True])
def test_what_is_no_uuid_is_refused(store, session, key, value, buffered):
    with turnlog.BufferedSession(session) if buffered else session as writer:
        first = writer.append(build.user("one"))
        with pytest.raises(UsageError, match=key) as told:
            writer.append(build.user("bad") | {key: value})
        assert told.value.hint
        second = writer.append(build.user("two"))
    nodes = store.session("s-1").tree.by_uuid
    assert nodes[second].parent_uuid == first
    assert [record.text for record in said(store)] == ["one", "two"]


def test_a_uuid_that_is_none_is_one_that_was_left_out(store, session):
    with session:
        assert session.append(build.user("one") | {"uuid": None})
        session.append(build.user("two") | {"uuid": None, "parentUuid": None})
    assert [record.parent_uuid for record in said(store)] == [None, None]


# -- calls inside a call --------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_appends_by_a_signal_handler_do_not_fork_the_tree(store, layout, alarms):
    session = store.create(project="/srv/mill", layout=layout, session_id="s-1", durability="flush")
    inner, refused = [], []

    def append(*_):
        try:
            inner.append(session.append(build.user("inner")))
        except LogLocked as error:
            refused.append(error)

    alarms(append)
    outer = []
    while len(outer) < 300 or not (inner and refused):
        outer.append(session.append(build.user("outer")))
    signal.setitimer(signal.ITIMER_REAL, 0)
    session.close()
    records = said(store)
    assert {record.uuid for record in records} == {*outer, *inner}
    assert len(records) == len(outer) + len(inner)
    parents = [record.parent_uuid for record in records]
    if layout == "claude":
        assert parents == [None, *(record.uuid for record in records[:-1])]
    assert refused[0].hint


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("buffered", [False, True])
def test_an_exception_from_a_signal_handler_does_not_fork_the_tree(store, alarms, buffered):
    writer = store.create(project="/srv/mill", session_id="s-1", durability="flush")
    session = turnlog.BufferedSession(writer, max_records=3) if buffered else writer

    class Interrupt(Exception):
        pass

    armed = []

    def interrupt(*_):
        if armed:
            armed.clear()
            raise Interrupt

    acknowledged, interrupts = [], 0
    alarms(interrupt)
    while interrupts < 200:
        try:
            armed.append(True)
            uuid = session.append(build.user("Hello"))
            armed.clear()
            acknowledged.append(uuid)
        except Interrupt:
            interrupts += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    session.close()
    records = said(store)
    uuids = [record.uuid for record in records]
    assert [record.parent_uuid for record in records] == [None, *uuids[:-1]]
    assert len(uuids) == len(set(uuids))
    assert set(acknowledged) <= set(uuids)


def test_whatever_else_interrupts_a_call_is_refused(session, monkeypatch):
    """A destructor may run anywhere, too; here it does so while the record is placed."""
    calls = {
        "append": lambda: session.append(build.user("inner")),
        "update": lambda: session.update(title="inner"),
        "totals": lambda: session.totals,
        "metadata": lambda: session.metadata,
        "mark": lambda: session.mark("inner"),
        "close": session.close,
    }
    refused = []

    class Watched(dict):
        def __iter__(self):
            for name, call in calls.items():
                try:
                    call()
                except LogLocked:
                    refused.append(name)
            return super().__iter__()

        def keys(self):
            iter(self)
            return super().keys()

    with session:
        session.append(Watched(build.user("outer")))
        assert refused[: len(calls)] == list(calls)
        before = session.tip
        session.append(build.user("after"))
    lines = session.path.read_bytes()
    assert b"inner" not in lines
    assert lines.count(b'"opened"') == 1
    assert f'"parentUuid":"{before}"'.encode() in lines


def test_an_interrupt_while_others_records_are_read_loses_none_of_them(store, monkeypatch):
    with store.create(project="/srv/mill", session_id="s-1") as session:
        session.append(build.user("mine"))
        with store.resume("s-1") as other:
            last = other.append(build.user("another's"))

        def interrupt(record):
            if record.uuid == last:
                monkeypatch.undo()
                raise KeyboardInterrupt

        monkeypatch.setattr(session, "_see", interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.append(build.user("interrupted"))
        session.append(build.user("mine again"))
    assert said(store)[-1].parent_uuid == last
