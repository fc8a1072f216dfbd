"""What `turnlog show --json` prints: the same as on the screen, as one document."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from turnlog.cli.browse.show_selection import Pair, SessionSelection, ViewName
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
from turnlog.sessions.reading.context import Context
from turnlog.sessions.reading.context import SummaryKind as DigestKind
from turnlog.sessions.reading.subagents import Subagent
from turnlog.sessions.reading.threads import branches_of
from turnlog.sessions.reading.tree import Gap, GapReason, Node
from turnlog.sessions.session import Session
from turnlog.text import utf8_safe


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
