"""``turnlog search``: search the text of all sessions.

Written without rich, which takes longer to import than a search takes: colours are a few escape
sequences, for terminals only, and text from logs is escaped first.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

import click

from turnlog.cli.options import (
    csv_option,
    home_arguments,
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
from turnlog.cli.terminal.output import show_data
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.api.record_names import ShortNames
    from turnlog.api.search import Hit, SearchDocument


@click.command(
    name="search",
    epilog="""\b
Examples:
  turnlog search how did we fix the retry      best sessions first
  turnlog search '+retry backoff -test'        with retry, without test
  turnlog search '"connection refused"'        a phrase
  turnlog search 'migrat* -rollback since:2w'  prefix, exclusion, period
  turnlog search 'tool:Bash is:error docker'   failed Bash calls
  turnlog search 'file:*.sql type:call'        calls on SQL files
  turnlog search 'commit:1a2b3c4'              the session that made a commit
  turnlog search 'error:"no space"'            errors with these words
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
@click.option("--all-words", is_flag=True, help="Require all words in one text.")
@click.option(
    "--sort",
    type=click.Choice(("best", "newest")),
    default="best",
    show_default=True,
    help="Sort order.",
)
@click.option("--exact", is_flag=True, help="Treat the query as a literal string.")
@click.option("--regex", is_flag=True, help="Treat the query as a regular expression.")
@click.option(
    "-C", "--context", type=click.IntRange(0, 50), default=0, metavar="N", help="Lines of context."
)
@click.option("--redact", is_flag=True, help="Mask keys, tokens and passwords.")
@click.option("--flat", is_flag=True, help="List hits, not sessions with their best hits.")
@page_options
def command(query: tuple[str, ...], homes: tuple[str, ...], **options: Any) -> int:
    """Search the text of all sessions.

    QUERY is what you remember: words, of which some may be missing. Also +required, "phrases",
    -exclusions, OR, prefix* and filters: project: session: agent: tool: file: commit: error: model:
    branch: role: type: is: before: after: since:. Tool results are searched with --results or
    type:result, and if nothing else matches. --exact and --regex use smart case: a capital letter
    makes them case-sensitive.
    """
    text = " ".join(query)
    if not text.strip() and not any(
        options[name] for name in ("project", "since", "until", "session")
    ):
        raise click.UsageError("missing query")
    if options["exact"] and options["regex"]:
        raise click.UsageError("--exact and --regex are mutually exclusive")
    from turnlog.api.homes import all_homes
    from turnlog.api.record_names import ShortNames
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
            newest=options["sort"] == "newest",
            all_words=options["all_words"],
            exact=options["exact"],
            regex=options["regex"],
            limit=options["limit"],
            offset=options["offset"],
            context=options["context"],
            flat=options["flat"],
            mask=_mask() if options["redact"] else None,
        )
        as_json, as_csv = options["as_json"], options["as_csv"]
        if not show_data(document, Hit, document.hits, as_json=as_json, as_csv=as_csv):
            _show(document, ShortNames(index), text, now, options | {"homes": homes})
    return 0 if document.hits else 1


def _mask() -> Callable[[str], str]:
    from functools import partial

    from turnlog.redact import redact

    return partial(redact, rules=redaction_rules())


_BOLD, _DIM, _CYAN, _RED, _YELLOW, _PLAIN = "1", "2", "36", "31", "1;33", "0"
_NARROWEST: Final = 40
_SHORT: Final = 8
_QUOTED: Final = 40
_LINKLESS: Final = frozenset({"", "dumb", "linux", "unknown"})
"""Terminals that would show the escape sequences of links."""
_END_OF_LINK: Final = "\x1b]8;;\x1b\\"


class _Piece(NamedTuple):
    """Part of a line."""

    text: str
    style: str = _PLAIN
    link: str = ""


def _show(
    document: SearchDocument,
    names: ShortNames,
    query: str,
    now: datetime,
    options: dict[str, Any],
) -> None:
    from turnlog.api.search import COUNTED

    page = _HitPage(sys.stdout, now)
    for session, hits in _grouped(document.hits):
        page.head(session, hits)
        page.hits(hits, [_command(hit, names, options["homes"]) for hit in hits])
        page.more(hits[-1])
    for note in document.notes:
        click.echo(f"note: {inert(note)}", err=True)
    if not document.hits:
        page.nothing(query, options)
        return
    if document.next is not None:
        page.dim(f"… more; use --offset {document.next}")
    if document.in_results:
        many = "+" if document.in_results == COUNTED else ""
        page.dim(f"{document.in_results:,}{many} more in tool output: --results")


def _grouped(hits: Iterable[Hit]) -> list[tuple[str | None, list[Hit]]]:
    """Group hits by session, the session with the best hit first."""
    groups: dict[tuple[str | None, str], list[Hit]] = {}
    for hit in hits:
        key = (hit.session, "" if hit.session else hit.log)
        groups.setdefault(key, []).append(hit)
    return [(key[0], group) for key, group in groups.items()]


def _command(hit: Hit, names: ShortNames, homes: Sequence[str]) -> str:
    """Return the command that opens a hit, with ids as short as they are unique."""
    import shlex

    session = names.session(hit.session) if hit.session is not None else None
    stem = re.split(r"\.(?:jsonl|md)\b", os.path.basename(hit.log))[0]
    match hit.kind:
        case "plan":
            words = ["plans", stem]
        case "todo" if session is not None:
            words = ["todos", session]
        case "history" if session is not None:
            words = ["prompts", "--full", "--session", session]
        case "history":
            words = ["prompts", "--full", hit.snippet.strip("…")[:_QUOTED]]
        case _ if session is None:
            return f"{hit.log} at byte {hit.offset}"
        case _:
            words = ["show", session, "--at"]
            words.append(names.record(hit.uuid) if hit.uuid else _offset(hit, stem))
    return f"turnlog {shlex.join([*words, *home_arguments(homes)])}"


def _offset(hit: Hit, stem: str) -> str:
    """Name a record without a uuid by its offset, with the log's name if it is not the main one."""
    if stem == hit.session:
        return f"@{hit.offset}"
    is_own = hit.subagent is not None and stem.endswith(hit.subagent)
    return f"{hit.subagent if is_own else stem}@{hit.offset}"


class _HitPage:
    def __init__(self, out: TextIO, now: datetime) -> None:
        self._out, self._now = out, now
        is_terminal = out.isatty()
        term = os.environ.get("TERM", "")
        self._has_colour = is_terminal and "NO_COLOR" not in os.environ and term != "dumb"
        self._has_links = (
            is_terminal and term not in _LINKLESS and os.environ.get("FORCE_HYPERLINK") != "0"
        )
        self._width = 0
        """The width of lines; 0 for unlimited, in a pipe."""
        if is_terminal or "COLUMNS" in os.environ:
            from shutil import get_terminal_size

            self._width = max(_NARROWEST, get_terminal_size((80, 24)).columns)
        self._is_first = True

    def head(self, session: str | None, hits: Sequence[Hit]) -> None:
        from turnlog.api.homes import last_part

        hit = hits[0]
        main = next((each for each in hits if each.subagent is None), hit)
        at = next((hit.at for hit in hits if hit.at is not None), None)
        if not self._is_first:
            self._line([])
        self._is_first = False
        name = last_part(hit.project or "")
        pieces = [_Piece((session or "-")[:_SHORT], _BOLD, self._link(main, "session"))]
        if at is not None:  # Titles have no timestamp.
            pieces.append(_Piece(f"  {age(self._now, at)}", _DIM))
        if name:
            pieces.append(_Piece(f"  {name}", _CYAN))
        title = " ".join((hit.title or "").split()) or ("untitled" if session else hit.log)
        self._line([*pieces, _Piece(f"  {title}")])

    def hits(self, hits: Sequence[Hit], commands: Sequence[str]) -> None:
        """Print hits, each with its command, in a column where there is room."""
        labels = [_label(hit) for hit in hits]
        widths = [
            _columns(label) + len(" error") * hit.is_error
            for label, hit in zip(labels, hits, strict=True)
        ]
        room = (self._width or 1 << 30) - 4 - max(map(_columns, commands))
        column = max((width for width in widths if width <= room), default=0)
        for hit, label, width, command in zip(hits, labels, widths, commands, strict=True):
            pieces = [_Piece("  "), _Piece(label, _DIM, self._link(hit, str(hit.offset)))]
            if hit.is_error:
                pieces.append(_Piece(" error", _RED))
            if width <= room:
                pieces.append(_Piece(" " * (column - width + 2) + command, _DIM))
            self._line(pieces)
            if width > room:
                self.dim(f"    {command}")
            self._text(hit)

    def _text(self, hit: Hit) -> None:
        for line in hit.before:
            self._line([_Piece(f"    {line}", _DIM)])
        self._wrapped([_Piece("    "), *_marked(hit)])
        for line in hit.after:
            self._line([_Piece(f"    {line}", _DIM)])

    def _link(self, hit: Hit, name: str) -> str:
        """Return the start of a link to the log, or "". Kept copies are compressed: no link."""
        if not self._has_links or hit.gone or not os.path.isabs(hit.log):
            return ""
        host = os.uname().nodename if hasattr(os, "uname") else ""
        address = Path(hit.log).as_uri().removeprefix("file://")
        # Terminals treat cells with the same id as one link, even if it is wrapped.
        own = re.sub(r"[^A-Za-z0-9-]", "", f"{hit.session}-{name}")
        return f"\x1b]8;id={own};file://{host}{address}\x1b\\"

    def more(self, hit: Hit) -> None:
        if hit.more:
            self.dim(f"    … {hit.more:,} more: session:{(hit.session or '')[:_SHORT]}")

    def dim(self, text: str) -> None:
        self._line([_Piece(text, _DIM)], is_cut=False)

    def nothing(self, query: str, options: dict[str, Any]) -> None:
        from turnlog.cli.terminal.empty_results import has_sessions, hint_for

        self._line([_Piece("Nothing found.")])
        if not has_sessions(options["homes"]):
            self.dim(f"hint: {hint_for(options['homes'], {})}")
            return
        tips = []
        is_strict = options["exact"] or options["regex"] or options["all_words"]
        if is_strict and not options["results"]:
            tips.append("--results also searches tool results")
        if is_strict:
            tips.append("without --exact, --regex and --all-words, words may be missing")
        elif query.strip():
            tips.append("--exact also matches parts of words")
        names = [name for name in ("project", "since", "until", "session") if options[name]]
        if names:
            tips.append(f"leave out {' or '.join(f'--{name}' for name in names)}")
        self.dim(f"hint: {'; '.join(tips)}")

    def _wrapped(self, pieces: list[_Piece]) -> None:
        """Print a line, wrapped at spaces."""
        if not self._width:
            self._line(pieces)
            return
        line: list[_Piece] = []
        room = self._width
        for text, style, _ in pieces:
            for word in re.findall(r"\S+\s*|\s+", inert(text)):
                if room - _columns(word.rstrip()) < 0 and line:
                    self._line(line)
                    line, room = [_Piece("    ")], self._width - 4
                line.append(_Piece(word, style))
                room -= _columns(word)
        self._line(line)

    def _line(self, pieces: list[_Piece], *, is_cut: bool = True) -> None:
        room = self._width if self._width and is_cut else 1 << 30
        shown = []
        for raw, style, link in pieces:
            text = inert(raw)
            if _columns(text) > room:
                text = _cut(text, room)
            room -= _columns(text)
            if self._has_colour and style != _PLAIN and text.strip():
                text = f"\x1b[{style}m{text}\x1b[0m"
            shown.append(f"{link}{text}{_END_OF_LINK}" if link and text else text)
        line = "".join(shown).rstrip() + "\n"
        encoding = self._out.encoding or "utf-8"
        self._out.write(line.encode(encoding, "replace").decode(encoding))


def _label(hit: Hit) -> str:
    what = f"{hit.kind} {hit.tool}" if hit.tool else hit.kind
    marks = [name for name, is_so in (("subagent", hit.subagent), ("gone", hit.gone)) if is_so]
    return inert(" ".join(filter(None, [when(hit.at), what, *marks])))


def _marked(hit: Hit) -> Iterable[_Piece]:
    at = 0
    for begin, end in hit.highlights:
        yield _Piece(hit.snippet[at:begin])
        yield _Piece(hit.snippet[begin:end], _YELLOW)
        at = end
    yield _Piece(hit.snippet[at:])


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
