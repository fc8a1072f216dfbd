"""The page that compares two sessions side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Final

from turnlog.api.sessions.compare import (
    FileChange,
    PromptPair,
    PromptSide,
    SessionComparison,
    SessionSide,
    compare_sessions,
)
from turnlog.api.sessions.lists import SessionCosts, find_indexed, list_indexed
from turnlog.api.sessions.reading import Session
from turnlog.errors import TurnlogError
from turnlog.export.html.charts import count, counted, time
from turnlog.export.html.markdown import Highlighter, prose
from turnlog.export.html.page import Child, Fragment, OwnUrl, element
from turnlog.export.record_blocks import Unmasked
from turnlog.pricing.money import shown
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import address, field, framed

_CHOICES: Final = 20
_MATCHES: Final = {
    "same": "same",
    "changed": "differs",
    "only_a": "only in A",
    "only_b": "only in B",
}
_TOKENS: Final = {
    "input": "input tokens",
    "output": "output tokens",
    "cache_write_5m": "cache write tokens, 5 min",
    "cache_write_1h": "cache write tokens, 1 h",
    "cache_read": "cache read tokens",
}


def compare_page(params: Params) -> str:
    """Return the comparison of the sessions ``a`` and ``b``, or of two named ``id``."""
    ctx, ids = params.ctx, params.every("id")
    a = params.text("a") or (ids[0] if ids else "")
    b = params.text("b") or (ids[1] if len(ids) > 1 else "")
    if not a or not b:
        return _choice(a or b, ctx)
    with ctx.store.index() as index:
        found = compare_sessions(
            index,
            a,
            b,
            costs=SessionCosts(index, ctx.prices),
            now=ctx.now(),
            out=Unmasked() if ctx.mask is None else _Masked(ctx, (a, b)),
        )
    swap = address("/compare", a=found.b.session.id, b=found.a.session.id)
    note = f"There were more than two: only the first two of {len(ids)} are compared."
    return framed(
        "Compare",
        "Sessions",
        element("h1", "Two sessions compared"),
        element("p", note, class_="note") if len(ids) > 2 else None,
        element("div", _head("A", found.a, ctx), _head("B", found.b, ctx), class_="sides"),
        element("p", element("a", "Swap A and B", href=swap)),
        _section("figures", "Figures", _figures(found, ctx)),
        _section("prompts", "Prompts", _prompts(found, ctx)),
        _section("outcome", "Outcome", element(
            "div", _outcome("A", found.a, ctx), _outcome("B", found.b, ctx), class_="sides")),
        _section("tools", "Tools", _tools(found, ctx)),
        _section("files", "Files changed", _files(found, ctx)),
        _section("errors", "Errors", _errors(found, ctx)),
        styles=("compare",),
    )  # fmt: skip


class _Masked(Unmasked):
    """Masks the secrets of both sessions, also where one repeats a secret of the other."""

    def __init__(self, ctx: PageContext, names: tuple[str, str]) -> None:
        self._masks: list[Callable[[str], str]] = [ctx.clean]
        for name in names:
            with suppress(TurnlogError):  # Its log may be gone.
                self._masks.append(ctx.outgoing(Session.find(ctx.store.homes, name)).text)

    def text(self, text: str) -> str:
        for mask in self._masks:
            text = mask(text)
        return text


def _choice(chosen: str, ctx: PageContext) -> str:
    """Return a form for two ids and, with one *chosen*, the latest sessions of its project."""
    rows: list[Fragment] = []
    if chosen:
        with ctx.store.index() as index:
            session = find_indexed(index, chosen)[1]
            found = list_indexed(index, project=session.project, gone=False, limit=_CHOICES + 1)
        for each in [row for row in found.sessions if row.id != session.id][:_CHOICES]:
            title = ctx.clean(each.title) or f"session {each.id[:8]}"
            link = element("a", title, href=address("/compare", a=session.id, b=each.id))
            when = element("small", f" {each.id[:8]} · {ctx.when(each.last_active_at)}")
            rows.append(element("li", link, when))
    form = element(
        "form",
        field("a", chosen, "session A"),
        field("b", "", "session B"),
        element("button", "Compare"),
        action=OwnUrl("/compare"),
        class_="asked",
    )
    return framed(
        "Compare",
        "Sessions",
        element("h1", "Compare two sessions"),
        element("p", "Check the boxes of two in the ", element("a", "list", href=OwnUrl("/")),
                ", or give the beginnings of their ids."),
        form,
        _section("others", "Sessions of the same project", element("ul", rows)) if rows else None,
        styles=("compare",),
    )  # fmt: skip


def _section(name: str, title: str, body: Child) -> Fragment:
    head = element("h2", title, id=f"{name}-title")
    return element("section", head, body, id=name, aria_labelledby=f"{name}-title")


def _head(letter: str, side: SessionSide, ctx: PageContext) -> Fragment:
    session = side.session
    title = ctx.clean(session.title) or f"session {session.id[:8]}"
    facts = [
        session.id[:8],
        ctx.project_name(session.project),
        ctx.clean(session.git_branch),
        ctx.when(session.started_at),
    ]
    return element(
        "div",
        element("h2", element("span", letter, class_="letter"), " ",
                element("a", title, href=address(f"/session/{session.id}"))),
        element("p", " · ".join(each for each in facts if each), class_="faint"),
    )  # fmt: skip


def _figures(found: SessionComparison, ctx: PageContext) -> Fragment:
    a, b = found.a, found.b
    one, other = a.session, b.session
    rows = [
        _row("project", ctx.clean(one.project), ctx.clean(other.project)),
        _row("models", _models(one.models, ctx), _models(other.models, ctx)),
        _row("prompts", count(one.prompts), count(other.prompts)),
        _row("duration", time(a.elapsed_ms), time(b.elapsed_ms)),
        _row("cost", _cost(one.cost_usd), _cost(other.cost_usd)),
        _row("responses", count(one.messages), count(other.messages)),
        *(_row(words, count(getattr(one, name)), count(getattr(other, name)))
          for name, words in _TOKENS.items()),
        _row("calls", count(a.calls), count(b.calls)),
        _row("failed calls", count(a.errors), count(b.errors)),
        _row("subagents", count(one.subagents), count(other.subagents)),
        _row("files changed", count(a.files), count(b.files)),
        _row("lines", _lines(a.added, a.removed), _lines(b.added, b.removed)),
    ]  # fmt: skip
    note = "Copied records count for the session that made them."
    return element("div", _table("", rows), element("p", note, class_="faint"))


def _models(models: list[str], ctx: PageContext) -> str:
    return ctx.clean(", ".join(models)) or "—"


def _cost(cost_usd: str | None) -> str:
    return shown(Decimal(cost_usd)) if cost_usd else "—"


def _lines(added: int, removed: int) -> Child:
    return [
        element("span", f"+{count(added)}", class_="added"),
        " ",
        element("span", f"-{count(removed)}", class_="removed"),
    ]


def _row(name: Child, a: Child, b: Child, class_: str | None = None) -> Fragment:
    if class_ is None and isinstance(a, str) and a != b:
        class_ = "other"
    return element(
        "tr",
        element("th", name, scope="row"),
        element("td", a),
        element("td", b),
        class_=class_,
    )


def _table(name: str, rows: list[Fragment]) -> Fragment:
    heads = [element("th", each, scope="col") for each in (name, "A", "B")]
    return element("table", element("thead", element("tr", heads)), element("tbody", rows))


# -- prompts --------------------------------------------------------------------------------


def _prompts(found: SessionComparison, ctx: PageContext) -> Iterator[Child]:
    if not found.prompts:
        yield element("p", "Nothing was asked in either of them.")
        return
    first = found.first_difference
    if first is None:
        yield element("p", f"All {counted(len(found.prompts), 'prompt')} are the same.")
    else:
        same = sum(pair.match == "same" for pair in found.prompts)
        link = element("a", "the first difference", href="#first")
        yield element(
            "p", f"{count(same)} of {counted(len(found.prompts), 'prompt')} are the same; ", link
        )
    rows = [
        _pair(pair, found, ctx, is_first=place == first) for place, pair in enumerate(found.prompts)
    ]
    yield element("ol", rows, class_="pairs")
    for letter, side in (("A", found.a), ("B", found.b)):
        if side.unlisted_prompts:
            more = f"{counted(side.unlisted_prompts, 'more prompt')} of {letter} not compared"
            yield element("p", more, class_="faint")


def _pair(
    pair: PromptPair, found: SessionComparison, ctx: PageContext, *, is_first: bool
) -> Fragment:
    words = "first difference: " if is_first else ""
    return element(
        "li",
        element("p", f"{words}{_MATCHES[pair.match]}", class_="match"),
        element(
            "div",
            _prompt("A", pair.a, found.a, pair, ctx),
            _prompt("B", pair.b, found.b, pair, ctx),
            class_="sides",
        ),
        class_=f"{pair.match} first" if is_first else pair.match,
        id="first" if is_first else None,
    )


def _prompt(
    letter: str, prompt: PromptSide | None, side: SessionSide, pair: PromptPair, ctx: PageContext
) -> Fragment:
    if prompt is None:
        return element("div", class_="missing")
    link = address(f"/session/{side.session.id}", record=prompt.record)
    text: Child = prompt.text
    if pair.match == "changed" and pair.shared < len(prompt.text):
        text = [prompt.text[: pair.shared], element("mark", prompt.text[pair.shared :])]
    head = f"{letter} {prompt.number}" + (f" · {ctx.when(prompt.at)}" if prompt.at else "")
    return element(
        "div",
        element("a", head, href=link, class_="faint"),
        element("p", text if prompt.text else "(no text)", class_="said"),
    )


def _outcome(letter: str, side: SessionSide, ctx: PageContext) -> Fragment:
    session = side.session
    state = session.running or ("crashed" if session.crashed else str(session.state))
    head: Child = f"{letter} · {ctx.clean(state)} · {ctx.when(session.last_active_at)}"
    if side.answer_record:
        link = address(f"/session/{session.id}", record=side.answer_record)
        head = element("a", head, href=link)
    answer = prose(side.answer, Highlighter()) if side.answer else element("p", "No answer.")
    return element(
        "div",
        element("p", head, class_="faint"),
        element(
            "div",
            answer,
            class_="answer",
            tabindex="0",
            role="region",
            aria_label=f"Last answer of {letter}",
        ),
    )


# -- tools, files, errors -------------------------------------------------------------------


def _tools(found: SessionComparison, ctx: PageContext) -> Fragment:
    rows = [
        _row(ctx.clean(tool.tool), _calls(tool.a_calls, tool.a_errors),
             _calls(tool.b_calls, tool.b_errors))
        for tool in found.tools
    ]  # fmt: skip
    return _table("tool", rows) if rows else element("p", "No tool was called.")


def _calls(calls: int, errors: int) -> Child:
    if not errors:
        return count(calls) if calls else "—"
    return [f"{count(calls)}, ", element("span", f"{count(errors)} failed", class_="bad")]


def _files(found: SessionComparison, ctx: PageContext) -> Iterator[Child]:
    groups = (
        ("In both", [each for each in found.files if each.a and each.b]),
        ("Only in A", [each for each in found.files if each.a and not each.b]),
        ("Only in B", [each for each in found.files if each.b and not each.a]),
    )
    for title, files in groups:
        if files:
            rows = [
                _row(element("code", ctx.clean(each.path)), _change(each.a), _change(each.b), "")
                for each in files
            ]
            yield element("h3", f"{title}: {count(len(files))}")
            yield _table("file", rows)
    if not found.files:
        yield element("p", "No file was changed.")
    if found.a.is_partial or found.b.is_partial:
        yield element("p", "Only the latest edits are listed.", class_="note")


def _change(change: FileChange | None) -> Child:
    if change is None:
        return "—"
    return [_lines(change.added, change.removed), f" in {counted(change.edits, 'edit')}"]


def _errors(found: SessionComparison, ctx: PageContext) -> Iterator[Child]:
    if not found.errors:
        yield element("p", "No call failed.")
        return
    rows = [
        _row([element("b", ctx.clean(error.tool)), " ", error.text], _times(error.a),
             _times(error.b), "")
        for error in found.errors
    ]  # fmt: skip
    yield _table("error", rows)
    if found.unlisted_errors:
        yield element("p", f"{count(found.unlisted_errors)} more not shown", class_="faint")


def _times(number: int) -> str:
    return count(number) if number else "—"


ROUTES: Final[dict[str, Callable[[Params], str]]] = {"/compare": compare_page}
