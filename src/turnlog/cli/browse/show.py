"""``turnlog show``: a session, readable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click

from turnlog.cli.options import home_option, json_option, show_json, since_option, until_option

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.cli.browse.show_document import BranchRow
    from turnlog.cli.browse.show_selection import SessionSelection, ShowOptions
    from turnlog.cli.views.session import Transcript
    from turnlog.formats import Home
    from turnlog.sessions.reading.filters import RecordFilter
    from turnlog.sessions.reading.subagents import Subagent

# Options that leave something out, and the names of their values.
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
_AUTHORS: Final = ("human", "assistant", "tool", "subagent", "caller", "program")


def _span(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[int | None, int | None] | None:
    """Read A:B as a slice is read."""
    if value is None:
        return None
    first, colon, stop = value.partition(":")
    try:
        span = int(first) if first else None, int(stop) if stop else None
    except ValueError:
        colon = ""
    if colon:
        if 0 <= (span[1] or 0) < (span[0] or 0):
            raise click.BadParameter(f"{value!r} ends before it begins")
        return span
    raise click.BadParameter(f"{value!r} is no range: say 0:20, 40: or -20:")


@click.command(
    name="show",
    epilog="""\b
Examples:
  turnlog show latest              the session that was active last
  turnlog show 5f0c --last 20      the last 20 steps, at once, however long the log
  turnlog show 5f0c --thread main  only since the last compaction
  turnlog show 5f0c --context      what the agent would see if it went on now
  turnlog show 5f0c --branches     where somebody went back and tried again
  turnlog show 5f0c --thread 9b2e  the thread that leads to the record 9b2e…
  turnlog show 5f0c --range 40:60  a part of the thread, counted in steps
  turnlog show 5f0c --no-tools     only what was said
  turnlog show 5f0c --raw          the log's own lines""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
@click.option("--last", type=int, metavar="N", help="Only the last N steps, in the log's order.")
@click.option("--range", "span", metavar="A:B", callback=_span, help="Only steps A up to B.")
@click.option(
    "--thread",
    metavar="whole|main|UUID",
    help="From the very first record, since the last compaction, or up to a record.  "
    "[default: whole]",
)
@click.option("--context", is_flag=True, help="The newest summary and what follows it.")
@click.option("--branches", is_flag=True, help="List the ways the conversation went.")
@click.option("--at", metavar="UUID", help="Only what leads to this record.")
@click.option(
    "--depth", type=click.IntRange(0), metavar="N", help="With --at: at most N records up."
)
@click.option("--prompts", is_flag=True, help="Only what was typed, on every branch.")
@click.option("--no-tools", is_flag=True, help="Without calls and results.")
@click.option("--no-system", is_flag=True, help="Without what the agent program wrote.")
@click.option(
    "--author", "authors", multiple=True, type=click.Choice(_AUTHORS), help="Only their words."
)
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only records of this type.")
@since_option
@until_option
@click.option("--subagents", is_flag=True, help="Also show what each subagent did, below its call.")
@click.option("--thinking", is_flag=True, help="Also show what the model thought.")
@click.option("--full", is_flag=True, help="Show long pastes and summaries whole.")
@click.option("--raw", is_flag=True, help="Print the lines of the log instead.")
def command(name: str, homes: tuple[str, ...], **options: Any) -> int:
    """Show a session: prompts, answers, and one line for each call.

    A step is a prompt, an answer with all its calls, or a result.

    SESSION and UUID are the beginning of an id; SESSION may be "latest".
    """
    _check(options)
    from turnlog.formats import all_homes
    from turnlog.sessions.session import Session, readable_session

    places = all_homes(homes)
    session = readable_session(Session.find(places, name))
    if not session.main_logs:
        if options["raw"]:
            session.path  # noqa: B018 - An error: its subagents are all there is to show.
        options["subagents"] = options["at"] is None
    if options["branches"]:
        from turnlog.cli.browse.show_document import branches_document

        found = branches_document(session)
        if options["as_json"]:
            show_json(found)
        else:
            _show_branches(found.branches, session.id)
        return 0 if found.branches else 1
    from turnlog.cli.browse.show_selection import choose

    view = choose(session, _asked(options))
    if options["raw"]:
        for _, record in chain(view.kept_pairs(), view.pairs()):
            sys.stdout.buffer.write(record.raw + b"\n")
    elif options["as_json"]:
        from turnlog.cli.browse.show_document import document_of

        show_json(document_of(view, subagents=options["subagents"], thinking=options["thinking"]))
    else:
        return _show(view, places, options)
    return 0


def _check(options: dict[str, Any]) -> None:
    """Refuse what cannot be meant together."""
    given = {key for key, value in options.items() if value not in (None, False, ())}
    for one, *others in (
        ("at", "thread", "context"),
        ("last", "span"),
        ("raw", "as_json"),
        ("branches", *(key for key in options if key not in ("branches", "as_json"))),
    ):
        clash = given & set(others)
        if one in given and clash:
            names = {"span": "range", "as_json": "json", "authors": "author", "types": "type"}
            other = names.get(min(clash), min(clash)).replace("_", "-")
            raise click.UsageError(f"--{one} and --{other} cannot be given together")
    if "depth" in given and "at" not in given:
        raise click.UsageError("--depth counts the records from --at")


def _asked(options: dict[str, Any]) -> ShowOptions:
    from turnlog.cli.browse.show_selection import ShowOptions

    return ShowOptions(
        thread=options["thread"],
        context=options["context"],
        at=options["at"],
        depth=options["depth"],
        last=options["last"],
        span=options["span"],
        prompts=options["prompts"],
        only=_filter(options),
    )


def _filter(options: dict[str, Any]) -> RecordFilter:
    from turnlog.records.meaning import Author
    from turnlog.sessions.reading import filters

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


def _show(view: SessionSelection, homes: tuple[Home, ...], options: dict[str, Any]) -> int:
    from turnlog.cli.terminal.console import console, safe
    from turnlog.cli.views.session import Transcript
    from turnlog.sessions.reading.subagents import subagents_by_call
    from turnlog.sessions.state import is_being_written

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
    )
    steps = chain(_show_view(shown, view), _show_others(shown, view, subagents))
    for _ in steps:
        pass
    if shown.is_blank:
        out.print("Nothing was said here.")
        given = [f"--{name}" for name, value in _FILTERS.items() if options[value]]
        less = f"leave out {' or '.join(given)}"
        check = f"turnlog check {safe(session.id[:8])} tells what is in its log"
        out.print(f"[dim]hint: {less if given else check}[/]")
        return 1
    return 0


def _show_view(shown: Transcript, view: SessionSelection) -> Iterator[None]:
    from turnlog.cli.terminal.console import counted, safe, when
    from turnlog.records.dates import instant

    if view.subagent is not None:
        what = safe(view.subagent.description or view.subagent.kind or "")
        where = "log" if view.subagent.sidechain is None else "sidechain"
        shown.rule(f"in the {where} of subagent {safe(view.subagent.id)} {what}".rstrip())
    digest = view.context.digest if view.context else None
    if digest is not None and view.context is not None:
        if digest.kept_come_first:
            yield from shown.show(view.kept_pairs())
        until = f" until {when(instant(digest.until.timestamp))}" if digest.until else ""
        count = counted(view.context.summarised, "step")
        shown.rule(f"a summary of {count}{until}")
        shown.prose(digest.text.strip() or "(its words are lost)", "italic", cut=True)
        if view.kept and not digest.kept_come_first:
            shown.rule(f"{counted(len(view.kept), 'record')} from before, kept as they are")
            yield from shown.show(view.kept_pairs())
        shown.rule("what follows")
    if view.earlier is None:
        way = "a larger --depth" if view.name == "ancestry" else "a larger --last, or none,"
        shown.rule(f"earlier steps omitted; {way} shows them")
    elif view.earlier:
        shown.rule(f"{counted(view.earlier, 'earlier step')} omitted")
    yield from shown.show(view.pairs())
    if view.next is not None and view.total is not None:
        left = counted(view.total - view.next, "later step")
        shown.rule(f"{left} omitted; go on with --range {view.next}:")
        yield


def _show_others(
    shown: Transcript, view: SessionSelection, subagents: tuple[Subagent, ...]
) -> Iterator[None]:
    """Show the subagents that no call on the screen has made."""
    from turnlog.cli.terminal.console import counted

    left = [subagent for subagent in subagents if subagent.id not in shown.shown]
    if view.is_part:
        elsewhere = [subagent for subagent in left if subagent.spawn is not None]
        left = [subagent for subagent in left if subagent.spawn is None]
        if elsewhere:
            shown.rule(f"{counted(len(elsewhere), 'subagent')} of calls outside this part")
    if left and not view.session.main_logs:
        shown.rule("its main log is gone; this is what its subagents did")
    elif left:
        shown.rule("subagents of calls that are not above")
    for subagent in left:
        shown.subagent(subagent)
        yield
    yield


def _show_branches(rows: list[BranchRow], session_id: str) -> None:
    from turnlog.cli.terminal.console import console, counted, safe, when
    from turnlog.export.record_blocks import unwrap

    out: Console = console()
    if not rows:
        out.print("Nothing was said.")
        return
    for row in rows:
        mark = "[green]●[/]" if row.is_main else "[magenta]○[/]" if row.is_subagent else "○"
        what = (
            "[green]main[/]"
            if row.is_main
            else "[magenta]a subagent's[/]"
            if row.is_subagent
            else ""
        )
        count = counted(row.steps, "step")
        if row.parting is not None:
            own = f"{row.own_steps:,} of its own"
            what += f"parts at [bold]{safe(row.parting[:8])}[/], {own}"
        out.print(f"{mark} [bold]{safe(row.tip[:8])}[/] [dim]{when(row.at)}[/]  {count}  {what}")
        if row.first_said:
            typed = (piece.text for piece in unwrap(row.first_said))
            line = " ".join(" ".join(typed).split())
            out.print(f"  {safe(line)}", overflow="ellipsis", no_wrap=True, soft_wrap=False)
    if len(rows) > 1:
        out.print(f"[dim]hint: turnlog show {safe(session_id[:8])} --thread UUID shows one[/]")
