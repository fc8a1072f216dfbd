"""The supported formats, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from turnlog.errors import UsageError
from turnlog.formats import FOLDERS
from turnlog.formats.format import Format, Place
from turnlog.formats.homes import Home, all_homes

if TYPE_CHECKING:
    from turnlog.formats.walk import Item

FORMATS: list[Format] = [
    import_module(f"turnlog.formats.{folder}.format").FORMAT for folder in FOLDERS.values()
]


def format_named(name: str) -> Format:
    """Return the format called *name*, as a layout is called in JSON and in the index."""
    for each in FORMATS:
        if each.name == name:
            return each
    *names, last = (each.name for each in FORMATS)
    raise UsageError(f"no layout called {name!r}", hint=f"{', '.join(names)} or {last}")


OWN: Final = "turnlog"
"""The agent of sessions that turnlog wrote itself."""


def agent_of(layout: str) -> str:
    """Return the agent that writes sessions of *layout*."""
    return next((each.agent for each in FORMATS if each.name == layout and each.agent), OWN)


def agent_layouts(agent: str) -> list[str]:
    """Return the layouts of sessions that *agent* writes: its name, command or layout."""
    folded = agent.casefold()
    return [
        each.name
        for each in FORMATS
        if folded in {(name or OWN).casefold() for name in (each.agent, each.program, each.name)}
    ]


def dialect_of(layout: str) -> str | None:
    """Return the dialect of a layout; None for "", which the index has for a lost log."""
    return next((each.dialect for each in FORMATS if each.name == layout), None)


def shared_layouts() -> set[str]:
    """Return the layouts in which several sessions write to one log."""
    return {each.name for each in FORMATS if each.shares_logs}


def registry_layouts() -> set[str]:
    """Return the layouts with a registry, and archives in place."""
    return {each.name for each in FORMATS if each.has_registry}


def top_places(items: Sequence[Item]) -> tuple[Place, ...]:
    """Return the roles of a home's own directory, if logs are directly in it.

    They are if its entries are those of such a store, or show no format at all.
    """
    homes = [each for each in FORMATS if each.is_home(items)]
    if homes and not any(each.top_role for each in homes):
        return ()
    return tuple(Place(each, each.top_role) for each in FORMATS if each.top_role is not None)


def ended_session(data: bytes) -> tuple[str | None, tuple[Home, ...]]:
    """Return the session that a hook's input says has ended, and the homes to search for it."""
    event = next((event for each in FORMATS if (event := each.ended_session(data))), None)
    if event is None:
        return None, ()
    session_id, home = event
    return session_id, (home,) if home is not None else all_homes()
