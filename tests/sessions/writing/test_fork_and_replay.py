"""Forks begin where the old session stood; replays have the form an API wants."""

import pytest

import turnlog
from sessions.trees import answer, call, line, placed, record, result
from turnlog import build
from turnlog.errors import NotFound
from turnlog.sessions.reading.ranges import INTERRUPTED, replay
from turnlog.sessions.reading.threads import whole_thread
from turnlog.sessions.reading.tree import Tree
from turnlog.sessions.writing.fork import fork
from turnlog.storage.reader import Placed, read_log

ID = "77777777-abcd-4bcd-8bcd-777777777777"


@pytest.fixture
def store(tmp_path):
    return turnlog.open(tmp_path)


def write(store, *records):
    path = store.root / "projects" / "-p" / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(line(fields | {"sessionId": ID}) + b"\n" for fields in records))
    return store.session(ID)


def forked(store, session, at=None):
    with store.create(project="/p") as writer:
        fork(session, writer, at)
    return store.session(writer.session_id)


def texts(session):
    return [record.text for _, record in session.records(session.whole_thread)]


CONVERSATION = [
    record("a"),
    answer("b", "a", "m1", slug="quiet-fox", requestId="r1"),
    record("p", "b", "progress", data={"type": "hook_progress"}),
    record("c", "p"),
    answer("d", "c", "m2"),
]


def test_a_fork_has_the_same_words_and_other_uuids(store):
    old = write(store, *CONVERSATION)
    before = old.path.read_bytes()
    new = forked(store, old)
    assert texts(new) == [f"this is {name}" for name in "abcd"]
    assert not set(new.tree.by_uuid) & set(old.tree.by_uuid)
    assert not new.tree.gaps
    assert old.path.read_bytes() == before


def test_a_fork_says_where_each_record_came_from(store):
    new = forked(store, write(store, *CONVERSATION))
    origins = [
        record.fields["forkedFrom"]["messageUuid"] for _, record in new.records(new.whole_thread)
    ]
    assert origins == ["a", "b", "c", "d"]
    first = next(record for _, record in new.records(new.whole_thread))
    assert first.session_id == new.id
    assert "slug" not in first.fields


def test_a_fork_at_a_record_ends_there(store):
    new = forked(store, write(store, *CONVERSATION), at="b")
    assert texts(new) == ["this is a", "this is b"]


def test_a_fork_of_a_branch_leaves_the_other_branch_behind(store):
    old = write(store, record("a"), record("b", "a"), record("x", "a"), record("y", "x"))
    assert texts(forked(store, old, at="b")) == ["this is a", "this is b"]


def test_a_fork_goes_over_compactions(store):
    boundary = record("cut", None, "system", subtype="compact_boundary", logicalParentUuid="a")
    new = forked(store, write(store, record("a"), boundary, record("c", "cut")))
    assert len(new.whole_thread) == 3
    assert len(new.thread) == 2


def test_a_record_that_is_not_there_cannot_be_forked_at(store):
    old = write(store, *CONVERSATION)
    with pytest.raises(NotFound, match="begins with"):
        forked(store, old, at="zzz")


def test_a_fork_of_a_fork_is_a_session_like_any_other(store):
    old = write(store, *CONVERSATION)
    again = forked(store, forked(store, old))
    assert texts(again) == [f"this is {name}" for name in "abcd"]
    assert again.summary.title.endswith("(fork) (fork)")


# -- replay --------------------------------------------------------------------------------------


def replayed(*records, **options):
    items = list(placed(*records))
    by_offset = {item.offset: item.record for item in items}
    thread = whole_thread(Tree(items))
    return replay((by_offset[node.offset] for node in thread), **options)


def shape(messages):
    return [
        (message["role"], [block.get("type") for block in message["content"]])
        for message in messages
    ]


def test_parts_of_one_response_are_one_message():
    found = replayed(
        record("q"),
        answer("a1", "q", "m1", build.text("Let me see")),
        answer("a2", "a1", "m1", call("c1")),
        result("r", "a2", "c1"),
        answer("end", "r", "m2"),
    )
    assert shape(found) == [
        ("user", ["text"]),
        ("assistant", ["text", "tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["text"]),
    ]


def test_a_call_that_nobody_answered_gets_an_answer_in_the_view_only():
    found = replayed(record("q"), answer("a", "q", "m1", call("c1")), record("q2", "a"))
    assert shape(found)[2] == ("user", ["tool_result", "text"])
    block = found[2]["content"][0]
    assert (block["content"], block["is_error"]) == (INTERRUPTED, True)


def test_a_result_without_its_call_is_dropped():
    assert shape(replayed(record("q"), result("r", "q", "nobody"))) == [("user", ["text"])]


def test_messages_without_content_are_dropped():
    empty = answer("a", "q", "m1", {"type": "text", "text": " \n"})
    assert shape(replayed(record("q"), empty)) == [("user", ["text"])]


def test_turns_alternate_whatever_the_log_says():
    found = replayed(record("a"), record("b", "a"), answer("c", "b", "m"), answer("d", "c", "n"))
    assert [message["role"] for message in found] == ["user", "assistant"]


def test_the_last_messages_come_with_a_word_on_the_rest():
    records = [record("q0")]
    for number in range(1, 6):
        records.append(answer(f"a{number}", records[-1]["uuid"], f"m{number}"))
        records.append(record(f"q{number}", f"a{number}"))
    found = replayed(*records, last=3)
    assert found[0]["content"][0]["text"].startswith("[8 earlier messages omitted")
    assert [message["role"] for message in found] == ["user", "assistant", "user"]


def test_a_cut_never_parts_a_call_from_its_result():
    found = replayed(
        record("q"),
        answer("a", "q", "m1", call("c1")),
        result("r", "a", "c1"),
        answer("b", "r", "m2"),
        record("q2", "b"),
        last=3,
    )
    assert shape(found) == [("user", ["text", "text"])]


def test_a_replay_never_changes_the_log(store):
    session = write(store, record("q"), answer("a", "q", "m1", call("c1")))
    before = session.path.read_bytes()
    replay(record for _, record in session.records(session.whole_thread))
    assert session.path.read_bytes() == before
    assert sum(isinstance(item, Placed) for item in read_log(session.path)) == 2


@pytest.mark.parametrize("source", ["claude", "dated", "flat"])
@pytest.mark.parametrize("target", ["claude", "dated", "flat"])
def test_a_fork_in_any_layout_says_the_same(tmp_path, source, target):
    store = turnlog.open(tmp_path)
    with store.create(project=tmp_path, layout=source) as old:
        old.append(build.user("How many?"))
        calls = [build.call("Read", {"path": "a"}, call_id=f"c{n}") for n in (1, 2)]
        old.append(build.assistant(calls, model="m", stop_reason="tool_use"))
        old.append(
            build.user([build.result(f"c{n}", f"{n}")["message"]["content"][0] for n in (1, 2)])
        )
        old.append(build.assistant("Three", model="m"))
    with store.create(project=tmp_path, layout=target) as new:
        fork(store.session(old.session_id), new)
    one, two = store.session(old.session_id), store.session(new.session_id)
    assert not two.tree.gaps
    assert len(two.tree.tips) == 1
    views = [replay(record for _, record in each.records(each.thread)) for each in (one, two)]
    assert views[0] == views[1]
    assert len(views[0]) == 4
    if target == "claude":
        assert {item.record.dialect for item in two.items()} == {"claude"}


def test_what_a_fork_carries_over_counts_for_the_session_it_is_of(store):
    said = {"message": {"id": "m1", "role": "assistant", "model": "claude-sonnet-4-5"}}
    said["message"] |= {"content": [], "usage": {"input_tokens": 1000, "output_tokens": 10}}
    old = write(store, record("a"), record("b", "a", type="assistant", **said))
    assert (old.totals.messages, old.totals.carried_messages) == (1, 0)
    found = forked(store, old).totals
    assert (found.messages, found.carried_messages) == (1, 1)
    assert found.cost_usd == found.carried_usd == old.totals.cost_usd > 0
