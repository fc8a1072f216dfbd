"""The names that logs have for tools and models: which of them is meant, and which come near.

A tool is meant by its name as it is written; where no tool is called so, capitals make no
difference. Where nothing has a name that was asked for, the names that come near are told.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable

from turnlog.questions.row_names import nearest, ways_to_name

_TOLD = 3
_NAME = re.compile(r"[\w:-]+")


def tools_called(db: sqlite3.Connection) -> dict[str, int]:
    """Give the ids of all tools that were called, by their names."""
    return dict(db.execute("SELECT name, id FROM names WHERE id IN (SELECT tool FROM calls)"))


def models_asked(db: sqlite3.Connection) -> list[str]:
    """Give the names of all models that answered."""
    rows = db.execute("SELECT name FROM names WHERE id IN (SELECT model FROM messages)")
    return [name for (name,) in rows]


def tools_named(db: sqlite3.Connection, name: str) -> list[int]:
    """Give the ids of the tools that are called *name*."""
    tools = tools_called(db)
    if name in tools:
        return [tools[name]]
    return [tools[each] for each in tools if each.casefold() == name.casefold()]


def is_name(text: str) -> bool:
    """Return whether *text* is a plain name, not a pattern."""
    return _NAME.fullmatch(text) is not None


def no_such_tool(db: sqlite3.Connection, typed: str) -> str:
    """Say that no tool is called so, and which ones nearly are; nothing of a pattern."""
    if not is_name(typed):
        return ""
    return _no_such("tool", typed, tools_called(db))


def no_such_model(typed: str, models: Iterable[str]) -> str:
    """Say that no model has that in its name, and which ones nearly do; nothing if one has."""
    models = list(models)
    if any(typed.casefold() in each.casefold() for each in models):
        return ""
    return _no_such("model", typed, models)


def _no_such(unit: str, typed: str, names: Iterable[str]) -> str:
    near = nearest(typed, {name: ways_to_name(unit, name) for name in names})[:_TOLD]
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"no {unit} is called {typed!r}{meant}"
