"""Write sessions: label, fork and convert them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from turnlog.api.homes import Home, LayoutName, turnlog_home
from turnlog.api.store import Store, open_store
from turnlog.errors import NotFound
from turnlog.sessions.convert.convert import DialectChoice, convert
from turnlog.sessions.session import Session
from turnlog.sessions.writing.fork import fork, thread_to

__all__ = [
    "ConvertDocument",
    "DialectChoice",
    "ForkDocument",
    "LabelsDocument",
    "convert_session",
    "fork_session",
    "label_session",
]


class LabelsDocument(Struct, kw_only=True):
    """What `turnlog rename`, `tag` and `pin` print with `--json`."""

    id: str
    title: str | None
    tag: str | None
    pinned: bool
    path: str


def label_session(
    homes: Sequence[Home],
    name: str,
    *,
    title: str | None = None,
    tag: str | None = None,
    pinned: bool | None = None,
) -> LabelsDocument:
    """Set the title, tag or pin of a session; an empty title or tag clears it."""
    store = Store(homes, turnlog_home())
    session = store.update(name, title=title, tag=tag, pinned=pinned)
    metadata = session.metadata
    return LabelsDocument(
        id=session.id,
        title=metadata.title,
        tag=metadata.tag,
        pinned=session.id in store.pins(),
        path=str(session.path),
    )


class ForkDocument(Struct, kw_only=True):
    """What `turnlog fork --json` prints."""

    id: str
    path: str
    forked_from: str
    records: int


class Forked(NamedTuple):
    """A new session, and the dialect that its log is written in."""

    document: ForkDocument
    dialect: str


def fork_session(
    homes: Sequence[Home],
    name: str,
    *,
    at: str | None = None,
    into: str | os.PathLike[str] | None = None,
    layout: LayoutName | None = None,
) -> Forked:
    """Copy a session up to the record *at* into a new session of the home *into*."""
    session = Session.find(homes, name)
    thread_to(session, at)  # Raises if there is no such record, before anything is written.
    store = open_store(into)
    project = session.summary.cwd or "."
    with store.create(project=project, layout=layout or session.layout) as writer:
        records = fork(session, writer, at)
    document = ForkDocument(
        id=writer.session_id, path=str(writer.path), forked_from=session.id, records=records
    )
    return Forked(document, writer.dialect)


class ConvertDocument(Struct, kw_only=True):
    """What `turnlog convert --json` prints."""

    id: str
    layout: str
    paths: list[str]
    converted_from: str
    """The id of the session that was copied."""
    records: int
    rewritten: int
    """Records translated into another dialect; each contains its original."""
    damage: int
    """Damaged ranges of the source, which were not copied."""
    subagents: int


def convert_session(
    homes: Sequence[Home],
    name: str,
    layout: LayoutName,
    into: str,
    *,
    source: LayoutName | None = None,
    dialect: DialectChoice = "keep",
    project: str | None = None,
) -> ConvertDocument:
    """Copy a session into another layout; *source* chooses if it exists in several layouts."""
    session = Session.find(homes, name)
    if source is not None:
        session = _in_layout(session, source)
    done = convert(session, into, layout, dialect=dialect, project=project)
    return ConvertDocument(
        id=done.id,
        layout=done.layout,
        paths=[str(path) for path in done.paths],
        converted_from=session.id,
        records=done.records,
        rewritten=done.rewritten,
        damage=done.damage,
        subagents=done.subagents,
    )


def _in_layout(session: Session, layout: LayoutName) -> Session:
    logs = [log for log in session.logs if log.kind == "subagent" or log.layout == layout]
    chosen = Session(session.id, logs)
    if not chosen.main_logs:
        layouts = {log.layout for log in session.logs if log.kind != "subagent"}
        raise NotFound(
            f"session {session.id} has no log in the layout {layout}",
            hint=f"it has one in {', '.join(sorted(layouts))}",
        )
    return chosen
