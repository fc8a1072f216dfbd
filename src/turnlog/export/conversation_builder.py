"""Read a session into a conversation: results at their calls, subagents inside their calls.

The thread decides the order. A call has its result even if that came turns later; a result whose
call is missing is shown by itself. A subagent is shown once, at the call that started it.

Turns, or parts of turns, are built one at a time. ``ConversationBuilder`` keeps what all of them
need, so a page can build a few of thousands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from turnlog.costs.usage import scan_logs
from turnlog.export.conversation import (
    THREADS,
    Block,
    Conversation,
    ConversationOptions,
    ConversationTurn,
    Head,
    Mark,
    MarkKind,
    SessionUsage,
    SubagentRun,
    ToolCall,
    ToolResult,
    anchor_of,
    no_such_turns,
)
from turnlog.export.record_blocks import Answered, Blocks, CallRequest, Unmasked
from turnlog.export.session_read import SessionRead, read_session
from turnlog.records.record import Record, Spoken
from turnlog.records.record import Result as ResultRecord
from turnlog.sessions.reading.subagents import How, Subagent, subagents_by_call
from turnlog.sessions.reading.threads import Branch, branches_of, main_thread, whole_thread
from turnlog.sessions.reading.tree import Gap, Node, Tree, find_record
from turnlog.sessions.session import Session, opening_of, records_of, turns_of
from turnlog.sessions.totals import usual_prices

if TYPE_CHECKING:
    from turnlog.records.responses import Response


_DEEPEST: Final = 6


def read_conversation(session: Session, choice: ConversationOptions, out: Unmasked) -> Conversation:
    """Read *session*: its head at once, its turns lazily.

    Raises NotFound if none of the chosen turns exists.
    """
    builder = ConversationBuilder(session, choice, out)
    if choice.turns is not None:
        builder.check_turns(*choice.turns)
    return Conversation(head=builder.head(), turns=builder.turns(), strays=builder.strays())


class TurnPart(NamedTuple):
    """The records of a turn, or some of them."""

    number: int
    nodes: list[Node]
    branch: Branch | None = None
    """Its branch, if that is not the main one."""
    is_opening: bool = False
    """Whether it comes before the first prompt."""
    is_branch_start: bool = False

    @property
    def anchor(self) -> str:
        """The id of the turn in pages."""
        if self.is_opening and self.branch is not None:
            return f"t{anchor_of(self.branch.tip.uuid)[1:]}"
        return f"t{self.number}"


def _parts(nodes: list[Node], branch: Branch | None, turns_before: int) -> Iterator[TurnPart]:
    """Yield numbered turns; first the records before the first prompt, if any."""
    opening = opening_of(nodes)
    if opening:
        yield TurnPart(turns_before, opening, branch, True, branch is not None)
    for number, turn in enumerate(turns_of(nodes), turns_before + 1):
        is_start = branch is not None and not opening and number == turns_before + 1
        yield TurnPart(number, turn.nodes, branch, False, is_start)


class ConversationBuilder:
    """Builds the conversation of one session; *read* is what its logs have, if it is known."""

    def __init__(
        self,
        session: Session,
        choice: ConversationOptions,
        out: Unmasked,
        read: SessionRead | None = None,
    ) -> None:
        self.session, self.choice, self.out = session, choice, out
        self.read = read = read or read_session(session)
        self._by_call = subagents_by_call(read.subagents if choice.tools == "full" else ())
        self._done: set[str] = set()
        """The subagents that were already returned."""

    def head(self, figures: SessionUsage | None = None) -> Head:
        """Return the metadata and totals; *figures* are the totals, if they are known."""
        found, out = self.read.summary, self.out
        title = found.title
        if self.choice.turns is not None:
            # A title made from a prompt could reveal turns that are not exported.
            title = found.custom_title or found.ai_title
        return Head(
            id=out.text(self.session.id),
            title=out.text(title) if title else None,
            project=out.text(found.cwd) if found.cwd else None,
            git_branch=out.text(found.git_branch) if found.git_branch else None,
            models=[out.text(model) for model in found.models if not model.startswith("<")],
            started_at=found.started_at,
            last_active_at=found.last_active_at,
            thread=self.choice.thread,
            figures=figures or figures_of(self.session),
            subagents=len(self.read.subagents),
            damaged=self.read.damaged,
            other_branches=len(self._others) if self.choice.thread != "all" else 0,
            is_redacted=out.is_redacted,
        )

    def check_turns(self, first: int, last: int | None) -> None:
        """Raise NotFound if there is no such turn, instead of exporting nothing."""
        count = sum(not part.is_opening for part in self.parts)
        if not any(map(self.choice.wants, range(1, count + 1))):
            raise no_such_turns(self.session.id, first, last, count)

    def turns(self) -> Iterator[ConversationTurn]:
        """Yield the chosen turns, in order."""
        for part in self.parts:
            if self.choice.wants(part.number):
                turn = self.turn(part)
                if turn.blocks:
                    yield turn

    def turn(self, part: TurnPart) -> ConversationTurn:
        """Return a turn, or a part of it."""
        turn = self._threads[part.branch.tip.uuid if part.branch else None].turn(part, self._gaps)
        if part.branch is not None:
            turn.branch = self.out.text(part.branch.tip.uuid)
        if part.is_branch_start and part.branch is not None:
            turn.blocks.insert(0, self._branch_mark(part.branch))
        return turn

    def records(self, part: TurnPart) -> Iterator[tuple[Node, Record]]:
        """Yield the records of a turn."""
        return records_of(self.session.thread_paths, part.nodes)

    @cached_property
    def parts(self) -> list[TurnPart]:
        """The turns of the chosen thread, unread."""
        found: list[TurnPart] = []
        number = 0
        for nodes, branch in self._stretches:
            found += _parts(nodes, branch, number)
            number = found[-1].number if found else 0
        return found

    @cached_property
    def _threads(self) -> dict[str | None, _LogThread]:
        return {
            branch.tip.uuid if branch else None: _LogThread(self, self.session.thread_paths, nodes)
            for nodes, branch in self._stretches
        }

    @cached_property
    def _gaps(self) -> dict[str, Gap]:
        return _gaps(self.read.tree)

    @cached_property
    def _others(self) -> list[Branch]:
        return [branch for branch in branches_of(self.read.tree) if not branch.is_main]

    def strays(self) -> Iterator[SubagentRun]:
        """Yield the subagents of no call in the turns."""
        if self.choice.tools != "full":
            return
        for subagent in self.read.subagents:
            is_elsewhere = subagent.spawn is not None and self.choice.turns is not None
            if subagent.id not in self._done and not is_elsewhere:
                yield self.subagent(subagent, 0)

    def subagents_of(self, call_id: str, depth: int) -> list[SubagentRun]:
        """Return the subagents that a call started."""
        if depth >= _DEEPEST:
            return []
        done = self._done if self.choice.is_deep else ()
        found = [agent for agent in self._by_call.get(call_id, ()) if agent.id not in done]
        return [self.subagent(agent, depth) for agent in found]

    def subagent(self, subagent: Subagent, depth: int) -> SubagentRun:
        """Return a subagent's conversation."""
        self._done.add(subagent.id)
        turns = []
        if self.choice.is_deep:
            thread = SubagentThread(self, subagent, depth)
            turns = [thread.turn(part) for part in thread.parts]
        out = self.out
        return SubagentRun(
            id=out.text(subagent.id),
            kind=out.text(subagent.kind) if subagent.kind else None,
            description=out.text(subagent.description) if subagent.description else None,
            is_guess=subagent.how in (How.PROMPT, How.POSITION),
            is_orphan=subagent.is_orphan,
            turns=[turn for turn in turns if turn.blocks],
        )

    @cached_property
    def _stretches(self) -> list[tuple[list[Node], Branch | None]]:
        tree = self.read.tree
        thread = self.choice.thread
        if thread == "current":
            nodes = main_thread(tree)
        else:
            tip = None if thread in THREADS else find_record(tree, thread)
            nodes = whole_thread(tree, tip)
        others = self._others if thread == "all" else ()
        return [(nodes, None), *((branch.own, branch) for branch in others)]

    def _branch_mark(self, branch: Branch) -> Mark:
        if branch.parting is None:
            text = "a branch that begins by itself"
        else:
            text = f"a branch that parts at {branch.parting.uuid[:8]}"
        return Mark(kind=MarkKind.BRANCH, text=self.out.text(text))


class SubagentThread:
    """The conversation of a subagent, to be built turn by turn."""

    def __init__(self, builder: ConversationBuilder, subagent: Subagent, depth: int = 0) -> None:
        tree = builder.read.subagent_trees[subagent.id]
        nodes = whole_thread(tree)
        paths = subagent.path if subagent.sidechain is None else builder.session.thread_paths
        self.parts = list(_parts(nodes, None, 0))
        self._paths = paths
        self._log = _LogThread(builder, paths, nodes, depth + 1)
        self._gaps = _gaps(tree)

    def turn(self, part: TurnPart) -> ConversationTurn:
        """Return a turn, or a part of it."""
        return self._log.turn(part, self._gaps)

    def records(self, part: TurnPart) -> Iterator[tuple[Node, Record]]:
        """Yield the records of a turn."""
        return records_of(self._paths, part.nodes)


class _LogThread:
    """Reads the thread of one log turn by turn."""

    def __init__(
        self, builder: ConversationBuilder, paths: Any, nodes: Iterable[Node], depth: int = 0
    ) -> None:
        self._builder, self._paths, self._depth = builder, paths, depth
        self._blocks = Blocks(builder.choice, builder.out, is_subagent=depth > 0)
        nodes = list(nodes)
        self._answering = {call: node for node in nodes for call in node.results}
        self._called = {call for node in nodes for call in node.calls}
        self._done: set[str] = set()
        """The calls that were shown; a page may show a part several times."""

    def turn(self, part: TurnPart, gaps: dict[str, Gap]) -> ConversationTurn:
        """Return one turn, or a part of it."""
        records = list(records_of(self._paths, part.nodes))
        answers = self._answers(records)
        done = self._done if self._builder.choice.is_deep else set()
        blocks: list[Block] = []
        times: list[datetime] = []
        for node, record in records:
            if node.uuid in gaps:
                blocks.append(self._blocks.gap(gaps[node.uuid]))
            if record.at is not None:
                times.append(record.at)
            counts: Counter[str] = Counter()
            for block in self._blocks.of(record):
                if isinstance(block, CallRequest):
                    done.add(block.id)
                    found: Block = self._call(block, answers.get(block.id))
                elif not isinstance(block, Answered):
                    found = block
                elif block.id not in self._called and block.id not in done:
                    # A result whose call is missing.
                    done.add(block.id)
                    found = self._call(None, block)
                else:
                    continue
                kind = str(found.__struct_config__.tag)[0]
                found.anchor = f"{anchor_of(node.uuid)}-{kind}{counts[kind]}"
                counts[kind] += 1
                blocks.append(found)
        return ConversationTurn(
            number=part.number,
            anchor=part.anchor,
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
    return usage_of(responses_of(session))


def responses_of(session: Session) -> list[Response]:
    """Return the API responses of a session and its subagents, each once."""
    responses = scan_logs(session.read_logs).responses
    if any(log.kind == "day" for log in session.main_logs):  # It has other sessions' responses.
        responses = [response for response in responses if response.session == session.id]
    return responses


def usage_of(responses: Iterable[Response]) -> SessionUsage:
    """Return what *responses* used."""
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
