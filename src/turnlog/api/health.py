"""Health: whether logs can be read whole, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence

from turnlog.config import load_config
from turnlog.formats import Home, Problem, find_everywhere, turnlog_home
from turnlog.health.logs import Health, examine
from turnlog.sessions.owners import find_any_session
from turnlog.storage.logger import warn_of_settings
from turnlog.storage.sources import LINE_CAP

__all__ = ["Health", "check"]


def check(homes: Sequence[Home], text: str | None = None, *, strict: bool = False) -> Health:
    """Check all logs of *homes*, or those of one session; change nothing."""
    problems: list[Problem] = []
    if text is None:
        logs = list(find_everywhere(homes, problems=problems))
    else:
        logs = list(find_any_session(tuple(homes), text, problems=problems))
    config = load_config(turnlog_home())
    warn_of_settings(config.problems)
    cap = config.line_cap_bytes or LINE_CAP
    return examine(logs, problems=problems, strict=strict, cap=cap)
