"""The context view: every shape in which logs summarise, and what follows."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.shapes import logs
from sessions.trees import answer, call, log_of, names, record, result, tree
from turnlog.formats import find_homes, find_logs
from turnlog.records.codec import decode
from turnlog.sessions.reading.context import SummaryKind, context_of, digests_of
from turnlog.sessions.reading.threads import main_thread, whole_thread
from turnlog.sessions.reading.tree import Tree
from turnlog.sessions.session import Session
from turnlog.storage.reader import Placed, read_log

CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS", Path(__file__).parents[4] / "shared" / "corpus" / "claude")
)
MARK = {"type": "turnlog", "format": 1, "writer": "turnlog test", "sessionId": "s"}


def reading(*records):
    """The tree of *records*, and what reads its nodes back as a session does."""
    data = log_of(*records)

    def read(nodes):
        return ((node, decode(data[node.offset : node.offset + node.length])) for node in nodes)

    return tree(*records), read


def context(*records, tip=None, **options):
    found, read = reading(*records)
    return context_of(found, read, found.by_uuid[tip] if tip else None, **options)


def boundary(uuid="cut", named="b", **metadata):
    said = {"trigger": "auto", "preTokens": 9} | metadata
    fields = {"subtype": "compact_boundary", "logicalParentUuid": named, "compactMetadata": said}
    return record(uuid, None, "system", **fields)


def summary(uuid="sum", parent="cut", text="What was said"):
    message = {"role": "user", "content": text}
    return record(uuid, parent, message=message, isCompactSummary=True)


BEFORE = (record("a"), answer("b", "a", "m1"))


def test_without_a_summary_the_context_is_the_thread():
    found = context(*BEFORE)
    assert (found.digest, names(found.nodes), found.summarised) == (None, ["a", "b"], 0)


def test_an_empty_log_has_an_empty_context():
    assert context().nodes == []


def test_a_compaction_stands_for_what_was_before_it():
    found = context(*BEFORE, boundary(), summary(), record("c", "sum"))
    assert found.digest.kind is SummaryKind.COMPACTION
    assert found.digest.text == "What was said"
    assert (found.digest.node.uuid, found.digest.boundary.uuid) == ("sum", "cut")
    assert (found.digest.until.uuid, found.digest.named) == ("b", "b")
    assert found.digest.messages is None  # The log does not say.
    assert names(found.nodes) == ["c"]
    assert found.summarised == 2


def test_a_compaction_may_say_how_many_messages_it_took():
    assert context(*BEFORE, boundary(messagesSummarized=41), summary()).digest.messages == 41


def test_the_newest_of_several_compactions_counts():
    log = (
        *BEFORE,
        boundary(),
        summary(),
        record("c", "sum"),
        boundary("cut2", "c"),
        summary("sum2", "cut2", "More was said"),
        record("d", "sum2"),
    )
    found = context(*log)
    assert (found.digest.text, names(found.nodes), found.summarised) == ("More was said", ["d"], 4)
    assert [digest.text for digest in digests_of(*reading(*log))] == [
        "What was said",
        "More was said",
    ]
    # Seen from before the second, the first is the newest.
    assert names(context(*log, tip="c").nodes) == ["c"]


def test_something_may_stand_between_a_boundary_and_its_words():
    hook = record("hook", "cut", "progress", data={})
    found = context(*BEFORE, boundary(), hook, summary(parent="hook"), record("c", "sum"))
    assert found.digest.text == "What was said"
    assert names(found.nodes) == ["c"]


def test_a_compaction_whose_words_are_lost_cuts_all_the_same():
    found = context(*BEFORE, boundary(), record("c", "cut"))
    assert (found.digest.text, found.digest.node) == ("", None)
    assert names(found.nodes) == ["c"]


def test_words_without_a_boundary_are_a_compaction_too():
    found = context(*BEFORE, summary(parent="b"), record("c", "sum"))
    assert (found.digest.boundary, found.digest.until.uuid) == (None, "b")
    assert names(found.nodes) == ["c"]


def test_an_older_summary_speaks_up_to_the_record_it_names():
    said = {"summary": "Two said", "messageCount": 2, "summarizedUntil": "b"}
    loose = {"type": "summary", "sessionId": "s", "content": said}
    found = context(*BEFORE, record("c", "b"), loose, answer("d", "c", "m2"))
    assert (found.digest.kind, found.digest.text) == (SummaryKind.SUMMARY, "Two said")
    assert (found.digest.messages, found.digest.until.uuid) == (2, "b")
    assert names(found.nodes) == ["c", "d"]


def test_an_older_summary_may_stand_in_the_thread_itself():
    said = {"summary": "Two said", "messageCount": 2, "summarizedUntil": "b"}
    in_thread = record("s", "b", "summary", content=said)
    found = context(*BEFORE, in_thread, record("c", "s"))
    assert (found.digest.node.uuid, names(found.nodes)) == ("s", ["c"])


@pytest.mark.parametrize(
    "until", ["2026-01-01T00:00:02Z", "2026-01-01T00:00:02.500Z", 1767225602000]
)
def test_an_older_summary_speaks_up_to_the_time_it_names(until):
    times = [f"2026-01-01T00:00:0{number}Z" for number in range(1, 5)]
    log = [
        record(f"u{number}", f"u{number - 1}" if number else None, timestamp=at)
        for number, at in enumerate(times)
    ]
    loose = {"type": "summary", "content": {"summary": "x", "summarizedUntil": until}}
    found = context(*log, loose)
    assert (found.digest.until.uuid, names(found.nodes)) == ("u1", ["u2", "u3"])


def test_an_older_summary_that_names_nothing_speaks_for_what_stands_before_it():
    loose = {"type": "summary", "content": {"summary": "x"}}
    assert names(context(*BEFORE, loose, record("c", "b")).nodes) == ["c"]
    gone = {"type": "summary", "content": {"summary": "x", "summarizedUntil": "gone"}}
    found = context(*BEFORE, gone, record("c", "b"))
    assert (found.digest.named, found.digest.until.uuid) == ("gone", "b")


def test_a_summary_of_another_branch_is_none_of_this_ones():
    loose = {"type": "summary", "content": {"summary": "x", "summarizedUntil": "left"}}
    log = (*BEFORE, record("left", "b"), loose, record("right", "b"))
    assert context(*log).digest is None
    assert context(*log, tip="left").digest.text == "x"


def test_a_name_that_claude_code_gave_a_thread_cuts_nothing_unless_asked():
    label = {"type": "summary", "summary": "A kite", "leafUuid": "b"}
    found = context(label, *BEFORE, record("c", "b"))
    assert (found.digest, names(found.nodes)) == (None, ["a", "b", "c"])
    asked = context(label, *BEFORE, record("c", "b"), labels=True)
    assert (asked.digest.kind, asked.digest.text) == (SummaryKind.LABEL, "A kite")
    assert names(asked.nodes) == ["c"]
    assert [digest.kind for digest in digests_of(*reading(label, *BEFORE))] == [SummaryKind.LABEL]


def test_a_name_of_another_sessions_thread_is_not_ours():
    label = {"type": "summary", "summary": "A kite", "leafUuid": "elsewhere"}
    assert digests_of(*reading(label, *BEFORE)) == []


def test_a_summary_that_an_agent_wrote_with_turnlog_counts():
    words = {"type": "summary", "summary": "A kite was built", "leafUuid": "b"}
    found = context(MARK, *BEFORE, words, record("c", "b"))
    assert (found.digest.kind, names(found.nodes)) == (SummaryKind.SUMMARY, ["c"])
    # What stood there before turnlog came is Claude Code's, and a name.
    assert context(words, *BEFORE, MARK, record("c", "b")).digest is None


def test_the_summary_that_reaches_furthest_is_the_newest():
    early = {"type": "summary", "content": {"summary": "early", "summarizedUntil": "a"}}
    found = context(*BEFORE, boundary(), summary(), record("c", "sum"), early)
    assert found.digest.text == "What was said"


# -- what a compaction keeps ----------------------------------------------------------------

KEPT = (*BEFORE, record("c", "b"), answer("d", "c", "m2"))


def kept_messages(*uuids, anchor="sum"):
    return {"preservedMessages": {"anchorUuid": anchor, "uuids": list(uuids)}}


@pytest.mark.parametrize(
    "metadata",
    [
        kept_messages("c", "d"),
        {"preservedSegment": {"headUuid": "c", "anchorUuid": "sum", "tailUuid": "d"}},
    ],
    ids=["messages", "segment"],
)
@pytest.mark.parametrize("parent", ["sum", "d"], ids=["from the words", "from the last kept"])
def test_what_a_compaction_keeps_is_seen_beside_its_words(metadata, parent):
    log = (*KEPT, boundary(named="d", **metadata), summary(), record("e", parent))
    found = context(*log)
    assert found.digest.text == "What was said"
    assert names(found.digest.kept) == ["c", "d"]
    assert (found.digest.until.uuid, found.summarised) == ("b", 2)
    assert names(found.nodes) == ["e"]
    assert not found.digest.kept_come_first


def test_what_is_kept_may_come_before_the_words():
    metadata = kept_messages("a", anchor="cut")
    found = context(*KEPT, boundary(named="d", **metadata), summary(), record("e", "sum"))
    assert found.digest.kept_come_first
    assert (names(found.digest.kept), found.digest.until.uuid) == (["a"], "d")


def test_kept_records_that_are_gone_are_named():
    metadata = kept_messages("d", "gone")
    found = context(*KEPT, boundary(named="d", **metadata), summary())
    assert (names(found.digest.kept), found.digest.lost) == (["d"], ("gone",))
    half = {"preservedSegment": {"headUuid": "gone", "tailUuid": "d"}}
    found = context(*KEPT, boundary(named="d", **half), summary())
    assert (found.digest.kept, found.digest.lost) == ((), ("gone",))


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        "x",
        {"preservedMessages": 3},
        {"preservedMessages": {"uuids": "abc"}},
        {"preservedMessages": {"uuids": [1, None, {}]}},
        {"preservedSegment": {"headUuid": 1, "tailUuid": "b"}},
    ],
)
def test_odd_metadata_keeps_nothing_and_breaks_nothing(said):
    cut = boundary() | {"compactMetadata": said}
    found = context(*BEFORE, cut, summary(), record("c", "sum"))
    assert (found.digest.kept, names(found.nodes)) == ((), ["c"])


# -- for whatever log -----------------------------------------------------------------------

older = st.sampled_from(["u1", "u5", "u9", "gone", "2026-01-01", 3, None]).map(
    lambda until: {"type": "summary", "content": {"summary": "x", "summarizedUntil": until}}
)


@given(st.lists(logs | older.map(lambda each: [each]), max_size=4), st.booleans())
def test_a_context_is_the_end_of_its_thread(parts, labels):
    log = [each for part in parts for each in part]
    found, read = reading(*log)
    for tip in (None, *found.tips):
        seen = context_of(found, read, tip, labels=labels)
        thread = names(whole_thread(found, tip))
        following = names(seen.nodes)
        # In the thread's order, and whole but for what carried the summary itself.
        end = thread[len(thread) - len(following) :] if seen.digest is None else thread
        assert following == [uuid for uuid in end if uuid in set(following)]
        if seen.digest is None:
            assert following == thread
        elif seen.digest.until is not None:
            assert seen.digest.until.uuid in thread
            assert seen.digest.until.uuid not in following


def test_a_session_reads_its_own_context(tmp_path):
    home = tmp_path / "projects" / "-p"
    home.mkdir(parents=True)
    log = (
        *BEFORE,
        boundary(),
        summary(),
        answer("c", "sum", "m2", call("x")),
        result("r", "c", "x"),
    )
    (home / "11111111-aaaa-4aaa-8aaa-111111111111.jsonl").write_bytes(log_of(*log))
    session = Session.find(find_homes((tmp_path,)), "1111")
    found = context_of(session.tree, session.records)
    assert (found.digest.text, names(found.nodes)) == ("What was said", ["c", "r"])


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
def test_the_context_of_every_compacted_real_session_is_its_main_thread():
    (home,) = find_homes((CORPUS,))
    compacted = 0
    for log in find_logs(home):
        if log.kind != "session" or b"compact_boundary" not in log.path.read_bytes():
            continue
        data = log.path.read_bytes()
        found = Tree(item for item in read_log(log.path) if isinstance(item, Placed))

        def read(nodes, data=data):
            return ((node, decode(data[node.offset : node.offset + node.length])) for node in nodes)

        seen = context_of(found, read)
        if seen.digest is None:
            continue
        compacted += 1
        assert seen.digest.text
        beside = {seen.digest.node.uuid, seen.digest.boundary.uuid}
        assert names(seen.nodes) == [
            uuid for uuid in names(main_thread(found)) if uuid not in beside
        ]
    assert compacted == 5
