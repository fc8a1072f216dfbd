"""What ``turnlog keep`` says: of one run, and of many while it watches."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec import Struct, field

from turnlog.cli.refresh import Unread
from turnlog.text import inert, inert_json

if TYPE_CHECKING:
    from turnlog.errors import LogError
    from turnlog.keep.copies.keep import KeepRun

_SHOWN = 5


class KeepDocument(Struct, kw_only=True):
    """What `turnlog keep --json` prints; with --watch, a line for each run."""

    at: datetime
    """When it was done."""
    elapsed_ms: int | None
    """How long it took; null with --watch."""
    files: int
    """Files that are worth keeping."""
    copied: int
    """Those of which a copy was made or added to."""
    sessions: list[str]
    """The sessions they belong to, also those of which only agents' logs are left."""
    without_log: list[str]
    """Those of them that have no main log any more, and count in no list."""
    read_bytes: int
    """How much of them was new."""
    written_bytes: int
    """How large the copies are that were written, on disk."""
    begun_anew: list[str]
    """Files that were rewritten since they were kept; the copy of what they held stays."""
    problems: list[Unread]
    """What could not be kept, and why."""


def document(run: KeepRun, elapsed_seconds: float | None = None) -> KeepDocument:
    """Give a run as a document."""
    return KeepDocument(
        at=datetime.now(UTC),
        elapsed_ms=None if elapsed_seconds is None else round(elapsed_seconds * 1000),
        files=run.files,
        copied=run.copied,
        sessions=run.sessions,
        without_log=run.without_log,
        read_bytes=run.read_bytes,
        written_bytes=run.written_bytes,
        begun_anew=run.begun_anew,
        problems=[Unread(path=str(each.path), reason=each.reason) for each in run.problems],
    )


def show_run(run: KeepRun, elapsed_seconds: float) -> None:
    """Say what was kept, in a line or two."""
    from turnlog.cli.terminal import console, counted, log_name

    out = console()
    took = f"[dim]({elapsed_seconds:.1f} s)[/]"
    if not run.files:
        from turnlog.cli.nothing import show_hint

        out.print("There is nothing to keep yet.")
        show_hint(out, ())  # One that is named is there.
    elif not run.copied:
        out.print(f"Nothing new; {counted(run.files, 'file')} looked at {took}")
    else:
        out.print(f"{_summary(run)} {took}")
        if run.without_log:
            count = counted(len(run.without_log), "session")
            out.print(f"[dim]and what is left of {count} whose main log is gone[/]")
    for path in run.begun_anew[:_SHOWN]:
        out.print(f"[yellow]rewritten since:[/] {log_name(path)} [dim](what it held stays kept)[/]")
    if len(run.begun_anew) > _SHOWN:
        out.print(f"[yellow]… and {len(run.begun_anew) - _SHOWN:,} more[/]")
    show_problems(run)


def show_problems(run: KeepRun) -> None:
    """Say on stderr what could not be kept."""
    for problem in run.problems[:_SHOWN]:
        click.echo(f"not kept: {inert(str(problem.path))}: {inert(problem.reason)}", err=True)
    if len(run.problems) > _SHOWN:
        click.echo(f"… and {len(run.problems) - _SHOWN:,} more (--json lists them)", err=True)


def _summary(run: KeepRun) -> str:
    from turnlog.cli.terminal import counted, size

    what = counted(run.copied, "file")
    if with_log := len(run.sessions) - len(run.without_log):
        what += f" of {counted(with_log, 'session')}"
    return f"Kept {what}: read {size(run.read_bytes)}, now {size(run.written_bytes)} on disk"


class Watched(Struct, kw_only=True):
    """Says what is kept while it is watched, each problem once."""

    as_json: bool
    quiet: bool
    problems: set[str] = field(default_factory=set)
    has_begun: bool = False

    def show(self, run: KeepRun) -> None:
        """Tell of a run."""
        fresh = [each for each in run.problems if str(each.path) not in self.problems]
        self.problems |= {str(each.path) for each in fresh}
        is_first, self.has_begun = not self.has_begun, True
        if self.as_json:
            if not self.quiet and (run.copied or fresh or is_first):
                sys.stdout.buffer.write(inert_json(msgspec.json.encode(document(run))) + b"\n")
                sys.stdout.flush()
            return
        for each in fresh:
            click.echo(f"not kept: {inert(str(each.path))}: {inert(each.reason)}", err=True)
        if run.copied and not self.quiet:
            click.echo(f"{datetime.now():%H:%M:%S}  {_summary(run)}")  # noqa: DTZ005 - For people.
        if is_first and not self.quiet and sys.stderr.isatty():
            click.echo("watching; Ctrl-C ends it", err=True)

    def tell(self, error: LogError) -> None:
        """Tell of a failure; it is tried again."""
        click.echo(f"error: {inert(error.message)}", err=True)
        if hint := error.cli_hint or error.hint:
            click.echo(f"hint: {inert(hint)}", err=True)
