"""Eight sessions written by eight processes, three more by two each, while others look and fork.

Nothing is lost, a shared session stays one thread, and nobody ever sees an exception, damage, or
half a state.
"""

import json
import os
import random
import time
import traceback
import warnings
from collections import Counter
from functools import partial

import pytest

import turnlog
from turnlog import build
from turnlog.sessions.writing.fork import fork
from turnlog.storage.reader import Placed, Reader

LAYOUTS = ("claude", "dated", "flat")
MOST_FORKS = 12

OWN = {f"own{number}": LAYOUTS[number % 3] for number in range(8)}
SHARED = {f"shared-{layout}": layout for layout in LAYOUTS}
LAYOUT = OWN | SHARED
# A shared session has a first record of its own, then those of two processes.
WRITERS = {name: (name,) for name in OWN}
WRITERS |= {name: (name, f"{name}.a", f"{name}.b") for name in SHARED}


class Ring:
    """The store, and what its writers know: which records were acknowledged."""

    def __init__(self, root, seconds):
        self.seconds = seconds
        self.root = root / "store"
        self.project = root / "project"
        self.project.mkdir()
        self.acks = os.open(root / "acks", os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self.begin()

    def begin(self):
        self.until = time.monotonic() + self.seconds

    def is_on(self):
        return time.monotonic() < self.until

    def acknowledge(self, writer, number):
        os.write(self.acks, f"{writer} {number}\n".encode())

    def acknowledged(self):
        """How many records of each writer were acknowledged by now; they count from 0."""
        told = os.pread(self.acks, os.fstat(self.acks).st_size, 0).decode()
        return {name: int(last) + 1 for name, last in map(str.split, told.splitlines())}


def record(writer, number):
    words = f"{writer} {number}"
    made = build.assistant(words, model="m") if number % 2 else build.user(words)
    return made | {"uuid": f"{writer}/{number}"}


# -- what the processes do ------------------------------------------------------------------


def write(ring, name, writer, session):
    """Append one by one and in batches; sometimes leave and come back; go while others look."""
    store = turnlog.open(ring.root)
    rng = random.Random(writer)
    number = 0
    leave_at = ring.until - rng.random() * ring.seconds / 4
    while time.monotonic() < leave_at or number < 6:
        count = rng.choice((1, 1, 1, 3))
        session.append_many(record(writer, n) for n in range(number, number + count))
        number += count
        ring.acknowledge(writer, number - 1)
        if rng.random() < 0.05:
            session.close()
            session = store.resume(name)
        time.sleep(rng.random() * 0.01)
    session.close()


def write_own(ring, name):
    store = turnlog.open(ring.root)
    write(ring, name, name, store.create(project=ring.project, layout=OWN[name], session_id=name))


def write_shared(ring, name, writer):
    write(ring, name, writer, turnlog.open(ring.root).resume(name))


def list_all(ring):
    store = turnlog.open(ring.root)
    rounds = 0
    while ring.is_on() or not rounds:
        known = ring.acknowledged()
        rows = {row.id: row for row in store.sessions()}
        for name, writers in WRITERS.items():
            if any(writer in known for writer in writers):
                assert name in rows, f"{name} is not listed, and had records before"
                row = rows[name]
                assert row.title.endswith(" 0"), row
                assert (row.layout, row.project) == (LAYOUT[name], str(ring.project))
        times = [row.last_active_at for row in rows.values()]
        assert times == sorted(times, reverse=True)
        assert store.crashed() == []
        check_registry(ring)
        rounds += 1


def show_any(ring):
    store = turnlog.open(ring.root)
    rng = random.Random("show")
    shown = 0
    while ring.is_on() or shown < 2:
        known = ring.acknowledged()
        name = rng.choice(list(WRITERS))
        if any(writer in known for writer in WRITERS[name]):
            session = store.session(name)
            check_said(said(session), WRITERS[name], known)
            check_thread(session)
            check_bytes(session)
            assert not session.metadata.crashed
            shown += 1


def fork_any(ring):
    store = turnlog.open(ring.root)
    rng = random.Random("fork")
    for number in range(MOST_FORKS):
        if not ring.is_on():
            break
        known = ring.acknowledged()
        name = rng.choice(list(WRITERS))
        if not any(writer in known for writer in WRITERS[name]):
            continue
        layout = rng.choice(LAYOUTS)
        with store.create(project=ring.project, layout=layout, session_id=f"fork{number}") as new:
            fork(store.session(name), new)
        forked = store.session(f"fork{number}")
        check_said(said(forked), WRITERS[name], known)
        check_fork(forked, name)
        time.sleep(ring.seconds / MOST_FORKS / 2)


def look_at_forks(ring):
    """What a fork looks like from outside while it is being written."""
    store = turnlog.open(ring.root)
    while ring.is_on():
        for row in store.sessions():
            if row.id.startswith("fork"):
                session = store.session(row.id)
                if session.tree.nodes:
                    check_fork(session)
        time.sleep(0.01)


# -- what must hold -------------------------------------------------------------------------


def said(session):
    """What was said, in order, as it is read back along the main thread."""
    return [found.text for _, found in session.records(spoken(session.thread))]


def spoken(nodes):
    return [node for node in nodes if node.is_spoken]


def check_said(words, writers, known):
    """Every writer's records are there, in order and once, as far as they were acknowledged."""
    counts = Counter(text.rpartition(" ")[0] for text in words)
    assert set(counts) <= set(writers)
    for writer in writers:
        numbers = [int(text.rpartition(" ")[2]) for text in words if text.startswith(f"{writer} ")]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= known.get(writer, 0), f"{writer}: acknowledged and not there"


def check_thread(session):
    """All that was said is one thread."""
    tree = session.tree
    assert (tree.gaps, tree.replaced, tree.branchings) == ([], [], [])
    assert len(tree.tips) == 1
    assert spoken(session.thread) == spoken(tree.nodes)


def check_bytes(session):
    for path in session.paths:
        with Reader(path) as reader:
            assert all(isinstance(item, Placed) for item in reader)


def check_fork(session, source=None):
    check_thread(session)
    for _, found in session.records(spoken(session.tree.nodes)):
        origin = found.forked_from
        assert source in (None, origin["sessionId"])
        assert origin["messageUuid"] == found.text.replace(" ", "/")


def check_registry(ring):
    """The registry of the flat sessions is whole and sorted at every moment."""
    index = ring.root / "sessions" / "index.json"
    if not index.exists():
        return {}
    rows = json.loads(index.read_bytes())["sessions"]
    times = [row["lastActiveAt"] for row in rows]
    assert times == sorted(times, reverse=True)
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


# -- the test -------------------------------------------------------------------------------


def start(ring, number, work):
    """Run *work* in a process of its own; what goes wrong there is written down."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Nobody else's threads matter here.
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        (ring.root.parent / f"failed{number}").write_text(traceback.format_exc())
    finally:
        os._exit(status)


@pytest.fixture(params=[0.7, pytest.param(6, marks=pytest.mark.slow)])
def ring(tmp_path, request):
    made = Ring(tmp_path, request.param)
    yield made
    os.close(made.acks)


def together(ring, *works):
    """Run all of *works*, each in a process of its own, and wait for them."""
    ring.begin()
    for child in [start(ring, number, work) for number, work in enumerate(works)]:
        os.waitpid(child, 0)
    failures = [path.read_text() for path in sorted(ring.root.parent.glob("failed*"))]
    assert not failures, "\n\n".join(failures)


def test_many_processes_write_list_show_and_fork(ring):
    store = turnlog.open(ring.root)
    for name, layout in SHARED.items():
        with store.create(project=ring.project, layout=layout, session_id=name) as session:
            session.append(record(name, 0))
        ring.acknowledge(name, 0)
    works = [partial(write_own, ring, name) for name in OWN]
    works += [
        partial(write_shared, ring, name, each) for name in SHARED for each in WRITERS[name][1:]
    ]
    works += [partial(work, ring) for work in (list_all, show_any, fork_any, look_at_forks)]
    together(ring, *works)
    check_everything(ring, store)


def check_everything(ring, store):
    known = ring.acknowledged()
    assert set(known) == {writer for writers in WRITERS.values() for writer in writers}
    assert min(count for name, count in known.items() if name not in SHARED) > 5
    rows = Counter(row.id for row in store.sessions())
    assert set(rows.values()) == {1}
    assert set(WRITERS) <= set(rows)
    for name, writers in WRITERS.items():
        session = store.session(name)
        check_said(said(session), writers, known)
        check_thread(session)
        check_bytes(session)
        assert session.metadata.ended_at is not None
    assert store.crashed() == []
    kept = check_registry(ring)
    store.reindex()
    assert check_registry(ring) == kept


# -- one registry for all -------------------------------------------------------------------


def begin_many(ring, name):
    """Create, label and end one small session after the other."""
    store = turnlog.open(ring.root)
    number = 0
    while ring.is_on() and number < 25:
        session_id = f"{name}-{number}"
        with store.create(project=ring.project, layout="flat", session_id=session_id) as session:
            session.append_many(record(session_id, each) for each in range(number % 3 + 1))
            session.update(title=f"Session {session_id}")
        ring.acknowledge(session_id, number % 3)
        assert session_id in check_registry(ring)
        number += 1


def watch_registry(ring):
    """Whatever was in the registry once stays there, with no fewer messages."""
    seen = {}
    while ring.is_on():
        known = ring.acknowledged()
        found = {name: row["messageCount"] for name, row in check_registry(ring).items()}
        assert seen.keys() | known.keys() <= found.keys()
        assert all(found[name] >= count for name, count in (seen | known).items())
        seen = found


def rebuild_often(ring):
    store = turnlog.open(ring.root)
    while ring.is_on():
        if (ring.root / "sessions").is_dir():
            store.reindex()
        time.sleep(0.05)


def test_many_processes_share_one_registry(ring):
    works = [partial(begin_many, ring, f"many{number}") for number in range(8)]
    together(ring, *works, partial(watch_registry, ring), partial(rebuild_often, ring))
    known, kept = ring.acknowledged(), check_registry(ring)
    assert {name: row["messageCount"] for name, row in kept.items()} == known
    assert {row["title"] for row in kept.values()} == {f"Session {name}" for name in known}
    turnlog.open(ring.root).reindex()
    assert check_registry(ring) == kept
