"""``turnlog show``: a session as readable text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click

from turnlog.cli.options import home_option, json_option, show_json, since_option, until_option
from turnlog.cli.terminal.console import console, counted, safe, when

if TYPE_CHECKING:
    from turnlog.api.homes import Home
    from turnlog.api.sessions.reading import (
        BranchRow,
        RecordFilter,
        Session,
        SessionSelection,
        ShowOptions,
        Subagent,
    )
    from turnlog.cli.views.session import Spans, Transcript

# Filter options, and the names of their values.
_FILTERS: Final = {
    "range": "span",
    "prompts": "prompts",
    "no-tools": "no_tools",
    "no-system": "no_system",
    "author": "authors",
    "type": "types",
    "since": "since",
    "until": "until",
}
# Options whose values have other names.
_NAMES: Final = {
    "span": "range",
    "as_json": "json",
    "authors": "author",
    "types": "type",
    "words": "mark",
}
_AUTHORS: Final = ("human", "assistant", "tool", "subagent", "caller", "program")


def _span(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[int | None, int | None] | None:
    """Parse A:B like a slice."""
    if value is None:
        return None
    first, colon, stop = value.partition(":")
    try:
        span = int(first) if first else None, int(stop) if stop else None
    except ValueError:
        colon = ""
    if colon:
        if 0 <= (span[1] or 0) < (span[0] or 0):
            raise click.BadParameter(f"{value!r} ends before it starts")
        return span
    raise click.BadParameter(f"invalid range {value!r}: use 0:20, 40: or -20:")


@click.command(
    name="show",
    epilog="""\b
Examples:
  turnlog show latest              the most recently active session
  turnlog show 5f0c --last 20      the last 20 steps, fast even for long logs
  turnlog show 5f0c --thread main  since the last compaction
  turnlog show 5f0c --at 9b2e      one record in full, and what is around it
  turnlog show 5f0c --context      what the agent would see on resume
  turnlog show 5f0c --branches     where the conversation was rewound
  turnlog show 5f0c --thread 9b2e  the thread up to the record 9b2e…
  turnlog show 5f0c --range 40:60  a range of steps
  turnlog show 5f0c --no-tools     prompts and answers only
  turnlog show 5f0c --raw          the lines of the log""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
@click.option("--last", type=int, metavar="N", help="Only the last N steps, in log order.")
@click.option("--range", "span", metavar="A:B", callback=_span, help="Only steps A up to B.")
@click.option(
    "--thread",
    metavar="whole|main|UUID",
    help="The whole thread, since the last compaction, or up to a record.  [default: whole]",
)
@click.option("--context", is_flag=True, help="The last summary and what follows.")
@click.option("--branches", is_flag=True, help="List the branches of the conversation.")
@click.option("--at", metavar="RECORD", help="One record in full, and its neighbours.")
@click.option(
    "-C",
    "--around",
    type=click.IntRange(0),
    metavar="N",
    help="With --at: how many neighbours on each side.  [default: 3]",
)
@click.option("--ancestors", metavar="UUID", help="Only the ancestors of this record.")
@click.option(
    "--depth", type=click.IntRange(0), metavar="N", help="With --ancestors: at most N of them."
)
@click.option("--mark", "words", metavar="WORDS", help="Highlight words, as in a search query.")
@click.option("--prompts", is_flag=True, help="Only typed prompts, of all branches.")
@click.option("--no-tools", is_flag=True, help="Hide calls and results.")
@click.option("--no-system", is_flag=True, help="Hide records written by the agent program.")
@click.option(
    "--author",
    "authors",
    multiple=True,
    type=click.Choice(_AUTHORS),
    help="Only records by this author.",
)
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only records of this type.")
@since_option
@until_option
@click.option("--subagents", is_flag=True, help="Show subagents below their calls.")
@click.option("--thinking", is_flag=True, help="Show the model's thinking.")
@click.option("--full", is_flag=True, help="Do not shorten pastes and summaries.")
@click.option("--raw", is_flag=True, help="Print the lines of the log.")
def command(name: str, homes: tuple[str, ...], **options: Any) -> int:
    """Show a session: prompts, answers, and one line for each call.

    A step is a prompt, an answer with its calls, or a result. SESSION and UUID are the start of an
    id; SESSION may be "latest". RECORD is the start of a uuid, an offset in the log such as @1024,
    or SUBAGENT@1024 in the log of a subagent.
    """
    _check(options)
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.reading import branches_document, choose, document_of, find_readable

    places = all_homes(homes)
    session = find_readable(places, name)
    if not session.main_logs:
        if options["raw"]:
            session.path  # noqa: B018 - Raises: there are only subagents.
        options["subagents"] = options["ancestors"] is None and options["at"] is None
    if options["branches"]:
        document = branches_document(session)
        if options["as_json"]:
            show_json(document)
        else:
            _show_branches(document.branches, session.id)
        return 0 if document.branches else 1
    if options["at"] is not None:
        return _show_place(session, places, options)
    view = choose(session, _show_options(options))
    if options["raw"]:
        for _, record in chain(view.kept_pairs(), view.pairs()):
            sys.stdout.buffer.write(record.raw + b"\n")
    elif options["as_json"]:
        show_json(document_of(view, subagents=options["subagents"], thinking=options["thinking"]))
    else:
        return _show(view, places, options)
    return 0


def _check(options: dict[str, Any]) -> None:
    """Reject options that contradict each other."""
    given = {key for key, value in options.items() if value not in (None, False, ())}
    for one, *others in (
        ("at", "ancestors", "thread", "context", "last", "span", "subagents"),
        ("ancestors", "thread", "context"),
        ("last", "span"),
        ("raw", "as_json", "words"),
        ("as_json", "words"),
        ("branches", *(key for key in options if key not in ("branches", "as_json"))),
    ):
        clash = given & set(others)
        if one in given and clash:
            first, other = (_NAMES.get(key, key).replace("_", "-") for key in (one, min(clash)))
            raise click.UsageError(f"--{first} and --{other} are mutually exclusive")
    if "depth" in given and "ancestors" not in given:
        raise click.UsageError("--depth needs --ancestors")
    if "around" in given and "at" not in given:
        raise click.UsageError("--around needs --at")


def _show_options(options: dict[str, Any]) -> ShowOptions:
    from turnlog.api.sessions.reading import ShowOptions

    names = ("thread", "context", "ancestors", "depth", "last", "span", "prompts")
    return ShowOptions(**{name: options[name] for name in names}, only=_filter(options))


def _filter(options: dict[str, Any]) -> RecordFilter:
    from turnlog.api.sessions.reading import filters
    from turnlog.records.meaning import Author

    only = filters.EVERYTHING
    if options["types"]:
        only &= filters.of_type(*options["types"])
    if options["authors"]:
        only &= filters.by_author(*map(Author, options["authors"]))
    if options["prompts"]:
        only &= filters.only_prompts()
    if options["no_tools"]:
        only &= filters.without_tools()
    if options["no_system"]:
        only &= filters.without_system()
    return only & filters.between(options["since"], options["until"])


def _show_place(session: Session, homes: tuple[Home, ...], options: dict[str, Any]) -> int:
    from turnlog.api.sessions.place import AROUND, document_of, find_place
    from turnlog.api.sessions.reading import is_being_written

    around = AROUND if options["around"] is None else options["around"]
    place = find_place(
        session,
        options["at"],
        around=around,
        thinking=options["thinking"],
        only=_filter(options),
    )
    if options["raw"]:
        for _, record in place.records:
            sys.stdout.buffer.write(record.raw + b"\n")
        return 0
    if options["as_json"]:
        show_json(document_of(place))
        return 0
    from turnlog.cli.views.place import PlaceTranscript

    shown = PlaceTranscript(
        console(),
        thinking=place.thinking,
        full=options["full"],
        gaps=place.gaps,
        is_cut=place.later > 0,
        is_live=lambda: (
            bool(session.main_logs) and is_being_written(session.id, session.path, homes)
        ),
        marks=_marks(options["words"]),
    )
    _name_subagent(shown, place.subagent)
    for _ in shown.show_place(place):
        pass
    return 0


def _marks(words: str | None) -> Spans | None:
    if words is None:
        return None
    from turnlog.api.search import spans_of

    return spans_of(words)


def _name_subagent(shown: Transcript, subagent: Subagent | None) -> None:
    if subagent is not None:
        what = safe(subagent.description or subagent.kind or "")
        where = "log" if subagent.sidechain is None else "sidechain"
        shown.rule(f"in the {where} of subagent {safe(subagent.id)} {what}".rstrip())


def _show(view: SessionSelection, homes: tuple[Home, ...], options: dict[str, Any]) -> int:
    from turnlog.api.sessions.reading import is_being_written, subagents_by_call
    from turnlog.cli.views.session import Transcript

    out, session = console(), view.session
    subagents = session.subagents if options["subagents"] else ()
    shown = Transcript(
        out,
        thinking=options["thinking"],
        full=options["full"],
        gaps=view.gaps,
        subagents=subagents_by_call(subagents),
        read_subagent=view.subagent_pairs,
        is_cut=view.next is not None,
        is_live=lambda: (
            bool(session.main_logs) and is_being_written(session.id, session.path, homes)
        ),
        marks=_marks(options["words"]),
    )
    steps = chain(_show_view(shown, view), _show_others(shown, view, subagents))
    for _ in steps:
        pass
    if shown.is_blank:
        out.print("Nothing to show.")
        used = [f"--{name}" for name, value in _FILTERS.items() if options[value]]
        hint = f"leave out {' or '.join(used)}"
        check = f"turnlog check {safe(session.id[:8])} examines its log"
        out.print(f"[dim]hint: {hint if used else check}[/]")
        return 1
    return 0


def _show_view(shown: Transcript, view: SessionSelection) -> Iterator[None]:
    from turnlog.records.dates import instant

    _name_subagent(shown, view.subagent)
    digest = view.context.digest if view.context else None
    if digest is not None and view.context is not None:
        if digest.kept_come_first:
            yield from shown.show(view.kept_pairs())
        until = f" until {when(instant(digest.until.timestamp))}" if digest.until else ""
        count = counted(view.context.summarised, "step")
        shown.rule(f"summary of {count}{until}")
        shown.prose(digest.text.strip() or "(text lost)", "italic", cut=True)
        if view.kept and not digest.kept_come_first:
            shown.rule(f"{counted(len(view.kept), 'earlier record')} kept")
            yield from shown.show(view.kept_pairs())
        shown.rule("after the summary")
    if view.earlier is None:
        option = "--depth" if view.name == "ancestry" else "--last"
        shown.rule(f"earlier steps omitted; increase {option} to see them")
    elif view.earlier:
        shown.rule(f"{counted(view.earlier, 'earlier step')} omitted")
    yield from shown.show(view.pairs())
    if view.next is not None and view.total is not None:
        left = counted(view.total - view.next, "later step")
        shown.rule(f"{left} omitted; use --range {view.next}:")
        yield


def _show_others(
    shown: Transcript, view: SessionSelection, subagents: tuple[Subagent, ...]
) -> Iterator[None]:
    """Show the subagents whose calls were not shown."""
    left = [subagent for subagent in subagents if subagent.id not in shown.shown]
    if view.is_part:
        elsewhere = [subagent for subagent in left if subagent.spawn is not None]
        left = [subagent for subagent in left if subagent.spawn is None]
        if elsewhere:
            shown.rule(f"{counted(len(elsewhere), 'subagent')} of calls not shown here")
    if left and not view.session.main_logs:
        shown.rule("main log is gone; only subagent logs are left")
    elif left:
        shown.rule("subagents without a call above")
    for subagent in left:
        shown.subagent(subagent)
        yield
    yield


def _show_branches(rows: list[BranchRow], session_id: str) -> None:
    from turnlog.export.record_blocks import unwrap

    out = console()
    if not rows:
        out.print("No branches: the session is empty.")
        return
    for row in rows:
        mark = "[green]●[/]" if row.is_main else "[magenta]○[/]" if row.is_subagent else "○"
        what = "[green]main[/]" if row.is_main else ""
        what = "[magenta]subagent[/]" if row.is_subagent and not what else what
        count = counted(row.steps, "step")
        if row.parting is not None:
            what += f"forks at [bold]{safe(row.parting[:8])}[/], {row.own_steps:,} of its own"
        out.print(f"{mark} [bold]{safe(row.tip[:8])}[/] [dim]{when(row.at)}[/]  {count}  {what}")
        if row.first_said:
            typed = (piece.text for piece in unwrap(row.first_said))
            line = " ".join(" ".join(typed).split())
            out.print(f"  {safe(line)}", overflow="ellipsis", no_wrap=True, soft_wrap=False)
    if len(rows) > 1:
        out.print(f"[dim]hint: show one with turnlog show {safe(session_id[:8])} --thread UUID[/]")
