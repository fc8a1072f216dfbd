"""Options and arguments that several commands share, and what they mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from turnlog.inert import inert

if TYPE_CHECKING:
    from turnlog.config import SettingProblem
    from turnlog.layout import LogFile, Problem

F = TypeVar("F", bound=Callable[..., Any])

home_option = click.option(
    "--home",
    "homes",
    multiple=True,
    metavar="DIR",
    help="A directory in which an agent keeps its sessions; may be given several times.  "
    "[default: $CLAUDE_CONFIG_DIR, else ~/.claude and ~/.config/claude; and turnlog's own]",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document and nothing else."
)


def logs_named(
    names: Iterable[str], homes: Iterable[str], problems: list[Problem]
) -> Iterator[LogFile]:
    """Give the logs that *names* mean: files, directories, ids' beginnings or ``latest``."""
    from turnlog.layout import Home, all_homes, find_everywhere
    from turnlog.sessions.dated import find_any_session

    for name in names:
        path = Path(name)
        if path.is_dir():
            yield from find_everywhere((Home(path),), problems=problems)
        elif path.exists() or os.sep in name or name.endswith((".jsonl", ".gz", ".zst")):
            yield log_at(path)
        else:
            yield from find_any_session(all_homes(tuple(homes)), name, problems=problems)


def log_at(path: Path) -> LogFile:
    """Describe the file at *path* as the log it is taken for."""
    from turnlog.layout import Home, LogFile, read_name
    from turnlog.log.sources import open_regular

    os.close(open_regular(path))  # A mistake in the name is told at once, not as a finding.
    name = read_name(path.name)
    kind = name.kind if name else "session"
    return LogFile(
        path=path,
        home=Home(path.parent),
        layout="flat",
        kind=kind,
        session_id=name.id if name and kind == "session" else path.name,
        agent_id=name.id if name and kind == "agent" else None,
        project_key=None,
        compression=name.compression if name else None,
    )


def line_cap() -> int:
    """Give the length beyond which a line is damage: what is set, or the usual one."""
    from turnlog.config import load_config
    from turnlog.layout import turnlog_home
    from turnlog.log.lines import LINE_CAP

    config = load_config(turnlog_home())
    tell_problems(config.problems)
    return config.line_cap_bytes or LINE_CAP


def tell_problems(problems: Iterable[SettingProblem]) -> None:
    """Say on stderr which settings could not be read; they change nothing."""
    for problem in problems:
        click.echo(
            f"warning: config.toml: {inert(problem.where)}: {inert(problem.reason)}", err=True
        )


def show_json(document: object) -> None:
    """Print *document* as the one JSON document of a command."""
    import msgspec

    try:
        data = msgspec.json.encode(document, enc_hook=os.fspath)
    except UnicodeEncodeError:  # A lone surrogate in somebody's title has no UTF-8 form.
        data = msgspec.json.encode(_whole(msgspec.to_builtins(document, enc_hook=os.fspath)))
    sys.stdout.buffer.write(msgspec.json.format(data) + b"\n")


def _whole(value: Any) -> Any:
    """Give plain JSON with what is no text in any encoding replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(each) for key, each in value.items()}
    return [_whole(each) for each in value] if isinstance(value, list) else value
