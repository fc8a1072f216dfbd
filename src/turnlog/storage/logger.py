"""The ``turnlog.storage`` logger.

Opening and closing are logged at INFO, appends at DEBUG; damage, torn tails and replaced logs at
WARNING.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from turnlog.config import SettingProblem
from turnlog.text import inert

# A library logs nothing unless the application configures logging.
logging.getLogger("turnlog").addHandler(logging.NullHandler())

logger = logging.getLogger("turnlog.storage")


def warn_of_settings(problems: Iterable[SettingProblem]) -> None:
    """Log the invalid settings of config.toml, which have no effect."""
    for problem in problems:
        logger.warning("config.toml: %s", inert(f"{problem.where}: {problem.reason}"))
