"""Listing the sessions of a tree of 1 GB without an index, beside the official SDK's list.

Both read the ends of every session's log. Speed counts only if the lists agree, so the same run
compares them: the ids, and what the sessions are called. Titles are compared as they are shown, on
one line, and only their beginnings: the SDK cuts a prompt before it folds spaces, turnlog after.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from turnlog.catalog.sessions import list_sessions
from turnlog.formats import find_homes

from .table import Row, ms
from .trees import tree
from .turns import best_in_turns

ROUNDS = 20
_WHAT = "bare list of a 1 GB tree"


def bench() -> list[Row]:
    if importlib.util.find_spec("claude_agent_sdk") is None:
        return [Row(_WHAT, "", "", "skipped: claude-agent-sdk is not installed")]
    home = tree()
    if home is None:
        return [Row(_WHAT, "", "", "skipped: TURNLOG_KIT names no directory with gen_corpus.py")]
    from claude_agent_sdk import list_sessions as sdk_sessions

    before = os.environ.get("CLAUDE_CONFIG_DIR")
    os.environ["CLAUDE_CONFIG_DIR"] = home
    try:
        homes = find_homes((home,))
        mine, other = best_in_turns(lambda: list_sessions(homes), sdk_sessions, ROUNDS)
        ours, theirs = list_sessions(homes).sessions, sdk_sessions()
    finally:
        if before is None:
            del os.environ["CLAUDE_CONFIG_DIR"]
        else:
            os.environ["CLAUDE_CONFIG_DIR"] = before
    what = f"{_WHAT}, {len(theirs):,} sessions"
    return [
        _speed(f"{what}: time", mine.wall, other.wall),
        _speed(f"{what}: processor", mine.cpu, other.cpu),
        *_agreement(what, ours, theirs),
    ]


def _speed(what: str, mine: float, other: float) -> Row:
    return Row(what, ms(mine), ms(other), f"{other / mine:.2f} x", ">= 1 x", other >= mine)


def _agreement(what: str, ours: list[Any], theirs: list[Any]) -> list[Row]:
    """Say how far the two lists agree."""
    mine = {row.id: row.title for row in ours}
    other = {info.session_id: info.summary for info in theirs}
    alike = sum(_beginning(mine.get(each)) == _beginning(other[each]) for each in other)
    met = mine.keys() == other.keys(), alike == len(other)
    return [
        Row(f"{what}: ids", f"{len(mine):,}", f"{len(other):,}", "", "the same", met[0]),
        Row(f"{what}: titles alike", f"{alike:,}", f"{len(other):,}", "", "all", met[1]),
    ]


def _beginning(title: str | None) -> str:
    return " ".join((title or "").split())[:150].rstrip(" …")
