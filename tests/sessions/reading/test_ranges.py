"""Parts of a thread: what is shown and what was left out add up to the whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.shapes import logs
from sessions.trees import answer, call, names, placed, record, result, tree
from turnlog.errors import UsageError
from turnlog.sessions.reading.ranges import count_steps, last_of, numbered, part_of, range_of

ends = st.none() | st.integers(-12, 12)


def conversation():
    """Four messages: a prompt, a response in two records, its result, an answer. And notes."""
    return tree(
        record("hook", None, "system", content="a hook ran"),
        record("q", "hook"),
        answer("a1", "q", "m1"),
        answer("a2", "a1", "m1", call("c")),
        record("note", "a2", "system"),
        result("r", "note", "c"),
        record("meta", "r", isMeta=True),
        answer("end", "meta", "m2"),
    ).nodes


def test_the_parts_of_a_response_are_one_message_and_notes_are_none():
    assert count_steps(conversation()) == 4
    assert [number for number, _ in numbered(conversation())] == [
        None,
        0,
        1,
        None,
        None,
        2,
        None,
        3,
    ]


def test_the_last_messages_come_with_a_word_on_the_rest():
    part = last_of(conversation(), 2)
    assert names(part.items) == ["r", "meta", "end"]
    assert (part.earlier, part.later, part.total) == (2, 0, 4)
    assert part.marker == "[2 earlier messages omitted for performance. Full history available.]"


def test_nothing_left_out_needs_no_word():
    part = last_of(conversation(), 4)
    assert names(part.items)[0] == "hook"
    assert part.marker is None


def test_a_range_counts_as_a_slice_does():
    nodes = conversation()
    assert names(range_of(nodes, 1, 2).items) == ["a1", "a2", "note"]
    assert names(range_of(nodes, 0, 1).items) == ["hook", "q"]
    assert names(range_of(nodes, -1, None).items) == ["end"]
    assert range_of(nodes, 3, 1).items == []
    assert range_of(nodes, 99, None).items == []


def test_a_part_of_an_earlier_response_stays_where_it_stands():
    nodes = tree(
        record("q"),
        answer("a1", "q", "m1", call("c1")),
        result("r1", "a1", "c1"),
        answer("a2", "r1", "m1", call("c2")),
        result("r2", "a2", "c2"),
    ).nodes
    part = last_of(nodes, 2)
    assert names(part.items) == ["r1", "a2", "r2"]
    assert part.earlier == 2


def test_last_offset_and_limit_say_from_which_end_they_count():
    nodes = conversation()
    assert part_of(nodes, last=1) == last_of(nodes, 1)
    assert part_of(nodes, offset=1, limit=1) == range_of(nodes, 1, 2)
    assert part_of(nodes, offset=2) == range_of(nodes, 2, None)
    assert part_of(nodes, limit=0).items == []
    assert part_of(nodes).items == nodes


@pytest.mark.parametrize(
    "asked", [{"last": 1, "offset": 0}, {"last": 1, "limit": 2}, {"last": -1}, {"offset": -1}]
)
def test_what_cannot_be_meant_is_a_mistake(asked):
    with pytest.raises(UsageError) as caught:
        part_of(conversation(), **asked)
    assert caught.value.hint


def test_records_are_counted_like_their_nodes():
    log = [
        record("q"),
        answer("a1", "q", "m1"),
        answer("a2", "a1", "m1", call("c")),
        result("r", "a2", "c"),
        result("r", "a2", "c"),  # Written twice.
        {"type": "mode", "mode": "plan", "sessionId": "s"},
        {"type": "user", "content": "no uuid"},
        {"type": "user", "content": "no uuid"},
        {"type": "tool_use", "uuid": "t", "name": "Bash", "input": {}},
    ]
    assert count_steps(item.record for item in placed(*log)) == 6
    part = last_of((item.record for item in placed(*log)), 3)
    assert [each.type for each in part.items] == ["user", "user", "tool_use"]


@given(logs, st.integers(0, 12))
def test_the_last_n_and_those_left_out_are_all(records, count):
    nodes = tree(*records).nodes
    part = last_of(iter(nodes), count)
    assert part.earlier + (part.stop - part.first) + part.later == part.total
    assert part.total == count_steps(nodes)
    assert part.stop - part.first == min(count, part.total)
    assert part.items == nodes[len(nodes) - len(part.items) :]  # A run up to the very end.
    if part.total:
        assert part == range_of(nodes, part.first, None)


@given(logs, ends, ends)
def test_a_range_and_what_stands_around_it_is_the_thread(records, first, stop):
    nodes = tree(*records).nodes
    part = range_of(nodes, first, stop)
    if part.total:
        before, behind = range_of(nodes, 0, part.first), range_of(nodes, part.stop, None)
        assert before.items + part.items + behind.items == nodes
        assert len(range(part.total)[slice(first, stop)]) == part.stop - part.first
    else:
        assert part.items == nodes
