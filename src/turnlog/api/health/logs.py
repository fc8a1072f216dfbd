"""Check logs for damage."""

from __future__ import annotations

from collections.abc import Sequence

from turnlog.api.arguments import line_cap
from turnlog.api.homes import Home, Problem, all_logs
from turnlog.health.logs import LESS_THAN_KEPT, Health, HealthTotals, LocatedFinding, examine
from turnlog.sessions.owners import find_any_session

__all__ = ["LESS_THAN_KEPT", "Health", "HealthTotals", "LocatedFinding", "check", "examine"]


def check(homes: Sequence[Home], name: str | None = None, *, strict: bool = False) -> Health:
    """Check all logs of *homes*, or those of one session; change nothing."""
    problems: list[Problem] = []
    if name is None:
        logs = all_logs(homes, problems)
    else:
        logs = list(find_any_session(homes, name, problems=problems))
    whole = homes if name is None else None
    return examine(logs, homes=whole, problems=problems, strict=strict, cap=line_cap())
