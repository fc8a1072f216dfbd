"""Appends, torn tails, strangers, followers, repairs and reopenings in any order: P1 to P4 hold."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from storage.logs import Script, add, numbered, read, unaccounted
from strategies import rubble, to_line
from turnlog.records.annotations import format_marker
from turnlog.storage.reader import Placed, Reader
from turnlog.storage.repair import Severity, repair, validate
from turnlog.storage.tail import follow_log, read_last
from turnlog.storage.writer import LogWriter


class LogInAnyOrder(RuleBasedStateMachine):
    """One log, two writers, a stranger without manners, and a reader who comes back."""

    def __init__(self):
        super().__init__()
        logging.getLogger("turnlog.storage").setLevel(logging.CRITICAL)
        self.folder = tempfile.TemporaryDirectory()
        self.log = Path(self.folder.name) / "log.jsonl"
        self.count = 0
        self.acknowledged: list[bytes] = []
        self.old = b""
        self.bookmark = (0, 1)
        self.seen: list[bytes] = []
        self.writers: list[LogWriter] = []

    @initialize(head=st.booleans())
    def open(self, head):
        self.head = format_marker("test") if head else b""
        self.writers = [self.opened(), self.opened()]

    def opened(self):
        return LogWriter(self.log, durability="flush", head=self.head, lock_timeout=0)

    def teardown(self):
        for writer in self.writers:
            writer.close()
        self.folder.cleanup()
        logging.getLogger("turnlog.storage").setLevel(logging.NOTSET)

    def fresh(self):
        self.count += 1
        return numbered(self.count)

    def acknowledge(self, records, placed):
        """Note what the writer said is written, and that it stands where it said."""
        data = self.log.read_bytes()
        for record, (offset, length) in zip(records, placed, strict=True):
            line = to_line(record)
            assert data[offset : offset + length + 1] == line + b"\n"
            assert offset == 0 or data[offset - 1 : offset] == b"\n"
            self.acknowledged.append(line)

    # -- what happens -----------------------------------------------------------------------

    @rule(which=st.integers(0, 1))
    def append(self, which):
        record = self.fresh()
        self.acknowledge([record], [self.writers[which].append(record)])

    @rule(which=st.integers(0, 1), number=st.integers(2, 4))
    def append_many(self, which, number):
        records = [self.fresh() for _ in range(number)]
        self.acknowledge(records, self.writers[which].append_many(records))

    @rule(which=st.integers(0, 1))
    def append_after_looking(self, which):
        record = self.fresh()

        def decide(news):
            list(news.items)
            return [record]

        self.acknowledge([record], self.writers[which].append_after(decide))

    @rule(which=st.integers(0, 1))
    def reopen(self, which):
        self.writers[which].close()
        self.writers[which] = self.opened()

    @rule(share=st.floats(0.01, 0.99))
    def a_stranger_dies_while_writing(self, share):
        line = to_line(self.fresh())
        add(self.log, line[: max(1, int(len(line) * share))])

    @rule()
    def a_stranger_appends_a_line(self):
        add(self.log, to_line(self.fresh()) + b"\n")

    @rule(junk=rubble.filter(lambda junk: junk[:1] not in (b"\x1f", b"\x28")))  # No archive.
    def a_stranger_appends_junk(self, junk):
        add(self.log, junk + b"\n")

    @rule(zeros=st.integers(1, 300))
    def the_power_fails(self, zeros):
        add(self.log, b"\0" * zeros)

    @rule()
    def come_back_and_read(self):
        offset, line = self.bookmark
        with Reader(self.log, start=offset, line=line, tail="wait") as reader:
            self.seen += [item.record.raw for item in reader if isinstance(item, Placed)]
        self.bookmark = (reader.offset, reader.line)

    @rule()
    def follow(self):
        record = self.fresh()
        placed = []
        stop = Script(lambda: placed.append(self.writers[0].append(record)))
        found = list(follow_log(self.log, stop=stop, poll_seconds=0))
        self.acknowledge([record], placed)
        assert found == read(self.log, tail="wait")

    @precondition(lambda self: self.old)
    @rule()
    def repair(self):
        before = [item.record.raw for item in read(self.log) if isinstance(item, Placed)]
        report = repair(self.log, write=True, lock_timeout=0)
        after = [item.record.raw for item in read(self.log)]
        changed = sum(one != other for one, other in zip(before, after, strict=True))
        assert changed == report.rewritten  # What JSON.parse refuses.
        assert not repair(self.log).needed
        left = validate(self.log).findings
        assert {each.code for each in left if each.severity is not Severity.NOTE} <= {"not-utf8"}
        if report.written:
            assert Path(report.original).read_bytes() == self.old
            self.old = self.log.read_bytes()
            self.bookmark, self.seen = (0, 1), []

    # -- what holds -------------------------------------------------------------------------

    @invariant()
    def p1_what_was_acknowledged_is_there_once_and_in_order(self):
        if self.log.exists():
            ours = set(self.acknowledged)
            found = [item.record.raw for item in read(self.log) if isinstance(item, Placed)]
            assert [raw for raw in found if raw in ours] == self.acknowledged

    @invariant()
    def p2_old_bytes_do_not_change(self):
        data = self.log.read_bytes() if self.log.exists() else b""
        assert data.startswith(self.old)
        self.old = data

    @invariant()
    def p3_no_acknowledged_record_shares_a_line(self):
        whole = set(self.old.split(b"\n"))
        assert all(line in whole for line in self.acknowledged)

    @invariant()
    def p4_every_byte_is_accounted_for_in_both_directions(self):
        if not self.log.exists():
            return
        with Reader(self.log, tail="wait") as reader:
            items = list(reader)
            rest = unaccounted(self.old, reader, items)
            end = reader.offset
        assert rest.translate(None, b" \t\r\n\xef\xbb\xbf") in (b"", self.old[end:])
        records = [item.record.raw for item in items if isinstance(item, Placed)]
        assert self.seen == records[: len(self.seen)]
        if self.old.endswith(b"\n"):
            last = [item for item in read_last(self.log, 3) if isinstance(item, Placed)]
            assert [item.record.raw for item in last] == records[-3:]


LogInAnyOrder.TestCase.settings = settings(
    max_examples=settings.default.max_examples // 2, stateful_step_count=25
)
TestLogInAnyOrder = LogInAnyOrder.TestCase
