"""Lines on disk: read, written, followed, checked and mended. Knows bytes, not meaning.

All is told under the logger ``turnlog.log``: openings and closings at INFO, appends at DEBUG,
damage, torn tails and replaced logs at WARNING.
"""

from __future__ import annotations

import logging

# A library does not talk unless it is asked to.
logging.getLogger("turnlog").addHandler(logging.NullHandler())
