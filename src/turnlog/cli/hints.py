"""Hints that name options and commands, for errors raised below the command line."""

from __future__ import annotations

from typing import Final

from turnlog.errors import TurnlogError

HINTS: Final = {
    "archived-otherwise": "turnlog restore {} unpacks it; then archive it",
    "archive-moved": "restore it without --for, restore it again to unpack it, then move it",
    "broken-copy": "turnlog verify shows what is damaged; turnlog restore restores the rest",
    "damaged-copy": "turnlog verify shows what is damaged; turnlog show reads what is left",
    "file-differs": "nothing was written; --to HOME restores it elsewhere, --force renames a log"
    " that holds less than was kept",
    "file-exists": "--force replaces it",
    "index-broken": "rebuild it with: turnlog refresh --rebuild",
    "index-broken-again": "the disk may be failing; turnlog check and turnlog cost work without"
    " the index",
    "index-too-new": "update turnlog, or rebuild the index with: turnlog refresh --rebuild",
    "index-unreadable": "rebuild it with: turnlog refresh --rebuild",
    "invalid-regex": "use Python's syntax, or leave out --regex to search for words",
    "invalid-statement": "turnlog sql --schema shows the views",
    "journal-damaged": "nothing is deleted; repair it: turnlog repair {} --yes",
    "no-home": "there is no {}; name the directory that holds sessions with --home",
    "no-log": "check the path, or run: turnlog check",
    "no-sessions": "name another home with --home",
    "no-such-part": "turnlog restore --session {} shows them",
    "no-such-plan": "turnlog plans lists them",
    "no-such-plan-version": "turnlog plans NAME lists them",
    "no-such-record": "turnlog show SESSION --json prints the uuid of every record",
    "no-such-session": "turnlog sessions and turnlog restore list them; --home looks elsewhere"
    " than in {}",
    "not-kept": "turnlog restore lists what can be restored",
    "nothing-to-delete": "turnlog sessions lists them",
    "only-subagents": "turnlog show {} shows what they did",
    "period-reversed": "--since must be before --until",
    "period-without-start": "give a period: --since 7d, or --since 2026-10-01 --until 2026-11-01",
    "session-archived": "turnlog restore {} unpacks it; --to HOME restores what is kept",
    "session-gone": "put it back first: turnlog restore {}",
    "session-packed": "bring it back first: turnlog restore {}",
    "several-projects": "choose one project with --project DIR",
    "several-time-units": "keep one of them in --by",
    "shared-log": "turnlog convert makes a session of its own of it",
    "statement-too-slow": "narrow it, as in WHERE at >= '2026-11-01', or raise --timeout",
    "time-not-compared": "filter by time with --since and --until",
    "trash-empty": "turnlog trash lists deleted sessions",
    "trend-too-long": "give a period with --since",
    "unarchivable": "turnlog keep makes a copy and leaves the log as it is",
    "unknown-signature": "turnlog errors lists the signatures",
    "unsafe-recovery": "nothing was written; turnlog info {} lists its branches",
}
"""By the code of the error; {} is replaced by the value or the path that the error is about."""


def hint_of(error: TurnlogError) -> str:
    """Return what to type, or the error's own hint."""
    template = HINTS.get(error.code)
    if template is None:
        return error.hint
    return template.format(error.about or getattr(error, "path", ""))
