"""Write sessions: label, fork and convert them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from turnlog.api.homes import Home, LayoutName, all_logs, turnlog_home
from turnlog.api.sessions.kept_session import KeptSession
from turnlog.api.store import Store, open_store
from turnlog.errors import NotFound, UsageError
from turnlog.formats import format_named
from turnlog.records.tags import join_tags, tags_in
from turnlog.sessions.convert.convert import DialectChoice, convert
from turnlog.sessions.owners import share_out
from turnlog.sessions.session import Session
from turnlog.sessions.writing.fork import fork, thread_to

__all__ = [
    "ConvertDocument",
    "DialectChoice",
    "ForkDocument",
    "LabelsDocument",
    "add_tags",
    "convert_session",
    "fork_session",
    "label_session",
    "remove_tags",
    "set_labels",
]


class LabelsDocument(Struct, kw_only=True):
    """What `turnlog rename`, `tag` and `pin` print with `--json`."""

    id: str
    title: str | None
    tags: list[str]
    pinned: bool
    path: str


def label_session(
    homes: Sequence[Home],
    name: str,
    *,
    title: str | None = None,
    pinned: bool | None = None,
) -> LabelsDocument:
    """Set the title or the pin of a session; an empty title clears it."""
    store = Store(homes, turnlog_home())
    return _labels(store, store.update(name, title=title, pinned=pinned))


def add_tags(homes: Sequence[Home], name: str, tags: Sequence[str]) -> LabelsDocument:
    """Add *tags* to a session."""
    store = Store(homes, turnlog_home())
    session = store.session(name)
    before = session.metadata.tags
    after = tags_in(",".join([*before, *_checked(tags)]))
    return _labels(store, session if after == before else _retag(store, session, after))


def remove_tags(homes: Sequence[Home], name: str, tags: Sequence[str] = ()) -> LabelsDocument:
    """Remove *tags* from a session, or all of its tags."""
    store = Store(homes, turnlog_home())
    session = store.session(name)
    before = session.metadata.tags
    unwanted = _checked(tags) or before
    for tag in unwanted:
        if tag not in before:
            hint = f"its tags are {join_tags(before)}" if before else "it has no tags"
            raise UsageError(f"session {session.id[:8]} has no tag {tag!r}", hint=hint)
    after = [tag for tag in before if tag not in unwanted]
    return _labels(store, session if after == before else _retag(store, session, after))


def set_labels(
    store: Store,
    name: str,
    *,
    title: str | None = None,
    tags: Sequence[str] | None = None,
    pinned: bool | None = None,
) -> LabelsDocument:
    """Set the title, the tags or the pin of a session; None leaves it as it is."""
    tag = None if tags is None else join_tags(_checked(tags))
    return _labels(store, store.update(name, title=title, tag=tag, pinned=pinned))


def _checked(tags: Sequence[str]) -> list[str]:
    if any(not tags_in(tag) for tag in tags):
        raise UsageError("a tag must not be empty", hint="turnlog tag SESSION --off removes tags")
    return tags_in(",".join(tags))


def _retag(store: Store, session: KeptSession, tags: Sequence[str]) -> KeptSession:
    return store.update(session.id, tag=join_tags(tags))


def _labels(store: Store, session: KeptSession) -> LabelsDocument:
    metadata = session.metadata
    return LabelsDocument(
        id=session.id,
        title=metadata.title,
        tags=metadata.tags,
        pinned=session.id in store.pins(),
        path=str(session.path),
    )


class ForkDocument(Struct, kw_only=True):
    """What `turnlog fork --json` prints."""

    id: str
    path: str
    forked_from: str
    records: int


def fork_session(
    homes: Sequence[Home],
    name: str,
    *,
    at: str | None = None,
    into: str | os.PathLike[str] | None = None,
    layout: LayoutName | None = None,
) -> tuple[ForkDocument, list[str] | None]:
    """Copy a session up to the record *at* into a new session of the home *into*.

    Also return the command with which its agent continues it, or None.
    """
    session = Session.find(homes, name)
    thread_to(session, at)  # Raises if there is no such record, before anything is written.
    store = open_store(into)
    project = session.summary.cwd or "."
    form = format_named(layout or session.layout)
    with store.create(project=project, layout=form.name) as writer:
        records = fork(session, writer, at)
    document = ForkDocument(
        id=writer.session_id, path=str(writer.path), forked_from=session.id, records=records
    )
    return document, form.resume_command(document.id)


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
    dialect: DialectChoice = "keep",
    project: str | None = None,
) -> ConvertDocument:
    """Copy a session into another layout.

    *name* is the beginning of its id, or the path of its log, if homes have it in several layouts.
    """
    session = _of_log(homes, name) if os.sep in name else Session.find(homes, name)
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


def _of_log(homes: Sequence[Home], path: str) -> Session:
    """Return the session of the log at *path*, as that log has it."""
    real = os.path.realpath(os.path.expanduser(path))
    for log in all_logs(homes):
        if os.path.realpath(log.path) != real:
            continue
        ids = list(share_out([log])) if log.session_id is None else [log.session_id]
        if len(ids) != 1:
            raise UsageError(
                f"{path} has records of {len(ids)} sessions", hint="give the start of a session id"
            )
        logs = Session.find(homes, ids[0]).logs
        same = [each for each in logs if each.kind == "subagent" or each.layout == log.layout]
        return Session(ids[0], same)
    raise NotFound(
        f"{path} is not a log of a home",
        hint="give the start of a session id, or name the home of the log",
    )
