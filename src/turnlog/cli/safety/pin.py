"""``turnlog pin``: never let a session expire."""

from __future__ import annotations

import click

from turnlog.cli.options import home_option, json_option


@click.command(
    name="pin",
    epilog="""\b
Examples:
  turnlog pin latest
  turnlog pin 5f0c --off""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
@click.option("--off", is_flag=True, help="Take the pin off again.")
def command(name: str, homes: tuple[str, ...], *, as_json: bool, off: bool) -> int:
    """Pin a session: turnlog never lets it expire. Its own log is not touched.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.cli.labels import label, show

    _, document = label(name, homes, pinned=not off)
    words = "is pinned" if document.pinned else "is no longer pinned"
    return show(document, words, as_json=as_json)
