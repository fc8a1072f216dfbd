"""``turnlog tag``: put a session under a word."""

from __future__ import annotations

import click

from turnlog.cli.options import home_option, json_option


@click.command(
    name="tag",
    epilog="""\b
Examples:
  turnlog tag latest billing
  turnlog tag 5f0c ""          take the tag off""",
)
@click.argument("name", metavar="SESSION")
@click.argument("word", metavar="TAG")
@home_option
@json_option
def command(name: str, word: str, homes: tuple[str, ...], *, as_json: bool) -> int:
    """Give a session a tag, in place of any it had. It is appended to its log.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.cli.labels import label, show
    from turnlog.cli.terminal.console import safe

    _, document = label(name, homes, tag=word.strip())
    words = f"is tagged {safe(document.tag)}" if document.tag else "has no tag now"
    return show(document, words, as_json=as_json)
