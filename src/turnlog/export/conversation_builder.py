"""Read a session into a conversation: results at their calls, subagents inside their calls.

The thread decides the order. A call has its result even if that came turns later; a result whose
call is missing is shown by itself. A subagent is shown once, at the call that started it.

``Session`` makes one pass over a log per question. An export asks all of them: title, tree,
subagents, damage. ``read_session`` answers them in one pass over each log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Struct, field

from turnlog.costs.usage import scan_logs
from turnlog.errors import NotFound
from turnlog.export.conversation import (
    THREADS,
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
    ToolResult,
    no_such_turns,
)
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
from turnlog.sessions.reading.tree import Gap, Node, Tree, find_record
from turnlog.sessions.session import Session, opening_of, records_of, turns_of
from turnlog.sessions.totals import usual_prices
from turnlog.storage.reader import Placed, Reader

if TYPE_CHECKING:
    from turnlog.export.masking import Masking  # Its rules take long to compile.


class SessionRead(Struct):
    """The results of one pass over the logs."""

    tree: Tree
    summary: SessionSummary
    damaged: DamageSummary
    subagents: tuple[Subagent, ...]
    subagent_trees: dict[str, Tree] = field(default_factory=dict)


def read_session(session: Session) -> SessionRead:
    """Read the logs of *session*, each once."""
    session.path  # noqa: B018 - Raises if the main log is missing.
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
    """One pass over a log that collects titles, traces of subagents and damage."""

    def __init__(self, traces: Traces) -> None:
        self.traces = traces
        self.facts, self.called = MetadataFold(), TitleCandidates()
        self.damaged = DamageSummary(places=0, size_bytes=0)

    def items(self, session: Session) -> Iterator[Placed]:
        """Yield the records of the main logs, in order."""
        for number, log in enumerate(session.main_logs):
            for item in self.of(session, log):
                yield item._replace(log=number) if number else item

    def of(self, session: Session, log: LogFile) -> Iterator[Placed]:
        """Yield the records of one log."""
        # The log of a day has records of several sessions, so its damage is not attributed.
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
    """Read *session*: its head at once, its turns lazily.

    Raises NotFound if none of the chosen turns exists.
    """
    builder = _ConversationBuilder(session, choice, out)
    if choice.turns is not None:
        builder.check_turns(*choice.turns)
    return Conversation(head=builder.head(), turns=builder.turns(), strays=builder.strays())


class _Stretch(NamedTuple):
    """Consecutive records, and their branch if it is not the main one."""

    nodes: list[Node]
    branch: Branch | None

    def parts(self, turns_before: int) -> Iterator[tuple[int, list[Node]]]:
        """Yield numbered turns; first the records before the first prompt, if any."""
        opening = opening_of(self.nodes)
        if opening:
            yield turns_before, opening
        for number, turn in enumerate(turns_of(self.nodes), turns_before + 1):
            yield number, turn.nodes


class _ConversationBuilder:
    """Builds the conversation of one session."""

    def __init__(self, session: Session, choice: ConversationOptions, out: Masking) -> None:
        self.session, self.choice, self.out = session, choice, out
        self._read = read = read_session(session)
        self._others = [branch for branch in branches_of(read.tree) if not branch.is_main]
        self._by_call = subagents_by_call(read.subagents if choice.tools == "full" else ())
        self._done: set[str] = set()
        """The subagents that were already returned."""

    def head(self) -> Head:
        found, out = self._read.summary, self.out
        title = found.title
        if self.choice.turns is not None:
            # A title made from a prompt could reveal turns that are not exported.
            title = found.custom_title or found.ai_title
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
        """Raise NotFound if there is no such turn, instead of exporting nothing."""
        count = sum(node.is_prompt for nodes, _ in self._stretches() for node in nodes)
        if not any(map(self.choice.wants, range(1, count + 1))):
            raise no_such_turns(self.session.id, first, last, count)

    def turns(self) -> Iterator[ConversationTurn]:
        """Yield the chosen turns, in order."""
        gaps = _gaps(self._read.tree)
        number = 0
        for stretch in self._stretches():
            branch = stretch.branch
            log = _LogThread(self, self.session.paths, stretch.nodes)
            is_first = True
            for number, nodes in stretch.parts(number):  # noqa: B020 - Numbers continue.
                if not self.choice.wants(number):
                    continue
                turn = log.turn(nodes, number, gaps)
                if branch is not None:
                    turn.branch = self.out.text(branch.tip.uuid)
                    if is_first:
                        turn.blocks.insert(0, self._branch_mark(branch))
                is_first = False
                if turn.blocks:
                    yield turn

    def strays(self) -> Iterator[SubagentRun]:
        """Yield the subagents of no call in the turns."""
        if self.choice.tools != "full":
            return
        for subagent in self._read.subagents:
            is_elsewhere = subagent.spawn is not None and self.choice.turns is not None
            if subagent.id not in self._done and not is_elsewhere:
                yield self.subagent(subagent, 0)

    def subagents_of(self, call_id: str, depth: int) -> list[SubagentRun]:
        """Return the subagents that a call started."""
        if depth >= _DEEPEST:
            return []
        found = [agent for agent in self._by_call.get(call_id, ()) if agent.id not in self._done]
        return [self.subagent(agent, depth) for agent in found]

    def subagent(self, subagent: Subagent, depth: int) -> SubagentRun:
        """Return a subagent's conversation."""
        self._done.add(subagent.id)
        tree = self._read.subagent_trees[subagent.id]
        nodes = whole_thread(tree)
        paths = subagent.path if subagent.sidechain is None else self.session.paths
        log = _LogThread(self, paths, nodes, depth + 1)
        gaps = _gaps(tree)
        turns = [log.turn(part, number, gaps) for number, part in _Stretch(nodes, None).parts(0)]
        out = self.out
        return SubagentRun(
            id=out.text(subagent.id),
            kind=out.text(subagent.kind) if subagent.kind else None,
            description=out.text(subagent.description) if subagent.description else None,
            is_guess=subagent.how in (How.PROMPT, How.POSITION),
            is_orphan=subagent.is_orphan,
            turns=[turn for turn in turns if turn.blocks],
        )

    def _stretches(self) -> Iterator[_Stretch]:
        tree = self._read.tree
        thread = self.choice.thread
        if thread == "current":
            nodes = main_thread(tree)
        else:
            tip = None if thread in THREADS else find_record(tree, thread)
            nodes = whole_thread(tree, tip)
        yield _Stretch(nodes, None)
        if thread == "all":
            yield from (_Stretch(branch.own, branch) for branch in self._others)

    def _branch_mark(self, branch: Branch) -> Mark:
        if branch.parting is None:
            text = "a branch that begins by itself"
        else:
            text = f"a branch that parts at {branch.parting.uuid[:8]}"
        return Mark(kind=MarkKind.BRANCH, text=self.out.text(text))


class _LogThread:
    """Reads the thread of one log turn by turn."""

    def __init__(
        self, builder: _ConversationBuilder, paths: Any, nodes: Iterable[Node], depth: int = 0
    ) -> None:
        self._builder, self._paths, self._depth = builder, paths, depth
        self._blocks = Blocks(builder.choice, builder.out, is_subagent=depth > 0)
        self._answering = {call: node for node in nodes for call in node.results}
        self._done: set[str] = set()

    def turn(self, nodes: Iterable[Node], number: int, gaps: dict[str, Gap]) -> ConversationTurn:
        """Return one turn."""
        records = list(records_of(self._paths, nodes))
        answers = self._answers(records)
        blocks: list[Block] = []
        times: list[datetime] = []
        for node, record in records:
            if node.uuid in gaps:
                blocks.append(self._blocks.gap(gaps[node.uuid]))
            if record.at is not None:
                times.append(record.at)
            for block in self._blocks.of(record):
                if isinstance(block, CallRequest):
                    self._done.add(block.id)
                    blocks.append(self._call(block, answers.get(block.id)))
                elif not isinstance(block, Answered):
                    blocks.append(block)
                elif block.id not in self._done:  # A result whose call is missing.
                    self._done.add(block.id)
                    blocks.append(self._call(None, block))
        return ConversationTurn(
            number=number,
            at=min(times, default=None),
            ended_at=max(times, default=None),
            blocks=blocks,
        )

    def _answers(self, records: list[tuple[Node, Record]]) -> dict[str, Answered]:
        """Return the results of the calls in a turn, including later ones."""
        if not self._builder.choice.has_tools:
            return {}
        here = {node.uuid for node, _ in records}
        calls = (call for node, _ in records for call in node.calls)
        later = {
            found.uuid: found
            for call in calls
            if (found := self._answering.get(call)) is not None and found.uuid not in here
        }
        elsewhere = records_of(self._paths, later.values()) if later else ()
        answers: dict[str, Answered] = {}
        for _, record in (*records, *elsewhere):
            if isinstance(record, Spoken | ResultRecord):
                for answer in self._blocks.answers(record):
                    answers.setdefault(answer.id, answer)
        return answers

    def _call(self, asked: CallRequest | None, answer: Answered | None) -> ToolCall:
        call = self._blocks.call(asked, answer)
        call_id = asked.id if asked else answer.id if answer else ""
        if self._builder.choice.tools == "line":
            call.input = None
            if call.result is not None:
                call.result = ToolResult(text="", is_error=call.result.is_error, at=call.result.at)
        call.subagents = self._builder.subagents_of(call_id, self._depth)
        return call


def figures_of(session: Session) -> SessionUsage:
    """Return what a session and its subagents used, each response once."""
    responses = scan_logs(session.read_logs).responses
    if any(log.kind == "day" for log in session.main_logs):  # It has other sessions' responses.
        responses = [response for response in responses if response.session == session.id]
    bill = usual_prices().bill(responses)
    used = bill.used
    return SessionUsage(
        messages=bill.messages,
        input=used.input,
        output=used.output,
        cache_write_5m=used.cache_write_5m,
        cache_write_1h=used.cache_write_1h,
        cache_read=used.cache_read,
        cost_usd=f"{bill.total_usd:f}",
        unpriced=sorted({usage.model for usage in bill.unpriced}),
    )


def _gaps(tree: Tree) -> dict[str, Gap]:
    return {gap.node.uuid: gap for gap in tree.gaps}


def as_json(value: Any) -> bytes:
    """Return *value* as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"
