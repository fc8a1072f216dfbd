"""What a shell may complete: sessions with their titles, projects, models, branches, tools.

Told by the index as it is: nobody who presses Tab waits for logs to be read. Without an index,
sessions are told by the names of their logs, and the rest by nothing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from turnlog.errors import TurnlogError
from turnlog.formats.projects import last_part
from turnlog.text import inert

_MOST: Final = 50
_QUERIES: Final = {
    "SESSION": "SELECT session, title FROM sessions WHERE NOT is_sidechain"
    " ORDER BY last_active_at DESC",
    "DIR": "SELECT path, NULL FROM projects ORDER BY path",
    "MODEL": "SELECT DISTINCT names.name, NULL FROM messages"
    " JOIN names ON messages.model = names.id ORDER BY names.name",
    "BRANCH": "SELECT DISTINCT git_branch, NULL FROM sessions WHERE git_branch IS NOT NULL"
    " ORDER BY git_branch",
    "TOOL": "SELECT DISTINCT names.name, NULL FROM calls JOIN names ON calls.tool = names.id"
    " ORDER BY names.name",
}
_OPTIONS: Final = {
    "--project": "DIR",
    "--from": "DIR",
    "--session": "SESSION",
    "--model": "MODEL",
    "--branch": "BRANCH",
    "--tool": "TOOL",
}


def equip(command: click.Command) -> None:
    """Teach *command* what its sessions, projects and so on may be."""
    for parameter in command.params:
        what = _asked_for(parameter)
        if what is not None:
            setattr(parameter, "shell_complete", _completer(what))  # noqa: B010 - Of this one only.


def _asked_for(parameter: click.Parameter) -> str | None:
    """Return what a parameter asks for, if it is something that can be listed."""
    if isinstance(parameter, click.Argument):
        metavar = parameter.metavar or ""
        if "SESSION" in metavar:
            return "SESSION"
        return "MODEL" if parameter.name == "model" else None
    names = (*parameter.opts, *parameter.secondary_opts)
    return next((_OPTIONS[name] for name in names if name in _OPTIONS), None)


def _completer(what: str) -> Callable[[click.Context, str], list[CompletionItem]]:
    def complete(context: click.Context, begun: str) -> list[CompletionItem]:
        named = context.params.get("homes") or ()
        with suppress(TurnlogError, OSError, sqlite3.Error):
            return _items(what, begun, named)
        return []

    return complete


def _items(what: str, begun: str, named: Sequence[str]) -> list[CompletionItem]:
    found = _in_index(what, named)
    if found is None and what == "SESSION":
        found = _by_name(named)
    if what == "SESSION":
        found = [*(found or ()), ("latest", "the one that was active last")]
    if what == "DIR" and begun and begun == os.path.basename(begun):
        found = [*(found or ()), *((last_part(path), path) for path, _ in found or ())]
    wanted = os.path.expanduser(begun) if what == "DIR" else begun
    chosen = [each for each in found or () if each[0] and each[0].startswith(wanted)]
    items = [
        CompletionItem(value, help=inert(told or "")[:60])
        for value, told in dict.fromkeys(chosen)
        if value == inert(value)
    ]
    if what == "DIR":  # Any other will do as well; bash drops what stands before that.
        items.insert(0, CompletionItem(begun, type="dir"))
    return items[:_MOST]


def _in_index(what: str, named: Sequence[str]) -> list[tuple[str, str | None]] | None:
    from turnlog.formats import all_homes
    from turnlog.index.database import open_for_reading

    db = open_for_reading(all_homes(named))
    if db is None:
        return None
    try:
        return list(db.execute(f"{_QUERIES[what]} LIMIT 5000"))
    finally:
        db.close()


def _by_name(named: Sequence[str]) -> list[tuple[str, str | None]]:
    from turnlog.formats import all_homes, find_everywhere

    logs: list[Any] = [log for log in find_everywhere(all_homes(named)) if log.kind == "session"]
    return [(log.session_id, None) for log in logs]
