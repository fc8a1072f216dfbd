"""The figures of the status line.

``python -m turnlog.api.statusline SESSION [HOME]...`` updates them. The status line starts it in
the background; SESSION may be empty.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from turnlog.api.homes import all_homes, turnlog_home
from turnlog.costs.statusline import update_figures
from turnlog.pricing.cost import configured_prices

_BACKGROUND_NICENESS = 10


def update_statusline(homes: Sequence[str], session: str) -> None:
    """Update the figures of *homes*, and of *session* unless it is empty."""
    prices, _ = configured_prices(turnlog_home())
    update_figures(all_homes(tuple(homes)), prices, session=session or None)


if __name__ == "__main__":
    with suppress(AttributeError, OSError):
        os.setsid()
    with suppress(AttributeError, OSError):
        os.nice(_BACKGROUND_NICENESS)
    update_statusline(sys.argv[2:], sys.argv[1])
