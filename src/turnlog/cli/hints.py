"""Hints that name options and commands, for errors raised below the command line."""

from __future__ import annotations

from typing import Final

from turnlog.errors import TurnlogError

HINTS: Final = {
    "archive-moved": "restore it without --project, unarchive it, then move it",
    "broken-copy": "turnlog verify shows what is damaged; --partial restores the rest",
    "file-differs": "nothing was written; --to DIR restores it elsewhere, --replace renames a log"
    " that holds less than was kept",
    "file-exists": "--force replaces it",
    "index-needed": "leave out --no-index",
    "invalid-regex": "use Python's syntax, or leave out --regex to search for words",
    "invalid-statement": "turnlog sql --schema shows the views",
    "no-home": "there is no {}; name the directory that holds sessions with --home",
    "no-sessions": "name another home with --home",
    "no-such-plan": "turnlog plans lists them",
    "no-such-plan-version": "turnlog plans NAME lists them",
    "no-such-session": "turnlog sessions lists them; --home looks elsewhere than in {}",
    "period-reversed": "--since must be before --until",
    "period-without-start": "give a period: --last 7d or --since 2026-10-01 --until 2026-11-01",
    "session-archived": "turnlog unarchive {} puts it back; --to DIR restores what is kept",
    "several-projects": "choose one project with --from DIR",
    "several-time-units": "keep one of them in --by",
    "statement-too-slow": "narrow it, as in WHERE at >= '2026-11-01', or raise --seconds",
    "trash-empty": "turnlog trash lists deleted sessions",
    "trend-too-long": "give a period with --since or --last",
    "unknown-signature": "turnlog errors lists the signatures",
}
"""By the code of the error; {} is replaced by the value that the error is about."""


def hint_of(error: TurnlogError) -> str:
    """Return what to type, or the error's own hint."""
    template = HINTS.get(error.code)
    return error.hint if template is None else template.format(error.about)
