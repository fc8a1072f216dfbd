"""What must and what may be on the disk, told from the steps that were tried and acknowledged.

A Tale is one session's: the parts of its records that were acknowledged, those that were only
tried, and for whatever has one value (title, tag, pin, todos) the values it may have. A step that
was tried and not acknowledged leaves two of them. Nothing here looks at the disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from turnlog.records.record import Call, Record, Result, Spoken

from .session_steps import Step, said, text_of, todos_of


class Part(NamedTuple):
    """What one line of a log says of what was said: its text, or a call or result by id."""

    kind: str
    text: str = ""
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


def part_of(record: Record) -> Part | None:
    """Give what *record* says; None if it is no part of the conversation."""
    match record:
        case Call():
            return Part("call", calls=(record.call_id or "",))
        case Result():
            return Part("result", record.text, results=(record.call_id or "",))
        case Spoken():
            calls = tuple(call.id for call in record.calls)
            results = tuple(result.tool_use_id for result in record.results)
            return Part(record.type, record.text, calls, results)
    return None


def parts_of(name: str, number: int, layout: str) -> list[Part]:
    """Give the lines that record *number* becomes: in two layouts calls and results are alone."""
    record = said(name, number)
    words = text_of(name, number)
    ids = tuple(f"{name}#{number - (number % 4 == 2)}.{part}" for part in range(2))
    calls = ids if number % 4 == 1 else ()
    results = ids if number % 4 == 2 else ()
    if layout == "claude":
        return [Part(record["type"], "" if results else words, calls, results)]
    if results:
        return [Part("result", words, results=(each,)) for each in results]
    return [Part(record["type"], words), *(Part("call", calls=(each,)) for each in calls)]


@dataclass
class Tale:
    """What is known of one session."""

    layout: str
    there: bool | None = None
    """Whether it is there; None if that cannot be known."""
    parts: list[Part] = field(default_factory=list)
    tried: list[Part] = field(default_factory=list)
    """What may stand behind *parts*, as far as it goes."""
    records: list[tuple[str, int]] = field(default_factory=list)
    """The records that were acknowledged, by the session that said them first and number."""
    next: int = 0
    """The number of the next record."""
    again: tuple[int, ...] = ()
    """The records that were tried and not acknowledged."""
    writer: str = "none"
    """none, quiet (nothing said yet), opening, open, closing."""
    saved: bool = False
    """Of the flat layout: the caches say what the log says."""
    titles: list[str | None] = field(default_factory=lambda: [None])
    tags: list[str | None] = field(default_factory=lambda: [None])
    pins: list[bool] = field(default_factory=lambda: [False])
    todos: list[Any] = field(default_factory=lambda: [None])

    @property
    def crashed(self) -> bool | None:
        """Whether its writer, now dead, left it without a goodbye; None if only the log can say."""
        known = {"none": False, "quiet": False, "open": True}
        return known.get(self.writer)


@dataclass
class Story:
    """All the sessions of a store, by name."""

    tales: dict[str, Tale] = field(default_factory=dict)
    fragments: int = 0
    """How many fragments are in the logs from earlier kills."""
    touched: set[str] = field(default_factory=set)
    """The sessions that a child did something to."""

    def follow(self, steps: tuple[Step, ...], told: list[Any]) -> int:
        """Take over what a child told of *steps*; give how many records it acknowledged."""
        before = self._acknowledged()
        self.touched.clear()
        for word in told:
            if word[0] in ("try", "done"):
                step = steps[word[1]]
                self.take(step, done=word[0] == "done")
                self.touched |= {name for name in self.tales if name in step}
        return self._acknowledged() - before

    def _acknowledged(self) -> int:
        return sum(len(tale.parts) for tale in self.tales.values())

    def take(self, step: Step, *, done: bool = True) -> None:
        """Take over one step, which was begun or is *done*."""
        kind, *rest = step
        if rest:
            getattr(self, f"_{kind}")(*rest, done=done)

    def _create(self, name: str, layout: str, *, done: bool) -> None:
        tale = self.tales.setdefault(name, Tale(layout))
        if done:
            # A session that shares its log is there once it has said something.
            tale.there = None if layout == "dated" else True
            tale.writer = "quiet"
            tale.saved = True

    def _late(self, name: str, *, done: bool) -> None:
        self._create(name, "dated", done=done)

    def _resume(self, name: str, *, done: bool) -> None:
        if done:
            self.tales[name].writer = "quiet"
            self.tales[name].saved = True

    def _append(self, name: str, *numbers: int, done: bool) -> None:
        tale = self.tales[name]
        self._say(tale, done=done)
        if done:
            tale.parts += tale.tried
            tale.tried, tale.again = [], ()
            tale.records += [(name, number) for number in numbers]
            tale.next = numbers[-1] + 1
        else:
            each = (parts_of(name, number, tale.layout) for number in numbers)
            tale.tried = [part for parts in each for part in parts]
            tale.again = numbers

    def _say(self, tale: Tale, *, done: bool) -> None:
        """A writer says something, and with its first words that it writes."""
        tale.saved = False
        if done:
            tale.there = True
            tale.writer = "open"
        elif tale.writer == "quiet":
            tale.writer = "opening"

    def _close(self, name: str, *, done: bool) -> None:
        tale = self.tales[name]
        tale.saved = done
        if done:
            tale.writer = "none"
        elif tale.writer == "open":
            tale.writer = "closing"

    def _fork(self, name: str, new: str, layout: str, *, done: bool) -> None:
        source = self.tales[name]
        tale = self.tales.setdefault(new, Tale(layout))
        if done:
            tale.parts, tale.tried = tale.tried, []
            tale.records, tale.next = list(source.records), source.next
            tale.there, tale.saved, tale.writer = True, True, "none"
            tale.titles = tale.titles[:1]
        else:
            each = (parts_of(*record, layout) for record in source.records)
            retold = [part for parts in each for part in parts]
            tale.tried = list(source.parts) if layout == source.layout else retold
            tale.writer = "opening"
            called = source.titles[0] or first_prompt(source)
            tale.titles = [f"{called} (fork)" if called else None, None]

    def _todos(self, name: str, number: int, *, done: bool) -> None:
        tale = self.tales[name]
        new = [todo["content"] for todo in todos_of(number)]
        tale.todos = [new] if done else [*tale.todos, new]

    def _update(self, name: str, what: dict[str, Any], *, done: bool) -> None:
        tale = self.tales[name]
        tale.saved = tale.saved and done and tale.writer != "none"
        if ("title" in what or "tag" in what) and tale.writer != "none":
            self._say(tale, done=done)
            tale.saved = done
        for key, values in (("title", tale.titles), ("tag", tale.tags), ("pinned", tale.pins)):
            if key in what:
                new = what[key] if key == "pinned" else what[key] or None
                values[:] = [new] if done else [*values, new]

    def _recover(self, name: str, *, done: bool) -> None:
        pass


def first_prompt(tale: Tale) -> str | None:
    """Give what a session is called that nobody gave a title: its first prompt, on one line."""
    said_first = next((part.text for part in tale.parts if part.kind == "user" and part.text), None)
    return " ".join(said_first.split()) if said_first else None
