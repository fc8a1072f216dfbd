"""``turnlog search``: find what was said, in every session.

How hits look: under the session they are of, the words that were found in bold.

Written without rich, which takes longer to import than a search takes. Colours are a few escape
sequences, and only for a terminal that wants them; what comes from logs is made harmless first.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from turnlog.cli.index_access import no_refresh_option
from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    page_options,
    period_options,
    resolve_session,
    session_option,
    show_json,
)
from turnlog.formats.projects import last_part
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.api.search import Hit, SearchDocument


@click.command(
    name="search",
    epilog="""\b
Examples:
  turnlog search retry backoff                 both words, the best hits first
  turnlog search '"connection refused"'        a phrase
  turnlog search 'migrat* -rollback since:2w'  beginnings, refusals, time
  turnlog search 'tool:Bash is:error docker'   what went wrong in Bash
  turnlog search 'file:*.sql type:call'        what was done with SQL files
  turnlog search --results ENOSPC              also in what tools answered
  turnlog search --exact 'foo(bar, '           exactly this piece of text
  turnlog search --regex 'def \\w+_at\\('        a regular expression
  turnlog search -- -draft release             the query begins with a dash""",
)
@click.argument("query", nargs=-1)
@home_option
@json_option
@csv_option
@no_refresh_option
@period_options
@session_option
@click.option("--results", is_flag=True, help="Search what tools answered, too.")
@click.option("--newest", is_flag=True, help="Sort by time alone.")
@click.option("--exact", is_flag=True, help="The query is a piece of text, not words.")
@click.option("--regex", is_flag=True, help="The query is a regular expression.")
@click.option(
    "-C", "--context", type=click.IntRange(0, 50), default=0, metavar="N", help="Lines around hits."
)
@click.option("--redact", is_flag=True, help="Mask keys, tokens and passwords in what is shown.")
@click.option("--all-hits", is_flag=True, help="Not only the best three of each session.")
@page_options
def command(query: tuple[str, ...], homes: tuple[str, ...], **options: Any) -> int:
    """Find what was said, in every session.

    QUERY is words, "phrases", -refusals, OR, begin* and filters: project: session: tool: file:
    model: branch: role: type: is: before: after: since:. What tools answered is searched with
    --results only, or by type:result. Case counts in --exact and --regex if the query has a
    capital letter.
    """
    text = " ".join(query)
    if not text.strip() and not any(
        options[name] for name in ("project", "since", "until", "session")
    ):
        raise click.UsageError("what should be searched for?")
    if options["exact"] and options["regex"]:
        raise click.UsageError("--exact and --regex cannot be given together")
    from turnlog.api.search import Hit, search
    from turnlog.cli.index_access import open_index
    from turnlog.formats import all_homes
    from turnlog.records.dates import MachineZone

    now = datetime.now(UTC)
    session = resolve_session(options["session"], homes)
    with open_index(all_homes(homes), no_refresh=options["no_refresh"]) as index:
        found = search(
            index,
            text,
            now=now,
            zone=MachineZone(),
            project=options["project"],
            since=options["since"],
            until=options["until"],
            session=session,
            with_results=options["results"],
            newest=options["newest"],
            exact=options["exact"],
            regex=options["regex"],
            limit=options["limit"],
            offset=options["offset"],
            context=options["context"],
            per_session=0 if options["all_hits"] else None,
            mask=_mask() if options["redact"] else None,
        )
    if options["as_json"]:
        show_json(found)
    elif options["as_csv"]:
        from turnlog.cli.terminal.output import show_csv

        show_csv(Hit, found.hits, more=found.next)
    else:
        show_hits(found, text, now=now, options=options | {"homes": homes}, out=sys.stdout)
    return 0 if found.hits else 1


def _mask() -> Callable[[str], str]:
    from functools import partial

    from turnlog.cli.options import redaction_rules
    from turnlog.redact import redact

    return partial(redact, rules=redaction_rules())


_BOLD, _DIM, _CYAN, _RED, _YELLOW, _PLAIN = "1", "2", "36", "31", "1;33", "0"
_NARROWEST: Final = 40
_SHORT: Final = 8


def show_hits(
    found: SearchDocument, query: str, *, now: datetime, options: dict[str, Any], out: TextIO
) -> None:
    """Print what was found, and on stderr what else is to be said."""
    page = _HitPage(out, now)
    for session, hits in _grouped(found.hits):
        page.head(session, hits)
        for hit in hits:
            page.hit(hit)
        page.more(hits[-1])
    for note in found.notes:
        click.echo(f"note: {inert(note)}", err=True)
    if not found.hits:
        page.nothing(query, options)
        return
    if found.next is not None:
        page.dim(f"… there are more; go on with --offset {found.next}")
    page.dim(f"hint: {_how_to_open(found.hits[0])}")


def _grouped(hits: Iterable[Hit]) -> list[tuple[str | None, list[Hit]]]:
    """Put the hits of a session together; the session with the best hit comes first."""
    groups: dict[tuple[str | None, str], list[Hit]] = {}
    for hit in hits:
        key = (hit.session, "" if hit.session else hit.log)
        groups.setdefault(key, []).append(hit)
    return [(key[0], group) for key, group in groups.items()]


def _how_to_open(hit: Hit) -> str:
    if hit.session is None:
        return f"it stands in {inert(hit.log)} at byte {hit.offset}"
    place = ""
    if hit.uuid:  # A UUID is known by its beginning; other ids may be alike.
        place = f" --at {inert(hit.uuid[:_SHORT] if len(hit.uuid) == 36 else hit.uuid)}"
    return f"turnlog show {inert(hit.session[:_SHORT])}{place} shows what led to the first of them"


class _HitPage:
    def __init__(self, out: TextIO, now: datetime) -> None:
        self._out, self._now = out, now
        is_terminal = out.isatty()
        self._has_colour = (
            is_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        )
        columns = shutil.get_terminal_size((80, 24)).columns
        self._width = max(_NARROWEST, columns) if is_terminal or "COLUMNS" in os.environ else 0
        """How long lines may be; 0 for as long as they are, as pipes like them."""
        self._is_first = True

    def head(self, session: str | None, hits: Sequence[Hit]) -> None:
        from turnlog.cli.terminal.console import age

        hit = hits[0]
        at = next((each.at for each in hits if each.at is not None), None)
        if not self._is_first:
            self._line([])
        self._is_first = False
        name = last_part(hit.project or "")
        pieces = [((session or "-")[:_SHORT], _BOLD)]
        if at is not None:  # A title has no time of its own.
            pieces.append((f"  {age(self._now, at)}", _DIM))
        if name:
            pieces.append((f"  {name}", _CYAN))
        title = " ".join((hit.title or "").split()) or ("untitled" if session else hit.log)
        self._line([*pieces, (f"  {title}", _PLAIN)])

    def hit(self, hit: Hit) -> None:
        from turnlog.cli.terminal.console import when

        what = f"{hit.kind} {hit.tool}" if hit.tool else hit.kind
        marks = [name for name, is_so in (("subagent", hit.subagent), ("gone", hit.gone)) if is_so]
        label = " ".join(filter(None, [when(hit.at), what, *marks]))
        pieces = [(f"  {label}", _DIM)]
        if hit.is_error:
            pieces.append((" error", _RED))
        self._line(pieces)
        for line in hit.before:
            self._line([(f"    {line}", _DIM)])
        self._wrapped([("    ", _PLAIN), *_marked(hit)])
        for line in hit.after:
            self._line([(f"    {line}", _DIM)])

    def more(self, hit: Hit) -> None:
        if hit.more:
            self.dim(f"    … {hit.more:,} more here: session:{(hit.session or '')[:_SHORT]}")

    def dim(self, text: str) -> None:
        self._line([(text, _DIM)], is_cut=False)

    def nothing(self, query: str, options: dict[str, Any]) -> None:
        self._line([("Nothing found.", _PLAIN)])
        from turnlog.cli.terminal.empty_results import has_sessions, hint_for

        if not has_sessions(options["homes"]):
            self.dim(f"hint: {hint_for(options['homes'], {})}")
            return
        tips = []
        if not options["results"]:
            tips.append("--results also searches what tools answered")
        if options["exact"] or options["regex"]:
            tips.append("without --exact and --regex words are found in any order")
        elif " " in query.strip():
            tips.append("fewer words, or OR between them, find more")
        elif query.strip():
            tips.append("--exact also finds parts of words")
        names = [name for name in ("project", "since", "until", "session") if options[name]]
        if names:
            tips.append(f"without {' and '.join(f'--{name}' for name in names)} there is more")
        self.dim(f"hint: {'; '.join(tips)}")

    def _wrapped(self, pieces: list[tuple[str, str]]) -> None:
        """Print a line that may be as long as two, cut at a space."""
        if not self._width:
            self._line(pieces)
            return
        line: list[tuple[str, str]] = []
        room = self._width
        for text, style in pieces:
            for word in re.findall(r"\S+\s*|\s+", inert(text)):
                if room - _columns(word.rstrip()) < 0 and line:
                    self._line(line)
                    line, room = [("    ", _PLAIN)], self._width - 4
                line.append((word, style))
                room -= _columns(word)
        self._line(line)

    def _line(self, pieces: list[tuple[str, str]], *, is_cut: bool = True) -> None:
        room = self._width if self._width and is_cut else 1 << 30
        shown = []
        for raw, style in pieces:
            text = inert(raw)
            if _columns(text) > room:
                text = _cut(text, room)
            room -= _columns(text)
            is_styled = self._has_colour and style != _PLAIN and text.strip()
            shown.append(f"\x1b[{style}m{text}\x1b[0m" if is_styled else text)
        line = "".join(shown).rstrip() + "\n"
        encoding = self._out.encoding or "utf-8"
        self._out.write(line.encode(encoding, "replace").decode(encoding))


def _marked(hit: Hit) -> Iterable[tuple[str, str]]:
    at = 0
    for begin, end in hit.highlights:
        yield hit.snippet[at:begin], _PLAIN
        yield hit.snippet[begin:end], _YELLOW
        at = end
    yield hit.snippet[at:], _PLAIN


def _columns(text: str) -> int:
    """Count the columns that *text* takes on a terminal: East Asian characters take two."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text
    )


def _cut(text: str, room: int) -> str:
    if room <= 0:
        return ""
    while _columns(text) >= room:
        text = text[: -max(1, (_columns(text) - room + 1) // 2)]
    return f"{text}…"
