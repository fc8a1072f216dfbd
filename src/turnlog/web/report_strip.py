"""The filters at the top of reports: what was typed, what is wrong with it, and the form.

A mistake is shown next to its field, and everything that was typed stays in the form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from turnlog.api.arguments import check_period
from turnlog.errors import UsageError
from turnlog.export.html.page import Child, Fragment, OwnUrl, element
from turnlog.web.context import Params
from turnlog.web.layout import address

SWAPPED: Final = "head strip figures"
"""The parts of a report's page that change with its filters (static/swap.js)."""
ALL: Final = "all"
_USUAL: Final = "30d"
R = TypeVar("R")


class Preset(NamedTuple):
    """A period that is one click away."""

    words: str
    since: str
    until: str = ""


PRESETS: Final = (
    Preset("today", "today"),
    Preset("7 days", "7d"),
    Preset("30 days", "30d"),
    Preset("90 days", "90d"),
    Preset("this month", "this month"),
    Preset("last month", "last month", "this month"),
    Preset("1 year", "1y"),
    Preset("all time", ALL),
)


class ReportFilter:
    """The parameters of a report, and the problems of single fields."""

    def __init__(
        self, path: str, params: Params, names: Iterable[str], *, usual: str = _USUAL
    ) -> None:
        """Keep the parameters called *names*; others are not repeated in links.

        *usual* is the beginning of the period if none is given.
        """
        self.path, self.params, self._usual = path, params, usual
        self.values = {name: text for name in names if (text := params.text(name))}
        self.problems: dict[str, str] = {}

    def parse(self, name: str, parse: Callable[[str], R]) -> R | None:
        """Return what *parse* makes of a field; None if it is empty or invalid."""
        text = self.values.get(name)
        if not text:
            return None
        try:
            return parse(text)
        except UsageError as error:
            self.problems[name] = f"{error}; {error.hint}" if error.hint else str(error)
            return None

    def period(self) -> tuple[datetime | None, datetime | None]:
        """Return the start and the end of the period; the usual one if neither is given."""
        is_given = self.values.get("since") or self.values.get("until")
        since = None
        if not is_given and self._usual != ALL:
            since = self.params.moment("since", self._usual)
        elif self.values.get("since") != ALL:
            since = self.parse("since", lambda _: self.params.moment("since"))
        until = self.parse("until", lambda _: self.params.moment("until"))
        try:
            check_period(since, until)
        except UsageError as error:
            self.problems["until"] = str(error)
        return since, until

    def link(self, **changes: str | None) -> OwnUrl:
        """Return the address of this report with other filters, from its first row on."""
        return address(self.path, **{**self.values, "offset": None, **changes})

    def strip(self, *fields: Child, hidden: Sequence[str] = ()) -> Fragment:
        """Return the form, with the *hidden* parameters that have no field."""
        kept = [
            element("input", type="hidden", name=name, value=self.values[name])
            for name in hidden
            if name in self.values
        ]
        return element(
            "form",
            self._dates(),
            fields,
            kept,
            element("button", "Show"),
            self._presets(),
            action=OwnUrl(self.path),
            class_="strip",
            id="strip",
            data_swap=SWAPPED,
        )

    def text_field(
        self, name: str, words: str, example: str = "", options: Sequence[str] = ()
    ) -> Fragment:
        """Return a labelled text field with a list of *options*."""
        listed = f"{name}-names" if options else None
        box = element(
            "input",
            type="text",
            name=name,
            value=self.values.get(name),
            placeholder=example or None,
            list=listed,
            autocomplete="off",
            **self._invalid(name),
        )
        names = [element("option", value=self.params.ctx.clean(each)) for each in options]
        return self._labelled(
            name, words, box, element("datalist", names, id=listed) if listed else None
        )

    def select(self, name: str, words: str, options: Mapping[str, str]) -> Fragment:
        """Return a labelled select box; what was given and is not an option is added."""
        chosen = self.values.get(name, "")
        shown = {"": "all", **options}
        shown.setdefault(chosen, chosen)
        items = [
            element("option", self.params.ctx.clean(said), value=value, selected=value == chosen)
            for value, said in shown.items()
        ]
        return self._labelled(
            name, words, element("select", items, name=name, **self._invalid(name))
        )

    def _dates(self) -> list[Fragment]:
        return [
            self.text_field("since", "from", "30d, monday, 2026-11-01"),
            self.text_field("until", "before", "now"),
        ]

    def _presets(self) -> Fragment:
        chosen = (self.values.get("since", ""), self.values.get("until", ""))
        chosen = (self._usual, "") if chosen == ("", "") else chosen
        links = [
            element(
                "a",
                each.words,
                href=self.link(since=each.since, until=each.until, time=None),
                data_swap=SWAPPED,
                aria_current="true" if chosen == (each.since, each.until) else None,
            )
            for each in PRESETS
        ]
        return element("div", links, class_="choices", role="group", aria_label="Period")

    def _invalid(self, name: str) -> dict[str, str | None]:
        if name not in self.problems:
            return {}
        return {"aria_invalid": "true", "aria_describedby": f"{name}-wrong"}

    def _labelled(self, name: str, words: str, *controls: Child) -> Fragment:
        problem = self.problems.get(name)
        wrong = (
            element("span", self.params.ctx.clean(problem), id=f"{name}-wrong", class_="wrong")
            if problem
            else None
        )
        return element("label", element("span", words), controls, wrong)
