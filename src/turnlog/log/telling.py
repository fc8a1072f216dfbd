"""The logger of this room, imported by those modules that have something to tell.

All is told under ``turnlog.log``: openings and closings at INFO, appends at DEBUG, damage, torn
tails and replaced logs at WARNING.
"""

from __future__ import annotations

import logging

# A library does not talk unless it is asked to.
logging.getLogger("turnlog").addHandler(logging.NullHandler())

logger = logging.getLogger("turnlog.log")
