"""What `rename`, `tag` and `pin` share: one session, labelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from turnlog.cli.options import show_json

if TYPE_CHECKING:
    from turnlog.sessions.session import Session


class LabelsDocument(Struct, kw_only=True):
    """What `turnlog rename`, `tag` and `pin` print with `--json`."""

    id: str
    title: str | None
    tag: str | None
    pinned: bool
    path: str


def label(
    name: str,
    homes: tuple[str, ...],
    *,
    title: str | None = None,
    tag: str | None = None,
    pinned: bool | None = None,
) -> tuple[Session, LabelsDocument]:
    """Set what is given of the session called *name*."""
    from turnlog.api.store import Store
    from turnlog.formats import all_homes, turnlog_home

    store = Store(all_homes(homes), turnlog_home())
    session = store.update(name, title=title, tag=tag, pinned=pinned)
    found = session.metadata
    document = LabelsDocument(
        id=session.id,
        title=found.title,
        tag=found.tag,
        pinned=session.id in store.pins(),
        path=str(session.path),
    )
    return session, document


def show(document: LabelsDocument, words: str, *, as_json: bool) -> int:
    """Return what was done."""
    if as_json:
        show_json(document)
        return 0
    from turnlog.cli.terminal.console import console, safe

    console().print(f"[green]✓[/] [bold]{safe(document.id[:8])}[/] {words}")
    return 0
