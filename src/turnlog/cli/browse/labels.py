"""``turnlog rename``, ``tag`` and ``pin``: label a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.options import home_option, json_option, show_json
from turnlog.cli.terminal.console import console, safe

if TYPE_CHECKING:
    from turnlog.api.sessions.writing import LabelsDocument

_off_option = click.option("--off", is_flag=True, help="Remove instead of add.")


@click.command(
    name="rename",
    epilog="""\b
Examples:
  turnlog rename latest "The flaky retry"
  turnlog rename 5f0c ""                      restore the original title""",
)
@click.argument("name", metavar="SESSION")
@click.argument("title")
@home_option
@json_option
def rename_command(name: str, title: str, homes: tuple[str, ...], *, as_json: bool) -> int:
    """Set a session's title. It is appended to the log, as Claude Code's /rename does.

    SESSION is the start of a session id, or "latest".
    """
    document = _label(name, homes, title=title.strip())
    return _show(document, f"renamed to {safe(document.title or 'untitled')}", as_json=as_json)


@click.command(
    name="tag",
    epilog="""\b
Examples:
  turnlog tag latest billing urgent
  turnlog tag 5f0c                    show its tags
  turnlog tag 5f0c urgent --off       remove one
  turnlog tag 5f0c --off              remove all""",
)
@click.argument("name", metavar="SESSION")
@click.argument("tags", metavar="[TAG]...", nargs=-1)
@home_option
@json_option
@_off_option
def tag_command(
    name: str, tags: tuple[str, ...], homes: tuple[str, ...], *, as_json: bool, off: bool
) -> int:
    """Add tags to a session, or remove them. They are appended to the log.

    SESSION is the start of a session id, or "latest".
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.writing import add_tags, remove_tags

    document = (remove_tags if off else add_tags)(all_homes(homes), name, tags)
    done = f"tagged {safe(', '.join(document.tags))}" if document.tags else "has no tags"
    return _show(document, done, as_json=as_json)


@click.command(
    name="pin",
    epilog="""\b
Examples:
  turnlog pin latest
  turnlog pin 5f0c --off""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
@_off_option
def pin_command(name: str, homes: tuple[str, ...], *, as_json: bool, off: bool) -> int:
    """Pin a session so that turnlog never expires it. Its log is not changed.

    SESSION is the start of a session id, or "latest".
    """
    document = _label(name, homes, pinned=not off)
    return _show(document, "pinned" if document.pinned else "unpinned", as_json=as_json)


def _label(name: str, homes: tuple[str, ...], **labels: Any) -> LabelsDocument:
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.writing import label_session

    return label_session(all_homes(homes), name, **labels)


def _show(document: LabelsDocument, done: str, *, as_json: bool) -> int:
    if as_json:
        show_json(document)
    else:
        console().print(f"[green]✓[/] [bold]{safe(document.id[:8])}[/] {done}")
    return 0
