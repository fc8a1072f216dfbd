"""``turnlog search``: search the text of all sessions.

Written without rich, which takes longer to import than a search takes: colours are a few escape
sequences, for terminals only, and text from logs is escaped first.
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

from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    no_refresh_option,
    open_index,
    page_options,
    period_options,
    redaction_rules,
    resolve_session,
    session_option,
)
from turnlog.cli.terminal.console import age, when
from turnlog.cli.terminal.empty_results import has_sessions, hint_for
from turnlog.cli.terminal.output import show_data
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.api.search import Hit, SearchDocument


@click.command(
    name="search",
    epilog="""\b
Examples:
  turnlog search retry backoff                 both words, best hits first
  turnlog search '"connection refused"'        a phrase
  turnlog search 'migrat* -rollback since:2w'  prefix, exclusion, period
  turnlog search 'tool:Bash is:error docker'   failed Bash calls
  turnlog search 'file:*.sql type:call'        calls on SQL files
  turnlog search --results ENOSPC              also search tool results
  turnlog search --exact 'foo(bar, '           a literal string
  turnlog search --regex 'def \\w+_at\\('        a regular expression
  turnlog search -- -draft release             a query that starts with a dash""",
)
@click.argument("query", nargs=-1)
@home_option
@json_option
@csv_option
@no_refresh_option
@period_options
@session_option
@click.option("--results", is_flag=True, help="Also search tool results.")
@click.option("--newest", is_flag=True, help="Sort by time, newest first.")
@click.option("--exact", is_flag=True, help="Treat the query as a literal string.")
@click.option("--regex", is_flag=True, help="Treat the query as a regular expression.")
@click.option(
    "-C", "--context", type=click.IntRange(0, 50), default=0, metavar="N", help="Lines of context."
)
@click.option("--redact", is_flag=True, help="Mask keys, tokens and passwords.")
@click.option("--all-hits", is_flag=True, help="Show all hits, not the best three per session.")
@page_options
def command(query: tuple[str, ...], homes: tuple[str, ...], **options: Any) -> int:
    """Search the text of all sessions.

    QUERY is words, "phrases", -exclusions, OR, prefix* and filters: project: session: tool: file:
    model: branch: role: type: is: before: after: since:. Tool results are searched only with
    --results or type:result. --exact and --regex use smart case: a capital letter makes them
    case-sensitive.
    """
    text = " ".join(query)
    if not text.strip() and not any(
        options[name] for name in ("project", "since", "until", "session")
    ):
        raise click.UsageError("missing query")
    if options["exact"] and options["regex"]:
        raise click.UsageError("--exact and --regex are mutually exclusive")
    from turnlog.api.homes import all_homes
    from turnlog.api.search import Hit, search
    from turnlog.records.dates import MachineZone

    now = datetime.now(UTC)
    session = resolve_session(options["session"], homes)
    with open_index(all_homes(homes), no_refresh=options["no_refresh"]) as index:
        document = search(
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
    as_json, as_csv = options["as_json"], options["as_csv"]
    if not show_data(document, Hit, document.hits, as_json=as_json, as_csv=as_csv):
        _show(document, text, now, options | {"homes": homes})
    return 0 if document.hits else 1


def _mask() -> Callable[[str], str]:
    from functools import partial

    from turnlog.redact import redact

    return partial(redact, rules=redaction_rules())


_BOLD, _DIM, _CYAN, _RED, _YELLOW, _PLAIN = "1", "2", "36", "31", "1;33", "0"
_NARROWEST: Final = 40
_SHORT: Final = 8


def _show(document: SearchDocument, query: str, now: datetime, options: dict[str, Any]) -> None:
    page = _HitPage(sys.stdout, now)
    for session, hits in _grouped(document.hits):
        page.head(session, hits)
        for hit in hits:
            page.hit(hit)
        page.more(hits[-1])
    for note in document.notes:
        click.echo(f"note: {inert(note)}", err=True)
    if not document.hits:
        page.nothing(query, options)
        return
    if document.next is not None:
        page.dim(f"… more; use --offset {document.next}")
    page.dim(f"hint: {_how_to_open(document.hits[0])}")


def _grouped(hits: Iterable[Hit]) -> list[tuple[str | None, list[Hit]]]:
    """Group hits by session, the session with the best hit first."""
    groups: dict[tuple[str | None, str], list[Hit]] = {}
    for hit in hits:
        key = (hit.session, "" if hit.session else hit.log)
        groups.setdefault(key, []).append(hit)
    return [(key[0], group) for key, group in groups.items()]


def _how_to_open(hit: Hit) -> str:
    if hit.session is None:
        return f"the first hit is in {inert(hit.log)} at byte {hit.offset}"
    place = ""
    if hit.uuid:  # Only a real UUID can be shortened.
        place = f" --at {inert(hit.uuid[:_SHORT] if len(hit.uuid) == 36 else hit.uuid)}"
    return f"turnlog show {inert(hit.session[:_SHORT])}{place} shows the first hit"


class _HitPage:
    def __init__(self, out: TextIO, now: datetime) -> None:
        self._out, self._now = out, now
        is_terminal = out.isatty()
        self._has_colour = (
            is_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        )
        columns = shutil.get_terminal_size((80, 24)).columns
        self._width = max(_NARROWEST, columns) if is_terminal or "COLUMNS" in os.environ else 0
        """The width of lines; 0 for unlimited, in a pipe."""
        self._is_first = True

    def head(self, session: str | None, hits: Sequence[Hit]) -> None:
        from turnlog.api.homes import last_part

        hit = hits[0]
        at = next((hit.at for hit in hits if hit.at is not None), None)
        if not self._is_first:
            self._line([])
        self._is_first = False
        name = last_part(hit.project or "")
        pieces = [((session or "-")[:_SHORT], _BOLD)]
        if at is not None:  # Titles have no timestamp.
            pieces.append((f"  {age(self._now, at)}", _DIM))
        if name:
            pieces.append((f"  {name}", _CYAN))
        title = " ".join((hit.title or "").split()) or ("untitled" if session else hit.log)
        self._line([*pieces, (f"  {title}", _PLAIN)])

    def hit(self, hit: Hit) -> None:
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
            self.dim(f"    … {hit.more:,} more: session:{(hit.session or '')[:_SHORT]}")

    def dim(self, text: str) -> None:
        self._line([(text, _DIM)], is_cut=False)

    def nothing(self, query: str, options: dict[str, Any]) -> None:
        self._line([("Nothing found.", _PLAIN)])
        if not has_sessions(options["homes"]):
            self.dim(f"hint: {hint_for(options['homes'], {})}")
            return
        tips = []
        if not options["results"]:
            tips.append("--results also searches tool results")
        if options["exact"] or options["regex"]:
            tips.append("without --exact and --regex, words match in any order")
        elif " " in query.strip():
            tips.append("use fewer words, or OR between them")
        elif query.strip():
            tips.append("--exact also matches parts of words")
        names = [name for name in ("project", "since", "until", "session") if options[name]]
        if names:
            tips.append(f"leave out {' or '.join(f'--{name}' for name in names)}")
        self.dim(f"hint: {'; '.join(tips)}")

    def _wrapped(self, pieces: list[tuple[str, str]]) -> None:
        """Print a line, wrapped at spaces."""
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
    """Return the width of *text* on a terminal: East Asian characters take two columns."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def _cut(text: str, room: int) -> str:
    if room <= 0:
        return ""
    while _columns(text) >= room:
        text = text[: -max(1, (_columns(text) - room + 1) // 2)]
    return f"{text}…"
