"""Writing what ``turnlog export`` was asked for: to the screen, to a file, or into a directory.

A file is written beside its name and moved there when it is whole; on a full disk nothing of it is
left. What exists stays, unless told otherwise. What was written is told on stderr.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec
from msgspec import Struct, structs

from turnlog.api.arguments import Period
from turnlog.api.export import write_file
from turnlog.cli.options import print_unread
from turnlog.cli.terminal.console import counted, size
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
    known_lines,
    log_lines,
    newest_first,
    pages,
    session_lines,
)
from turnlog.export.masking import Masking
from turnlog.formats import Home, Problem, hash_of, key_of
from turnlog.redact import Rules, Secret, gather_known
from turnlog.sessions.convert.convert import subagent_logs_of
from turnlog.sessions.session import Session
from turnlog.storage.atomic_files import failure
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.api.index import Index
    from turnlog.export.tables import Row, TableName, Tables

_TABLES: Final = ("csv", "parquet")
_PAGES: Final = ("md", "html", "json")


class Export(Struct, kw_only=True, dict=True):
    """One export as it was asked for."""

    homes: tuple[Home, ...]
    names: tuple[str, ...]
    period: Period
    shape: str
    target: Path | None
    is_directory: bool
    choice: ConversationOptions
    table: TableName
    is_redacted: bool
    rules: Rules
    force: bool

    def run(self) -> int:
        """Write it; 1 if there is nothing to write, or something that cannot be read."""
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
        if self.out.masked:
            texts = counted(self.out.masked, "text")
            click.echo(f"masked secrets in {texts}; --no-redact leaves them", err=True)
        print_unread(self.unread, "exported")
        return 1 if self.unread else 0

    @cached_property
    def out(self) -> Masking:
        has_texts = self.shape != "csv" or self.table != "messages"
        rules = self.rules
        if self.is_redacted and has_texts:
            # What is a secret anywhere in these sessions is one wherever else it stands.
            rules = gather_known(known_lines(gather(self.homes, self.ids)), rules)
        return Masking(is_redacted=self.is_redacted, rules=rules)

    def _gather_secrets(self, session_id: str) -> None:
        """Put down which secrets left with a session, since that was asked for."""
        if self.out.left:
            self.secrets.setdefault(session_id, {}).update(self.out.left)
            self.out.left.clear()

    def _note_secrets(self) -> None:
        """Tell the journal where secrets went, by digest, so that a scan can say so."""
        if self.target is None or not self.secrets:
            return
        from turnlog.formats import turnlog_home
        from turnlog.health.secrets import EXPORTED, export_fact
        from turnlog.sessions.journal import Journal

        journal = Journal.in_root(turnlog_home())
        for session_id, found in self.secrets.items():
            journal.note(EXPORTED, session_id, **export_fact(self.target, found.values()))
        count = counted(len({each for found in self.secrets.values() for each in found}), "secret")
        click.echo(f"notice: {count} left unmasked; turnlog secrets scan tells where", err=True)

    @cached_property
    def secrets(self) -> dict[str, dict[str, Secret]]:
        """The secrets that left unmasked, by session."""
        return {}

    @cached_property
    def ids(self) -> list[str]:
        """The sessions that were asked for."""
        if self.names:
            found = (Session.find(self.homes, name).id for name in self.names)
            return list(dict.fromkeys(found))
        from turnlog.api.indexed_sessions import list_indexed
        from turnlog.cli.index_access import open_index

        period = self.period
        with open_index(self.homes) as index:
            rows = list_indexed(
                index,
                project=period.project,
                since=period.since,
                until=period.until,
                archived=None,
                sidechains=self.shape in _TABLES,
            ).sessions
            self.unread += _unread(index, period)
        return list(dict.fromkeys(row.id for row in rows))  # It may lie in several homes.

    @cached_property
    def unread(self) -> list[Problem]:
        """Logs that may be meant and cannot be read; those who are named fail for themselves."""
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
                logs = counted(subagents, "subagent's log", "subagents' logs")
                click.echo(f"notice: {logs} left out; -o DIR/ takes them along", err=True)
        else:
            pieces = pages(self.shape, read_conversation(session, self.choice, self.out))
        if self.target is None:
            self._print(pieces)
        else:
            self._put(self.target, pieces)

    def _write_several(self) -> None:
        """Write each session to a file of its own, and a list of them."""
        if self.target is None and self.shape == "jsonl":
            for session in self._sessions():
                self._print(session_lines(session, self.out))
            return
        folder = self._folder()
        listed: list[Listed] = []
        total = 0
        count = lost = 0
        short: list[NotFound] = []
        for session in self._sessions():
            try:
                session.path  # noqa: B018 - An error if there is none.
            except NotFound:
                lost += 1
                continue
            if self.shape == "jsonl":
                count += 1
                total += self._put_logs(folder, session)
                continue
            name = f"{file_name(session.id)}.{self.shape}"
            try:
                told = read_conversation(session, self.choice, self.out)
            except NotFound as error:
                short.append(error)
                continue
            count += 1
            counting = _Counted(told.turns)
            told.turns = iter(counting)
            total += self._put_quietly(folder / name, pages(self.shape, told))
            listed.append(Listed(file=name, session=told.head, turns=counting.count))
        if listed:
            index = folder / f"index.{self.shape}"
            total += self._put_quietly(index, [_contents(self.shape, newest_first(listed))])
        if lost:
            words = counted(lost, "session has", "sessions have")
            click.echo(f"notice: {words} only subagents' logs left, and no page", err=True)
        if short and not count:
            raise short[0]
        if short:
            words = counted(len(short), "session has", "sessions have")
            click.echo(f"notice: {words} none of these turns, and no page", err=True)
        what = counted(count, "session")
        click.echo(f"wrote {what} to {inert(str(folder))} ({size(total)})", err=True)

    def _put_logs(self, folder: Path, session: Session) -> int:
        """Write the logs of a session as its home has them, the subagents' below it."""
        own = file_name(session.id)
        total = self._put_quietly(folder / f"{own}.jsonl", session_lines(session, self.out))
        for log, inner in subagent_logs_of(session):
            name = f"agent-{file_name(str(log.agent_id))}.jsonl"
            path = folder.joinpath(own, "subagents", *inner, name)
            total += self._put_quietly(path, log_lines(session, log, self.out), root=folder)
        return total

    def _sessions(self) -> Iterator[Session]:
        from turnlog.cli.index_access import bar

        total = len(self.ids)
        with bar("writing sessions") as progress:
            for number, session in enumerate(gather(self.homes, self.ids)):
                if progress is not None:
                    # A bar appears for what is long; sessions count for a megabyte each.
                    progress(number * 1_000_000, total * 1_000_000)
                yield session
                self._gather_secrets(session.id)

    def _folder(self) -> Path:
        if self.target is None:
            raise UsageError(f"{len(self.ids):,} sessions go into a directory", hint="say -o DIR/")
        if not self.is_directory or (self.target.exists() and not self.target.is_dir()):
            raise UsageError(
                f"{len(self.ids):,} sessions go into a directory, and {self.target} is a file",
                hint=f"say -o {self.target.stem}/ --format {self.shape}",
            )
        if self.target.is_dir() and not self.force and any(self.target.iterdir()):
            raise UsageError(
                f"{self.target} exists and is not empty",
                hint="--force writes into it, and replaces files of the same name",
            )
        return self.target

    # -- tables -----------------------------------------------------------------------------

    def _write_tables(self) -> None:
        from turnlog.export.tables import Tables, as_csv

        tables = Tables(self._sessions, self.out, self.period)
        only = frozenset(self.ids) if self.names else None
        with self._messages(tables, only) as messages:
            if self.shape == "parquet":
                self._write_parquet(tables, messages)
                return
            rows: dict[TableName, Iterable[Row]] = {
                "messages": messages,
                "calls": tables.calls(),
                "records": tables.records(),
            }
            if self.target is None:
                self._print(as_csv(self.table, rows[self.table]))
            elif self._is_into_directory:
                folder = self._folder()
                for name, each in rows.items():
                    self._put(folder / f"{name}.csv", as_csv(name, each))
            else:
                self._put(self.target, as_csv(self.table, rows[self.table]))

    @contextmanager
    def _messages(self, tables: Tables, only: frozenset[str] | None) -> Iterator[Iterator[Row]]:
        from turnlog.cli.index_access import open_source
        from turnlog.sessions.totals import usual_prices

        prices = usual_prices()
        with open_source(self.homes, prices, no_index=False, is_traced=True) as source:
            yield tables.messages(source, prices, only)

    def _write_parquet(self, tables: Tables, messages: Iterator[Row]) -> None:
        from turnlog.export.tables import write_parquet

        assert self.target is not None
        target = self.target.absolute()
        rows: dict[TableName, Iterable[Row]] = {
            "messages": messages,
            "calls": tables.calls(),
            "records": tables.records(),
        }
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
    """Turns, and how many there were of them; what stands before a prompt is none."""

    def __init__(self, turns: Iterator[ConversationTurn]) -> None:
        self._turns, self.count = turns, 0

    def __iter__(self) -> Iterator[ConversationTurn]:
        last = 0
        for turn in self._turns:
            self.count += turn.number > last
            last = turn.number
            yield turn


def _unread(index: Index, period: Period) -> Iterator[Problem]:
    """Return the logs that the index could not read and that may be of *period*.

    When a log was changed last, and in whose directory it lies, tells what its records would.
    """
    query = (
        "SELECT path, problem FROM logs WHERE problem IS NOT NULL AND gone_at IS NULL"
        " AND kind IN ('session', 'subagent', 'day') ORDER BY path"
    )
    for path, reason in index.db.execute(query):
        if period.project is not None:
            names = (key_of(period.project), hash_of(period.project))
            if not any(part.startswith(names) for part in Path(path).parts):
                continue
        with suppress(OSError):
            changed_at = datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
            if period.since is None or changed_at >= period.since:
                yield Problem(Path(path), reason)


def file_name(name: str) -> str:
    """Return a name that is one part of a path, whatever a log calls its session."""
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
