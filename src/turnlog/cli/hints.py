"""What to type instead, for errors that others than the command line also meet."""

from __future__ import annotations

from typing import Final

HINTS: Final = {
    "index-needed": "leave out --no-index",
    "invalid-regex": "it is a Python regular expression; leave out --regex to search for words",
    "invalid-statement": "turnlog sql --schema shows the views",
    "period-reversed": "--since is before --until",
    "period-without-start": "say a period with --last 7d or --since 2026-10-01 --until 2026-11-01",
    "several-time-units": "name one of them in --by",
    "statement-too-slow": (
        "ask for less, as in WHERE at >= '2026-11-01', or allow more with --seconds"
    ),
    "trend-too-long": "say a period with --since or --last",
    "unknown-signature": "turnlog errors shows the signatures there are",
}
"""By the code of the error."""
