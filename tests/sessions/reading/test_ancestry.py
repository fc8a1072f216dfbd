"""A record by its uuid, what leads to it, what came of it; over gaps and compactions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.shapes import logs
from sessions.trees import names, record, tree
from turnlog.errors import NotFound, UsageError
from turnlog.sessions.reading.threads import whole_thread
from turnlog.sessions.reading.tree import GapReason, Lineage, find_record


def boundary(uuid, named):
    return record(uuid, None, "system", subtype="compact_boundary", logicalParentUuid=named)


def compacted():
    return tree(
        record("a"),
        record("b", "a", "assistant"),
        boundary("cut", "b"),
        record("sum", "cut", isCompactSummary=True),
        record("c", "sum"),
    )


def test_a_record_is_found_by_its_uuid_or_the_beginning_of_it():
    found = tree(record("abc"), record("abcdef", "abc"), record("xyz", "abc"))
    assert find_record(found, "abc").uuid == "abc"  # A whole uuid wins over longer ones.
    assert find_record(found, "abcd").uuid == "abcdef"
    assert find_record(found, "x").uuid == "xyz"


def test_two_records_with_one_beginning_are_listed_not_guessed_between():
    found = tree(*(record(f"ab{number}") for number in range(7)))
    with pytest.raises(UsageError, match="7 records") as caught:
        find_record(found, "ab")
    assert "ab0 (user), ab1 (user)" in caught.value.hint
    assert "and 2 more" in caught.value.hint


@pytest.mark.parametrize(("text", "error"), [("zz", NotFound), ("", UsageError)])
def test_a_uuid_of_nobody_is_a_mistake_with_a_way_out(text, error):
    with pytest.raises(error) as caught:
        find_record(compacted(), text)
    assert caught.value.hint


def test_a_hostile_uuid_does_not_fill_the_screen():
    with pytest.raises(NotFound) as caught:
        find_record(compacted(), "z" * 1_000_000)
    assert len(str(caught.value)) < 200


def test_ancestry_leads_from_the_first_record_over_compactions():
    found = compacted()
    up = Lineage(found).ancestry(found.by_uuid["c"])
    assert names(up.nodes) == ["a", "b", "cut", "sum", "c"]
    assert not up.gaps
    assert not up.is_cut


def test_ancestry_may_stay_within_one_stretch():
    found = compacted()
    lineage = Lineage(found, across=False)
    assert names(lineage.ancestry(found.by_uuid["c"]).nodes) == ["cut", "sum", "c"]
    assert names(lineage.descendants(found.by_uuid["a"]).nodes) == ["a", "b"]


def test_depth_counts_steps_and_says_that_there_is_more():
    found = compacted()
    lineage = Lineage(found)
    up = lineage.ancestry(found.by_uuid["c"], depth=2)
    assert (names(up.nodes), up.is_cut) == (["cut", "sum", "c"], True)
    assert names(lineage.ancestry(found.by_uuid["c"], depth=0).nodes) == ["c"]
    down = lineage.descendants(found.by_uuid["a"], depth=1)
    assert (names(down.nodes), down.is_cut) == (["a", "b"], True)
    assert not lineage.descendants(found.by_uuid["a"], depth=4).is_cut


def test_a_negative_depth_is_a_mistake():
    found = compacted()
    with pytest.raises(UsageError):
        Lineage(found).ancestry(found.by_uuid["c"], depth=-1)
    with pytest.raises(UsageError):
        Lineage(found).descendants(found.by_uuid["c"], depth=-1)


def test_a_gap_is_reported_to_whoever_goes_over_it_and_to_nobody_else():
    found = tree(record("a"), record("b", "a"), record("d", "lost"), record("e", "d"))
    lineage = Lineage(found)
    up = lineage.ancestry(found.by_uuid["e"])
    assert names(up.nodes) == ["a", "b", "d", "e"]
    assert [(gap.node.uuid, gap.named) for gap in up.gaps] == [("d", "lost")]
    assert not lineage.ancestry(found.by_uuid["b"]).gaps
    assert not lineage.ancestry(found.by_uuid["e"], depth=1).gaps  # It stops below the gap.
    assert len(lineage.descendants(found.by_uuid["a"]).gaps) == 1
    assert not lineage.descendants(found.by_uuid["d"]).gaps


def test_a_first_record_whose_parent_is_gone_reports_it():
    found = tree(record("a", "elsewhere"), record("b", "a"))
    (gap,) = Lineage(found).ancestry(found.by_uuid["b"]).gaps
    assert gap.bridged_to is None


def test_a_compaction_of_something_gone_is_bridged_and_reported():
    found = tree(record("a"), boundary("cut", "gone"), record("c", "cut"))
    up = Lineage(found).ancestry(found.by_uuid["c"])
    assert names(up.nodes) == ["a", "cut", "c"]
    assert [(gap.named, gap.reason) for gap in up.gaps] == [("gone", GapReason.MISSING)]


def test_a_compaction_that_names_what_follows_it_does_not_go_round_in_circles():
    found = tree(record("a"), boundary("cut", "c"), record("c", "cut"))
    up = Lineage(found).ancestry(found.by_uuid["c"])
    assert names(up.nodes) == ["cut", "c"]
    assert [gap.reason for gap in up.gaps] == [GapReason.CYCLE]


def test_descendants_come_depth_first_in_the_logs_order_with_their_depth():
    found = tree(
        record("a"), record("b", "a"), record("c", "a"), record("d", "b"), record("e", "c")
    )
    down = Lineage(found).descendants(found.by_uuid["a"])
    assert [(step.node.uuid, step.depth) for step in down.steps] == [
        ("a", 0),
        ("b", 1),
        ("d", 2),
        ("c", 1),
        ("e", 2),
    ]


@pytest.mark.slow
def test_a_thread_of_a_hundred_thousand_records_needs_no_recursion():
    count = 100_000
    found = tree(*(record(str(each), str(each - 1) if each else None) for each in range(count)))
    lineage = Lineage(found)
    assert len(lineage.ancestry(found.nodes[-1]).nodes) == count
    assert len(lineage.descendants(found.nodes[0]).nodes) == count


@given(logs, st.booleans())
def test_an_ancestors_ancestry_begins_every_descendants(records, across):
    found = tree(*records)
    lineage = Lineage(found, across=across)
    for node in found.nodes:
        up = lineage.ancestry(node)
        assert up.nodes[-1] is node
        assert len(set(names(up.nodes))) == len(up.nodes)
        for index, ancestor in enumerate(up.nodes):
            assert lineage.ancestry(ancestor).nodes == up.nodes[: index + 1]
        # Wherever a record does not stand below the one it names, somebody is told.
        told = {gap.node.uuid for gap in up.gaps}
        for above, below in zip([None, *up.nodes], up.nodes, strict=False):
            named = below.parent_uuid or (across and below.logical_parent_uuid) or None
            assert named == (above.uuid if above else None) or below.uuid in told


@given(logs, st.booleans(), st.integers(0, 6))
def test_to_descend_from_a_record_is_to_have_it_for_an_ancestor(records, across, depth):
    found = tree(*records)
    lineage = Lineage(found, across=across)
    above = {node.uuid: names(lineage.ancestry(node).nodes) for node in found.nodes}
    for node in found.nodes:
        down = lineage.descendants(node)
        assert sorted(names(down.nodes)) == sorted(
            uuid for uuid, up in above.items() if node.uuid in up
        )
        for step in down.steps:
            assert above[step.node.uuid][-1 - step.depth] == node.uuid
        cut = lineage.descendants(node, depth=depth)
        assert cut.nodes == [step.node for step in down.steps if step.depth <= depth]
        assert cut.is_cut == (len(cut.nodes) < len(down.nodes))
        limited = lineage.ancestry(node, depth=depth)
        assert names(limited.nodes) == above[node.uuid][-1 - depth :]
        assert limited.is_cut == (len(limited.nodes) < len(above[node.uuid]))


@given(logs)
def test_the_whole_thread_is_an_ancestry_with_its_parallel_results(records):
    found = tree(*records)
    lineage = Lineage(found)
    rings = [gap for gap in lineage.gaps.values() if gap.reason is GapReason.CYCLE]
    for tip in found.tips:
        path = names(lineage.ancestry(tip).nodes)
        thread = names(whole_thread(found, tip))
        if not rings:
            assert [uuid for uuid in thread if uuid in set(path)] == path
