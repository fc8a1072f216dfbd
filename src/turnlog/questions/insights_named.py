"""What the rows of insights may be called, whatever the period."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from turnlog.index.connection import Index
from turnlog.questions.insights_cache import REASONS
from turnlog.questions.insights_groups import MAIN, agent_kinds
from turnlog.questions.known_names import tools_called
from turnlog.questions.periods import Period
from turnlog.questions.row_names import NOT_KNOWN, ways_to_name
from turnlog.questions.spending import every_response

Names: TypeAlias = dict[str, tuple[str, ...]]
"""The name of each row, with all the ways to say it."""


def model_names(index: Index) -> Names:
    """Name the models, those in fast mode apart."""
    responses = every_response(index, Period()).responses
    return _names("model", {each.model_name for each in responses})


def project_names(index: Index) -> Names:
    """Name the projects in which sessions began, or somebody answered."""
    rows = index.db.execute("SELECT path FROM projects")
    responses = every_response(index, Period()).responses
    return _names("project", {None, *(path for (path,) in rows), *(r.project for r in responses)})


def kind_names(index: Index) -> Names:
    """Name the kinds of agents; main is one of them."""
    return _names("kind", {None, MAIN, *agent_kinds(index).values()})


def tool_names(index: Index) -> Names:
    """Name the tools that were called."""
    return _names("tool", tools_called(index.db))


def file_names(index: Index) -> Names:
    """Name the files that were written."""
    rows = index.db.execute(
        "SELECT path FROM paths WHERE id IN"
        " (SELECT path FROM touches WHERE action IN ('edit', 'write'))"
    )
    return _names("file", (path for (path,) in rows))


def reason_names(_index: Index) -> Names:
    """Name why the cache was missed."""
    return {reason: (reason, words) for reason, words in REASONS.items()}


def _names(unit: str, found: Iterable[str | None]) -> Names:
    return {name or NOT_KNOWN: ways_to_name(unit, name) for name in found}
