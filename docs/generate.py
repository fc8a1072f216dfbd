"""Write the documents that come from the code: CLI reference, JSON Schemas, the README's picture.

`make docs` writes them; tests/test_generated.py fails when they are out of date.
"""

from __future__ import annotations

import io
import json
import re
import sys
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from turnlog.api.health.doctor import Checkup, Footprint
from turnlog.api.hooks import HooksDocument
from turnlog.api.keep.copies import KeepDocument
from turnlog.api.keep.restore import (
    ArchiveDocument,
    RestorableDocument,
    RestoreDocument,
    VerifyDocument,
)
from turnlog.api.keep.trash import DeleteDocument, TrashDocument
from turnlog.api.live import WatchedRow
from turnlog.api.refresh import RefreshDocument
from turnlog.api.repair import CompactDocument, RepairDocument, UndoDocument
from turnlog.api.sessions.reading import SessionDocument, ShowDocument
from turnlog.api.sessions.resume import ResumeDocument
from turnlog.api.sessions.side_files import (
    FilesDocument,
    PlansDocument,
    PromptsDocument,
    TodosDocument,
)
from turnlog.api.sessions.writing import ConvertDocument, ForkDocument, LabelsDocument
from turnlog.catalog.indexed_sessions import ProjectCatalog, SessionCatalog
from turnlog.catalog.sessions import SessionList
from turnlog.cli.app import COMMANDS, app
from turnlog.cli.costs.prices import PriceDocument
from turnlog.cli.repair import check
from turnlog.costs.blocks import BlockLedger
from turnlog.costs.budgets import BudgetReport
from turnlog.costs.comparison import CostComparison
from turnlog.costs.explanation import Explanation
from turnlog.costs.ledger import Ledger
from turnlog.export.conversation import ConversationDocument
from turnlog.export.exporter import ContentsDocument
from turnlog.formats import find_homes, find_logs
from turnlog.health.logs import Health, examine
from turnlog.health.secrets import SecretsDocument
from turnlog.insights.explanation import InsightsExplanation
from turnlog.insights.overview import BareOverview, Overview
from turnlog.insights.report import Insights
from turnlog.keep.copies.status import KeepStatus
from turnlog.keep.retention.retention import PruneReport
from turnlog.live.sessions import LiveDocument
from turnlog.query.errors import ErrorContext, ErrorPatterns
from turnlog.query.patterns import FileAccesses, Sequences, Series
from turnlog.query.query import QueryDocument
from turnlog.query.sql import SchemaDocument, SqlDocument
from turnlog.search.search import SearchDocument
from turnlog.sessions.recover import Recovery
from turnlog.sessions.recover_undo import UndoneRecovery

DOCS = Path(__file__).parent
SCHEMAS = {
    "secrets": SecretsDocument,
    "insights": Insights,
    "insights-explain": InsightsExplanation,
    "export": ConversationDocument,
    "export-index": ContentsDocument,
    "overview": Overview,
    "overview-bare": BareOverview,
    "top": LiveDocument,
    "prune": PruneReport,
    "archive": ArchiveDocument,
    "delete": DeleteDocument,
    "trash": TrashDocument,
    "keep": KeepDocument,
    "hooks": HooksDocument,
    "keep-status": KeepStatus,
    "restore": RestoreDocument,
    "restore-list": RestorableDocument,
    "verify": VerifyDocument,
    "compact": CompactDocument,
    "compact-undo": UndoDocument,
    "doctor": Checkup,
    "doctor-where": Footprint,
    "blocks": BlockLedger,
    "budgets": BudgetReport,
    "check": Health,
    "compare": CostComparison,
    "convert": ConvertDocument,
    "cost": Ledger,
    "error-context": ErrorContext,
    "errors": ErrorPatterns,
    "explain": Explanation,
    "fork": ForkDocument,
    "files": FilesDocument,
    "info": SessionDocument,
    "labels": LabelsDocument,
    "plans": PlansDocument,
    "prices": PriceDocument,
    "projects": ProjectCatalog,
    "prompts": PromptsDocument,
    "query": QueryDocument,
    "query-files": FileAccesses,
    "query-sequences": Sequences,
    "query-series": Series,
    "recover": Recovery,
    "recover-undo": UndoneRecovery,
    "recover-list": SessionList,
    "refresh": RefreshDocument,
    "repair": RepairDocument,
    "resume": ResumeDocument,
    "search": SearchDocument,
    "sessions": SessionCatalog,
    "show": ShowDocument,
    "sql": SqlDocument,
    "sql-schema": SchemaDocument,
    "todos": TodosDocument,
    "watch": WatchedRow,
}


def cli_reference() -> str:
    """Return the help of every command, as one page."""
    parts = [
        "# The command line\n",
        "Generated from the help of the commands by `make docs`.\n",
        "Exit codes are the same everywhere: 0 success, 1 a problem was found or nothing was",
        "found, 2 invalid usage, 3 a failure. With `--json` a command prints one document on",
        "stdout and nothing else; its JSON Schema is in [schemas/](schemas/). Errors go to stderr",
        "as `error: …` and `hint: …`.\n",
        "`--home`, `--json`, `--since`, `--until`, `--project`, `--session` and `--limit` mean",
        "the same in every command. Times can be given as `7d`, `yesterday` or `2026-11-01` and",
        "are shown in this machine's time zone. `.` is the current directory. A session is the",
        "beginning of its id, or `latest`. Output longer than the screen goes through",
        "`$TURNLOG_PAGER`, else `$PAGER`, else `less`; `--no-pager` or `TURNLOG_PAGER=` prints it",
        "directly. `--home`, `--json` and `--no-pager` can also be given before the command.",
        "Tables fit the terminal; in a pipe or a file nothing is cut or wrapped, unless `COLUMNS`",
        "sets a width.\n",
        _help_of(app, "turnlog"),
    ]
    context = click.Context(app, info_name="turnlog")
    for name in COMMANDS:
        command = app.get_command(context, name)
        assert command is not None
        parts += [f"## turnlog {name}\n", _help_of(command, f"turnlog {name}")]
    return "\n".join(parts)


def schema(kind: type) -> str:
    """Return the JSON Schema of what a command prints with --json."""
    found = _tidy(msgspec.json.schema(kind, schema_hook=_schema_of_path))
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _tidy(found: Any) -> Any:
    """Return a schema with clean descriptions: some Pythons leave them indented."""
    if isinstance(found, list):
        return [_tidy(each) for each in found]
    if not isinstance(found, dict):
        return found
    return {
        name: cleandoc(value) if name == "description" and isinstance(value, str) else _tidy(value)
        for name, value in found.items()
    }


def _schema_of_path(kind: type) -> dict[str, str]:
    """Describe a path, which is printed as text."""
    if issubclass(kind, Path):
        return {"type": "string"}
    raise NotImplementedError(kind)


def picture() -> str:
    """Draw what `turnlog check` shows for the bundled samples."""
    homes = find_homes((DOCS.parent / "samples" / "claude",))
    health = examine([log for home in homes for log in find_logs(home)])
    out = Console(record=True, file=io.StringIO(), width=82, highlight=False, force_terminal=True)
    out.print("[bold green]$[/] turnlog check")
    check.show(out, health, ())
    drawn = out.export_svg(title="turnlog check", unique_id="turnlog-check")
    return re.sub(r"@font-face {.*?}\n", "", drawn, flags=re.DOTALL)  # They would be fetched.


def pages() -> dict[Path, str]:
    """Return every generated file and its content."""
    return {
        DOCS / "cli.md": cli_reference(),
        **{DOCS / "schemas" / f"{name}.json": schema(kind) for name, kind in SCHEMAS.items()},
    }


def _help_of(command: click.Command, name: str) -> str:
    settings = app.context_settings | {"max_content_width": 88, "terminal_width": 88}
    context = click.Context(command, info_name=name, **settings)
    return f"```\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    for path, text in {**pages(), DOCS / "images" / "check.svg": picture()}.items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(DOCS.parent)}\n")
