"""What is inside a call when it is unfolded: what was asked and what came of it, by tool.

An edit is a change, a new file is code, a list of todos is a list, and what an agent was asked and
answered is prose. A tool that nobody has met shows the names and values that it was given.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import json

from turnlog.render import diffs
from turnlog.render.conversation import Call, Hunk
from turnlog.render.highlighting import Highlighter, language_of
from turnlog.render.page import Fragment, element
from turnlog.render.prose import prose

_PROSE: Final = frozenset({"Task", "Agent", "WebFetch", "ExitPlanMode", "WebSearch"})
_SHORT: Final = 120
_DONE: Final = {"completed": "☑", "in_progress": "◐", "pending": "☐"}


class Drawing:
    """Draws calls in the colours of one page."""

    def __init__(self, highlighter: Highlighter) -> None:
        self._highlighter = highlighter

    def inside(self, call: Call, changes: list[Hunk] | None) -> list[Fragment]:
        """Give what is inside of *call*; *changes* is what it changed, if it did."""
        drawn = list(self._asked(call, changes))
        result = call.result
        if result is None:
            drawn.append(element("p", "There is no result.", class_="faint"))
        elif result.text.strip() and not (changes and not result.is_error):
            if call.name in _PROSE and not result.is_error:
                drawn.append(element("div", prose(result.text, self._highlighter), class_="answer"))
            else:
                drawn.append(element("pre", result.text))
        return drawn

    def _asked(self, call: Call, changes: list[Hunk] | None) -> list[Fragment]:
        given = call.input
        if not isinstance(given, dict):
            return [self._json(given)] if given not in (None, "") else []
        path = given.get("file_path") or given.get("notebook_path")
        named = [element("div", path, class_="path")] if isinstance(path, str) else []
        if changes is not None:
            return [*named, diffs.as_html(changes)]
        if call.name == "Bash" and isinstance(given.get("command"), str):
            return self._command(given)
        if call.name == "Write" and isinstance(given.get("content"), str):
            language = language_of(path) if isinstance(path, str) else None
            return [*named, element("pre", self._highlighter.code(given["content"], language))]
        if call.name == "TodoWrite" and isinstance(given.get("todos"), list):
            return [_todos(given["todos"])]
        return self._fields(given, is_prose=call.name in _PROSE)

    def _command(self, given: dict[str, Any]) -> list[Fragment]:
        rest = {key: value for key, value in given.items() if key not in ("command", "description")}
        said = given.get("description")
        drawn = [element("div", said, class_="faint")] if isinstance(said, str) and said else []
        drawn.append(element("pre", given["command"]))
        return [*drawn, *self._fields(rest)]

    def _fields(self, given: dict[str, Any], *, is_prose: bool = False) -> list[Fragment]:
        """Show names and values; long texts below them, each by itself."""
        short: list[Fragment] = []
        long: list[Fragment] = []
        for name, value in given.items():
            if isinstance(value, str) and (len(value) > _SHORT or "\n" in value):
                body = (
                    element("div", prose(value, self._highlighter), class_="answer")
                    if is_prose
                    else element("pre", value)
                )
                long += [element("div", name, class_="path"), body]
            elif isinstance(value, dict | list) and value:
                long += [element("div", name, class_="path"), self._json(value)]
            else:
                text = value if isinstance(value, str) else str(value)
                short += [element("dt", name), element("dd", text)]
        return [*([element("dl", short, class_="given")] if short else []), *long]

    def _json(self, value: Any) -> Fragment:
        text = value if isinstance(value, str) else json.format(json.encode(value)).decode()
        return element("pre", text)


def _todos(todos: list[Any]) -> Fragment:
    items = []
    for todo in todos:
        told = todo if isinstance(todo, dict) else {"content": str(todo)}
        state = str(told.get("status"))
        words = f"{_DONE.get(state, '☐')} {told.get('content') or told.get('subject') or ''}"
        items.append(element("li", words, class_="done" if state == "completed" else None))
    return element("ul", items, class_="todos")
