"""The page of what agents are doing now; it updates itself.

Sessions that wait for a person come first, then those at work, then those of the last day.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final

from turnlog.api.live import ASKED_FOR, Doing, LiveDocument, LiveSession
from turnlog.export.html.charts import counted, short, time
from turnlog.export.html.insights_page import card
from turnlog.export.html.page import Child, Fragment, OwnUrl, element
from turnlog.export.html.session_page import duration
from turnlog.pricing.money import shown
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import address, framed

_MOST_CALLS: Final = 4
_LONGEST: Final = 240
_WORDS: Final = {
    Doing.WAITING: "waits for you",
    Doing.CALLING: "at work",
    Doing.THINKING: "thinking",
    Doing.ANSWERING: "answering",
    Doing.IDLE: "your turn",
    Doing.QUIET: "",
    Doing.ENDED: "ended",
    Doing.CRASHED: "crashed",
}


def now_page(params: Params) -> str:
    """Return the page of running and recent sessions."""
    ctx = params.ctx
    ctx.live.ask()
    seen = ctx.live.look()
    rows = [_session(each, seen.at, ctx) for each in seen.sessions]
    told = element("p", "No agent runs, and none did in the last day.")
    reload = element("noscript", element("a", "Reload", href=OwnUrl("/now"), class_="button"))
    return framed(
        "Now",
        "Now",
        element("h1", "Now"),
        element(
            "section",
            element("p", f"At {ctx.when(seen.at)} ", reload, class_="faint"),
            element("div", list(_cards(seen)), class_="cards"),
            [element("p", ctx.clean(notice), class_="note") for notice in ctx.live.notices],
            element("ol", rows, class_="now") if rows else told,
            id="now",
            data_live="now",
            aria_label="Sessions",
        ),
        styles=("now",),
    )


def _cards(seen: LiveDocument) -> list[Fragment]:
    cards = [
        card(str(seen.waiting), "waits for you" if seen.waiting == 1 else "wait for you"),
        card(str(seen.running), "running"),
    ]
    if seen.today is not None:
        cards.append(card(shown(Decimal(seen.today.cost_usd)), "today"))
    block = seen.block
    if block is not None and block.projected_usd is not None and block.left_min is not None:
        left = time(block.left_min * 60_000)
        words = f"this block, {left} left; {shown(Decimal(block.projected_usd))} at its end"
        cards.append(card(shown(Decimal(block.cost_usd)), words))
    return cards


def _session(session: LiveSession, now: datetime, ctx: PageContext) -> Fragment:
    title = ctx.clean(session.title or session.prompt) or f"session {session.id[:8]}"
    return element(
        "li",
        element("a", title, href=address(f"/session/{session.id}")),
        element("p", words, class_="doing") if (words := _doing(session, now)) else None,
        [element("p", _call(each.tool, each.asked, ctx)) for each in session.calls[:_MOST_CALLS]],
        _prompt(session, title, ctx),
        element("p", _facts(session, ctx), class_="facts"),
        class_=_kind(session),
        id=f"now-{session.id}",
    )


def _kind(session: LiveSession) -> str | None:
    if session.doing is Doing.WAITING:
        return "waiting"
    if session.doing is Doing.CRASHED:
        return "crashed"
    return "working" if session.is_running and session.doing.is_at_work else None


def _doing(session: LiveSession, now: datetime) -> Child:
    words = _WORDS[session.doing]
    if session.waiting_for:
        words += f": {ASKED_FOR.get(session.waiting_for, session.waiting_for)}"
    if session.is_running and session.since_at is not None:
        since = duration((now - session.since_at).total_seconds())
        return [element("b", words), f" for {since}" if since else None]
    return element("b", words) if words else None


def _call(tool: str, asked: str, ctx: PageContext) -> Child:
    return [element("b", ctx.clean(tool)), " ", element("code", ctx.clean(asked)[:_LONGEST])]


def _prompt(session: LiveSession, title: str, ctx: PageContext) -> Fragment | None:
    said = " ".join(ctx.clean(session.prompt).split())
    return element("p", said[:_LONGEST]) if said and said != title else None


def _facts(session: LiveSession, ctx: PageContext) -> Child:
    facts: list[Child] = [
        ctx.project_name(session.project),
        ctx.clean(session.git_branch),
        f"{counted(session.subagents, 'subagent')} at work" if session.subagents else None,
        f"{short(session.tokens)} tokens" if session.tokens else None,
        shown(Decimal(session.cost_usd)) if session.messages else None,
        ctx.when(session.last_active_at),
    ]
    percent = session.context_percent
    if percent is not None:
        bar = element("meter", value=f"{min(percent, 100):.0f}", min="0", max="100", high="80",
                      aria_label="context used")  # fmt: skip
        facts.append(["context ", bar, f" {percent:.0f} %"])
    known = [fact for fact in facts if fact]
    return [[" · " if number else None, fact] for number, fact in enumerate(known)]
