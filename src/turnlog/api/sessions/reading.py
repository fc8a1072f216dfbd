"""Read one session: select records to show, describe it in figures, list its branches."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct, field

from turnlog.api.homes import Home, turnlog_home
from turnlog.errors import NotFound, UsageError
from turnlog.export.conversation import THREADS, no_such_turns
from turnlog.records.meaning import Author, Meaning, author_of, meaning_of
from turnlog.records.record import (
    Assistant,
    Call,
    Linked,
    Record,
    Result,
    Spoken,
    TextBlock,
    ThinkingBlock,
)
from turnlog.sessions.reading import filters
from turnlog.sessions.reading.filters import EVERYTHING, RecordFilter
from turnlog.sessions.reading.ranges import last_of, numbered
from turnlog.sessions.reading.subagents import Subagent, subagents_by_call
from turnlog.sessions.reading.threads import branches_of, whole_thread
from turnlog.sessions.reading.tree import Gap, GapReason, Lineage, Node, Tree, find_record
from turnlog.sessions.session import Session, readable_session, turns_of
from turnlog.sessions.state import Running, is_being_written, recency, running_sessions
from turnlog.storage.reader import Placed
from turnlog.storage.tail import read_last
from turnlog.text import utf8_safe

__all__ = [
    "EVERYTHING",
    "BranchRow",
    "Gap",
    "Node",
    "RecordFilter",
    "Session",
    "SessionDocument",
    "SessionHeader",
    "SessionSelection",
    "ShowDocument",
    "ShowOptions",
    "Subagent",
    "choose",
    "describe_session",
    "document_of",
    "filters",
    "find_readable",
    "header_of",
    "is_being_written",
    "locate_record",
    "record_row",
    "running_sessions",
    "subagents_by_call",
    "with_owner",
]


def find_readable(homes: Sequence[Home], name: str) -> Session:
    """Return a session by the beginning of its id, also one that lost its main log."""
    return readable_session(Session.find(homes, name))


class SubagentInfo(Struct, kw_only=True):
    """A subagent of a session and the call that started it."""

    id: str
    kind: str | None
    description: str | None
    call: str | None
    found_by: str | None


class QueuedRow(Struct, kw_only=True):
    """A prompt that was queued and never sent."""

    text: str
    at: datetime | None


class BranchRow(Struct, kw_only=True):
    """A branch of the conversation."""

    tip: str
    at: datetime | None
    is_main: bool
    is_subagent: bool
    steps: int
    own_steps: int
    """Prompts, responses and results; and those that are in no earlier branch."""
    parting: str | None
    first_said: str | None
    """The first prompt that is in no earlier branch."""


class SessionDocument(Struct, kw_only=True):
    """What `turnlog info --json` prints."""

    id: str
    project: str | None
    title: str | None
    tags: list[str]
    started_at: datetime | None
    last_active_at: datetime | None
    git_branch: str | None
    version: str | None
    models: dict[str, int]
    layout: str
    state: str
    recency: str | None
    """Active within five minutes, inactive within an hour, or stale."""
    running: str | None
    """What the program that runs it reports, such as "busy"; null if none does."""
    crashed: bool
    ended_at: datetime | None
    pinned: bool
    git_commit: str | None
    messages: int
    """API responses, each counted once, with those of subagents."""
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    cost_usd: str
    """An estimate at API prices."""
    unpriced: list[str]
    carried_messages: int
    """Messages copied by a fork or a resume, which `cost` counts for another session."""
    carried_usd: str
    records: int
    prompts: int
    turns: int
    """One for each prompt, on all branches."""
    thread_records: int
    branches: list[BranchRow]
    """The branches of the conversation, the main one first."""
    gaps: int
    replaced: int
    """Records replaced by a later one with the same uuid."""
    conflicts: int
    """Replaced records whose content differs."""
    carried: dict[str, int]
    """Records copied from other sessions, by session."""
    queued: list[QueuedRow]
    """Prompts that were not sent yet, the oldest first."""
    is_subagent: bool
    """Only the log of a subagent; lists do not show it."""
    subagents: list[SubagentInfo]
    logs: list[str]


def describe_session(homes: Sequence[Home], name: str) -> SessionDocument:
    """Return all figures of a session, by the beginning of its id."""
    from turnlog.api.store import Store

    store = Store(homes, turnlog_home())
    session = readable_session(store.session(name))
    document = describe(session, store.pins(), store.running().get(session.id))
    _add_carried(document, homes)
    return document


def describe(
    session: Session, pins: Collection[str] = (), running: Running | None = None
) -> SessionDocument:
    """Return all figures of *session*.

    *pins* are the ids of pinned sessions, *running* is the process that runs it.
    """
    alive = running is not None and running.is_alive
    own = "running" if session.facts.life.is_running else None
    found, tree, known, totals = session.summary, session.tree, session.metadata, session.totals
    tokens = totals.tokens
    return SessionDocument(
        id=session.id,
        project=found.cwd,
        title=found.title,
        tags=known.tags,
        started_at=found.started_at,
        last_active_at=found.last_active_at,
        git_branch=found.git_branch,
        version=found.version,
        models=found.models,
        layout=session.layout,
        state=known.state,
        recency=recency(found.last_active_at, datetime.now(UTC)),
        running=running.doing if running is not None and alive else own,
        crashed=known.crashed or (running is not None and not alive),
        ended_at=known.ended_at,
        pinned=session.id in pins,
        git_commit=known.git_commit,
        messages=totals.messages,
        input=tokens.input,
        output=tokens.output,
        cache_write_5m=tokens.cache_write_5m,
        cache_write_1h=tokens.cache_write_1h,
        cache_read=tokens.cache_read,
        cost_usd=f"{totals.cost_usd:f}",
        unpriced=totals.unpriced,
        carried_messages=totals.carried_messages,
        carried_usd=f"{totals.carried_usd:f}",
        records=found.records,
        prompts=found.prompts,
        turns=found.prompts,
        thread_records=len(session.whole_thread),
        branches=branch_rows(session),
        gaps=len(tree.gaps),
        replaced=len(tree.replaced),
        conflicts=len(session.conflicts),
        carried=session.carried,
        queued=[QueuedRow(text=prompt.text, at=prompt.at) for prompt in session.queued],
        is_subagent=found.is_sidechain,
        subagents=[
            SubagentInfo(
                id=subagent.id,
                kind=subagent.kind,
                description=subagent.description,
                call=subagent.spawn.call_id if subagent.spawn else None,
                found_by=subagent.how.value if subagent.how else None,
            )
            for subagent in session.subagents
        ],
        logs=[str(log.path) for log in session.logs],
    )


class SessionHeader(Struct, kw_only=True):
    """What a reader of a session sees first."""

    id: str
    title: str | None
    project: str | None
    git_branch: str | None
    started_at: datetime | None
    last_active_at: datetime | None
    models: list[str]
    cost: str | None
    """An estimate at API prices, for display; None if unknown or if nothing was used."""


_QUICK: Final = 20_000_000
"""Bytes of a log above which its end is shown without reading all of it for the header."""


def header_of(session: Session, *, is_end: bool = False) -> SessionHeader:
    """Return the header of *session*; if only its end is shown, a long log is not read for it."""
    cost = None
    if is_end and not session.format.shares_logs and session.path.stat().st_size > _QUICK:
        from turnlog.sessions.metadata import read_head_tail

        found = read_head_tail(session.path).summary
    else:
        from turnlog.export.conversation_builder import figures_of

        found, figures = session.summary, figures_of(session)
        cost = figures.cost if figures.messages else None
    return SessionHeader(
        id=session.id,
        title=found.title,
        project=found.cwd,
        git_branch=found.git_branch,
        started_at=found.started_at,
        last_active_at=found.last_active_at,
        models=list(found.models),
        cost=cost,
    )


def _add_carried(found: SessionDocument, homes: Sequence[Home]) -> None:
    """Set what counts for another session, from the index if it knows more.

    Claude Code's own forks put their own id into the records that they copy.
    """
    from turnlog.api.costs import counted_elsewhere
    from turnlog.sessions.totals import usual_prices

    bill = usual_prices().bill(counted_elsewhere(homes, found.id))
    if bill.messages > found.carried_messages:
        found.carried_messages = bill.messages
        found.carried_usd = f"{bill.total_usd:f}"


Pair = tuple[Node | None, Record]
T = TypeVar("T", Node, Record)
_NOTES: Final = 32
"""About as many notes of the program are at the end of a log."""

_FAR: Final = 16
"""How far before the last steps to look for the calls of their results."""

ViewName = Literal["whole", "current", "all", "thread", "end", "place"]


class ShowOptions(Struct, frozen=True, kw_only=True):
    """Which part of a session to show."""

    thread: str = "whole"
    """``current`` (since the last compaction), ``whole``, ``all`` branches, or the beginning of a
    record's uuid for the thread up to that record."""
    last: int | None = None
    turns: tuple[int, int | None] | None = None
    """The first and the last turn, counted from 1; None as the last means no limit."""
    prompts: bool = False
    """The prompts of all branches, unless another thread than the whole one is chosen."""
    only: RecordFilter = EVERYTHING

    @property
    def wants_the_end(self) -> bool:
        """Only the last steps are wanted, so only the end of the log is read."""
        return self.last is not None and self.thread == "whole" and self.only == EVERYTHING


class SessionSelection(Struct):
    """A part of a session. *nodes* is None if only the end of the log was read."""

    session: Session
    name: ViewName
    nodes: list[Node] | None
    only: RecordFilter
    branches: dict[str, str | None] = field(default_factory=dict)
    """The first records of other branches, and the records where these part from another one."""
    end: list[Record] = field(default_factory=list)
    asked: list[Record] = field(default_factory=list)
    """Earlier records with calls that are answered in this part."""
    gaps: dict[str, Gap] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    earlier: int | None = 0
    """The number of steps before it; None if unknown."""
    next: int | None = None
    """The number of the next step, or None."""
    total: int | None = None
    subagent: Subagent | None = None
    """The subagent whose records these are; None for the session itself."""

    @property
    def is_part(self) -> bool:
        """Whether it is less than the whole session."""
        return self.name != "whole" or self.earlier != 0 or self.next is not None

    def pairs(self) -> Iterator[Pair]:
        """Return its records."""
        if self.nodes is None:
            return ((None, record) for record in self.end)
        return self.read(self.nodes)

    def subagent_pairs(self, subagent: Subagent) -> Iterator[Pair]:
        """Return the records of a subagent."""
        found = self.session.subagent_records(
            subagent, whole_thread(self.session.subagent_tree(subagent))
        )
        return ((node, record) for node, record in self.only.pairs(found))

    def read(self, nodes: list[Node]) -> Iterator[tuple[Node, Record]]:
        """Return the records of *nodes* that pass the filter."""
        session, subagent = self.session, self.subagent
        found = (
            session.records(nodes)
            if subagent is None
            else session.subagent_records(subagent, nodes)
        )
        return ((node, record) for node, record in self.only.pairs(found))


def choose(session: Session, options: ShowOptions) -> SessionSelection:
    """Return the part of *session* that the options select."""
    if options.last is not None and options.last < 0:
        raise UsageError(f"invalid number of steps: {options.last}", hint="give 0 or more")
    if options.wants_the_end:
        return _end(session, options.last or 0)
    view = _thread(session, options)
    nodes = view.nodes or []
    view.numbers = {node.uuid: number for number, node in numbered(nodes) if number is not None}
    if options.turns is not None:
        nodes = _nodes_of_turns(session, nodes, *options.turns)
    if options.only != EVERYTHING and options.last is not None:
        # Steps are counted after filtering.
        nodes = [node for node, _ in view.read(nodes)]
        view.numbers = {node.uuid: number for number, node in numbered(nodes) if number is not None}
    view.total = len(view.numbers)
    if options.last is not None:
        last = last_of(nodes, options.last).items
        view.asked = [record for _, record in view.read(_asked_before(nodes, last))]
        nodes = last
    shown = {node.uuid for node in nodes}
    numbers = [number for uuid, number in view.numbers.items() if uuid in shown]
    if options.turns is not None or options.last is not None:
        view.nodes = nodes
        view.earlier = numbers[0] if numbers else view.total
        view.next = numbers[-1] + 1 if numbers and numbers[-1] + 1 < view.total else None
    view.gaps = {uuid: gap for uuid, gap in view.gaps.items() if uuid in shown}
    return view


def _thread(session: Session, options: ShowOptions) -> SessionSelection:
    """Return the selected thread, before its range is applied."""
    if options.thread not in THREADS:
        subagent, tree, tip = locate_record(session, options.thread)
        nodes, gaps = whole_thread(tree, tip), Lineage(tree).gaps
        return SessionSelection(
            session, "thread", nodes, options.only, gaps=gaps, subagent=subagent
        )
    tree = session.tree
    view = SessionSelection(session, "whole", [], options.only, gaps=Lineage(tree).gaps)
    if options.thread == "current":
        view.name, view.nodes = "current", session.thread
    elif options.prompts:
        view.nodes = tree.prompts
    else:
        view.nodes = list(session.whole_thread)
    if options.thread == "all":
        view.name = "all"
        for branch in branches_of(tree) if not options.prompts else ():
            if not branch.is_main and branch.own:
                parting = branch.parting.uuid if branch.parting else None
                view.branches[branch.own[0].uuid] = parting
                view.nodes += branch.own
    return view


def _nodes_of_turns(
    session: Session, nodes: list[Node], first: int, last: int | None
) -> list[Node]:
    """Return the records of some turns; raise NotFound if there is no such turn."""
    turns = turns_of(nodes)
    chosen = turns[max(first, 1) - 1 : last]
    if not chosen:
        raise no_such_turns(session.id, first, last, len(turns))
    return [node for turn in chosen for node in turn.nodes]


def _asked_before(items: list[T], last: list[T]) -> list[T]:
    """Return those of *items* before the *last* that have the calls which these answer."""
    before = items[: len(items) - len(last)][-_FAR:]
    missing = {call for item in last for call in _answered(item)}
    missing -= {call for item in last for call in _called(item)}
    return [item for item in before if not missing.isdisjoint(_called(item))]


def _called(item: Node | Record) -> Iterable[str]:
    """Return the ids of the calls in a record."""
    if isinstance(item, Node):
        return item.calls
    if isinstance(item, Call):
        return (item.call_id or "",)
    return [call.id for call in item.calls] if isinstance(item, Spoken) else ()


def _answered(item: Node | Record) -> Iterable[str]:
    """Return the ids of the calls that a record answers."""
    if isinstance(item, Node):
        return item.results
    if isinstance(item, Result):
        return (item.call_id or "",)
    return [result.tool_use_id for result in item.results] if isinstance(item, Spoken) else ()


def locate_record(session: Session, text: str) -> tuple[Subagent | None, Tree, Node]:
    """Return the record whose uuid begins with *text*, in the main log or a subagent's."""
    try:
        node = find_record(session.tree, text)
    except NotFound:
        for subagent in session.subagents:
            tree = session.subagent_tree(subagent)
            with suppress(NotFound):
                return subagent, tree, find_record(tree, text)
        raise
    return with_owner(session, node)


def with_owner(session: Session, node: Node) -> tuple[Subagent | None, Tree, Node]:
    """Return a record of the main log with the subagent that wrote it there, and its tree."""
    inner = session.sidechain_subagents.get(node.uuid) if node.is_sidechain else None
    if inner is None:
        return None, session.tree, node
    tree = session.subagent_tree(inner)
    return inner, tree, tree.by_uuid[node.uuid]


def _end(session: Session, last: int) -> SessionSelection:
    """Return the last steps in the order of the log, and whether there are earlier ones.

    Logs end with any number of notes, such as titles and modes, so more and more is read until
    there are enough steps.
    """
    view = SessionSelection(session, "end", None, EVERYTHING)
    wanted = _NOTES + 4 * last
    while True:
        records = _last_records(session, wanted)
        is_all = len(records) < wanted
        own = [record for record in records if not _is_in_sidechain(record)]
        part = last_of(own or (records if is_all else []), last)
        if part.earlier or is_all:
            break
        wanted *= 4
    view.end, view.asked = part.items, _asked_before(own, part.items)
    view.earlier = 0 if is_all and not part.earlier else None
    return view


def _is_in_sidechain(record: Record) -> bool:
    """Return whether a subagent wrote *record* into the main log."""
    return isinstance(record, Linked) and record.is_sidechain


def _last_records(session: Session, count: int) -> list[Record]:
    if session.format.shares_logs:
        placed = list(deque(session.items(), maxlen=count))
    else:
        items = read_last(session.path, count)
        placed = [item for item in items if isinstance(item, Placed)]
    return [item.record for item in placed]


class CallRow(Struct, kw_only=True):
    """A call of a tool."""

    id: str
    name: str
    input: Any


class ResultRow(Struct, kw_only=True):
    """The result of the call with that id."""

    call: str
    text: str
    is_error: bool


class RecordRow(Struct, kw_only=True):
    """A record of the session."""

    number: int | None
    """The number of the step that it begins; null if it begins none, or if unknown."""
    uuid: str | None
    parent: str | None
    type: str
    author: Author
    meaning: Meaning
    message_id: str | None
    at: datetime | None
    text: str
    thinking: str | None
    calls: list[CallRow]
    results: list[ResultRow]
    other_blocks: list[str]
    """The types of other blocks, such as images."""


class GapRow(Struct, kw_only=True):
    """A record whose parent is missing or invalid."""

    record: str
    named: str
    reason: GapReason
    bridged_to: str | None


class SubagentShown(Struct, kw_only=True):
    """A subagent, the call that started it, and its records."""

    id: str
    kind: str | None
    description: str | None
    call: str | None
    records: list[RecordRow]


class ShowDocument(Struct, kw_only=True):
    """What `turnlog show --json` prints."""

    session: str
    view: ViewName
    subagent: str | None = None
    """The subagent whose log contains the records; null for the main log."""
    records: list[RecordRow] = field(default_factory=list)
    place: int | None = None
    """Which of the records `--at` names, counted from 0; null in other views."""
    earlier: int | None = 0
    """The number of earlier steps; null if unknown."""
    next: int | None = None
    """The number of the next step, or null."""
    total: int | None = None
    gaps: list[GapRow] = field(default_factory=list)
    subagents: list[SubagentShown] = field(default_factory=list)


def document_of(view: SessionSelection, *, subagents: bool, thinking: bool) -> ShowDocument:
    """Return a selection as it is printed."""
    return ShowDocument(
        session=view.session.id,
        view=view.name,
        subagent=view.subagent.id if view.subagent else None,
        records=list(_rows(view.pairs(), view, thinking=thinking)),
        earlier=view.earlier,
        next=view.next,
        total=view.total,
        gaps=[_gap(gap) for gap in view.gaps.values()],
        subagents=[
            _subagent(view, subagent, thinking=thinking) for subagent in view.session.subagents
        ]
        if subagents
        else [],
    )


def branch_rows(session: Session) -> list[BranchRow]:
    """Return the branches of a session, the main one first."""
    found = branches_of(session.tree)
    firsts = {branch.tip.uuid: branch.own_prompts[0] for branch in found if branch.own_prompts}
    said = {
        node.uuid: record.text
        for node, record in session.records(firsts.values())
        if isinstance(record, Spoken)
    }
    tips = {node.uuid: record.at for node, record in session.records([each.tip for each in found])}
    return [
        BranchRow(
            tip=branch.tip.uuid,
            at=tips.get(branch.tip.uuid),
            is_main=branch.is_main,
            is_subagent=branch.is_subagent,
            steps=branch.steps,
            own_steps=branch.own_steps,
            parting=branch.parting.uuid if branch.parting else None,
            first_said=_said(firsts.get(branch.tip.uuid), said),
        )
        for branch in found
    ]


def _said(node: Node | None, texts: dict[str, str]) -> str | None:
    text = texts.get(node.uuid) if node is not None else None
    return utf8_safe(text) if text is not None else None


def _rows(pairs: Iterable[Pair], view: SessionSelection, *, thinking: bool) -> Iterable[RecordRow]:
    for node, record in pairs:
        yield record_row(node, record, view.numbers, thinking=thinking)


def record_row(
    node: Node | None, record: Record, numbers: dict[str, int], *, thinking: bool
) -> RecordRow:
    """Return a record as documents contain it."""
    blocks = record.blocks if isinstance(record, Spoken) else ()
    thoughts = [block.thinking for block in blocks if isinstance(block, ThinkingBlock)]
    said = record.message if isinstance(record, Assistant) else None
    calls, results, other = _tools(record)
    return RecordRow(
        number=numbers.get(node.uuid) if node else None,
        uuid=record.uuid,
        parent=record.parent_uuid if isinstance(record, Linked) else None,
        type=record.type,
        author=author_of(record),
        meaning=meaning_of(record),
        message_id=said.id if said else None,
        at=record.at,
        text="" if isinstance(record, Result) else utf8_safe(record.text),
        thinking=utf8_safe("\n".join(thoughts)) if thinking and any(thoughts) else None,
        calls=calls,
        results=results,
        other_blocks=other,
    )


def _tools(record: Record) -> tuple[list[CallRow], list[ResultRow], list[str]]:
    if isinstance(record, Call):
        name = record.name or "?"
        return [CallRow(id=record.call_id or "", name=name, input=utf8_safe(record.input))], [], []
    if isinstance(record, Result):
        answer = record.content if isinstance(record.content, str) else str(record.content or "")
        row = ResultRow(
            call=record.call_id or "", text=utf8_safe(answer), is_error=bool(record.is_error)
        )
        return [], [row], []
    if not isinstance(record, Spoken):
        return [], [], []
    calls = [
        CallRow(id=utf8_safe(call.id), name=utf8_safe(call.name), input=utf8_safe(call.input))
        for call in record.calls
    ]
    results = [
        ResultRow(
            call=utf8_safe(result.tool_use_id),
            text=utf8_safe(result.text),
            is_error=bool(result.is_error),
        )
        for result in record.results
    ]
    known = (TextBlock, ThinkingBlock, *map(type, (*record.calls, *record.results)))
    other = [utf8_safe(_type_of(block)) for block in record.blocks if not isinstance(block, known)]
    return calls, results, other


def _type_of(block: Any) -> str:
    return str(getattr(block, "type", None) or block.__struct_config__.tag)


def _gap(gap: Gap) -> GapRow:
    return GapRow(
        record=gap.node.uuid,
        named=gap.named,
        reason=gap.reason,
        bridged_to=gap.bridged_to.uuid if gap.bridged_to else None,
    )


def _subagent(view: SessionSelection, subagent: Subagent, *, thinking: bool) -> SubagentShown:
    records = [
        record_row(None, record, {}, thinking=thinking)
        for _, record in view.subagent_pairs(subagent)
    ]
    return SubagentShown(
        id=subagent.id,
        kind=subagent.kind,
        description=subagent.description,
        call=subagent.spawn.call_id if subagent.spawn else None,
        records=records,
    )
