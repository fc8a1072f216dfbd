"""The prompt ``continue``: go on with what was done before.

It gathers what one needs to go on with the latest session of the project: what it was about, the
last prompts and the last answer, what is still to be done, and which files it changed. The session
of the agent that asks is not meant: one does not go on with oneself. What was recorded is framed as
everywhere else; the request stands outside of the frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from mcp.server.mcpserver.prompts import Prompt
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import Field

from turnlog.api.session_figures import newest_records, session_figures
from turnlog.errors import NotFound, TurnlogError
from turnlog.formats import Home
from turnlog.mcp.context import LATEST, BoundedIndex, KnownSession, ToolContext
from turnlog.mcp.session_markdown import SAID, day, facts, quoted
from turnlog.mcp.tool_calls import ToolCallRunner, error_text
from turnlog.mcp.tool_names import spelled
from turnlog.mcp.untrusted_text import Cleaner, frame_bytes, framed
from turnlog.sessions.side_files.todos import tasks_of, todos_of

if TYPE_CHECKING:
    from mcp.server import MCPServer

_SECONDS: Final = 20
_PROMPTS: Final = 5
_LONGEST: Final = 1_200
_MOST_TODOS: Final = 40
_REQUEST: Final = (
    "Let us continue what was done in the session above. First say in a few sentences where it"
    " stood and what is left to do, checked against the files as they are now; look up more with"
    " `session_turns`, `past_calls` and `search_history` where you need it. Then ask me what to"
    " continue with."
)


def add_prompt(server: MCPServer[None], calls: ToolCallRunner) -> None:
    """Let *server* serve the prompt."""

    async def go_on(
        session: Annotated[
            str, Field(description="The session to go on with: its id, or the beginning of it.")
        ] = LATEST,
    ) -> str:
        try:
            return await calls.work(partial(_gathered, session), _SECONDS)
        except TurnlogError as error:
            raise MCPError(code=INVALID_PARAMS, message=error_text(error, calls.desk)) from None

    server.add_prompt(
        Prompt.from_function(
            go_on,
            name="continue",
            title="Continue what we did",
            description="Go on with the latest session of this project.",
        )
    )


def _gathered(session: str, desk: ToolContext) -> str:
    with desk.index() as index:
        known = _meant(desk, index, session)
        cleaner = Cleaner(desk.rules, longest=_LONGEST)
        left = desk.settings.answer_bytes - frame_bytes(_REQUEST) - 100
        written: list[str] = []
        for part in _parts(index, known, cleaner):
            size = len(part.encode()) + 2
            if size > left:
                break
            written.append(part)
            left -= size
    return framed("\n\n".join(written), spelled(_REQUEST, desk.prefix))


def _meant(desk: ToolContext, index: BoundedIndex, session: str) -> KnownSession:
    """Return the session that is meant; the latest is the latest but the asking agent's own."""
    if session.strip() not in {"", LATEST}:
        return desk.session(index, session.strip())
    found = desk.session(index, LATEST, but=desk.asking_sessions())
    if not newest_records(index, found.number, ["human"], limit=1):
        raise NotFound("nobody has said anything in this project yet", hint="begin something")
    return found


def _parts(index: BoundedIndex, known: KnownSession, cleaner: Cleaner) -> Iterator[str]:
    """Return what is worth knowing, what matters most first."""
    yield "\n".join(facts(cleaner, session_figures(index, known.number)))
    if todos := list(_open_todos(known, cleaner)):
        yield "## Still to be done\n\n" + "\n".join(todos[:_MOST_TODOS])
    answers = newest_records(index, known.number, ["assistant"], limit=20)
    for each in answers:
        if text := _said(index, each.record, each.length):
            yield f"## The last answer, {day(each.at)}\n\n{quoted(cleaner.text(text))}"
            break
    for each in newest_records(index, known.number, ["human"], limit=_PROMPTS):
        text = _said(index, each.record, each.length)
        if text:
            yield f"## A prompt, {day(each.at)}\n\n{quoted(cleaner.text(text))}"


def _open_todos(known: KnownSession, cleaner: Cleaner) -> Iterator[str]:
    home = Home(Path(known.home))
    for listed in todos_of(home, known.id):
        for todo in listed.todos:
            if todo.state != "completed":
                yield quoted(cleaner.text(f"{todo.state or 'pending'}: {todo.content}"))
    for task in tasks_of(home, known.id):
        if task.state not in {"completed", "deleted"} and task.subject:
            yield quoted(cleaner.text(f"{task.state or 'pending'}: {task.subject}"))


def _said(index: BoundedIndex, record: int, length: int) -> str:
    texts = index.texts(record, length)
    return "\n\n".join(each.text for each in texts if each.kind in SAID).strip()
