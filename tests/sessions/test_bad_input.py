"""What people and disks do wrong, said to the library and to the command line.

A mistake is an error with a way out (exit code 2); what is merely untidy is shown and reported; and
nothing of it changes a file that nobody asked to be changed.
"""

import json
import os
import shutil
import warnings
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

import turnlog
from sessions.homes import log, make_home, prompt, write
from turnlog import AmbiguousSession, NotFound, UsageError, build
from turnlog.cli.app import run
from turnlog.formats import dated_log
from turnlog.sessions.reading.tree import GapReason
from turnlog.sessions.session import Session
from turnlog.sessions.side_files.todos import replace_todos, todos_of
from turnlog.sessions.writing.fork import fork
from turnlog.sessions.writing.open import DatedWriter

ONE = "1a111111-aaaa-4aaa-8aaa-111111111111"
TWO = "1a222222-bbbb-4bbb-8bbb-222222222222"
LAYOUTS = ("claude", "dated", "flat")


@pytest.fixture
def store(tmp_path):
    """A store with a session in it."""
    (tmp_path / "project").mkdir()
    made = turnlog.open(tmp_path / "store")
    begin(made, tmp_path, ONE)
    return made


def begin(store, tmp_path, session_id, layout="claude", words="Hello"):
    with store.create(
        project=tmp_path / "project", layout=layout, session_id=session_id
    ) as session:
        session.append(build.user(f"{words} {session_id}"))
    return session


@pytest.fixture
def cli(capfd, monkeypatch, tmp_path):
    """Run a command line; give its exit code, stdout and stderr."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)

    def call(*words):
        capfd.readouterr()
        code = run([os.fspath(word) for word in words])
        return (code, *capfd.readouterr())

    return call


def complaint(answer):
    """Check that *answer* is that of a caller's mistake, and give what it says."""
    code, out, err = answer
    assert code == 2
    assert out == ""
    first, *more, last = err.splitlines()
    assert first.startswith("error: ")
    assert last.startswith("hint: ")
    return "\n".join((first, *more))


def files_in(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@contextmanager
def unchanged(root):
    before = files_in(root)
    yield
    assert files_in(root) == before


def texts(session):
    return [record.text for _, record in session.records(session.whole_thread)]


# -- a session that is not there ------------------------------------------------------------

NAMED = [
    ("info",),
    ("show",),
    ("fork",),
    ("recover",),
    ("recover", "--yes"),
    ("todos",),
    ("files",),
    ("rename", "A title"),
    ("tag", "a-tag"),
    ("pin",),
    ("resume",),
]


@pytest.mark.parametrize("ask", ["session", "resume", "recover", "examine"])
@pytest.mark.parametrize("name", ["ffff", ONE + "0", "../../etc/passwd", "\0", "x" * 5000])
def test_an_unknown_session_is_not_found(store, ask, name):
    with unchanged(store.root), pytest.raises(NotFound, match="no session's id begins") as caught:
        getattr(store, ask)(name)
    assert "list the sessions" in caught.value.hint
    assert len(str(caught.value)) < 200


def test_an_unknown_session_cannot_be_labelled(store):
    with unchanged(store.root), pytest.raises(NotFound):
        store.update("ffff", title="A title", tag="a-tag", pinned=True)
    assert store.pins() == frozenset()


@pytest.mark.parametrize("command", NAMED, ids=" ".join)
def test_an_unknown_session_is_told_with_a_hint(store, cli, command):
    name, *rest = command
    with unchanged(store.root):
        answer = cli(name, "ffff", *rest, "--home", store.root)
    told = (
        "no session has 'ffff' in its id"
        if name == "resume"
        else "no session's id begins with 'ffff'"
    )
    assert told in complaint(answer)


def test_an_empty_store_has_no_latest(tmp_path, cli):
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="no sessions"):
        turnlog.open(tmp_path / "empty").session("latest")
    assert "there are no sessions" in complaint(cli("show", "latest", "--home", tmp_path / "empty"))


# -- an ambiguous one -----------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_ambiguous_prefix_lists_the_candidates(store, tmp_path, cli, layout):
    begin(store, tmp_path, TWO, layout)
    with unchanged(store.root):
        for ask in (store.session, store.resume, store.recover, store.examine, store.update):
            with pytest.raises(AmbiguousSession, match=f"{ONE}, {TWO}") as caught:
                ask("1a")
            assert caught.value.hint
        for command in NAMED:
            answer = cli(command[0], "1a", *command[1:], "--home", store.root)
            if command == ("resume",):  # It lists them with their titles.
                assert (answer[0], answer[1]) == (2, "")
                assert [line[2:10] for line in answer[2].splitlines()[1:-1]] == [TWO[:8], ONE[:8]]
                continue
            said = complaint(answer)
            assert ONE[:8] in said
            assert TWO[:8] in said
    assert store.session("1a2").id == TWO


def test_a_whole_id_wins_over_a_longer_one_that_begins_with_it(store, tmp_path, cli):
    begin(store, tmp_path, "abc")
    begin(store, tmp_path, "abc-def")
    assert store.session("abc").id == "abc"
    assert "Hello abc-def" in cli("show", "abc-", "--home", store.root)[1]
    assert "Hello abc-def" not in cli("show", "abc", "--home", store.root)[1]
    complaint(cli("show", "ab", "--home", store.root))


def test_many_candidates_are_not_all_listed(store, tmp_path):
    for number in range(9):
        begin(store, tmp_path, f"many-{number}", "dated")
    with pytest.raises(AmbiguousSession, match=r"9 sessions: many-0, .*many-4 and 4 more"):
        store.session("many")


# -- one that another process writes --------------------------------------------------------


class Other:
    """Another process, that has a session open and appends to it when told to."""

    def __init__(self, store, session_id):
        (here, self._tell), (self._hear, there) = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Newer Pythons frown on forking beside threads.
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._tell)  # Else it would wait for itself when the parent is gone.
                session = store.resume(session_id)
                while words := os.read(here, 1000):
                    session.append(build.user(words.decode()))
                    os.write(there, b".")
            finally:
                os._exit(0)
        os.close(here)
        os.close(there)

    def say(self, words):
        os.write(self._tell, words.encode())
        assert os.read(self._hear, 1) == b"."

    def go(self):
        os.close(self._tell)
        os.close(self._hear)
        os.waitpid(self.pid, 0)


@pytest.fixture(params=LAYOUTS)
def shared(request, store, tmp_path):
    """A session in one of the layouts, and another process that writes it."""
    begin(store, tmp_path, TWO, request.param)
    other = Other(store, TWO)
    other.say("from afar")
    yield other
    other.go()


def test_a_session_that_is_being_written_can_be_listed_and_shown(store, shared, cli):
    with unchanged(store.root):
        assert {row.id for row in store.sessions()} == {ONE, TWO}
        assert store.session(TWO).facts.life.is_running
        assert store.crashed() == []
        code, out, _ = cli("sessions", "--home", store.root)
        assert (code, "1a222222" in out) == (0, True)
        code, out, _ = cli("show", TWO, "--home", store.root)
        assert (code, "from afar" in out) == (0, True)
        code, out, _ = cli("info", TWO, "--home", store.root, "--json")
        assert (code, json.loads(out)["prompts"]) == (0, 2)


def test_a_session_that_is_being_written_is_not_recovered(store, shared, cli):
    path = store.session(TWO).path
    with path.open("ab") as file:  # Something to recover, or there would be nothing to refuse.
        file.write(b'{"type":"mode"}{"type":"mode","sessionId":"' + TWO.encode() + b'"}\n')
    with unchanged(store.root):
        with pytest.raises(UsageError, match="is being written") as caught:
            store.recover(TWO)
        assert "end the program" in caught.value.hint
        said = complaint(cli("recover", TWO, "--yes", "--home", store.root))
        assert "is being written" in said
        assert cli("recover", TWO, "--home", store.root)[0] == 1


def test_a_session_that_is_being_written_can_be_resumed_and_stays_one_thread(store, shared, cli):
    with store.resume(TWO) as session:
        for number in range(3):
            session.append(build.user(f"here {number}"))
            shared.say(f"there {number}")
        session.append_many([build.user("here 3"), build.assistant("here 4", model="m")])
    found = store.session(TWO)
    assert found.tree.gaps == found.tree.branchings == []
    said = [text for text in map(_text, found.records(found.thread)) if text]
    assert said[1:] == [
        "from afar",
        *(f"{where} {number}" for number in range(3) for where in ("here", "there")),
        "here 3",
        "here 4",
    ]
    out = cli("show", TWO, "--home", store.root)[1]
    assert out.index("there 0") < out.index("here 1") < out.index("here 4")


def _text(pair):
    return getattr(pair[1], "text", "")


def test_a_session_whose_writer_is_gone_can_be_recovered(store, shared, cli):
    assert store.crashed() == []
    shared_pid = shared.pid
    os.kill(shared_pid, 9)
    os.waitid(os.P_PID, shared_pid, os.WEXITED | os.WNOWAIT)
    # A process that nobody has waited for yet is as dead as any other.
    assert [row.id for row in store.crashed()] == [TWO]
    code, out, _ = cli("recover", "--home", store.root)
    assert (code, "1a222222" in out) == (1, True)
    assert cli("recover", TWO, "--home", store.root, "--yes")[0] == 0
    assert store.crashed() == []


# -- records that are their own ancestors ---------------------------------------------------


def ring(home):
    """A log with a ring, a tail that hangs from it, and a record that is its own parent."""
    turns = [("a", "c"), ("b", "a"), ("c", "b"), ("d", "c"), ("e", "e"), ("f", "missing")]
    return log(home, ONE, *(prompt(uuid, parent) for uuid, parent in turns))


def test_a_cycle_ends_and_loses_nothing(tmp_path):
    home = make_home(tmp_path)
    ring(home)
    found = Session.find((home,), ONE)
    assert [gap.node.uuid for gap in found.tree.gaps if gap.reason is GapReason.CYCLE] == ["a", "e"]
    above = {node.uuid for tip in found.tree.tips for node in tip.ancestry()}
    assert above == set("abcdef")
    assert [node.uuid for node in found.thread][-1] in "def"
    assert len(found.turns) >= 1


def test_a_cycle_is_reported_and_cut_by_a_recovery(tmp_path, cli):
    home = make_home(tmp_path)
    ring(home)
    code, out, _ = cli("recover", ONE, "--home", home)
    assert (code, "2 parent cycles" in out) == (1, True)
    for command in ("show", "info"):
        assert cli(command, ONE, "--home", home)[0] == 0
    code, out, _ = cli("info", ONE, "--home", home, "--json")
    assert json.loads(out)["gaps"] == 3
    store = turnlog.open(home.path)
    assert store.examine(ONE).cycles == ["a", "e"]
    assert store.recover(ONE).written
    assert not store.examine(ONE).needed
    assert not store.session(ONE).tree.gaps


@pytest.mark.parametrize("at", ["a", "d", "e", "f", None])
def test_a_session_with_a_cycle_can_be_forked_and_resumed(tmp_path, at):
    home = make_home(tmp_path)
    path = ring(home)
    before = path.read_bytes()
    source = Session.find((home,), ONE)
    store = turnlog.open(tmp_path / "store")
    with store.create(project=tmp_path) as new:
        count = fork(source, new, at)
    forked = store.session(new.session_id)
    assert path.read_bytes() == before
    assert 1 <= count <= 6
    assert [gap for gap in forked.tree.gaps if gap.reason is not GapReason.CYCLE] == []
    with turnlog.open(home.path).resume(ONE) as writer:
        writer.append(build.user("onwards"))
    assert texts(Session.find((home,), ONE))[-1] == "onwards"


def test_a_long_cycle_is_no_burden(tmp_path, cli):
    home = make_home(tmp_path)
    count = 5_000
    turns = (prompt(f"u{number}", f"u{(number - 1) % count}") for number in range(count))
    log(home, ONE, *turns)
    assert cli("show", ONE, "--last", "3", "--home", home)[0] == 0
    assert json.loads(cli("info", ONE, "--home", home, "--json")[1])["thread_records"] == count


# -- one uuid twice -------------------------------------------------------------------------


def test_a_record_that_two_sessions_have_stays_in_each(store, tmp_path, cli):
    words = build.user("the same") | {"uuid": "same"}
    begin(store, tmp_path, TWO, "flat")
    for session_id in (ONE, TWO):
        with store.resume(session_id) as session:
            assert session.append(words) == "same"
            assert session.append(words) == "same"
        assert cli("show", session_id, "--home", store.root)[1].count("the same") == 1
    before = store.session(TWO).path.read_bytes()
    with store.create(project=tmp_path) as new:
        assert fork(store.session(ONE), new, "same") == 2
    assert "same" not in store.session(new.session_id).tree.by_uuid
    assert store.session(TWO).path.read_bytes() == before


def test_a_record_that_sessions_of_one_day_have_stays_in_each(store, tmp_path):
    words = build.user("the same") | {"uuid": "same"}
    ids = ("day-one", "day-two")
    for session_id in ids:
        begin(store, tmp_path, session_id, "dated")
        with store.resume(session_id) as session:
            session.append(words)
    assert len({store.session(each).path for each in ids}) == 1
    for each in ids:
        assert texts(store.session(each)) == [f"Hello {each}", "the same"]


def test_a_uuid_twice_in_one_log_counts_once_and_is_told(tmp_path, cli):
    home = make_home(tmp_path)
    log(home, ONE, prompt("a"), prompt("b", "a"), prompt("a") | {"extra": 1})
    found = Session.find((home,), ONE)
    assert [node.uuid for node in found.tree.replaced] == ["a"]
    assert found.tree.by_uuid["b"].parent is found.tree.by_uuid["a"]
    told = json.loads(cli("info", ONE, "--home", home, "--json")[1])
    assert (told["replaced"], told["conflicts"], told["carried"]) == (1, 1, {})
    assert "1 with other content; the last is used" in cli("info", ONE, "--home", home)[1]


def test_a_record_that_was_written_twice_as_it_is_is_no_conflict(tmp_path, cli):
    home = make_home(tmp_path)
    log(home, ONE, prompt("a"), prompt("b", "a"), prompt("a"), prompt("a"))
    found = Session.find((home,), ONE)
    assert (len(found.tree.replaced), found.conflicts) == (2, [])
    assert "2 records with the same uuid and content" in (cli("info", ONE, "--home", home)[1])


def test_records_that_name_another_session_are_told(tmp_path, cli):
    home = make_home(tmp_path)
    log(home, ONE, prompt("a") | {"sessionId": TWO}, prompt("b", "a"), prompt("c", "b"))
    assert Session.find((home,), ONE).carried == {TWO: 1}
    assert f"1 record of session {TWO}" in cli("info", ONE, "--home", home)[1]


def test_a_session_in_two_homes_is_not_mixed_up(tmp_path, cli):
    (tmp_path / "project").mkdir()
    stores = [turnlog.open(tmp_path / name) for name in ("a", "b")]
    for store, words in zip(stores, ("first", "second"), strict=True):
        begin(store, tmp_path, ONE, words=words)
    both = turnlog.Store((*stores[0].homes, *stores[1].homes), tmp_path / "b")
    assert {(row.id, row.home) for row in both.sessions()} == {
        (ONE, str(tmp_path / "a")),
        (ONE, str(tmp_path / "b")),
    }
    found = both.session(ONE)
    assert texts(found) in ([f"first {ONE}"], [f"second {ONE}"])
    assert len([each for each in found.logs if each.kind == "session"]) == 2
    # What is written goes to the root, and to nothing else.
    with unchanged(tmp_path / "a"), both.resume(ONE) as session:
        session.append(build.user("more"))
    assert texts(stores[1].session(ONE)) == [f"second {ONE}", "more"]
    homes = ("--home", tmp_path / "a", "--home", tmp_path / "b")
    code, out, _ = cli("info", ONE, *homes, "--json")
    assert (code, len(json.loads(out)["logs"])) == (0, 2)
    code, out, _ = cli("show", ONE, *homes)
    assert code == 0
    assert ("first" in out) != ("second" in out)


# -- records from the future ----------------------------------------------------------------

FUTURES = [
    "2090-01-01T00:00:00.000Z",
    "9999-12-31T23:59:59.999Z",
    "9999-12-31T23:59:59-23:59",
    "9999-99-99T99:99:99Z",
    "0001-01-01T00:00:00+14:00",
    "12026-01-01T00:00:00Z",
    "tomorrow",
    3786912000000,
    253402300799999,
    1e300,
    -1,
    None,
    {"at": "once"},
]


@pytest.mark.parametrize("at", FUTURES, ids=str)
def test_a_record_from_the_future_is_a_record(tmp_path, cli, at):
    home = make_home(tmp_path)
    before = prompt("now", timestamp="2026-11-01T10:00:00.000Z")
    log(home, ONE, before, prompt("then", "now", timestamp=at))
    log(home, TWO, prompt("other", timestamp="2026-11-02T10:00:00.000Z"))
    store = turnlog.open(home.path)
    assert {row.id for row in store.sessions()} == {ONE, TWO}
    found = store.session(ONE)
    assert texts(found) == ["this is now", "this is then"]
    assert found.metadata.state in ("active", "expired")
    with store.resume(ONE) as session:
        session.append(build.user("and on"))
    assert texts(store.session(ONE))[-1] == "and on"
    for command in (("sessions",), ("show", ONE), ("info", ONE), ("show", ONE, "--last", "2")):
        code, out, err = cli(*command, "--home", home)
        assert (code, err) == (0, "")
        assert out
    listed = json.loads(cli("sessions", "--home", home, "--json")[1])
    assert {row["id"] for row in listed["sessions"]} == {ONE, TWO}
    json.loads(cli("info", ONE, "--home", home, "--json")[1])


def test_the_future_comes_first_in_the_list_and_does_not_expire(tmp_path):
    home = make_home(tmp_path)
    log(home, ONE, prompt("a", timestamp="2026-11-02T10:00:00.000Z"))
    log(home, TWO, prompt("b", timestamp="2090-01-01T00:00:00.000Z"))
    rows = turnlog.open(home.path).sessions()
    assert [row.id for row in rows] == [TWO, ONE]
    assert rows[0].state == "active"


@pytest.mark.parametrize("at", [at for at in FUTURES if isinstance(at, int | float)], ids=str)
def test_the_caches_of_flat_sessions_survive_the_future(store, tmp_path, at):
    begin(store, tmp_path, TWO, "flat")
    with store.resume(TWO) as session:
        session.append({"type": "user", "content": [build.text("then")], "timestamp": at})
    store.reindex()
    index = json.loads((store.root / "sessions" / "index.json").read_bytes())
    assert [row["messageCount"] for row in index["sessions"]] == [2]
    assert {row.id for row in store.sessions()} == {ONE, TWO}


# -- a project that is gone -----------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_session_outlives_its_project(store, tmp_path, cli, layout):
    project = tmp_path / "project"
    begin(store, tmp_path, TWO, layout)
    shutil.rmtree(project)
    (row,) = (row for row in store.sessions(project=str(project)) if row.id == TWO)
    assert row.project == str(project)
    with store.resume(TWO) as session:
        session.append(build.user("Still here"))
        assert session.metadata.project == str(project)
    store.update(TWO, title="Gone", tag="gone", pinned=True)
    source = store.session(TWO)
    with store.create(project=source.summary.cwd, layout=layout) as new:
        assert fork(source, new) == 2
    assert store.session(new.session_id).metadata.project == str(project)
    assert not project.exists()
    for command in ("show", "info"):
        code, out, _ = cli(command, TWO, "--home", store.root)
        assert (code, "Gone" in out or "Still here" in out) == (0, True)
    code, out, _ = cli("fork", TWO, "--home", store.root, "--to", store.root, "--json")
    assert (code, json.loads(out)["records"]) == (0, 2)
    assert not project.exists()


def test_resuming_says_that_the_project_is_gone(store, tmp_path, cli):
    shutil.rmtree(tmp_path / "project")
    with unchanged(store.root):
        code, out, err = cli("resume", ONE, "--home", store.root)
        assert (code, f"claude --resume {ONE}" in out) == (1, True)
        assert "is gone" in err
        assert "hint: " in err


def test_a_project_that_became_a_file_is_no_obstacle(store, tmp_path, cli):
    shutil.rmtree(tmp_path / "project")
    (tmp_path / "project").write_text("not a directory any more")
    with store.resume(ONE) as session:
        session.append(build.user("Still here"))
    assert texts(store.session(ONE))[-1] == "Still here"
    assert cli("info", ONE, "--home", store.root)[0] == 0


# -- a day whose log cannot be opened -------------------------------------------------------


def test_a_page_that_could_not_be_turned_is_turned_later(tmp_path):
    today = [datetime(2026, 11, 15, 23, 59, tzinfo=UTC)]
    place = partial(dated_log, tmp_path, tmp_path / "project")
    writer = DatedWriter(
        place, session_id=ONE, cwd=tmp_path / "project", root=tmp_path, clock=lambda: today[0]
    )
    writer.append(build.user("before midnight"))
    today[0] += timedelta(minutes=2)
    place(today[0].date()).mkdir()
    for _ in range(2):
        with pytest.raises(turnlog.NotALog):
            writer.append(build.user("in the way"))
    place(today[0].date()).rmdir()
    writer.append(build.user("after midnight"))
    writer.close()
    found = turnlog.open(tmp_path).session(ONE)
    assert [path.stem for path in found.paths] == ["2026-11-15", "2026-11-16"]
    assert texts(found) == ["before midnight", "after midnight"]


# -- todos that are no todos ----------------------------------------------------------------

NOT_TODOS = [b"", b"not JSON", b'[{"content":"cut', b"{}", b"\xff\xfe\x00", b"[" * 100_000, b"null"]


@pytest.mark.parametrize("content", NOT_TODOS, ids=lambda content: repr(content[:12]))
def test_todos_that_are_not_json_are_told_and_left_alone(tmp_path, cli, content):
    home = make_home(tmp_path)
    log(home, ONE, prompt("a"))
    path = write(home, f"todos/{ONE}-agent-{ONE}.json", content)
    whole = [{"content": "Prune", "status": "pending"}]
    write(home, f"todos/{ONE}-agent-a753668.json", whole)
    with unchanged(home.path):
        main, other = todos_of(home, ONE)
        assert (main.todos, bool(main.problem)) == ((), True)
        assert [todo.content for todo in other.todos] == ["Prune"]
        code, out, _ = cli("todos", ONE, "--home", home)
        assert code == 1
        assert "✗" in out
        assert "Prune" in out
        code, out, _ = cli("todos", ONE, "--home", home, "--json")
        problems = [row["problem"] for row in json.loads(out)["todos"]]
        assert (code, problems.count(None)) == (1, 1)
        assert cli("show", ONE, "--home", home)[0] == 0
    replace_todos(home, ONE, ONE, whole)
    assert json.loads(path.read_bytes()) == whole
    assert todos_of(home, ONE)[0].problem is None
