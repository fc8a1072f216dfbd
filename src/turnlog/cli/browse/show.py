"""``turnlog show``: a session as readable text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click

from turnlog.cli.options import (
    home_option,
    json_option,
    show_json,
    since_option,
    thread_option,
    tools_option,
    turns_option,
    until_option,
)
from turnlog.cli.terminal.console import console, counted, safe, short_path, titled, when

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.homes import Home
    from turnlog.api.sessions.reading import (
        RecordFilter,
        Session,
        SessionHeader,
        SessionSelection,
        ShowOptions,
        Subagent,
    )
    from turnlog.cli.views.session import Spans, Transcript

# Filter options, and the names of their values.
_FILTERS: Final = {
    "turns": "turns",
    "prompts": "prompts",
    "type": "types",
    "since": "since",
    "until": "until",
}
# Options whose values have other names.
_NAMES: Final = {"as_json": "json", "types": "type", "words": "mark"}


@click.command(
    name="show",
    epilog="""\b
Examples:
  turnlog show latest                 the most recently active session
  turnlog show 5f0c --last 20         the last 20 steps
  turnlog show 5f0c --turns 3:5       turns 3 to 5
  turnlog show 5f0c --thread current  since the last compaction
  turnlog show 5f0c --at 9b2e         one record in full, with its neighbours
  turnlog show 5f0c --tools full      inputs, outputs and diffs of all calls
  turnlog show 5f0c --tools none      prompts and answers only
  turnlog show 5f0c --raw             the lines of the log""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
@click.option("--last", type=int, metavar="N", help="Only the last N steps, in log order.")
@turns_option
@thread_option
@click.option("--at", metavar="RECORD", help="One record in full, and its neighbours.")
@click.option(
    "-C",
    "--context",
    "around",
    type=click.IntRange(0),
    metavar="N",
    help="With --at: how many neighbours on each side.  [default: 3]",
)
@tools_option("line")
@click.option("--thinking", is_flag=True, help="Show the model's thinking.")
@click.option("--subagents", is_flag=True, help="Show subagents below their calls.")
@click.option("--prompts", is_flag=True, help="Only typed prompts, of all branches.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only records of this type.")
@since_option
@until_option
@click.option("--mark", "words", metavar="WORDS", help="Highlight words, as in a search query.")
@click.option("--raw", is_flag=True, help="Print the lines of the log.")
@click.pass_context
def command(context: click.Context, /, name: str, homes: tuple[str, ...], **options: Any) -> int:
    """Show a session: prompts, answers, and one line for each call.

    A step is a prompt, an answer with its calls, or a result; a turn is a prompt and everything up
    to the next one. SESSION is the start of an id, or "latest". RECORD is the start of a uuid; for
    --at also an offset in the log such as @1024, or SUBAGENT@1024 in the log of a subagent.
    turnlog info lists branches.
    """
    _check(context, options)
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.reading import choose, document_of, find_readable

    places = all_homes(homes)
    session = find_readable(places, name)
    if not session.main_logs:
        if options["raw"]:
            session.path  # noqa: B018 - Raises: there are only subagents.
        options["subagents"] = options["at"] is None and options["thread"] == "whole"
    if options["at"] is not None:
        return _show_place(session, places, options)
    view = choose(session, _show_options(options))
    if options["raw"]:
        for _, record in view.pairs():
            sys.stdout.buffer.write(record.raw + b"\n")
    elif options["as_json"]:
        show_json(document_of(view, subagents=options["subagents"], thinking=options["thinking"]))
    else:
        return _show(view, places, options)
    return 0


def _check(context: click.Context, options: dict[str, Any]) -> None:
    """Reject options that contradict each other."""
    source = click.core.ParameterSource.COMMANDLINE
    given = {key for key in options if context.get_parameter_source(key) is source}
    for one, *others in (
        ("at", "thread", "last", "turns", "subagents"),
        ("last", "turns"),
        ("raw", "as_json", "words", "tools"),
        ("as_json", "words"),
    ):
        clash = given & set(others)
        if one in given and clash:
            first, other = (_NAMES.get(key, key) for key in (one, min(clash)))
            raise click.UsageError(f"--{first} and --{other} are mutually exclusive")
    if "around" in given and "at" not in given:
        raise click.UsageError("--context needs --at")


def _show_options(options: dict[str, Any]) -> ShowOptions:
    from turnlog.api.sessions.reading import ShowOptions

    names = ("thread", "last", "turns", "prompts")
    return ShowOptions(**{name: options[name] for name in names}, only=_filter(options))


def _filter(options: dict[str, Any]) -> RecordFilter:
    from turnlog.api.sessions.reading import filters

    only = filters.EVERYTHING
    if options["types"]:
        only &= filters.of_type(*options["types"])
    if options["prompts"]:
        only &= filters.only_prompts()
    if options["tools"] == "none":
        only &= filters.without_tools()
    return only & filters.between(options["since"], options["until"])


def _show_header(out: Console, header: SessionHeader) -> None:
    """Print the title of a session, where and when it was, and what it cost."""
    from turnlog.api.arguments import short_model

    out.print(f"[bold]{titled(header.title)}[/]")
    project = short_path(header.project) if header.project else ""
    models = ", ".join(safe(short_model(model)) for model in header.models)
    for facts in (
        (safe(header.id), project, safe(header.git_branch or "")),
        (_period(header), models, header.cost or ""),
    ):
        if any(facts):
            out.print(f"[dim]{' · '.join(filter(None, facts))}[/]")
    out.print()


def _period(header: SessionHeader) -> str:
    """Return when the session began and ended; the day once if it is the same."""
    begin, end = when(header.started_at), when(header.last_active_at)
    if not begin or not end or begin == end:
        return begin or end
    return f"{begin} to {end.split()[1] if begin.split()[0] == end.split()[0] else end}"


def _show_place(session: Session, homes: tuple[Home, ...], options: dict[str, Any]) -> int:
    from turnlog.api.sessions.place import AROUND, document_of, find_place
    from turnlog.api.sessions.reading import header_of, is_being_written

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

    out = console()
    _show_header(out, header_of(session))
    shown = PlaceTranscript(
        out,
        thinking=place.thinking,
        tools=options["tools"],
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
    from turnlog.api.sessions.reading import header_of, is_being_written, subagents_by_call
    from turnlog.cli.views.session import Transcript

    out, session = console(), view.session
    _show_header(out, header_of(session, is_end=view.name == "end"))
    subagents = session.subagents if options["subagents"] else ()
    shown = Transcript(
        out,
        thinking=options["thinking"],
        tools=options["tools"],
        gaps=view.gaps,
        branches=view.branches,
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
    _name_subagent(shown, view.subagent)
    if view.earlier is None:
        shown.rule("earlier steps omitted; increase --last to see them")
    elif view.earlier:
        shown.rule(f"{counted(view.earlier, 'earlier step')} omitted")
    shown.expect_results(view.asked)
    yield from shown.show(view.pairs())
    if view.next is not None and view.total is not None:
        shown.rule(f"{counted(view.total - view.next, 'later step')} omitted")
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
