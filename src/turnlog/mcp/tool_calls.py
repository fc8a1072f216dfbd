"""One call: in a thread of its own, within its time, and whatever happens an answer in words.

The core is synchronous, so a call runs in a worker thread and the server goes on listening. A call
looks at the clock itself; one that forgets to is left behind, and answered for. Errors are told
with what to do; of a failure of the machine no path of its owner's is told.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread

from turnlog.errors import LogError, TurnlogError, UsageError
from turnlog.formats import turnlog_home
from turnlog.mcp.context import ToolContext
from turnlog.mcp.pages import Cursors, bounded, question_of
from turnlog.mcp.tool import PageStart, Tool
from turnlog.mcp.tool_names import spelled
from turnlog.redact import redact
from turnlog.text import inert

logger = logging.getLogger(__name__)

T = TypeVar("T")
AT_ONCE: Final = 4
"""So many calls run at the same time; others wait for their turn."""
_GRACE_SECONDS: Final = 1.0
_LONGEST: Final = 2_000
_PLACE: Final = re.compile(r"(?<![\w.])(?:/[\w.@+-]+){2,}|[A-Za-z]:\\[^\s'\"]+")


class ToolCallRunner:
    """Runs calls at a desk."""

    def __init__(self, desk: ToolContext) -> None:
        self.desk = desk
        self.cursors = Cursors()
        self._limiter: anyio.CapacityLimiter | None = None

    async def tool(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """Answer a tool's call with the text that leaves. Raises TurnlogError, told already."""
        return await self.work(partial(self._answer, tool, dict(arguments)), tool.seconds)

    async def work(self, function: Callable[[ToolContext], T], seconds: float) -> T:
        """Run *function* at the desk in a thread, for *seconds* at most."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(AT_ONCE)
        async with self._limiter:  # Waiting for one's turn is not yet taking time.
            desk = self.desk.for_a_call(seconds)
            with anyio.move_on_after(desk.deadline.seconds + _GRACE_SECONDS):
                return await anyio.to_thread.run_sync(
                    partial(self._run, function, desk), abandon_on_cancel=True
                )
        raise desk.deadline.late()

    def _run(self, function: Callable[[ToolContext], T], desk: ToolContext) -> T:
        """Run *function*; a machine's failure, or one of ours, becomes an error with a hint."""
        try:
            return function(desk)
        except TurnlogError:
            raise
        except sqlite3.Error as error:
            desk.deadline.check()
            raise UsageError(
                f"the index failed: {error}", hint="make it anew with: turnlog refresh --rebuild"
            ) from error
        except OSError as error:
            raise UsageError(
                f"the logs could not be read: {error.strerror or type(error).__name__}",
                hint="run: turnlog doctor",
            ) from error
        except Exception as error:
            logger.exception("a call failed")
            raise UsageError(  # What it says may quote a log: that is for the owner's eyes.
                f"the call failed: {type(error).__name__}",
                hint="ask again, or ask otherwise; the server's stderr says where it failed",
            ) from error

    def _answer(self, tool: Tool, arguments: dict[str, Any], desk: ToolContext) -> str:
        cursor = arguments.pop("cursor", None)
        question = question_of(tool.name, arguments)
        page = PageStart(self.cursors.take(question, cursor))
        answer = tool.answer(desk, page, **arguments)
        answer.rest = spelled(answer.rest, desk.prefix)
        answer.notes = [spelled(each, desk.prefix) for each in answer.notes]
        return bounded(
            answer,
            desk.rules,
            most_bytes=desk.settings.answer_bytes,
            cursor_of=partial(self.cursors.give, question),
        )


def error_text(error: TurnlogError, desk: ToolContext) -> str:
    """Say what went wrong and what to do, for an agent to read."""
    hint = spelled(error.hint, desk.prefix)
    message, hint = (_shown(each, error, desk) for each in (error.message, hint))
    return f"error: {message}\nhint: {hint}" if hint else f"error: {message}"


def _shown(text: str, error: TurnlogError, desk: ToolContext) -> str:
    """Make what an error says fit to leave: it may quote a log, and name places of its owner's."""
    places = [os.fspath(home) for home in desk.homes] + [os.fspath(turnlog_home())]
    if isinstance(error, LogError):
        if error.path:
            text = text.replace(error.path, Path(error.path).name)
        text = _PLACE.sub(lambda found: Path(found[0]).name, text)
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, "…")
    return inert(redact(text[: _LONGEST * 2], desk.rules))[:_LONGEST]
