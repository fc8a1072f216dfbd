"""``turnlog unarchive``: bring archived sessions back."""

from __future__ import annotations

import click
from msgspec import Struct

from turnlog.cli.options import home_option, json_option, show_json
from turnlog.keep.archive.archive import Unarchived
from turnlog.keep.restore.restore import Refused


class UnarchiveDocument(Struct, kw_only=True):
    """What `turnlog unarchive --json` prints."""

    sessions: list[Unarchived]
    refused: list[Refused]
    """Those that were not brought back, and why."""
    next: None = None


@click.command(
    name="unarchive",
    epilog="""\b
Examples:
  turnlog unarchive 5f0c
  turnlog sessions --archived           what is archived
Exit code: 0 done, 1 a session was refused, 2 a mistake, 3 a failure.""",
)
@click.argument("names", metavar="SESSION…", nargs=-1, required=True)
@home_option
@json_option
def command(names: tuple[str, ...], homes: tuple[str, ...], *, as_json: bool) -> int:
    """Bring archived sessions back: the same bytes, where they were, and in lists again.

    What is missing is put back and compared before an archive goes away; copies in turnlog's own
    home stay. Nothing is overwritten.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.cli.views.archive import each_session, show_unarchived

    done, refused = each_session(names, homes, lambda each: each.unarchive())
    if as_json:
        show_json(UnarchiveDocument(sessions=done, refused=refused))
    else:
        show_unarchived(done, refused)
    return 1 if refused else 0
