"""A query with a pattern, answered in a process of its own.

Some regular expressions take years, and nothing within a process can stop one: it holds even the
other threads up. So whatever an agent writes as a pattern is matched in a child, which is ended
when the time is up. The child reads what its parent refreshed, with the same rules for secrets.

    python -m turnlog.mcp.query_apart      reads what to ask from stdin, writes the answer to stdout
"""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from datetime import datetime, tzinfo
from typing import Any, Final, NamedTuple

from turnlog.errors import TurnlogError, UsageError
from turnlog.index.freshness import ELSEWHERE
from turnlog.index.opening import open_fresh
from turnlog.layout import Home
from turnlog.mcp.desk import BoundedIndex, Deadline, Desk
from turnlog.questions.query import QueryDocument, answer
from turnlog.questions.query_fields import Filter, Query
from turnlog.redact import Rules

READ_AT_MOST: Final = 5_000
"""So many records are read for one query."""
_SPECIAL: Final = re.compile(r"[\\.^$*+?{}\[\]|()]")
_LAST_SECONDS: Final = 0.5


class Apart(NamedTuple):
    """What the child is told."""

    homes: tuple[Home, ...]
    rules: Rules
    query: Query
    now: datetime
    zone: tzinfo
    seconds: float
    elsewhere: dict[str, str]
    """Where indexes lie that were made for this run alone."""


class Told(NamedTuple):
    """What the child answers: a document, or the caller's mistake."""

    document: QueryDocument | None
    unread: int = 0
    error: str = ""
    hint: str = ""


def has_pattern(wanted: Filter) -> bool:
    """Tell whether a filter has an expression that may take long to match."""
    patterns = (wanted.content_match, wanted.tool_name)
    return any(each is not None and _SPECIAL.search(each) for each in patterns)


def answer_apart(desk: Desk, query: Query) -> Told:
    """Answer a query in a child, within the time that the desk has left."""
    seconds = max(_LAST_SECONDS, desk.deadline.left - _LAST_SECONDS)
    asked = Apart(desk.homes, desk.rules, query, desk.now(), desk.zone, seconds, ELSEWHERE)
    try:
        done = subprocess.run(  # noqa: S603 - Ourselves.
            [sys.executable, "-m", __name__],
            input=pickle.dumps(asked),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"the pattern was not done after {seconds:.0f} seconds",
            hint="repetitions within repetitions, such as (a+)+, may take for ever; say a plain"
            " piece of text, one session_id, or a time_range",
        ) from None
    if done.returncode != 0:
        raise UsageError("the query failed", hint="say a plain piece of text as content_match")
    told: Told = pickle.loads(done.stdout)  # noqa: S301 - Our own child wrote it.
    if told.document is None:
        raise UsageError(told.error, hint=told.hint)
    return told


def _answered(asked: Apart) -> Told:
    ELSEWHERE.update(asked.elsewhere)
    try:
        plain = open_fresh(asked.homes, is_stale_allowed=True)
        with BoundedIndex(plain, Deadline(asked.seconds), asked.rules) as index:
            found = answer(
                index,
                asked.query,
                now=asked.now,
                zone=asked.zone,
                read_at_most=READ_AT_MOST,
            )
            return Told(found, index.unread)
    except TurnlogError as error:
        return Told(None, 0, error.message, error.hint)


def main() -> None:
    """Answer what stdin asks."""
    asked: Any = pickle.load(sys.stdin.buffer)  # noqa: S301 - Our own parent wrote it.
    sys.stdout.buffer.write(pickle.dumps(_answered(asked)))


if __name__ == "__main__":
    # What is pickled has to be of the module that others know, not of this copy of it.
    from turnlog.mcp.query_apart import main as answer_stdin

    answer_stdin()
