"""``turnlog completion``: the completion script of a shell, and the values that it completes.

Sessions, projects, models, branches and tools are read from the index as it is, without a refresh.
Without an index only sessions are completed, by the names of their logs.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from turnlog.api.homes import Home, all_homes, all_logs, last_part
from turnlog.api.index import select_names
from turnlog.errors import TurnlogError, UsageError
from turnlog.text import inert

SHELLS = ("bash", "zsh", "fish")


@click.command(
    name="completion",
    epilog="""\b
Examples:
  bash, ~/.bashrc:                   eval "$(turnlog completion bash)"
  zsh, ~/.zshrc:                     eval "$(turnlog completion zsh)"
  fish, ~/.config/fish/config.fish:  turnlog completion fish | source
Completes commands, options, session IDs, projects, models and fields.""",
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of a shell. Load it in the shell's configuration."""
    from turnlog.cli.app import app

    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"unsupported shell {shell}", hint=f"use {', '.join(SHELLS)}")
    try:
        script = kind(app, {}, "turnlog", "_TURNLOG_COMPLETE").source()
    except RuntimeError as error:  # The version of bash is too old, or unknown.
        raise UsageError(
            str(error), hint="turnlog completion --help lists the supported shells"
        ) from None
    # bash would split a directory name at its spaces.
    script = script.replace("compopt -o dirnames", "compopt -o filenames -o dirnames")
    # bash would add a space after the = of a filter.
    script = script.replace(
        "COMPREPLY+=($value)", "COMPREPLY+=($value); [[ $value == *= ]] && compopt -o nospace"
    )
    # zsh would drop empty values and shift those that follow.
    click.echo(script.replace("in ${response}; do", 'in "${response[@]}"; do'))


_MOST: Final = 50
_OPTIONS: Final = {
    "--project": "project",
    "--for": "project",
    "--session": "session",
    "--model": "model",
    "--branch": "branch",
    "--tool": "tool",
}
_FIELDS: Final = {
    "tool": "tool",
    "tool_name": "tool",
    "model": "model",
    "branch": "branch",
    "git_branch": "branch",
    "session": "session",
    "session_id": "session",
    "project": "project",
}


def add_completions(command: click.Command) -> None:
    """Make the parameters of *command* complete sessions, projects and so on."""
    for parameter in command.params:
        kind = _kind_of(parameter)
        if kind is not None:
            setattr(parameter, "shell_complete", _completer(kind))  # noqa: B010 - This one only.


def _kind_of(parameter: click.Parameter) -> str | None:
    """Return what a parameter is, if that can be listed."""
    if isinstance(parameter, click.Argument):
        metavar = parameter.metavar or ""
        if "SESSION" in metavar:
            return "session"
        if "FILTER" in metavar:
            return "filter"
        return "model" if parameter.name == "model" else None
    names = (*parameter.opts, *parameter.secondary_opts)
    return next((_OPTIONS[name] for name in names if name in _OPTIONS), None)


def _completer(kind: str) -> Callable[[click.Context, str], list[CompletionItem]]:
    def complete(context: click.Context, typed: str) -> list[CompletionItem]:
        homes = context.params.get("homes") or ()
        with suppress(TurnlogError, OSError, sqlite3.Error):
            if kind == "filter":
                return _filters(context.command.name or "", typed, homes)
            return _items(kind, typed, homes)
        return []

    return complete


def _filters(resource: str, typed: str, homes: Sequence[str]) -> list[CompletionItem]:
    """Return the fields of a resource, or after a field and an operator its values."""
    from turnlog.api.query import comparable, resource_named

    fields = comparable(resource_named(resource))
    name, operator, value = re.fullmatch(r"([\w.]*)(!?=|)(.*)", typed, re.DOTALL).groups()  # type: ignore[union-attr]
    if not operator:
        return [
            CompletionItem(f"{field}=", help=about.about)
            for field, about in fields.items()
            if field.startswith(typed)
        ]
    kind = _FIELDS.get(name)
    values = _items(kind, value, homes) if kind else []
    if name in fields:
        values += [CompletionItem(each) for each in fields[name].values if each.startswith(value)]
    return [
        CompletionItem(f"{name}{operator}{item.value}", help=item.help)
        for item in values
        if item.type == "plain"
    ]


def _items(kind: str, typed: str, homes: Sequence[str]) -> list[CompletionItem]:
    places = all_homes(homes)
    values = select_names(places, kind)
    if kind == "session":
        known = _by_log_name(places) if values is None else values
        values = [*known, ("latest", "the most recently active")]
    values = values or []
    if kind == "project" and typed and typed == os.path.basename(typed):
        values += [(last_part(path), path) for path, _ in values]
    start = os.path.expanduser(typed) if kind == "project" else typed
    matches = [value for value in values if value[0] and value[0].startswith(start)]
    items = [
        CompletionItem(value, help=inert(about or "")[:60])
        for value, about in dict.fromkeys(matches)
        if value == inert(value)
    ]
    if kind == "project":  # Any other directory is valid too; bash drops items before this one.
        items.insert(0, CompletionItem(typed, type="dir"))
    return items[:_MOST]


def _by_log_name(homes: Sequence[Home]) -> list[tuple[str, str | None]]:
    logs = all_logs(homes)
    return [(log.session_id, None) for log in logs if log.kind == "session" and log.session_id]
