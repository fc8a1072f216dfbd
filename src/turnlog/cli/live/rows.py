"""How the list of sessions looks: two lines each, a head above, and all of one beside it.

Pieces of harmless text, each of a kind that the app has a style for. What a session waits for a
person with comes first, and shapes tell what colours tell, for those who have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Final

from rich.cells import cell_len

from turnlog.api.costs import BlockRow
from turnlog.api.sessions import Keeping
from turnlog.cli.live.lines import Line, Piece, clock, fit, justified, seconds, wrapped
from turnlog.cli.terminal.console import age, counted, short_count
from turnlog.formats.projects import last_part
from turnlog.live.activity import ASKED_FOR, Doing
from turnlog.live.sessions import LiveSession
from turnlog.live.watch import LiveNews
from turnlog.pricing.money import shown
from turnlog.text import inert_line

STYLES: Final = {
    "": "",
    "bold": "bold",
    "dim": "$foreground 55%",
    "project": "$accent",
    "title": "bold",
    "waiting": "bold $warning",
    "working": "$success",
    "tool": "$accent",
    "crashed": "$error",
    "low": "$success",
    "high": "$warning",
    "full": "$error",
    "empty": "$foreground 20%",
}
"""What each kind of a piece looks like, in the words of textual's styles."""

_SIGNS: Final = {
    Doing.WAITING: ("◆", "waiting"),
    Doing.CALLING: ("●", "working"),
    Doing.THINKING: ("●", "working"),
    Doing.ANSWERING: ("●", "working"),
    Doing.IDLE: ("○", "bold"),
    Doing.CRASHED: ("✗", "crashed"),
}
_KEPT: Final[dict[Keeping, str]] = {
    "live": "no",
    "kept": "yes",
    "restorable": "yes; its own log is gone",
    "gone": "no, and its own log is gone",
}
_BUSY_PERCENT, _FULL_PERCENT = 50, 80
_BAR: Final = 8


def row_lines(session: LiveSession, width: int, now: datetime) -> list[Line]:
    """Draw a session on two lines."""
    return [_first(session, width), _second(session, width, now)]


def head_lines(news: LiveNews, width: int, now: datetime) -> list[Line]:
    """Draw what stands above the list: how many, today, the block."""
    document = news.document
    running: list[Piece] = [("turnlog top", "bold"), ("   ", "")]
    running.append((f"{document.running} running", "working" if document.running else "dim"))
    if document.waiting:
        verb = "waits" if document.waiting == 1 else "wait"
        running += [(" · ", "dim"), (f"{document.waiting} {verb} for you", "waiting")]
    today = document.today
    right = [(f"{shown(Decimal(today.cost_usd))} today", "")] if today else []
    return [justified(running, right, width), justified(*_block(news, now), width)]


def side_lines(session: LiveSession, width: int, now: datetime) -> list[Line]:
    """Draw all that is known of one session, for the panel beside the list."""
    lines: list[Line] = [((part, "title"),) for part in wrapped(_title(session), width)[:3]]
    facts = (
        ("project", session.project or "?"),
        ("branch", session.git_branch or ""),
        ("session", session.id),
        ("model", session.model or ""),
        ("started", age(now, session.started_at)),
        ("process", str(session.pid) if session.pid else ""),
        ("kept", _KEPT[session.keeping]),
    )
    lines.append(())
    lines += [_fact(name, value, width) for name, value in facts if value]
    lines.append(())
    lines.append(_fact("cost", shown(Decimal(session.cost_usd)), width))
    written = session.cache_write_5m + session.cache_write_1h
    tokens = (session.input, "in"), (session.output, "out")
    cache = (written, "written"), (session.cache_read, "read")
    lines.append(_fact("tokens", _counts(*tokens) or "none", width))
    if cached := _counts(*cache):
        lines.append(_fact("cache", cached, width))
    percent = session.context_percent
    if percent is not None and session.context_tokens is not None:
        words = f" {percent:.0f}% of {short_count(session.context_window or 0)}"
        lines.append((("context  ", "dim"), *bar(percent, min(20, width - 26)), (words, "")))
    lines += [(), *_doing_block(session, width, now)]
    if session.prompt:
        lines += [(), (("last prompt", "dim"),)]
        parts = [part for text in session.prompt.split("\n") for part in wrapped(text, width)]
        lines += [((part, ""),) for part in parts[:8]]
    return lines


def bar(percent: float, width: int) -> list[Piece]:
    """Draw how full a context is."""
    width = max(1, width)
    full = min(width, max(round(percent * width / 100), 1 if percent > 0 else 0))
    return [("━" * full, _fill(percent)), ("━" * (width - full), "empty")]


def doing_pieces(session: LiveSession) -> list[Piece]:
    """Say what a session is doing."""
    match session.doing:
        case Doing.WAITING:
            wanted = ASKED_FOR.get(session.waiting_for or "", session.waiting_for or "you")
            words = "waits for you" if wanted == "you" else f"waits for you: {inert_line(wanted)}"
            return [(words, "waiting"), *_call(session, " · ")]
        case Doing.CALLING:
            return _call(session) or [("at work", "working")]
        case Doing.THINKING:
            return [("thinking", "working"), *_about(session)]
        case Doing.ANSWERING:
            return [("answering", "working"), *_about(session)]
        case Doing.IDLE:
            return [("your turn", "bold"), *_about(session)]
        case Doing.CRASHED:
            return [("crashed", "crashed"), *_about(session)]
    said = inert_line(session.prompt or "")
    return [] if said == _title(session) else [(said, "dim")]


def when(session: LiveSession, now: datetime) -> str:
    """Say for how long it has done that, or when it was active last."""
    if session.is_running and session.since_at is not None:
        return seconds(int((now - session.since_at).total_seconds()))
    return age(now, session.last_active_at)


def project_name(session: LiveSession) -> str:
    """Name a project by the last part of its directory."""
    return inert_line(last_part(session.project or "")) or "?"


def plain(lines: Iterable[Line]) -> str:
    """Return lines as text."""
    return "\n".join("".join(text for text, _ in line) for line in lines)


def _first(session: LiveSession, width: int) -> Line:
    sign = _SIGNS.get(session.doing, ("·", "dim"))
    right = _figures(session, width)
    room = width - 2 - sum(cell_len(text) for text, _ in right)
    name = fit(project_name(session), max(4, min(24, room // 3)))
    is_past = not session.is_running
    title = fit(_title(session), room - cell_len(name) - 3)
    left: list[Piece] = [
        (f"{sign[0]} ", sign[1]),
        (name, "dim" if is_past else "project"),
        ("  ", ""),
        (title, "" if is_past else "title"),
    ]
    return justified(left, right, width)


def _second(session: LiveSession, width: int, now: datetime) -> Line:
    time = when(session, now)
    right = [(time, "waiting" if session.doing is Doing.WAITING else "dim")]
    return justified([("  ", ""), *doing_pieces(session)], right, width)


def _figures(session: LiveSession, width: int) -> list[Piece]:
    """Draw the figures of a row: as many as there is room for, in columns."""
    percent = session.context_percent
    cost = (f"{shown(Decimal(session.cost_usd)):>9}", "")
    full = f"{min(percent, 999):3.0f}%" if percent is not None else "    "
    share: Piece = (f"  {full}", _fill(percent) if percent is not None else "")
    if width < 40:
        return []
    if width < 60:
        return [cost]
    if width < 90:
        return [share, cost]
    drawn = bar(percent, _BAR) if percent is not None else [(" " * _BAR, "")]
    model = fit(_model(session.model), 16)
    tokens = f"{short_count(session.tokens):>8}" if session.tokens else " " * 8
    return [(f"  {model:<16}", "dim"), (tokens, "dim"), ("  ", ""), *drawn, share, cost]


def _block(news: LiveNews, now: datetime) -> tuple[list[Piece], list[Piece]]:
    if news.problem:
        return [(inert_line(news.problem), "crashed")], []
    if news.reading is not None:
        done, total = news.reading
        return [(f"reading the logs: {100 * done // max(1, total)}%", "dim")], []
    row: BlockRow | None = news.document.block
    if row is None or row.end_at <= now:
        idle = "no block is running" if news.document.today else "reading the logs"
        return [(idle, "dim")], []
    left = seconds((row.end_at - now).total_seconds())
    said: list[Piece] = [
        ("block ", "dim"),
        (shown(Decimal(row.cost_usd)), ""),
        (f"  {left} left", "dim"),
    ]
    if row.usd_per_hour is None or row.projected_usd is None:
        return said, []
    rate = f"{shown(Decimal(row.usd_per_hour))}/h"
    goal = f" → {shown(Decimal(row.projected_usd))} by {clock(row.end_at)}"
    return said, [(rate, ""), (goal, "dim")]


def _doing_block(session: LiveSession, width: int, now: datetime) -> list[Line]:
    lines = [justified(doing_pieces(session), [(when(session, now), "dim")], width)]
    for call in session.calls[:6] if len(session.calls) > 1 else []:
        since = seconds(int((now - call.at).total_seconds())) if call.at else ""
        who: list[Piece] = [("subagent: ", "dim")] if call.subagent else []
        words: list[Piece] = [(inert_line(call.tool), "tool"), (f" {inert_line(call.asked)}", "")]
        lines.append(justified([("  ", ""), *who, *words], [(since, "dim")], width))
    return lines


def _call(session: LiveSession, before: str = "") -> list[Piece]:
    """Return which tool is at work; a subagent's own tells more than that there is a subagent."""
    if not session.calls:
        return []
    subagents = [call for call in session.calls if call.subagent is not None]
    call = (subagents or session.calls)[-1]
    left = len(session.calls) - 1 - (1 if subagents else 0)
    pieces: list[Piece] = [(before, "dim")] if before else []
    if call.subagent is not None:
        pieces.append((f"{counted(max(1, session.subagents), 'subagent')}: ", "dim"))
    pieces += [(inert_line(call.tool), "tool"), (f" {inert_line(call.asked)}", "")]
    return [*pieces, (f" +{left}", "dim")] if left > 0 else pieces


def _about(session: LiveSession) -> list[Piece]:
    """Say what was asked for, unless the title says it."""
    said = inert_line(session.prompt or "")
    return [(" · ", "dim"), (said, "dim")] if said and said != _title(session) else []


def _title(session: LiveSession) -> str:
    return inert_line(session.title or session.prompt or "untitled")


def _model(name: str | None) -> str:
    return inert_line((name or "").removeprefix("claude-"))


def _counts(*parts: tuple[int, str]) -> str:
    return " · ".join(f"{short_count(count)} {name}" for count, name in parts if count)


def _fact(name: str, value: str, width: int) -> Line:
    return ((f"{name:<9}", "dim"), (fit(inert_line(value), width - 9), ""))


def _fill(percent: float) -> str:
    return "full" if percent >= _FULL_PERCENT else "high" if percent >= _BUSY_PERCENT else "low"
