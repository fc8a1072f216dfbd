"""Reading a session into a conversation: results put to their calls, subagents below them.

The thread decides the order. A call is told with its result even if that came turns later, and the
result is not told again; one whose call is nowhere is told by itself. A subagent is told once, at
the call that asked for it, however its log and that call may name each other.

One pass over each log of a session: all that must be known before it is told.

`Session` answers each question with a pass of its own, which is right for whoever asks one. An
export asks all of them: what the session is about, how its records hang together, which call asked
for which subagent, what is damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct, field

from turnlog.costs.usage import scan_logs
from turnlog.errors import NotFound
from turnlog.export.conversation import (
    Block,
    Conversation,
    ConversationOptions,
    ConversationTurn,
    DamageSummary,
    Head,
    Mark,
    MarkKind,
    SessionUsage,
    SubagentRun,
    ToolCall,
)
from turnlog.export.masking import Masking
from turnlog.export.record_blocks import Answered, Blocks, CallRequest
from turnlog.formats import LogFile
from turnlog.records.record import Record, Spoken
from turnlog.records.record import Result as ResultRecord
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.metadata import MetadataFold, TitleCandidates
from turnlog.sessions.reading.subagents import (
    How,
    Subagent,
    Traces,
    link_subagents,
    subagents_by_call,
)
from turnlog.sessions.reading.threads import Branch, branches_of, main_thread, whole_thread
from turnlog.sessions.reading.tree import Gap, Node, Tree
from turnlog.sessions.session import Session, opening_of, records_of, turns_of
from turnlog.sessions.totals import usual_prices
from turnlog.storage.reader import Placed, Reader


class SessionRead(Struct):
    """What one pass over the logs has told."""

    tree: Tree
    summary: SessionSummary
    damaged: DamageSummary
    subagents: tuple[Subagent, ...]
    subagent_trees: dict[str, Tree] = field(default_factory=dict)


def read_session(session: Session) -> SessionRead:
    """Read the logs of *session*, each once."""
    session.path  # noqa: B018 - An error if it has lost its main log.
    main = _Pass(Traces())
    tree = Tree(main.items(session))
    found: dict[str, tuple[Path, Traces]] = {}
    trees: dict[str, Tree] = {}
    for log in session.subagent_logs:
        if log.agent_id is not None:
            one = _Pass(Traces(caller=log.agent_id))
            try:
                trees[log.agent_id] = Tree(one.of(session, log))
            except NotFound:  # Gone since it was listed.
                continue
            found[log.agent_id] = (log.path, one.traces)
    subagents = link_subagents(main.traces, found, session.path)
    members = main.traces.members()
    for subagent in subagents:
        if subagent.sidechain is not None:
            trees[subagent.id] = tree.sidechain(members[subagent.sidechain])
    return SessionRead(
        tree=tree,
        summary=session.as_listed(main.facts.summary, main.called),
        damaged=main.damaged,
        subagents=subagents,
        subagent_trees=trees,
    )


class _Pass:
    """Feeds everything that wants to see the records of a log."""

    def __init__(self, traces: Traces) -> None:
        self.traces = traces
        self.facts, self.called = MetadataFold(), TitleCandidates()
        self.damaged = DamageSummary(places=0, size_bytes=0)

    def items(self, session: Session) -> Iterator[Placed]:
        """Return the records of the main logs, in order."""
        for number, log in enumerate(session.main_logs):
            for item in self.of(session, log):
                yield item._replace(log=number) if number else item

    def of(self, session: Session, log: LogFile) -> Iterator[Placed]:
        """Return the records of one log."""
        # In the log of a day others' records stand too, and whose damage it is nobody can tell.
        for item in session.read(log) if log.kind == "day" else self._whole(log):
            self.called.take(item.record, item.offset, self.facts)
            self.traces.see(item)
            yield item

    def _whole(self, log: LogFile) -> Iterator[Placed]:
        with Reader(log.path) as reader:
            for item in reader:
                if isinstance(item, Placed):
                    yield item
                else:
                    self._damage(item.length)
            left = reader.pending
            if left is not None and left.record is None:
                self._damage(left.length)

    def _damage(self, length: int) -> None:
        self.damaged.places += 1
        self.damaged.size_bytes += length


_DEEPEST: Final = 6


def read_conversation(session: Session, choice: ConversationOptions, out: Masking) -> Conversation:
    """Read *session*: its head at once, its turns as they are asked for.

    An error if there is none of the turns that were chosen.
    """
    reading = _ConversationBuild(session, choice, out)
    if choice.turns is not None:
        reading.check_turns(*choice.turns)
    return Conversation(head=reading.head(), turns=reading.turns(), strays=reading.strays())


class _Stretch(NamedTuple):
    """Records that follow one another, and the branch they stand in if it is not the main one."""

    nodes: list[Node]
    branch: Branch | None

    def parts(self, turns_before: int) -> Iterator[tuple[int, list[Node]]]:
        """Cut it into turns, with their numbers; before them, what stands before its prompts."""
        opening = opening_of(self.nodes)
        if opening:
            yield turns_before, opening
        for number, turn in enumerate(turns_of(self.nodes), turns_before + 1):
            yield number, turn.nodes


class _ConversationBuild:
    """One session while it is read."""

    def __init__(self, session: Session, choice: ConversationOptions, out: Masking) -> None:
        self.session, self.choice, self.out = session, choice, out
        self._read = read = read_session(session)
        self._others = [each for each in branches_of(read.tree) if not each.is_main]
        self._asked_for = subagents_by_call(read.subagents if choice.tools else ())
        self._told: set[str] = set()

    def head(self) -> Head:
        """Say what is known of the session."""
        found, out = self._read.summary, self.out
        # Of a part, no title may tell what stands in another.
        given = found.custom_title or found.ai_title
        title = given if self.choice.turns is not None else found.title
        return Head(
            id=out.text(self.session.id),
            title=out.text(title) if title else None,
            project=out.text(found.cwd) if found.cwd else None,
            git_branch=out.text(found.git_branch) if found.git_branch else None,
            models=[out.text(model) for model in found.models],
            started_at=found.started_at,
            last_active_at=found.last_active_at,
            thread=self.choice.thread,
            figures=figures_of(self.session),
            subagents=len(self._read.subagents),
            damaged=self._read.damaged,
            other_branches=len(self._others) if self.choice.thread != "all" else 0,
            is_redacted=out.is_redacted,
        )

    def check_turns(self, first: int, last: int | None) -> None:
        """Raise if no turn is wanted: nothing of an export would say why it is empty."""
        count = sum(node.is_prompt for nodes, _ in self._stretches() for node in nodes)
        if not any(map(self.choice.wants, range(1, count + 1))):
            asked = f"turn {first}" if first == last else f"turns {first}-{last or ''}"
            raise NotFound(
                f"session {self.session.id} has no {asked}",
                hint=f"it has {count:,}, counted from 1" if count else "nothing was asked in it",
            )

    def turns(self) -> Iterator[ConversationTurn]:
        """Read the turns that are wanted, in order."""
        gaps = _gaps(self._read.tree)
        number = 0
        for stretch in self._stretches():
            branch = stretch.branch
            log = _LogThread(self, self.session.paths, stretch.nodes)
            parted = branch is not None
            for number, nodes in stretch.parts(number):  # noqa: B020 - It goes on counting.
                if not self.choice.wants(number):
                    continue
                told = log.turn(nodes, number, gaps)
                if branch is not None:
                    told.branch = self.out.text(branch.tip.uuid)
                if branch is not None and parted:
                    told.blocks.insert(0, self._parting(branch))
                parted = False
                if told.blocks:
                    yield told

    def strays(self) -> Iterator[SubagentRun]:
        """Read the subagents that no call of the turns has asked for."""
        if not self.choice.tools:
            return
        for subagent in self._read.subagents:
            is_elsewhere = subagent.spawn is not None and self.choice.turns is not None
            if subagent.id not in self._told and not is_elsewhere:
                yield self.subagent(subagent, 0)

    def subagents_of(self, call_id: str, depth: int) -> list[SubagentRun]:
        """Read the subagents that a call has asked for."""
        left = [each for each in self._asked_for.get(call_id, ()) if each.id not in self._told]
        return [self.subagent(subagent, depth) for subagent in left] if depth < _DEEPEST else []

    def subagent(self, subagent: Subagent, depth: int) -> SubagentRun:
        """Read what a subagent did."""
        self._told.add(subagent.id)
        tree = self._read.subagent_trees[subagent.id]
        nodes = whole_thread(tree)
        paths = subagent.path if subagent.sidechain is None else self.session.paths
        log = _LogThread(self, paths, nodes, depth + 1)
        gaps = _gaps(tree)
        told = [log.turn(part, number, gaps) for number, part in _Stretch(nodes, None).parts(0)]
        out = self.out
        return SubagentRun(
            id=out.text(subagent.id),
            kind=out.text(subagent.kind) if subagent.kind else None,
            description=out.text(subagent.description) if subagent.description else None,
            is_guess=subagent.how in (How.PROMPT, How.POSITION),
            is_orphan=subagent.is_orphan,
            turns=[turn for turn in told if turn.blocks],
        )

    def _stretches(self) -> Iterator[_Stretch]:
        tree = self._read.tree
        main = main_thread(tree) if self.choice.thread == "main" else whole_thread(tree)
        yield _Stretch(main, None)
        if self.choice.thread == "all":
            yield from (_Stretch(branch.own, branch) for branch in self._others)

    def _parting(self, branch: Branch) -> Mark:
        if branch.parting is None:
            words = "a branch that begins by itself"
        else:
            words = f"a branch that parts at {branch.parting.uuid[:8]}"
        return Mark(kind=MarkKind.BRANCH, text=self.out.text(words))


class _LogThread:
    """The thread of one log, read turn by turn."""

    def __init__(
        self, reading: _ConversationBuild, paths: Any, nodes: Iterable[Node], depth: int = 0
    ) -> None:
        self._reading, self._paths, self._depth = reading, paths, depth
        self._blocks = Blocks(reading.choice, reading.out, is_subagent=depth > 0)
        self._answering = {call: node for node in nodes for call in node.results}
        self._done: set[str] = set()

    def turn(self, nodes: Iterable[Node], number: int, gaps: dict[str, Gap]) -> ConversationTurn:
        """Read one turn."""
        records = list(records_of(self._paths, nodes))
        answers = self._answers(records)
        blocks: list[Block] = []
        times: list[datetime] = []
        for node, record in records:
            if node.uuid in gaps:
                blocks.append(self._blocks.gap(gaps[node.uuid]))
            if record.at is not None:
                times.append(record.at)
            for each in self._blocks.of(record):
                if isinstance(each, CallRequest):
                    self._done.add(each.id)
                    blocks.append(self._call(each, answers.get(each.id)))
                elif not isinstance(each, Answered):
                    blocks.append(each)
                elif each.id not in self._done:
                    self._done.add(each.id)
                    blocks.append(self._call(None, each))
        ends = (min(times), max(times)) if times else (None, None)
        return ConversationTurn(number=number, at=ends[0], ended_at=ends[1], blocks=blocks)

    def _answers(self, records: list[tuple[Node, Record]]) -> dict[str, Answered]:
        """Return the results for the calls of a turn, also those that came later."""
        if not self._reading.choice.tools:
            return {}
        here = {node.uuid for node, _ in records}
        asked = (call for node, _ in records for call in node.calls)
        later = {
            found.uuid: found
            for call in asked
            if (found := self._answering.get(call)) is not None and found.uuid not in here
        }
        elsewhere = records_of(self._paths, later.values()) if later else ()
        answers: dict[str, Answered] = {}
        for _, record in (*records, *elsewhere):
            if isinstance(record, Spoken | ResultRecord):
                for each in self._blocks.answers(record):
                    answers.setdefault(each.id, each)
        return answers

    def _call(self, asked: CallRequest | None, answer: Answered | None) -> ToolCall:
        call = self._blocks.call(asked, answer)
        call_id = asked.id if asked else answer.id if answer else ""
        call.subagents = self._reading.subagents_of(call_id, self._depth)
        return call


def figures_of(session: Session) -> SessionUsage:
    """Reckon what a session used, its subagents included, each response once."""
    responses = scan_logs(session.read_logs).responses
    if any(log.kind == "day" for log in session.main_logs):  # Others' responses stand there too.
        responses = [each for each in responses if each.session == session.id]
    bill = usual_prices().bill(responses)
    counters = [each.counters for each in responses]
    return SessionUsage(
        messages=sum(each.messages for each in responses),
        input=sum(each.input for each in counters),
        output=sum(each.output for each in counters),
        cache_write_5m=sum(each.cache_write_5m for each in counters),
        cache_write_1h=sum(each.cache_write_1h for each in counters),
        cache_read=sum(each.cache_read for each in counters),
        cost_usd=f"{bill.total_usd:f}",
        unpriced=sorted({each.model for each in bill.unpriced}),
    )


def _gaps(tree: Tree) -> dict[str, Gap]:
    return {gap.node.uuid: gap for gap in tree.gaps}


def as_json(value: Any) -> bytes:
    """Write values as JSON for people and programs."""
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"
