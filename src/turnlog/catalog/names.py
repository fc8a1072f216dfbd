"""Names of rows in reports, of tools and of models, and which one a user means.

Tables shorten names, and people type what they see: the whole name, the shown name, the last part
of a path, or the beginning of any of these. Case is ignored unless names differ only by case; tools
are matched exactly first. For a name that matches nothing, similar names are suggested.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import product
from typing import Final, TypeVar

from turnlog.errors import UsageError
from turnlog.formats.projects import expand_path, is_windows_path, is_within, last_part
from turnlog.records.dates import TIMES
from turnlog.text import inert

NOT_KNOWN: Final = "not known"
_NAMELESS: Final = {"subagent": "main", "tool": "none", "tag": "none"} | dict.fromkeys(TIMES, "—")
_PATHS: Final = ("project", "file")
_CUT: Final = "…"
_SHOWN: Final = 5
_NEAR: Final = 3
_ALIKE: Final = 0.6
Row = TypeVar("Row", bound=Hashable)


def shown_name(unit: str, name: str | None) -> str:
    """Return the name of a row of *unit*, such as a model, as tables show it."""
    if name is None:
        return _NAMELESS.get(unit, NOT_KNOWN)
    if unit in _PATHS:
        home = os.path.expanduser("~") + os.sep
        return f"~{os.sep}{name.removeprefix(home)}" if name.startswith(home) else name
    if unit == "session":
        return name[:8]
    return name.removeprefix("claude-") if unit == "model" else name


def short_model(name: str) -> str:
    """Return the short name of a model, without vendor and date."""
    return re.sub(r"-\d{8}$", "", shown_name("model", name))


def whole_name(units: Sequence[str], key: Sequence[str | None]) -> str:
    """Name a row by all that it is grouped by."""
    pairs = zip(units, key, strict=True)
    return ",".join(shown_name(unit, None) if name is None else name for unit, name in pairs)


def name_variants(unit: str, name: str | None) -> tuple[str, ...]:
    """Return what the row of a *unit* may be called, its whole name first."""
    if name is None:
        return "", shown_name(unit, None)
    ways = [name, shown_name(unit, name)]
    if unit in _PATHS:
        ways.append(last_part(name))
    if unit == "model":
        ways.append(short_model(name))
    return tuple(dict.fromkeys((*ways, *map(inert, ways))))


def resolve_key(
    typed: str, units: Sequence[str], keys: Iterable[tuple[str | None, ...]]
) -> tuple[str | None, ...]:
    """Return the one row that *typed* names: all its names joined by commas, or one of them."""
    ways: dict[tuple[str | None, ...], list[str]] = {}
    parts: dict[tuple[str | None, ...], list[str]] = {}
    for key in keys:
        each = [name_variants(unit, name) for unit, name in zip(units, key, strict=True)]
        ways[key] = [",".join(named) for named in product(*each)]
        parts[key] = [way for named in each for way in named]
    return resolve_row(typed, ways, parts, whole=lambda key: whole_name(units, key))


def resolve_row(
    typed: str,
    ways: Mapping[Row, Sequence[str]],
    parts: Mapping[Row, Sequence[str]] | None = None,
    *,
    whole: Callable[[Row], str] = str,
    what: str = "row",
) -> Row:
    """Return the one row that *typed* names, by all the *ways* to name each, or *parts* of them.

    The nearest match wins: a whole name over one without capitals, that over the last part of a
    path, and that over how a name begins.
    """
    parts = ways if parts is None else parts
    folded = typed.casefold()
    tail, head = folded.removeprefix(_CUT), folded.removesuffix(_CUT)
    is_cut = tail != folded
    tests: tuple[tuple[Mapping[Row, Sequence[str]], Callable[[str], bool]], ...] = (
        (ways, lambda way: way == typed),
        (ways, lambda way: way.casefold() == folded),
        (parts, lambda way: way == typed),
        (parts, lambda way: way.casefold() == folded),
        (parts, lambda way: way.casefold().endswith(tail if is_cut else f"/{folded}")),
        (ways, lambda way: way.casefold().startswith(head)),
    )
    found: list[Row] = []
    for named, fits in tests:
        found = [row for row, each in named.items() if any(map(fits, each))]
        if found:
            break
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{typed!r} matches {len(found):,} {what}s",
            hint=f"name one: {_listed(sorted(map(whole, found)))}",
        )
    near = nearest(typed, {row: (*ways[row], *parts[row]) for row in ways})[:_NEAR]
    raise UsageError(
        f"no {what} is called {typed!r}",
        hint=f"did you mean {' or '.join(repr(whole(row)) for row in near)}?"
        if near
        else f"there are {_listed(sorted(map(whole, ways))) or 'none'}",
    )


def projects_named(typed: str, projects: Sequence[str]) -> list[str]:
    """Return the directories that *typed* names: a path that *projects* are in, or names of some.

    Raises UsageError if there is none; a path is never looked up on this machine.
    """
    path = os.path.expanduser(typed)
    path = path.rstrip("/") or path
    if any(is_within(each, path) for each in projects):
        return [path]
    for wanted, fold in ((typed, str), (typed.casefold(), str.casefold)):
        found = [each for each in projects if fold(last_part(each)) == wanted]
        if found:
            return found
    near = nearest(typed, {each: name_variants("project", each) for each in projects})[:_NEAR]
    raise UsageError(
        f"no project is called {typed!r}",
        hint=f"did you mean {' or '.join(map(repr, near))}?" if near else "use one of the list",
    )


def nearest(typed: str, ways: Mapping[Row, Sequence[str]]) -> list[Row]:
    """Return the rows that have a name like what was typed, the most alike first."""
    from difflib import SequenceMatcher  # noqa: PLC0415 - Only for what was mistyped.

    folded = typed.casefold()
    matcher = SequenceMatcher(b=folded, autojunk=False)
    found: list[tuple[float, Row]] = []
    for row, names in ways.items():
        likeness = 0.0
        for name in {each.casefold() for each in names}:
            matcher.set_seq1(name)
            if folded and folded in name:
                likeness = max(likeness, 1 + len(folded) / len(name))
            elif matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE:
                likeness = max(likeness, matcher.ratio())
        if likeness >= _ALIKE:
            found.append((likeness, row))
    return [row for _, row in sorted(found, key=lambda each: -each[0])]


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    more = f" and {rest:,} more" if rest > 0 else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more


_TOLD = 3
_NAME = re.compile(r"[\w:-]+")


def tools_called(db: sqlite3.Connection) -> dict[str, int]:
    """Return the ids of all tools that were called, by their names."""
    return dict(db.execute("SELECT name, id FROM names WHERE id IN (SELECT tool FROM calls)"))


def models_used(db: sqlite3.Connection) -> list[str]:
    """Return the names of all models that answered."""
    rows = db.execute("SELECT name FROM names WHERE id IN (SELECT model FROM messages)")
    return [name for (name,) in rows]


def tools_named(db: sqlite3.Connection, name: str) -> list[int]:
    """Return the ids of the tools that are called *name*."""
    tools = tools_called(db)
    if name in tools:
        return [tools[name]]
    return [tools[each] for each in tools if each.casefold() == name.casefold()]


def is_name(text: str) -> bool:
    """Return whether *text* is a plain name, not a pattern."""
    return _NAME.fullmatch(text) is not None


def no_such_tool(db: sqlite3.Connection, typed: str) -> str:
    """Return a note that no tool has this name, with similar ones; None for a pattern."""
    if not is_name(typed):
        return ""
    return _no_such("tool", typed, tools_called(db))


def no_such_model(typed: str, models: Iterable[str]) -> str:
    """Return a note that no model matches, with similar names; None if one does."""
    models = list(models)
    if any(typed.casefold() in each.casefold() for each in models):
        return ""
    return _no_such("model", typed, models)


def _no_such(unit: str, typed: str, names: Iterable[str]) -> str:
    near = nearest(typed, {name: name_variants(unit, name) for name in names})[:_TOLD]
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"no {unit} is called {typed!r}{meant}"


def matching_projects(db: sqlite3.Connection, typed: str) -> list[str]:
    """Return the directories in which sessions worked that *typed* names; none, one or several.

    A path names that directory and what is below it. A name is the last part of a path, its last
    parts, or else a piece of it, as it is while someone types.
    """
    paths = [path for (path,) in db.execute("SELECT path FROM projects ORDER BY path")]
    if typed.startswith(("/", "~")) or is_windows_path(typed):
        directory = expand_path(typed)
        return [path for path in paths if is_within(path, directory)]
    folded = typed.strip("/").casefold()
    tests: tuple[Callable[[str], bool], ...] = (
        lambda path: path.strip() == typed,
        lambda path: last_part(path) == typed,
        lambda path: last_part(path).casefold() == folded,
        lambda path: path.casefold().replace("\\", "/").endswith(f"/{folded}"),
        lambda path: folded in last_part(path).casefold(),
        lambda path: folded in path.casefold(),
    )
    found = (list(filter(fits, paths)) for fits in tests)
    return next(filter(None, found), [])


def no_such_project(db: sqlite3.Connection, typed: str) -> str:
    """Return a note that no session worked in such a project, with similar names."""
    return _no_such(
        "project", typed, {last_part(path) for (path,) in db.execute("SELECT path FROM projects")}
    )
