"""The tree keeps every record, whatever the parents say."""

from hypothesis import given
from hypothesis import strategies as st

from sessions.trees import names, record, tree
from turnlog.sessions.reading.tree import GapReason


def test_a_plain_conversation_is_one_path():
    found = tree(record("a"), record("b", "a", "assistant"), record("c", "b"))
    assert names(found.roots) == ["a"]
    assert names(found.tips) == ["c"]
    assert names(found.tips[0].ancestry()) == ["c", "b", "a"]
    assert not found.gaps


def test_two_children_of_one_record_are_a_branching():
    found = tree(record("a"), record("b", "a"), record("c", "a"))
    assert names(found.branchings) == ["a"]
    assert names(found.tips) == ["b", "c"]


def test_a_child_may_be_written_before_its_parent():
    found = tree(record("c", "b"), record("b", "a"), record("a"))
    assert names(found.roots) == ["a"]
    assert names(found.tips) == ["c"]
    assert not found.gaps


def test_a_missing_parent_is_bridged_to_the_record_before_it():
    found = tree(record("a"), record("b", "a"), record("d", "lost"))
    (gap,) = found.gaps
    assert (gap.node.uuid, gap.named, gap.reason) == ("d", "lost", GapReason.MISSING)
    assert gap.bridged_to.uuid == "b"
    assert names(found.tips) == ["d"]


def test_a_bridge_does_not_lead_into_an_agents_records():
    subagent = record("x", None, isSidechain=True, agentId="a1")
    found = tree(record("a"), subagent, record("d", "lost"))
    assert found.by_uuid["d"].parent.uuid == "a"


def test_a_first_record_with_a_missing_parent_is_a_root_with_a_gap():
    found = tree(record("a", "elsewhere"), record("b", "a"))
    assert names(found.roots) == ["a"]
    assert found.gaps[0].bridged_to is None


def test_a_cycle_is_cut_at_its_first_record():
    found = tree(record("a", "c"), record("b", "a"), record("c", "b"))
    (gap,) = found.gaps
    assert (gap.node.uuid, gap.reason) == ("a", GapReason.CYCLE)
    assert names(found.roots) == ["a"]
    assert names(found.tips) == ["c"]


def test_a_record_that_is_its_own_parent_is_a_root():
    found = tree(record("a", "a"))
    assert names(found.roots) == ["a"]
    assert found.gaps[0].reason is GapReason.CYCLE


def test_of_two_records_with_one_uuid_the_last_counts_and_the_other_is_listed():
    found = tree(record("a"), record("b", "a"), record("b", "a", gitBranch="later"))
    assert names(found.nodes) == ["a", "b"]
    assert names(found.replaced) == ["b"]
    assert found.by_uuid["b"].position == 2


def test_records_without_a_uuid_are_kept_apart():
    found = tree(record("a"), {"type": "mode", "mode": "plan", "sessionId": "s"})
    assert names(found.nodes) == ["a"]
    assert [placed.record.type for placed in found.loose] == ["mode"]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 14), st.booleans()), max_size=40))
def test_every_record_is_reached_from_some_tip(shape):
    records = [
        record(f"u{uuid}", f"u{parent}" if parent >= 0 else None, isSidechain=side)
        for uuid, parent, side in shape
    ]
    found = tree(*records)
    reached = {node.uuid for tip in found.tips for node in tip.ancestry()}
    assert reached == {fields["uuid"] for fields in records}
    assert len(found.nodes) + len(found.replaced) == len(records)
