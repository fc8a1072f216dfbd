"""``turnlog show``: a session, readable."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.options import home_option

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.records.blocks import CallBlock, ResultBlock
    from turnlog.records.record import Record
    from turnlog.sessions.session import Session

# The argument that says most about a call, in the order in which they are looked for.
_TELLING = ("command", "file_path", "pattern", "description", "query", "url", "prompt", "path")


@click.command(
    name="show",
    epilog="""\b
Examples:
  turnlog show latest              the session that changed last
  turnlog show 5f0c --last 20      the last 20 records, at once, however long the log
  turnlog show 5f0c --thread main  only since the last compaction, as the agent sees it
  turnlog show 5f0c --raw          the log's own lines""",
)
@click.argument("name", metavar="SESSION")
@home_option
@click.option("--last", type=int, metavar="N", help="Only the last N records, in the log's order.")
@click.option(
    "--thread",
    type=click.Choice(("whole", "main")),
    default="whole",
    show_default=True,
    help="From the very first record, or since the last compaction.",
)
@click.option("--agents", is_flag=True, help="Also show what each agent did.")
@click.option("--thinking", is_flag=True, help="Also show what the model thought.")
@click.option("--raw", is_flag=True, help="Print the lines of the log instead.")
def command(
    name: str,
    homes: tuple[str, ...],
    *,
    last: int | None,
    thread: str,
    agents: bool,
    thinking: bool,
    raw: bool,
) -> int:
    """Show a session: prompts, answers, and one line for each call.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.layout import find_homes
    from turnlog.sessions.session import Session, records_of, tree_of
    from turnlog.sessions.threads import whole_thread

    session = Session.find(find_homes(homes), name)
    records = _records(session, last, thread)
    if raw:
        for record in records:
            sys.stdout.buffer.write(record.raw + b"\n")
        return 0
    from turnlog.cli.terminal import console, safe

    out = console()
    os.environ.setdefault("LESS", "-FRX")
    with out.pager(styles=True) if sys.stdout.isatty() else nullcontext():
        shown = Transcript(out, thinking=thinking)
        shown.show(records)
        for agent in session.agents if agents else ():
            what = safe(agent.description or agent.kind or "")
            orphan = "" if agent.spawn else " [yellow](the call that made it is not in the logs)[/]"
            out.print(f"\n[bold magenta]agent {safe(agent.id)}[/] {what}{orphan}")
            nodes = whole_thread(tree_of(agent.path))
            shown.show(record for _, record in records_of(agent.path, nodes))
    return 0


def _records(session: Session, last: int | None, thread: str) -> Iterable[Record]:
    if last is not None:
        from turnlog.log.reader import Placed
        from turnlog.log.tail import read_last

        items = read_last(session.path, last)
        return [item.record for item in items if isinstance(item, Placed)]
    nodes = session.thread if thread == "main" else session.whole_thread
    return (record for _, record in session.records(nodes))


class Transcript:
    """Writes records for people. A call waits for its result, so that both take one line."""

    def __init__(self, out: Console, *, thinking: bool) -> None:
        self.out = out
        self.thinking = thinking
        self._open: dict[str, CallBlock] = {}

    def show(self, records: Iterable[Record]) -> None:
        """Write *records*; calls that nobody answered come last."""
        for record in records:
            self._record(record)
        for call in self._open.values():
            self._call(call, None)
        self._open.clear()

    def _record(self, record: Record) -> None:
        from turnlog.cli.terminal import safe, safe_text
        from turnlog.records.blocks import CallBlock, ResultBlock
        from turnlog.records.meaning import Meaning, meaning_of
        from turnlog.records.record import Assistant, Call, Result, System, User

        meaning = meaning_of(record)
        if isinstance(record, System) and record.subtype == "compact_boundary":
            self.out.print("\n[dim]──── what stands above was summarised ────[/]\n")
        elif meaning is Meaning.SUMMARY and isinstance(record, User):
            self._paragraph(f"[dim italic]{safe(_cut(record.text, 400))}[/]")
        elif isinstance(record, User) and meaning is Meaning.PROMPT:
            at = f"{record.at:%Y-%m-%d %H:%M}" if record.at else ""
            self.out.print(f"\n[bold green]▌[/][dim]{at}[/]")
            self._paragraph(f"[bold]{safe_text(record.text.strip())}[/]")
            self.out.print()
        elif isinstance(record, User | Assistant):
            self._blocks(record)
        elif isinstance(record, Call):
            call_id = record.call_id or ""
            self._open[call_id] = CallBlock(call_id, record.name or "?", record.input)
        elif isinstance(record, Result):
            answer = ResultBlock(record.call_id or "", record.text, record.is_error)
            self._call(self._open.pop(record.call_id or "", None), answer)

    def _blocks(self, record: Any) -> None:
        from turnlog.cli.terminal import safe_text
        from turnlog.records.blocks import CallBlock, ResultBlock, TextBlock, ThinkingBlock
        from turnlog.records.meaning import Author, author_of

        program = author_of(record) is Author.PROGRAM
        for block in record.blocks:
            if isinstance(block, CallBlock):
                self._open[block.id] = block
            elif isinstance(block, ResultBlock):
                self._call(self._open.pop(block.tool_use_id, None), block)
            elif isinstance(block, ThinkingBlock) and self.thinking and block.thinking:
                self._paragraph(f"[dim italic]{safe_text(block.thinking.strip())}[/]")
            elif isinstance(block, TextBlock) and not program and block.text.strip():
                self._paragraph(safe_text(block.text.strip()))

    def _paragraph(self, markup: str) -> None:
        """Write text that may be long, indented also where it wraps."""
        from rich.padding import Padding

        self.out.print(Padding(markup, (0, 0, 0, 2), expand=False), soft_wrap=False)

    def _call(self, call: CallBlock | None, result: ResultBlock | None) -> None:
        from turnlog.cli.terminal import safe

        name = safe(call.name) if call else "?"
        asked = safe(_cut(_telling(call.input), 60)) if call else "[dim]call not in this part[/]"
        if result is None:
            answer = "[yellow]no result: interrupted[/]"
        else:
            first = safe(_cut(result.text, 60))
            answer = f"[red]✗ {first}[/]" if result.is_error else f"[dim]{first}[/]"
        self.out.print(
            f"  [cyan]{name}[/] {asked} [dim]→[/] {answer}", overflow="ellipsis", no_wrap=True
        )


def _telling(asked: Any) -> str:
    if not isinstance(asked, dict):
        return ""
    found = (asked[key] for key in _TELLING if isinstance(asked.get(key), str))
    return next(found, ", ".join(map(str, asked)))


def _cut(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
