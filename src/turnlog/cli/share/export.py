"""``turnlog export``: write sessions as Markdown, HTML, JSON, JSONL, CSV or Parquet.

A file is written under a temporary name and renamed when it is complete. Existing files are not
replaced without --force. Messages go to stderr.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from msgspec import Struct, structs

from turnlog.api.arguments import Period
from turnlog.api.export import (
    Session,
    failure,
    pseudonyms_here,
    session_ids,
    sessions_of,
    subagent_logs_of,
    usual_prices,
    write_file,
)
from turnlog.api.homes import Home, Problem, all_homes
from turnlog.cli.options import (
    force_option,
    home_option,
    open_index,
    period_options,
    print_unread,
    redaction_rules,
    thread_option,
    tools_option,
    turns_option,
)
from turnlog.cli.terminal.console import bar, counted, size
from turnlog.cli.terminal.empty_results import hint_for
from turnlog.errors import NotFound, TurnlogError, UsageError
from turnlog.export.conversation import ConversationOptions, ConversationTurn
from turnlog.export.conversation_builder import read_conversation
from turnlog.export.exporter import (
    ContentsDocument,
    Listed,
    contents_markdown,
    contents_page,
    gather,
    log_lines,
    masking_of,
    newest_first,
    pages,
    session_lines,
)
from turnlog.export.masking import Masking
from turnlog.redact import Rules, Secret
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.export.tables import Row, TableName, Tables

FORMATS: Final = ("md", "html", "json", "jsonl", "csv", "parquet")
_SUFFIXES: Final = {f".{name}": name for name in FORMATS} | {
    ".markdown": "md",
    ".htm": "html",
    ".pq": "parquet",
}
_TABLES: Final = ("csv", "parquet")


@click.command(
    name="export",
    epilog="""\b
Examples:
  turnlog export latest -o session.html    write a web page
  turnlog export 5f0c                      print Markdown
  turnlog export 5f0c --turns 3:7 --tools none -o talk.md
  turnlog export 5f0c --anonymize --no-thinking -o share.html
  turnlog export --project . --since 7d -o week/
  turnlog export --since 30d -o usage.csv  write usage per response
  turnlog export --since 30d --table calls -o calls.csv
  turnlog export --project . -o p.parquet  write tables for DuckDB or pandas
  turnlog export 5f0c --no-redact -o copy.jsonl""",
)
@click.argument("names", metavar="[SESSION]...", nargs=-1)
@home_option
@period_options
@click.option(
    "-o",
    "--output",
    "target",
    metavar="PATH",
    callback=lambda _context, _option, value: None if value == "-" else value,
    help="File, or directory for several sessions; - is stdout.",
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(FORMATS),
    help="Output format.  [default: from the suffix of PATH; html for a directory, else md]",
)
@thread_option
@turns_option
@tools_option("full")
@click.option("--no-thinking", is_flag=True, help="Leave out the model's thinking.")
@click.option("--no-images", is_flag=True, help="Replace images with placeholders.")
@click.option(
    "--table",
    type=click.Choice(("messages", "calls", "records")),
    default="messages",
    show_default=True,
    help="Table to write as CSV; Parquet contains all of them.",
)
@click.option(
    "--anonymize", is_flag=True, help="Replace home directories, user names and host names."
)
@click.option("--no-redact", is_flag=True, help="Do not mask keys, tokens and passwords.")
@force_option
def command(names: tuple[str, ...], homes: tuple[str, ...], **options: Any) -> int:
    """Write sessions as Markdown, web pages, JSON, raw JSONL, or tables.

    SESSION is the start of a session id, or "latest"; or select sessions with --project and
    --since. RECORD is the start of a record's uuid. Secrets are masked unless --no-redact is
    given. Web pages are self-contained and load nothing. Without -o, the output goes to stdout.
    """
    period = Period(since=options["since"], until=options["until"], project=options["project"])
    has_period = any(value is not None for value in (period.since, period.until, period.project))
    if not names and not has_period:
        raise click.UsageError("name a session (or latest), or use --project or --since")
    if names and has_period:
        raise click.UsageError("cannot combine SESSION with --project, --since or --until")
    target = options["target"]
    shape = _shape(options["shape"], target)
    export = Export(
        homes=all_homes(homes),
        names=names,
        period=period,
        shape=shape,
        target=Path(target) if target else None,
        is_directory=_is_directory(target),
        options=ConversationOptions(
            thread=options["thread"],
            turns=options["turns"],
            tools=options["tools"],
            thinking=not options["no_thinking"],
            images=not options["no_images"],
            colors=shape == "html",
        ),
        table=options["table"],
        is_redacted=not options["no_redact"],
        is_anonymous=options["anonymize"],
        rules=redaction_rules(),
        force=options["force"],
    )
    _check(export)
    return export.run()


def _shape(shape: str | None, target: str | None) -> str:
    """Return *shape*, or the format that the suffix of *target* names, or the default."""
    if shape:
        return shape
    if not target:
        return "md"
    suffix = Path(target).suffix
    known = _SUFFIXES.get(suffix.lower())
    if known is None and not _is_directory(target):
        raise UsageError(
            f"unknown file suffix {suffix[:20]!r}",
            hint="use --format; the name of a directory ends in /",
        )
    return known or "html"


def _is_directory(target: str | None) -> bool:
    """Return True if *target* is a directory, ends in / or has no suffix."""
    if target is None:
        return False
    return target.endswith("/") or Path(target).is_dir() or not Path(target).suffix


def _check(export: Export) -> None:
    """Raise UsageError before anything is read if the output cannot be written."""
    target = export.target
    if export.shape == "parquet" and target is None:
        raise click.UsageError("Parquet needs a directory: use -o DIR.parquet")
    if export.shape == "html" and target is None and sys.stdout.isatty():
        raise click.UsageError("cannot print HTML to a terminal: use -o session.html")
    if target is not None and not target.absolute().parent.is_dir():
        raise UsageError(f"no such directory: {target.absolute().parent}", hint="create it first")


class Export(Struct, kw_only=True, dict=True):
    """One run of the command."""

    homes: tuple[Home, ...]
    names: tuple[str, ...]
    period: Period
    shape: str
    target: Path | None
    is_directory: bool
    options: ConversationOptions
    table: TableName
    is_redacted: bool
    is_anonymous: bool
    rules: Rules
    force: bool

    def run(self) -> int:
        """Write the files; return 1 if nothing was found or something could not be read."""
        if not self.ids:
            hint = hint_for([os.fspath(home) for home in self.homes], structs.asdict(self.period))
            click.echo(f"No sessions found.\nhint: {inert(hint)}", err=True)
            print_unread(self.unread, "exported")
            return 1
        if self.shape in _TABLES:
            self._write_tables()
        elif len(self.ids) > 1 or self._is_into_directory:
            self._write_several()
        else:
            self._write_one(Session.find(self.homes, self.ids[0]))
            self._gather_secrets(self.ids[0])
        self._note_secrets()
        self._report_masked()
        print_unread(self.unread, "exported")
        return 1 if self.unread else 0

    @cached_property
    def out(self) -> Masking:
        has_texts = self.shape != "csv" or self.table != "messages"
        names = pseudonyms_here() if self.is_anonymous else None
        sessions = gather(self.homes, self.ids) if has_texts or names else ()
        return masking_of(sessions, self.rules, is_redacted=self.is_redacted, pseudonyms=names)

    def _report_masked(self) -> None:
        """Print how many secrets were masked and names replaced, also if there were none."""
        masked = f"{counted(len(self.out.masked), 'secret')} masked"
        if not self.is_redacted:
            masked = "secrets not masked (--no-redact)"
        names = self.out.pseudonyms
        if names is None:
            click.echo(masked, err=True)
            return
        click.echo(f"{masked}, {counted(names.count, 'name')} replaced", err=True)
        if words := names.only_in_context:
            also = "is also an ordinary word" if len(words) == 1 else "are also ordinary words"
            click.echo(
                f"notice: {inert(', '.join(words))} {also}: replaced only in paths and addresses",
                err=True,
            )

    def _gather_secrets(self, session_id: str) -> None:
        """Remember the secrets that were exported unmasked with a session."""
        if self.out.left:
            self.secrets.setdefault(session_id, {}).update(self.out.left)
            self.out.left.clear()

    def _note_secrets(self) -> None:
        """Note in the journal where secrets were exported to, for `turnlog secrets scan`."""
        if self.target is None or not self.secrets:
            return
        from turnlog.api.health.secrets import note_exported_secrets

        note_exported_secrets(self.target, self.secrets)
        count = counted(len({key for found in self.secrets.values() for key in found}), "secret")
        click.echo(f"notice: {count} exported unmasked; see turnlog secrets scan", err=True)

    @cached_property
    def secrets(self) -> dict[str, dict[str, Secret]]:
        """The secrets that were exported unmasked, by session."""
        return {}

    @cached_property
    def ids(self) -> list[str]:
        """The sessions to export."""
        if self.names:
            return session_ids(self.homes, self.names)
        with open_index(self.homes) as index:
            ids, unread = sessions_of(index, self.period, sidechains=self.shape in _TABLES)
        self.unread += unread
        return ids

    @cached_property
    def unread(self) -> list[Problem]:
        """Logs of the period that cannot be read."""
        return []

    @property
    def _is_into_directory(self) -> bool:
        return self.is_directory and self.target is not None

    # -- sessions ---------------------------------------------------------------------------

    def _write_one(self, session: Session) -> None:
        if self.shape == "jsonl":
            pieces = session_lines(session, self.out)
            subagents = len(session.subagent_logs)
            if subagents:
                logs = counted(subagents, "subagent log")
                click.echo(f"notice: {logs} not included; use -o DIR/ to include them", err=True)
        else:
            pieces = pages(self.shape, read_conversation(session, self.options, self.out))
        if self.target is None:
            self._print(pieces)
        else:
            self._put(self.target, pieces)

    def _write_several(self) -> None:
        """Write one file per session, and an index."""
        if self.target is None and self.shape == "jsonl":
            for session in self._sessions():
                self._print(session_lines(session, self.out))
            return
        folder = self._folder()
        listed: list[Listed] = []
        total = count = without_log = 0
        errors: list[NotFound] = []
        for session in self._sessions():
            try:
                session.path  # noqa: B018 - Raises if there is no main log.
            except NotFound:
                without_log += 1
                continue
            if self.shape == "jsonl":
                count += 1
                total += self._put_logs(folder, session)
                continue
            name = f"{file_name(session.id)}.{self.shape}"
            try:
                conversation = read_conversation(session, self.options, self.out)
            except NotFound as error:
                errors.append(error)
                continue
            count += 1
            counting = _Counted(conversation.turns)
            conversation.turns = iter(counting)
            total += self._put_quietly(folder / name, pages(self.shape, conversation))
            listed.append(Listed(file=name, session=conversation.head, turns=counting.count))
        if listed:
            index = folder / f"index.{self.shape}"
            total += self._put_quietly(index, [_contents(self.shape, newest_first(listed))])
        if errors and not count:
            raise errors[0]
        for number, reason in (
            (without_log, "only subagent logs left"),
            (len(errors), "no turns in this range"),
        ):
            if number:
                sessions = counted(number, "session with", "sessions with")
                click.echo(f"notice: skipped {sessions} {reason}", err=True)
        what = counted(count, "session")
        click.echo(f"wrote {what} to {inert(str(folder))} ({size(total)})", err=True)

    def _put_logs(self, folder: Path, session: Session) -> int:
        """Write the main log of a session, and its subagent logs in a directory next to it."""
        own = file_name(session.id)
        total = self._put_quietly(folder / f"{own}.jsonl", session_lines(session, self.out))
        for log, inner in subagent_logs_of(session):
            name = f"agent-{file_name(str(log.agent_id))}.jsonl"
            path = folder.joinpath(own, "subagents", *inner, name)
            total += self._put_quietly(path, log_lines(session, log, self.out), root=folder)
        return total

    def _sessions(self) -> Iterator[Session]:
        total = len(self.ids)
        with bar("writing sessions") as progress:
            for number, session in enumerate(gather(self.homes, self.ids)):
                if progress is not None:
                    # The bar counts bytes: take a session for a megabyte.
                    progress(number * 1_000_000, total * 1_000_000)
                yield session
                self._gather_secrets(session.id)

    def _folder(self) -> Path:
        if self.target is None:
            raise UsageError(f"{len(self.ids):,} sessions need a directory", hint="use -o DIR/")
        if not self.is_directory or (self.target.exists() and not self.target.is_dir()):
            raise UsageError(
                f"{len(self.ids):,} sessions need a directory, but {self.target} is a file",
                hint=f"use -o {self.target.stem}/ --format {self.shape}",
            )
        if self.target.is_dir() and not self.force and any(self.target.iterdir()):
            raise UsageError(
                f"{self.target} exists and is not empty",
                hint="use --force to write into it and replace files of the same name",
            )
        return self.target

    # -- tables -----------------------------------------------------------------------------

    def _write_tables(self) -> None:
        from turnlog.export.tables import Tables, as_csv

        tables = Tables(self._sessions, self.out, self.period)
        with self._messages(tables) as messages:
            rows: dict[TableName, Iterable[Row]] = {
                "messages": messages,
                "calls": tables.calls(),
                "records": tables.records(),
            }
            if self.shape == "parquet":
                self._write_parquet(rows)
            elif self.target is None:
                self._print(as_csv(self.table, rows[self.table]))
            elif self._is_into_directory:
                folder = self._folder()
                for name, table in rows.items():
                    self._put(folder / f"{name}.csv", as_csv(name, table))
            else:
                self._put(self.target, as_csv(self.table, rows[self.table]))

    @contextmanager
    def _messages(self, tables: Tables) -> Iterator[Iterator[Row]]:
        from turnlog.api.costs import open_source

        prices = usual_prices()
        only = frozenset(self.ids) if self.names else None
        with open_source(self.homes, prices, is_traced=True, open_index=open_index) as source:
            yield tables.messages(source, prices, only)

    def _write_parquet(self, rows: dict[TableName, Iterable[Row]]) -> None:
        from turnlog.export.tables import write_parquet

        assert self.target is not None
        target = self.target.absolute()
        try:
            written = write_parquet(target, rows, force=self.force)
        except TurnlogError:
            raise
        except OSError as error:
            raise failure(error, target) from None
        click.echo(f"wrote {inert(str(self.target))} ({size(written)})", err=True)

    # -- files ------------------------------------------------------------------------------

    def _put(self, path: Path, pieces: Iterable[bytes]) -> None:
        written = self._put_quietly(path, pieces)
        click.echo(f"wrote {inert(str(path))} ({size(written)})", err=True)

    def _put_quietly(self, path: Path, pieces: Iterable[bytes], *, root: Path | None = None) -> int:
        return write_file(path, pieces, force=self.force, root=root)

    def _print(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


class _Counted:
    """Iterate over turns and count them; records before the first prompt do not count."""

    def __init__(self, turns: Iterator[ConversationTurn]) -> None:
        self._turns, self.count = turns, 0

    def __iter__(self) -> Iterator[ConversationTurn]:
        last = 0
        for turn in self._turns:
            self.count += turn.number > last
            last = turn.number
            yield turn


def file_name(name: str) -> str:
    """Return *name* as a file name; a hash is added if characters had to be replaced."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:80]
    if plain == name:
        return plain
    return f"{plain}-{sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _contents(shape: str, listed: list[Listed]) -> bytes:
    if shape == "html":
        return contents_page(listed).encode()
    if shape == "md":
        return contents_markdown(listed).encode()
    return msgspec.json.format(msgspec.json.encode(ContentsDocument(sessions=listed))) + b"\n"
