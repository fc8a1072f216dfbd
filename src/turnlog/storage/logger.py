"""The logger of this room, imported by those modules that have something to tell.

All is told under ``turnlog.storage``: openings and closings at INFO, appends at DEBUG, damage, torn
tails and replaced logs at WARNING.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from turnlog.config import SettingProblem
from turnlog.text import inert

# A library does not talk unless it is asked to.
logging.getLogger("turnlog").addHandler(logging.NullHandler())

logger = logging.getLogger("turnlog.storage")


def warn_of_settings(problems: Iterable[SettingProblem]) -> None:
    """Log the settings of config.toml that cannot be read; they have no effect."""
    for problem in problems:
        logger.warning("config.toml: %s", inert(f"{problem.where}: {problem.reason}"))
