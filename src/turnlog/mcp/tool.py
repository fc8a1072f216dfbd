"""What a tool is: a function from a desk and arguments to an answer, and what is said about it.

    def list_sessions(desk: Desk, page: Page, *, project: Project = None) -> Answer:
        '''List sessions …'''          # What the agent reads to choose the tool.

    SESSIONS = Tool(list_sessions, title="Sessions")

The keyword arguments are the tool's, with pydantic's types and descriptions; a cursor is added to
them. They are all the documentation that an agent has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

from pydantic import Field

from turnlog.mcp.pages import ToolAnswer

Project: TypeAlias = Annotated[
    str | None,
    Field(
        description="Directory that sessions worked in or below; absolute, or relative to the"
        " server's project.",
        max_length=4096,
    ),
]
Since: TypeAlias = Annotated[
    str | None,
    Field(
        description="From this time on: 7d, 12h, yesterday, 2026-11-01, 2026-11-01T18:00.",
        max_length=100,
    ),
]
Until: TypeAlias = Annotated[str | None, Field(description="Before this time.", max_length=100)]
Limit: TypeAlias = Annotated[int, Field(description="Maximum rows.", ge=1, le=200)]
_SESSION: Final = Field(
    description="Session id, a prefix of it, or `latest`.", min_length=1, max_length=128
)
SessionName: TypeAlias = Annotated[str, _SESSION]
OneSession: TypeAlias = Annotated[str | None, _SESSION]
Cursor: TypeAlias = Annotated[
    str | None,
    Field(
        description="`next` of the previous answer; repeat the other arguments.",
        max_length=100,
    ),
]


@dataclass(frozen=True)
class PageStart:
    """Where an answer goes on: the place that the cursor names, 0 at the beginning."""

    place: int = 0


@dataclass(frozen=True)
class Tool:
    """A tool, read only like all of them."""

    answer: Callable[..., ToolAnswer]
    """Takes a Desk and a Page, and what the agent says by name."""
    title: str
    seconds: float = 20
    """No answer of it takes longer; the owner's setting may be stricter."""
    has_pages: bool = True

    @property
    def name(self) -> str:
        return self.answer.__name__

    @property
    def description(self) -> str:
        return inspect.getdoc(self.answer) or ""

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters that an agent sees."""
        hints = get_type_hints(self.answer, include_extras=True)
        own = list(inspect.signature(self.answer).parameters.values())[2:]
        found = [each.replace(annotation=hints[each.name]) for each in own]
        if self.has_pages:
            kind = inspect.Parameter.KEYWORD_ONLY
            found.append(inspect.Parameter("cursor", kind, default=None, annotation=Cursor))
        return found

    def as_function(self, call: Callable[[Tool, dict[str, Any]], Any], returns: Any) -> Any:
        """Return a function with the agent's parameters, which hands them to *call*."""

        async def function(**arguments: Any) -> Any:
            return await call(self, arguments)

        function.__name__ = function.__qualname__ = self.name
        function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            self.parameters, return_annotation=returns
        )
        function.__annotations__ = {each.name: each.annotation for each in self.parameters}
        return function
