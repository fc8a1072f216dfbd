"""``turnlog archive``: put finished sessions away, compressed and proved."""

from __future__ import annotations

import click
from msgspec import Struct

from turnlog.cli.options import home_option, json_option, show_json
from turnlog.keep.archive.archive import Archived
from turnlog.keep.restore.restore import Refused


class ArchiveDocument(Struct, kw_only=True):
    """What `turnlog archive --json` prints."""

    sessions: list[Archived]
    refused: list[Refused]
    """Those that were not archived, and why."""
    next: None = None


@click.command(
    name="archive",
    epilog="""\b
Examples:
  turnlog archive 5f0c                  compress it, and leave it out of lists
  turnlog archive 5f0c 8e2a --remove    and make room, once every byte is proved
  turnlog sessions --archived           what is archived
  turnlog unarchive 5f0c                bring it back
Exit code: 0 done, 1 a session was refused, 2 a mistake, 3 a failure.""",
)
@click.argument("names", metavar="SESSION…", nargs=-1, required=True)
@home_option
@json_option
@click.option(
    "--remove",
    is_flag=True,
    help="Remove the originals once the archive has been read back and compared. "
    "In a flat store that is always done.",
)
def command(names: tuple[str, ...], homes: tuple[str, ...], *, as_json: bool, remove: bool) -> int:
    """Archive sessions: compressed with all that belongs to them, and left out of plain lists.

    Everything else still sees them: show, search, cost, fork. Resuming one brings it back. Without
    --remove the originals stay where they are. A session that is running is refused.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.cli.views.archive import each_session, show_archived

    done, refused = each_session(names, homes, lambda each: each.archive(remove=remove or None))
    if as_json:
        show_json(ArchiveDocument(sessions=done, refused=refused))
    else:
        show_archived(done, refused)
    return 1 if refused else 0
