"""Shell completion of sessions, projects, models, branches and tools.

The index is read as it is, without a refresh. Without an index only sessions are completed, by the
names of their logs.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import click
from click.shell_completion import CompletionItem

from turnlog.errors import TurnlogError
from turnlog.formats import all_homes, find_everywhere
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


def add_completions(command: click.Command) -> None:
    """Make the parameters of *command* complete sessions, projects and so on."""
    for parameter in command.params:
        kind = _kind_of(parameter)
        if kind is not None:
            setattr(parameter, "shell_complete", _completer(kind))  # noqa: B010 - This one only.


def _kind_of(parameter: click.Parameter) -> str | None:
    """Return what a parameter is, if that can be listed."""
    if isinstance(parameter, click.Argument):
        metavar = parameter.metavar or ""
        if "SESSION" in metavar:
            return "SESSION"
        return "MODEL" if parameter.name == "model" else None
    names = (*parameter.opts, *parameter.secondary_opts)
    return next((_OPTIONS[name] for name in names if name in _OPTIONS), None)


def _completer(kind: str) -> Callable[[click.Context, str], list[CompletionItem]]:
    def complete(context: click.Context, typed: str) -> list[CompletionItem]:
        with suppress(TurnlogError, OSError, sqlite3.Error):
            return _items(kind, typed, context.params.get("homes") or ())
        return []

    return complete


def _items(kind: str, typed: str, homes: Sequence[str]) -> list[CompletionItem]:
    values = _in_index(kind, homes)
    if kind == "SESSION":
        known = _by_log_name(homes) if values is None else values
        values = [*known, ("latest", "the most recently active")]
    values = values or []
    if kind == "DIR" and typed and typed == os.path.basename(typed):
        values += [(last_part(path), path) for path, _ in values]
    start = os.path.expanduser(typed) if kind == "DIR" else typed
    matches = [value for value in values if value[0] and value[0].startswith(start)]
    items = [
        CompletionItem(value, help=inert(about or "")[:60])
        for value, about in dict.fromkeys(matches)
        if value == inert(value)
    ]
    if kind == "DIR":  # Any other directory is valid too; bash drops items before this one.
        items.insert(0, CompletionItem(typed, type="dir"))
    return items[:_MOST]


def _in_index(kind: str, homes: Sequence[str]) -> list[tuple[str, str | None]] | None:
    from turnlog.index.database import open_for_reading

    db = open_for_reading(all_homes(homes))
    if db is None:
        return None
    try:
        return list(db.execute(f"{_QUERIES[kind]} LIMIT 5000"))
    finally:
        db.close()


def _by_log_name(homes: Sequence[str]) -> list[tuple[str, str | None]]:
    logs = find_everywhere(all_homes(homes))
    return [(log.session_id, None) for log in logs if log.kind == "session" and log.session_id]
