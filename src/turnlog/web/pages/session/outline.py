"""The outline of a session, and the rail: its events by their position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

from turnlog.export.html.blocks import count_text, duration
from turnlog.export.html.page import Child, Fragment, OwnUrl, element
from turnlog.export.outline import PlaceMark, TurnOutline
from turnlog.pricing.money import shown
from turnlog.web.layout import address
from turnlog.web.pages.session.view import SessionView

_GROUP: Final = 40
_MOST_GROUPS: Final = 60
_MOST_FOUND: Final = 200
_RAIL_STEPS: Final = 160
"""The events at one step of the rail are one mark."""
_WORDS: Final = {
    "error": ("error", "errors"),
    "compaction": ("compaction", "compactions"),
    "subagent": ("subagent", "subagents"),
    "commit": ("commit", "commits"),
}
_ORDER: Final = ("error", "compaction", "subagent", "commit")


def outline(view: SessionView) -> Fragment:
    """Return the turns with a filter; long outlines in groups, which are loaded when opened."""
    turns = view.thread.outline.turns
    words = view.params.text("turns")
    return element(
        "nav",
        _filter(view, words, sum(turn.number > 0 for turn in turns)),
        _found(view, words) if words else _groups(view, turns),
        id="outline",
        aria_label="Turns",
    )


def outline_rows(view: SessionView, first: int, count: int) -> list[Fragment]:
    """Return some rows of the outline."""
    turns = view.thread.outline.turns[first : first + count]
    return [_row(view, turn) for turn in turns if turn.label or turn.number or turn.calls]


def group_size(count: int) -> int:
    """Return how many turns a group has."""
    return max(_GROUP, -(-count // _MOST_GROUPS))


def _filter(view: SessionView, words: str, count: int) -> Fragment:
    box = element(
        "input",
        type="search",
        name="turns",
        value=words or None,
        placeholder=f"Filter {count:,} turns" if count != 1 else "1 turn",
        aria_label="Filter turns",
    )
    thread = view.thread.name
    kept = element("input", type="hidden", name="thread", value=thread)
    return element(
        "form",
        box,
        kept if thread != "whole" else None,
        element("input", type="hidden", name="window", value=str(view.window))
        if view.window
        else None,
        element("button", "Filter"),
        action=address(f"/session/{view.id}"),
        data_swap="outline",
    )


def _found(view: SessionView, words: str) -> Fragment:
    wanted = words.casefold()
    fits = [turn for turn in view.thread.outline.turns if _fits(turn, wanted)]
    rows = [_row(view, turn) for turn in fits[:_MOST_FOUND]]
    note = f"{len(fits):,} found" + (f", {_MOST_FOUND} shown" if len(fits) > _MOST_FOUND else "")
    return element("div", element("p", note, class_="faint"), element("ol", rows))


def _fits(turn: TurnOutline, wanted: str) -> bool:
    """Return whether a turn has the words in its prompt, or the event of that name."""
    if wanted in turn.label.casefold() or wanted == str(turn.number):
        return True
    counts = (turn.errors, turn.compactions, turn.subagents, turn.commits)
    return any(wanted in _WORDS[kind] for kind, n in zip(_ORDER, counts, strict=True) if n)


def _groups(view: SessionView, turns: Sequence[TurnOutline]) -> Child:
    size = group_size(len(turns))
    if len(turns) <= size:
        return element("ol", outline_rows(view, 0, len(turns)))
    windows = view.thread.windows
    now = windows[view.window].parts[0][0] // size if windows else 0
    drawn = []
    for first in range(0, len(turns), size):
        last = turns[min(first + size, len(turns)) - 1]
        is_now = first // size == now
        name = f"{turns[first].number:,}\u2013{last.number:,}"
        labels = (turn.label for turn in turns[first : first + size] if turn.label)
        label = next(labels, "")[:60]
        inside = (
            element("ol", outline_rows(view, first, size))
            if is_now
            else element(
                "p",
                element("a", "Show", href=view.place(turns[first].anchor)),
                data_src=view.url("outline", first=first or None),
            )
        )
        summary = element("summary", element("b", name), element("span", label))
        drawn.append(element("details", summary, inside, open=is_now))
    return drawn


def _row(view: SessionView, turn: TurnOutline) -> Fragment:
    number = str(turn.number) if turn.number else "…"
    return element(
        "li",
        element(
            "a",
            element("b", number),
            element("span", turn.label or "(no prompt)", class_=None if turn.label else "faint"),
            element("small", _figures(turn)),
            href=view.place(turn.anchor),
            data_turn=turn.anchor,
        ),
    )


def _figures(turn: TurnOutline) -> Child:
    took = (
        duration((turn.ended_at - turn.at).total_seconds()) if turn.at and turn.ended_at else None
    )
    facts = [
        took,
        count_text(turn.calls, "call"),
        shown(Decimal(turn.cost_usd)) if turn.cost_usd else None,
        count_text(turn.subagents, "subagent"),
        count_text(turn.commits, "commit"),
        "compacted" if turn.compactions else None,
    ]
    plain = " · ".join(fact for fact in facts if fact)
    if not turn.errors:
        return plain
    errors = element("span", count_text(turn.errors, "error"), class_="bad")
    return [errors, f" · {plain}" if plain else None]


def rail(view: SessionView) -> Fragment:
    """Return the events of the session as marks on a line, each a link."""
    marks: dict[int, list[PlaceMark]] = {}
    for mark in view.thread.outline.marks:
        marks.setdefault(int(mark.position * _RAIL_STEPS), []).append(mark)
    drawn = [_mark(view, step, found) for step, found in sorted(marks.items())]
    turns = max(1, len(view.thread.windows))
    seen = element(
        "rect",
        class_="seen",
        x="0",
        y=f"{view.window / turns * _RAIL_STEPS:.2f}",
        width="10",
        height=f"{max(1.0, _RAIL_STEPS / turns):.2f}",
    )
    svg = element(
        "svg",
        seen,
        drawn,
        viewBox=f"0 0 10 {_RAIL_STEPS + 1}",
        preserveAspectRatio="none",
        role="group",
        aria_label="Events",
    )
    return element("nav", svg, id="rail", aria_label="Events")


def _mark(view: SessionView, step: int, found: list[PlaceMark]) -> Fragment:
    kinds = [mark.kind for mark in found]
    kind = next(each for each in _ORDER if each in kinds)
    first = next(mark for mark in found if mark.kind == kind)
    counts = [count_text(kinds.count(each), *_WORDS[each]) for each in _ORDER if kinds.count(each)]
    number = view.thread.outline.turns[first.turn].number
    text = view.params.ctx.clean(first.text)
    words = f"turn {number}: {text}" if len(found) == 1 else f"turn {number}: {', '.join(counts)}"
    bar = element("rect", class_=kind, x="1", y=str(step), width="8", height="1")
    return element(
        "a",
        element("title", words),
        bar,
        href=view.place(first.anchor),
        aria_label=words,
    )


def bars(
    values: Iterable[tuple[float, OwnUrl, str]], name: str, *, most: int = 120
) -> Fragment | None:
    """Return a bar for each value; every bar is a link with words."""
    found = list(values)
    step = -(-len(found) // most) if found else 1
    # Of neighbours that do not fit, the highest one is shown.
    kept = [max(found[at : at + step]) for at in range(0, len(found), step)]
    top = max((value for value, _, _ in kept), default=0)
    if not top:
        return None
    drawn = []
    for place, (value, href, words) in enumerate(kept):
        height = max(1.0, value / top * 100)
        rect = element(
            "rect",
            x=str(place * 10 + 1),
            y=f"{100 - height:.1f}",
            width="8",
            height=f"{height:.1f}",
        )
        drawn.append(element("a", element("title", words), rect, href=href, aria_label=words))
    return element(
        "svg",
        drawn,
        viewBox=f"0 0 {len(kept) * 10} 100",
        preserveAspectRatio="none",
        class_="bars",
        role="group",
        aria_label=name,
    )
