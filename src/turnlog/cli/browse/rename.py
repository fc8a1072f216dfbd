"""``turnlog rename``: call a session by a better name."""

from __future__ import annotations

import click

from turnlog.cli.options import home_option, json_option


@click.command(
    name="rename",
    epilog="""\b
Examples:
  turnlog rename latest "The flaky retry"
  turnlog rename 5f0c ""                      back to what it was called before""",
)
@click.argument("name", metavar="SESSION")
@click.argument("title")
@home_option
@json_option
def command(name: str, title: str, homes: tuple[str, ...], *, as_json: bool) -> int:
    """Give a session a title. It is appended to its log, as Claude Code's own /rename does.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.cli.labels import label, show
    from turnlog.cli.terminal.console import safe

    _, document = label(name, homes, title=title.strip())
    return show(document, f"is called {safe(document.title or 'untitled')}", as_json=as_json)
