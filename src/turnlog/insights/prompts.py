"""What people typed: prompts, the commands among them, and where they stopped an agent.

A prompt is a record by a human, as everywhere in the house. Which of them are commands, and which
records of the agent program tell that a person stopped it, is told by their words: the full-text
index finds them and the log confirms it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, structs

from turnlog.index.connection import Index
from turnlog.index.ids import IS_BESIDE, instant_at
from turnlog.index.refresh.line_decoder import OF_SUBAGENT
from turnlog.insights.scope import Evidence, Places, Scope, conditions, first_text, is_within
from turnlog.records.dates import LocalTimes
from turnlog.records.meaning import command_in, is_interruption
from turnlog.records.record import ImageBlock, Record, Spoken, System, TextBlock
from turnlog.records.session_summary import prompt_preview

_MARKS: Final = ("command name", "request interrupted by user")
_LONGEST_COMMAND: Final = 80


class PromptRecord(NamedTuple):
    """A record by a human."""

    record: int
    session: int | None
    at: int | None
    first: int
    """The record that it repeats, if a fork or a resume carried it along; else itself."""


class Marked(NamedTuple):
    """A record in which the program left a mark, and what it says."""

    prompt: PromptRecord
    command: str | None
    is_interruption: bool


class Typed(NamedTuple):
    """What people typed: in the period, and in all of time; the latter wherever it stands."""

    prompts: list[PromptRecord]
    marks: list[Marked]
    every: list[PromptRecord]


class CommandRow(Struct, kw_only=True):
    """A command that was typed, such as /review."""

    command: str
    count: int
    sessions: int


def typed_in(index: Index, asked: Scope) -> Typed:
    """Read what people typed, in the order of logs and of places in them."""
    every = list(map(PromptRecord._make, _rows(index, asked, _BY_HUMANS, with_repeats=True)))
    marks = [_marked(index, PromptRecord._make(row)) for row in _candidates(index, asked)]
    return Typed(
        prompts=prompts_within(every, asked),
        marks=[mark for mark in marks if is_within(asked, mark.prompt.at)],
        every=every,
    )


def prompts_within(prompts: Sequence[PromptRecord], asked: Scope) -> list[PromptRecord]:
    """Return the prompts of a period, each once."""
    return [each for each in prompts if each.first == each.record and is_within(asked, each.at)]


def prompts_by_day(prompts: Sequence[PromptRecord], asked: Scope) -> dict[str, int]:
    """Count prompts by the day they were typed on."""
    local = LocalTimes(asked.zone)
    found: dict[str, int] = {}
    for prompt in prompts:
        at = instant_at(prompt.at)
        if at is not None:
            day = local.name("day", at)
            found[day] = found.get(day, 0) + 1
    return found


def commands_of(marks: Sequence[Marked]) -> list[CommandRow]:
    """Count commands, the most frequent first."""
    found: dict[str, list[int | None]] = {}
    for mark in marks:
        if mark.command is not None:
            found.setdefault(mark.command, []).append(mark.prompt.session)
    rows = [
        CommandRow(command=command, count=len(each), sessions=len(set(each)))
        for command, each in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.count, row.command))


def explain_commands(index: Index, typed: Typed, command: str | None) -> Iterator[Evidence]:
    """Return the prompts with a command, or with that one."""
    places = Places(index)
    for mark in typed.marks:
        if mark.command is not None and command in {None, mark.command}:
            yield places.behind(*mark.prompt[:3], mark.command)


def explain_interruptions(index: Index, typed: Typed) -> Iterator[Evidence]:
    """Return the records that tell that somebody stopped the agent."""
    places = Places(index)
    for mark in typed.marks:
        if mark.is_interruption:
            yield places.behind(*mark.prompt[:3], "stopped by a person")


def explain_prompts(index: Index, typed: Typed) -> Iterator[Evidence]:
    """Return the prompts, with how they begin."""
    places = Places(index)
    for prompt in typed.prompts:
        yield places.behind(*prompt[:3], beginning(index, prompt.record))


def beginning(index: Index, record: int, mask: Callable[[str], str] = str) -> str:
    """Return how a prompt begins, as a person would read it; empty if its log is gone."""
    found = index.record(record)
    for text in map(mask, _texts(found)):
        said = command_in(text) or prompt_preview(text)
        if said:
            return said
    blocks = found.blocks if isinstance(found, Spoken) else ()
    return "[an image]" if any(isinstance(block, ImageBlock) for block in blocks) else ""


def _rows(
    index: Index, asked: Scope, which: str, *more: Any, with_repeats: bool = False
) -> Iterator[Any]:
    always = structs.replace(asked, since=None, until=None)
    where, values = conditions(index, always, with_repeats=with_repeats)
    return index.db.execute(
        "SELECT r.id, r.session, r.at, coalesce(repeats.first, r.id) FROM records AS r"  # noqa: S608
        " LEFT JOIN repeats ON repeats.record = r.id"
        f" WHERE {which} AND NOT {IS_BESIDE} AND {where} ORDER BY r.id",
        (*more, *values),
    )


def _candidates(index: Index, asked: Scope) -> Iterator[Any]:
    """Return the records from the period's beginning on in which there may be a mark.

    Newer programs write commands that they answer themselves down as notes of their own.
    """
    words = " OR ".join(f'"{mark}"' for mark in _MARKS)
    within = (
        "r.id IN (SELECT record FROM texts WHERE id IN"
        " (SELECT rowid FROM said WHERE said MATCH ? AND rowid >= ?))"
    )
    which = f"{within} AND {_BY_HUMANS_OR_PROGRAM}"
    return _rows(index, asked, which, words, first_text(asked))


def _marked(index: Index, prompt: PromptRecord) -> Marked:
    """Read what a prompt's text says of itself."""
    texts = _texts(index.record(prompt.record))
    commands = [found[:_LONGEST_COMMAND] for text in texts if (found := command_in(text))]
    return Marked(prompt, commands[0] if commands else None, any(map(is_interruption, texts)))


def _texts(record: Record | None) -> list[str]:
    if isinstance(record, System):
        return [record.text]
    blocks = record.blocks if isinstance(record, Spoken) else ()
    return [block.text for block in blocks if isinstance(block, TextBlock)]


def _named(name: str) -> str:
    return f"(SELECT id FROM names WHERE name = '{name}')"  # noqa: S608 - Ours.


_BY_HUMANS: Final = f"(r.author = {_named('human')} AND r.type = {_named('user')})"
# A subagent's log repeats what its caller's says of an interruption.
_BY_HUMANS_OR_PROGRAM: Final = (
    f"({_BY_HUMANS} OR (r.author = {_named('program')} AND NOT r.flags & {OF_SUBAGENT}"
    f" AND r.type IN ({_named('user')}, {_named('system')})))"
)
