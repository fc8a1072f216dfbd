"""The rows of ``search_history``: hits by session, each passage with its context.

    {"session": "f38b2ffc", "at": "2026-10-19T08:15Z", "title": "Frost alert sent at noon",
     "hits": [{"record": "85dc0a68", "kind": "call", "tool": "Grep", "text": "frost_alert src",
               "prompt": "The frost alert goes out at noon …", "files": ["src/schedule.py"]}]}

A session has its title, project and time once, and a turn its prompt and files: they belong to the
first of its hits, and the hits of a turn follow each other. Sessions are in the order of their best
hits.

All texts are masked before they are cut. How long they may be is a `Widths`: an answer tries one
after the other until all hits fit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from turnlog.api.homes import is_within
from turnlog.api.query import RecordTurn, record_turns
from turnlog.api.search import Hit, make_snippet
from turnlog.mcp.context import BoundedIndex, ToolContext
from turnlog.mcp.session_flow import RecordLines
from turnlog.mcp.tool import short_records, short_sessions, sparse
from turnlog.text import one_line


class Widths(NamedTuple):
    """How long the texts of a row may be, in characters, and how many files it has."""

    text: int
    label: int
    """Of titles and prompts."""
    files: int


WIDTHS: Final = (
    Widths(240, 100, 3),
    Widths(200, 100, 3),
    Widths(180, 100, 3),
    Widths(160, 100, 3),
    Widths(160, 80, 3),
    Widths(140, 80, 3),
    Widths(120, 80, 3),
    Widths(120, 60, 2),
    Widths(100, 60, 2),
    Widths(80, 60, 2),
    Widths(80, 50, 1),
    Widths(60, 40, 1),
    Widths(40, 30, 0),
)
_LONGEST_PATH: Final = 60
_PARTS_OUTSIDE: Final = 3
_LONGEST_NAME: Final = 128
_SLASH: Final = re.compile(r"[/\\]+")
_LARGEST_PROMPT_BYTES: Final = 256 * 1024
"""Larger prompts, mostly with images, are not read: that would take longer than the search."""
_IN_A_TURN: Final = frozenset({"response", "thinking", "call", "result", "context", "note"})
"""The kinds of texts that a prompt explains."""
_NO_TURN: Final = frozenset({"title", "summary", "plan", "todo", "history"})
"""The kinds of texts that are not part of a turn, wherever they are in the log."""


class FoundSessions:
    """The hits of a page; *project* is the one that was asked about, None for all."""

    def __init__(
        self, ctx: ToolContext, index: BoundedIndex, hits: Sequence[Hit], project: str | None
    ) -> None:
        self._ctx, self._project = ctx, project
        turns = record_turns(index, [(hit.log, hit.offset) for hit in hits])
        self._hits = list(zip(hits, turns, strict=True))
        projects = {self._relative_project(hit.project) for hit in hits}
        is_repeated = len(projects) == 1 and len({hit.session for hit in hits}) > 1
        self.project = projects.pop() if is_repeated else None
        """The project of all hits, if they have the same and it was not asked about."""
        self._sessions = short_sessions(index, {hit.session for hit in hits if hit.session})
        self._records = short_records(index, filter(None, turns))
        self._prompts = dict(self._read_prompts(index))
        self._files = {
            turn.record: [self._file(path, hit.project) for path in turn.files]
            for hit, turn in self._hits
            if turn is not None
        }

    def __len__(self) -> int:
        return len(self._hits)

    def rows(self, count: int, widths: Widths) -> list[dict[str, Any]]:
        """Return the sessions of the first *count* hits."""
        sessions: dict[tuple[str | None, str | None], list[tuple[Hit, RecordTurn | None]]] = {}
        for hit, turn in self._hits[:count]:
            sessions.setdefault((hit.session, hit.project), []).append((hit, turn))
        rows = [self._session(together, widths) for together in sessions.values()]
        if self.project is not None:
            for row in rows:
                row.pop("project", None)
        return rows

    def _session(
        self, together: list[tuple[Hit, RecordTurn | None]], widths: Widths
    ) -> dict[str, Any]:
        first, _ = together[0]
        times = [hit.at for hit, _ in together] + [_prompted_at(turn) for _, turn in together]
        at = next(filter(None, times), None)
        title = one_line(first.title or "", widths.label)
        rows = [row for turn in _by_turn(together) for row in self._turn(turn, at, title, widths)]
        # Without a title of its own, a session is named after its first prompt.
        prompts = [str(row.get("prompt") or row.get("text")) for row in rows if _has_prompt(row)]
        if any(prompt.startswith(title.rstrip("…")) for prompt in prompts):
            title = "" if all(hit.kind != "title" for hit, _ in together) else title
        return sparse(
            {
                "session": self._sessions.get(first.session or ""),
                "at": _minute(at),
                "title": title,
                "project": self._relative_project(first.project),
                "hits": rows,
            }
        )

    def _turn(
        self,
        together: list[tuple[Hit, RecordTurn | None]],
        at: datetime | None,
        title: str,
        widths: Widths,
    ) -> Iterator[dict[str, Any]]:
        """Yield the hits of one turn; the first has its prompt and files."""
        for number, (hit, turn) in enumerate(together):
            has_turn = number == 0 and turn is not None and hit.kind not in _NO_TURN
            prompt, files = "", list[str]()
            if has_turn and turn is not None:
                if hit.kind in _IN_A_TURN and turn.prompt != turn.record:
                    prompt = one_line(self._prompts.get(turn.prompt, ""), widths.label)
                files = self._files[turn.record][: widths.files]
            is_other_day = hit.at is not None and at is not None and hit.at.date() != at.date()
            text = _cut(hit, widths.text)
            if hit.kind == "title" and (text.startswith(title) or title.startswith(text[:-1])):
                text = ""
            yield sparse(
                {
                    "record": None if turn is None else self._records[turn.record],
                    "subagent": one_line(hit.subagent or "", _LONGEST_NAME),
                    "at": _minute(hit.at) if is_other_day else None,
                    "kind": hit.kind,
                    "tool": one_line(hit.tool or "", _LONGEST_NAME),
                    "is_error": hit.is_error or None,
                    "text": text,
                    "prompt": prompt,
                    "files": files,
                }
            )

    def _read_prompts(self, index: BoundedIndex) -> Iterator[tuple[int | None, str]]:
        """Read the prompts of all turns, each once."""
        wanted = {
            turn.prompt: turn
            for hit, turn in self._hits
            if turn is not None and hit.kind in _IN_A_TURN and turn.prompt is not None
        }
        for turn in wanted.values():
            if turn.prompt is not None and (turn.prompt_bytes or 0) <= _LARGEST_PROMPT_BYTES:
                lines = RecordLines(index, is_subagent=turn.subagent is not None)
                yield turn.prompt, self._ctx.mask(lines.prompt(turn.prompt))
        index.close_logs()

    def _relative_project(self, project: str | None) -> str | None:
        """Return a session's project, relative to the one that was asked about."""
        if project is None or self._project is None or not is_within(project, self._project):
            return project
        return _relative(project, self._project) if project != self._project else None

    def _file(self, path: str, project: str | None) -> str:
        """Return a path relative to the session's project, or only its end if it is outside."""
        path = self._ctx.mask(path)
        short = _relative(path, project or "")
        if short == path and len(parts := _SLASH.split(path)) > _PARTS_OUTSIDE:
            short = "/".join(["…", *parts[-_PARTS_OUTSIDE:]])
        return short if len(short) <= _LONGEST_PATH else "…" + short[1 - _LONGEST_PATH :]


def json_bytes(value: Any) -> int:
    """Return the size of *value* as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def _by_turn(
    together: list[tuple[Hit, RecordTurn | None]],
) -> Iterator[list[tuple[Hit, RecordTurn | None]]]:
    """Yield the hits of a session turn by turn, a prompt before what follows it."""
    turns: dict[Any, list[tuple[Hit, RecordTurn | None]]] = {}
    for hit, turn in together:
        is_alone = turn is None or turn.prompt is None or hit.kind in _NO_TURN
        key = (hit.log, hit.offset, hit.kind) if is_alone or turn is None else turn.prompt
        turns.setdefault(key, []).append((hit, turn))
    for each in turns.values():
        yield sorted(each, key=lambda pair: pair[0].kind != "prompt")


def _cut(hit: Hit, width: int) -> str:
    """Return the snippet of a hit, or what is around its best match if it is longer."""
    if len(hit.snippet) <= width:
        return hit.snippet
    return make_snippet(hit.snippet, lambda _: hit.highlights, width=width).text


def _relative(path: str, directory: str) -> str:
    base = directory.rstrip("/\\")
    is_inside = base and path.startswith(base) and path[len(base) : len(base) + 1] in ("/", "\\")
    return path[len(base) + 1 :] if is_inside else path


def _has_prompt(row: dict[str, Any]) -> bool:
    return row["kind"] == "prompt" or "prompt" in row


def _prompted_at(turn: RecordTurn | None) -> datetime | None:
    return None if turn is None else turn.prompt_at


def _minute(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%dT%H:%MZ}"
