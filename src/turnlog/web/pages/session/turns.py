"""Windows of turns, and what is folded in them, which is loaded when it is opened."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from turnlog.export.conversation import (
    Answer,
    Block,
    ConversationTurn,
    Picture,
    PromptPiece,
    SubagentRun,
    anchor_of,
)
from turnlog.export.html.blocks import BlockRenderer, image_data
from turnlog.export.html.markdown import Highlighter
from turnlog.export.html.page import Child, Fragment, element
from turnlog.export.outline import Window
from turnlog.web.pages.session.view import SessionView

_BUDGET: Final = 6_000
"""Characters of code that are highlighted in a window: each word of them is an element."""
_LONGEST_TEXT: Final = 16_000
_SHOWN_TEXT: Final = 6_000


class ServedBlocks(BlockRenderer):
    """Blocks whose folded content is loaded when it is opened."""

    def __init__(self, view: SessionView) -> None:
        super().__init__(view.params.ctx.zone, Highlighter(_BUDGET))
        self._view = view
        found = view.location
        self._opened = {found.anchor, *found.subagents} if found is not None else set()

    def address(self, anchor: str) -> str:
        return self._view.place(anchor)

    def is_open(self, anchor: str) -> bool:
        return anchor in self._opened

    def folded(self, block: Block) -> Fragment:
        if self.is_open(block.anchor):
            return super().folded(block)
        link = element("a", "Show", href=self._view.place(block.anchor))
        src = self._view.url("block", id=block.anchor)
        return element("div", link, class_="inside", data_src=src)

    def picture(self, picture: Picture) -> Fragment:
        if not image_data(picture):
            return super().picture(picture)
        src = self._view.url("image", id=picture.anchor)
        return element("img", src=src, alt="an image", loading="lazy")

    def calls_of(self, subagent: SubagentRun) -> int:
        tree = self._view.reader.read.subagent_trees.get(subagent.id)
        return sum(len(node.calls) for node in tree.nodes) if tree else 0

    def subagent_inside(self, subagent: SubagentRun) -> Fragment:
        view = self._view
        if self.is_open(subagent.id) and view.location is not None:
            window = view.location.subagents[subagent.id]
            return element("div", subagent_window(view, subagent.id, window, self), class_="inside")
        link = element("a", "Show", href=view.url("agent", id=subagent.id))
        inside = element("div", link, data_src=view.url("agent", id=subagent.id))
        return element("div", inside, class_="inside")

    def block(self, block: Block) -> Fragment:
        if (
            isinstance(block, PromptPiece | Answer)
            and len(block.text) > _LONGEST_TEXT
            and not self.is_open(block.anchor)
        ):
            words = f"Show all {len(block.text):,} characters"
            link = element("a", words, href=self._view.place(block.anchor))
            cut = replace(block, text=block.text[:_SHOWN_TEXT] + "…")
            return element("div", super().block(cut), element("p", link), class_="cut")
        return super().block(block)


def turn_windows(view: SessionView) -> Fragment:
    """Return the window of the request with links to the ones before and after it."""
    return element("div", window_parts(view, view.window), id="turns")


def window_parts(
    view: SessionView, number: int, *, before: bool = True, after: bool = True
) -> Child:
    """Return a window, and what leads to its neighbours."""
    windows = view.thread.windows
    if not windows:
        strays = _strays(view, ServedBlocks(view))
        return strays or element("p", "Nothing was said.", class_="faint")
    draw = ServedBlocks(view)
    found = list(view.thread.turns(number))
    here = _here([turn for turn, _ in found], windows[number], view)
    drawn: list[Child] = []
    if number and before:
        drawn.append(_more(view, number - 1, "before", 0, windows[number - 1]))
    for turn, is_rest in found:
        if not turn.blocks:
            continue
        if is_rest:
            blocks = draw.blocks(turn.blocks, here=here)
            words = f"turn {turn.number}, continued" if turn.number else "continued"
            rest = element("p", words, class_="rest")
            name = f"{turn.anchor}-{number}"
            window = {"data_w": str(number)}
            drawn.append(element("section", rest, blocks, class_="turn", id=name, **window))
        else:
            drawn.append(draw.turn(turn, here=here, window=number))
    if number == len(windows) - 1:
        drawn += [_strays(view, draw), element("span", id="end")]
    elif after:
        drawn.append(_more(view, number + 1, "after", number + 1, windows[-1]))
    return drawn


def _more(view: SessionView, window: int, name: str, first: int, last: Window) -> Fragment:
    """Return the place of the windows before or after, with a link to the nearest."""
    begin = view.thread.windows[first].parts[0][1].number
    end = last.parts[-1][1].number
    words = f"turns {begin:,}\u2013{end:,}" if begin != end else f"more of turn {begin:,}"
    sign = f"↑ {words}" if name == "before" else f"↓ {words}"
    link = element("a", sign, href=view.url(window=window, hash_="turns"))
    return element("p", link, class_="more", id=name, data_window=view.url("turns", window=window))


def _strays(view: SessionView, draw: ServedBlocks) -> Fragment | None:
    strays = [draw.subagent(subagent) for subagent in view.thread.strays()]
    if not strays:
        return None
    words = element("p", "Subagents whose calls are not above", class_="mark")
    return element("section", words, strays, class_="turn", id="strays")


def subagent_window(
    view: SessionView, subagent: str, number: int, draw: ServedBlocks | None = None
) -> Child:
    """Return a window of a subagent's thread, and what leads to its neighbours."""
    draw = draw or ServedBlocks(view)
    windows = view.thread.subagent_windows(subagent)
    if not windows:
        return element("p", "Nothing was said.", class_="faint")
    number = min(number, len(windows) - 1)
    turns = list(view.thread.subagent_turns(subagent, number))
    here = _here(turns, windows[number], view)
    drawn: list[Child] = []
    if number:
        drawn.append(_subagent_link(view, subagent, number - 1, "↑ earlier"))
    drawn += [draw.blocks(turn.blocks, here=here) for turn in turns]
    if number + 1 < len(windows):
        drawn.append(_subagent_link(view, subagent, number + 1, "↓ more"))
    return drawn


def _subagent_link(view: SessionView, subagent: str, window: int, words: str) -> Fragment:
    src = view.url("agent", id=subagent, window=window, part=1)
    link = element("a", words, href=view.url("agent", id=subagent, window=window))
    if words.startswith("↓"):
        return element("p", link, class_="more", data_src=src)
    inside = element("p", link, data_src=src)  # Not loaded before it is wanted.
    return element("details", element("summary", words), inside, class_="more")


def _here(turns: list[ConversationTurn], window: Window, view: SessionView) -> str | None:
    """Return the first block at or after the record to scroll to, if it is in this window."""
    if view.location is None:
        return None
    anchor = view.location.anchor
    record = anchor.partition("-")[0]
    order = [anchor_of(node.uuid) for _, part in window.parts for node in part.nodes]
    if record not in order:
        return None
    shown = [block.anchor for turn in turns for block in turn.blocks]
    if anchor in shown:
        return anchor
    later = set(order[order.index(record) :])
    return next((each for each in shown if each.partition("-")[0] in later), None)
