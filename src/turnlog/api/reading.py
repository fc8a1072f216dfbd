"""Read one session: select records to show, describe it in figures, list its branches."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Literal

from msgspec import Struct, field

from turnlog.api.homes import Home, turnlog_home
from turnlog.errors import NotFound, UsageError
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
from turnlog.sessions.reading.context import Context, context_of
from turnlog.sessions.reading.context import SummaryKind as DigestKind
from turnlog.sessions.reading.filters import EVERYTHING, RecordFilter
from turnlog.sessions.reading.ranges import ThreadRange, last_of, numbered, range_of
from turnlog.sessions.reading.subagents import Subagent, subagents_by_call
from turnlog.sessions.reading.threads import branches_of, whole_thread, with_parallel
from turnlog.sessions.reading.tree import Gap, GapReason, Lineage, Node, Tree, find_record
from turnlog.sessions.session import Session, readable_session
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
    "SessionSelection",
    "ShowDocument",
    "ShowOptions",
    "Subagent",
    "branches_document",
    "choose",
    "describe",
    "describe_session",
    "document_of",
    "filters",
    "find_readable",
    "is_being_written",
    "running_sessions",
    "subagents_by_call",
]


def find_readable(homes: Sequence[Home], name: str) -> Session:
    """Return a session by the beginning of its id, also one that lost its main log."""
    return readable_session(Session.find(homes, name))


class SubagentInfo(Struct, kw_only=True):
    """A subagent of a session and the call that made it."""

    id: str
    kind: str | None
    description: str | None
    call: str | None
    found_by: str | None


class QueuedRow(Struct, kw_only=True):
    """A prompt that was typed while the agent was busy, and that it never took."""

    text: str
    at: datetime | None


class SessionDocument(Struct, kw_only=True):
    """What `turnlog info --json` prints."""

    id: str
    project: str | None
    title: str | None
    tag: str | None
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
    """What the program that has it open says it does, such as "busy"; null if none has."""
    crashed: bool
    ended_at: datetime | None
    pinned: bool
    git_commit: str | None
    messages: int
    """API responses, each counted once, its subagents' included."""
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    cost_usd: str
    """An estimate at the API's prices."""
    unpriced: list[str]
    carried_messages: int
    """Those of the messages that a fork or a resume carried over: `cost` has them elsewhere."""
    carried_usd: str
    records: int
    prompts: int
    turns: int
    """One for each prompt, on whichever branch it stands."""
    thread_records: int
    branches: int
    """The ways the conversation went, as `turnlog show --branches` lists them."""
    gaps: int
    replaced: int
    """Records that a later one with the same uuid stands for."""
    conflicts: int
    """Those of them that said something else."""
    carried: dict[str, int]
    """Records that name other sessions, by session."""
    queued: list[QueuedRow]
    """Prompts that wait, the oldest first; where nothing runs any more, for ever."""
    is_subagent: bool
    """Its log is a subagent's alone: no list tells of it."""
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
    """Gather everything about *session*.

    *pins* are the ids of those that are pinned, *running* what its program left about itself.
    """
    alive = running is not None and running.is_alive
    own = "running" if session.facts.life.is_running else None
    found, tree, known, totals = session.summary, session.tree, session.metadata, session.totals
    tokens = totals.tokens
    return SessionDocument(
        id=session.id,
        project=found.cwd,
        title=found.title,
        tag=found.tag,
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
        branches=len(branches_of(tree)),
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


def _add_carried(found: SessionDocument, homes: Sequence[Home]) -> None:
    """Say what counts for another session though no record of this one says so, if that is known.

    Claude Code's own forks take for theirs what they copy.
    """
    from turnlog.api.costs import counted_elsewhere
    from turnlog.sessions.totals import usual_prices

    bill = usual_prices().bill(counted_elsewhere(homes, found.id))
    if bill.messages > found.carried_messages:
        found.carried_messages = bill.messages
        found.carried_usd = f"{bill.total_usd:f}"


Pair = tuple[Node | None, Record]
_NOTES: Final = 32
"""About so many notes stand at the end of a log."""

ViewName = Literal["whole", "main", "thread", "context", "ancestry", "end"]


class ShowOptions(Struct, frozen=True, kw_only=True):
    """What the caller wants to see."""

    thread: str | None = None
    """``whole``, ``main``, or the beginning of a record's uuid."""
    context: bool = False
    at: str | None = None
    depth: int | None = None
    last: int | None = None
    span: tuple[int | None, int | None] | None = None
    prompts: bool = False
    """All that was typed, whichever branch it stands on, unless one was chosen."""
    only: RecordFilter = EVERYTHING

    @property
    def wants_the_end(self) -> bool:
        """Nothing but the last steps, for which a long log need not be read."""
        chosen = self.thread or self.context or self.at or self.only != EVERYTHING
        return self.last is not None and not chosen


class SessionSelection(Struct):
    """A part of a session. *nodes* is None where only the end of the log was read."""

    session: Session
    name: ViewName
    nodes: list[Node] | None
    only: RecordFilter
    kept: list[Node] = field(default_factory=list)
    """Records from before a context that are seen with it."""
    context: Context | None = None
    end: list[Record] = field(default_factory=list)
    gaps: dict[str, Gap] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    earlier: int | None = 0
    """How many steps were left out before it; None if nobody has counted."""
    next: int | None = None
    """The number of the step that follows it, if any does."""
    total: int | None = None
    subagent: Subagent | None = None
    """The subagent whose records it shows; None for the session itself."""

    @property
    def is_part(self) -> bool:
        """Something of the session is not in it."""
        return self.name != "whole" or self.earlier != 0 or self.next is not None

    def pairs(self) -> Iterator[Pair]:
        """Read its records."""
        if self.nodes is None:
            return ((None, record) for record in self.end)
        return self.read(self.nodes)

    def kept_pairs(self) -> Iterator[Pair]:
        """Read the records that a context keeps from before it."""
        return self.read(self.kept)

    def subagent_pairs(self, subagent: Subagent) -> Iterator[Pair]:
        """Read the records of a subagent."""
        found = self.session.subagent_records(
            subagent, whole_thread(self.session.subagent_tree(subagent))
        )
        return ((node, record) for node, record in self.only.pairs(found))

    def read(self, nodes: list[Node]) -> Iterator[tuple[Node, Record]]:
        """Read the records of *nodes*, as far as they are wanted."""
        session, subagent = self.session, self.subagent
        found = (
            session.records(nodes)
            if subagent is None
            else session.subagent_records(subagent, nodes)
        )
        return ((node, record) for node, record in self.only.pairs(found))


def choose(session: Session, asked: ShowOptions) -> SessionSelection:
    """Find what of *session* was asked for."""
    if asked.last is not None and asked.last < 0:
        raise UsageError(f"--last is {asked.last}", hint="give a number of steps, 0 or more")
    if asked.wants_the_end:
        return _end(session, asked.last or 0)
    view = _thread(session, asked)
    nodes = view.nodes or []
    if asked.only != EVERYTHING and (asked.last is not None or asked.span is not None):
        # What is counted is what is shown, so it has to be known first.
        nodes = [node for node, _ in view.read(nodes)]
    view.numbers = {node.uuid: number for number, node in numbered(nodes) if number is not None}
    view.total = len(view.numbers)
    part: ThreadRange[Node] | None = None
    if asked.last is not None:
        part = last_of(nodes, asked.last)
    elif asked.span is not None:
        part = range_of(nodes, *asked.span)
    if part is not None:
        view.nodes = part.items
        view.earlier, view.next = part.earlier, part.stop if part.later else None
    shown = {node.uuid for node in view.nodes or ()}
    view.gaps = {uuid: gap for uuid, gap in view.gaps.items() if uuid in shown}
    return view


def _thread(session: Session, asked: ShowOptions) -> SessionSelection:
    """Return the nodes that were asked for, before anything is counted off."""
    if asked.at is not None:
        return _ancestry(session, asked, asked.at)
    tree = session.tree
    view = SessionSelection(session, "whole", [], asked.only, gaps=Lineage(tree).gaps)
    tip = None
    if asked.thread not in (None, "whole", "main"):
        tip = find_record(tree, asked.thread or "")
        view.subagent = session.sidechain_subagents.get(tip.uuid) if tip.is_sidechain else None
    if asked.context:
        view.name, view.context = "context", context_of(tree, session.records, tip)
        view.nodes = view.context.nodes
        view.kept = list(view.context.digest.kept) if view.context.digest else []
    elif tip is not None:
        view.name, view.nodes = "thread", whole_thread(tree, tip)
    elif asked.thread == "main":
        view.name, view.nodes = "main", session.thread
    elif asked.prompts and asked.thread is None:
        view.nodes = tree.prompts
    else:
        view.nodes = session.whole_thread
    return view


def _ancestry(session: Session, asked: ShowOptions, at: str) -> SessionSelection:
    """Return what leads to a record, in the log in which it stands."""
    subagent, tree, node = _where(session, at)
    lineage = Lineage(tree)
    up = lineage.ancestry(node, depth=asked.depth)
    gone_over = {gap.node.uuid for gap in up.gaps}
    return SessionSelection(
        session,
        "ancestry",
        with_parallel(tree, up.nodes),
        asked.only,
        gaps={uuid: gap for uuid, gap in lineage.gaps.items() if uuid in gone_over},
        earlier=None if up.is_cut else 0,
        subagent=subagent,
    )


def _where(session: Session, text: str) -> tuple[Subagent | None, Tree, Node]:
    """Find the record whose uuid begins with *text*: in the main log, else in a subagent's."""
    try:
        node = find_record(session.tree, text)
    except NotFound:
        for subagent in session.subagents:
            tree = session.subagent_tree(subagent)
            with suppress(NotFound):
                return subagent, tree, find_record(tree, text)
        raise
    inner = session.sidechain_subagents.get(node.uuid) if node.is_sidechain else None
    if inner is None:
        return None, session.tree, node
    tree = session.subagent_tree(inner)
    return inner, tree, tree.by_uuid[node.uuid]


def _end(session: Session, last: int) -> SessionSelection:
    """Return the last steps in the log's order, and whether there are others before them.

    Logs end in notes of the program that show nothing, titles and modes, any number of them: what
    is counted are steps, and as much is read as they take.
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
    view.end = part.items
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
    """A tool was asked."""

    id: str
    name: str
    input: Any


class ResultRow(Struct, kw_only=True):
    """A tool answered the call of that id."""

    call: str
    text: str
    is_error: bool


class RecordRow(Struct, kw_only=True):
    """A record of the session."""

    number: int | None
    """The number of the step that it begins; null if it begins none, or nobody has counted."""
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
    """The types of the blocks that are none of these, such as images."""


class ContextRow(Struct, kw_only=True):
    """What stands for the records before a context."""

    kind: DigestKind
    text: str
    at: datetime | None
    record: str | None
    until: str | None
    named: str | None
    messages: int | None
    summarised: int
    kept: list[str]
    lost: list[str]


class GapRow(Struct, kw_only=True):
    """A record whose parent is not the one it names."""

    record: str
    named: str
    reason: GapReason
    bridged_to: str | None


class SubagentShown(Struct, kw_only=True):
    """A subagent, the call that made it, and what it did."""

    id: str
    kind: str | None
    description: str | None
    call: str | None
    records: list[RecordRow]


class BranchRow(Struct, kw_only=True):
    """A thread that says something of its own."""

    tip: str
    at: datetime | None
    is_main: bool
    is_subagent: bool
    steps: int
    own_steps: int
    """Prompts, responses and results; and those that stand in no branch before it."""
    parting: str | None
    first_said: str | None
    """The first prompt that stands in no branch before it."""


class ShowDocument(Struct, kw_only=True):
    """What `turnlog show --json` prints."""

    session: str
    view: ViewName | None = None
    subagent: str | None = None
    """The subagent in whose log the records stand; null for the main log."""
    records: list[RecordRow] = field(default_factory=list)
    earlier: int | None = 0
    """How many steps were left out before these; null if nobody has counted."""
    next: int | None = None
    """The number of the step that follows, for --range; null if none does."""
    total: int | None = None
    context: ContextRow | None = None
    gaps: list[GapRow] = field(default_factory=list)
    subagents: list[SubagentShown] = field(default_factory=list)
    branches: list[BranchRow] = field(default_factory=list)


def document_of(view: SessionSelection, *, subagents: bool, thinking: bool) -> ShowDocument:
    """Return a view as a document."""
    kept = list(_rows(view.kept_pairs(), view, thinking=thinking))
    return ShowDocument(
        session=view.session.id,
        view=view.name,
        subagent=view.subagent.id if view.subagent else None,
        records=[*kept, *_rows(view.pairs(), view, thinking=thinking)],
        earlier=view.earlier,
        next=view.next,
        total=view.total,
        context=_context(view.context),
        gaps=[_gap(gap) for gap in view.gaps.values()],
        subagents=[
            _subagent(view, subagent, thinking=thinking) for subagent in view.session.subagents
        ]
        if subagents
        else [],
    )


def branches_document(session: Session) -> ShowDocument:
    """Return the branches of a session as a document."""
    found = branches_of(session.tree)
    firsts = {branch.tip.uuid: branch.own_prompts[0] for branch in found if branch.own_prompts}
    said = {
        node.uuid: record.text
        for node, record in session.records(firsts.values())
        if isinstance(record, Spoken)
    }
    tips = {node.uuid: record.at for node, record in session.records([each.tip for each in found])}
    rows = [
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
    return ShowDocument(session=session.id, branches=rows, total=len(rows))


def _said(node: Node | None, texts: dict[str, str]) -> str | None:
    text = texts.get(node.uuid) if node is not None else None
    return utf8_safe(text) if text is not None else None


def _rows(pairs: Iterable[Pair], view: SessionSelection, *, thinking: bool) -> Iterable[RecordRow]:
    for node, record in pairs:
        yield _row(node, record, view.numbers, thinking=thinking)


def _row(
    node: Node | None, record: Record, numbers: dict[str, int], *, thinking: bool
) -> RecordRow:
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


def _context(found: Context | None) -> ContextRow | None:
    digest = found.digest if found else None
    if found is None or digest is None:
        return None
    return ContextRow(
        kind=digest.kind,
        text=utf8_safe(digest.text),
        at=digest.at,
        record=digest.node.uuid if digest.node else None,
        until=digest.until.uuid if digest.until else None,
        named=digest.named,
        messages=digest.messages,
        summarised=found.summarised,
        kept=[node.uuid for node in digest.kept],
        lost=list(digest.lost),
    )


def _gap(gap: Gap) -> GapRow:
    return GapRow(
        record=gap.node.uuid,
        named=gap.named,
        reason=gap.reason,
        bridged_to=gap.bridged_to.uuid if gap.bridged_to else None,
    )


def _subagent(view: SessionSelection, subagent: Subagent, *, thinking: bool) -> SubagentShown:
    records = [
        _row(None, record, {}, thinking=thinking) for _, record in view.subagent_pairs(subagent)
    ]
    return SubagentShown(
        id=subagent.id,
        kind=subagent.kind,
        description=subagent.description,
        call=subagent.spawn.call_id if subagent.spawn else None,
        records=records,
    )
