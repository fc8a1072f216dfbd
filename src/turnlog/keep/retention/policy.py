"""The retention policy: the ``[retention]`` table of config.toml.

    [retention]
    enabled = true                # off by default
    days = 30                     # days without a record until a session is moved to the trash
    grace_days = 30               # minimum days in the trash
    archive_first = false         # delete only what has a verified kept copy
    with_kept = false             # delete turnlog's kept copies too

    [retention.projects."~/src/orchard"]
    days = 90                     # or never = true

The innermost directory that contains a session's project decides. If a setting is unreadable,
ambiguous, zero or negative, nothing is deleted at all instead of using a default: a day too many
costs some space, a day too few costs a session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import PurePath
from typing import Any, Final

from msgspec import Struct

from turnlog.config import SettingProblem, load_config
from turnlog.formats.projects import is_within

DAYS: Final = 30
MOST_DAYS: Final = 100_000
_SWITCHES: Final = ("enabled", "archive_first", "with_kept")
_COUNTS: Final = ("days", "grace_days")
_SHOWN: Final = 40


class ProjectRule(Struct, frozen=True, kw_only=True):
    """The rule for sessions in a directory or below it."""

    directory: str
    days: int | None
    """None: they never expire."""


class Policy(Struct, frozen=True, kw_only=True):
    """How long sessions are kept."""

    enabled: bool = False
    days: int = DAYS
    grace_days: int = DAYS
    archive_first: bool = False
    with_kept: bool = False
    projects: tuple[ProjectRule, ...] = ()

    def rule_of(self, project: str | None) -> ProjectRule | None:
        """Return the rule of the innermost directory that contains *project*, or None."""
        within = [rule for rule in self.projects if is_within(project, rule.directory)]
        return max(within, key=lambda rule: len(PurePath(rule.directory).parts), default=None)

    def days_of(self, project: str | None) -> int | None:
        """Return how many days a session of *project* may be without a record, or None."""
        rule = self.rule_of(project)
        return self.days if rule is None else rule.days


def policy_from(settings: Mapping[str, Any]) -> tuple[Policy, tuple[SettingProblem, ...]]:
    """Parse the plain ``[retention]`` table of config.toml."""
    values: dict[str, Any] = {}
    problems: list[SettingProblem] = []
    for name, value in settings.items():
        is_switch = name in _SWITCHES and isinstance(value, bool)
        if is_switch or (name in _COUNTS and is_days(value)):
            values[name] = value
        elif name == "projects" and isinstance(value, Mapping):
            values[name] = tuple(_rules(value, problems))
        else:
            problems.append(SettingProblem(f"retention.{name}", _fault(name, value)))
    if values.get("archive_first") and values.get("with_kept"):
        why = "a copy cannot be kept first and deleted with the rest"
        problems.append(SettingProblem("retention.with_kept", why))
    return Policy(**values), tuple(problems)


def load_policy(own: str | os.PathLike[str]) -> tuple[Policy, tuple[SettingProblem, ...]]:
    """Return the policy in config.toml of turnlog's home at *own*.

    Every problem of the file counts: an unknown setting may be a misspelled one of these.
    """
    config = load_config(own)
    policy, problems = policy_from(config.retention)
    return policy, (*config.problems, *problems)


def load_grace(own: str | os.PathLike[str]) -> timedelta:
    """Return how long deleted files stay in the trash; the default if unreadable."""
    policy, problems = load_policy(own)
    return timedelta(days=max(DAYS, policy.grace_days) if problems else policy.grace_days)


def is_days(value: object) -> bool:
    """Return whether *value* is a valid number of days."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return is_whole and 1 <= value <= MOST_DAYS  # type: ignore[operator]


def _rules(rules: Mapping[str, Any], problems: list[SettingProblem]) -> Iterator[ProjectRule]:
    seen: set[str] = set()
    for name, rule in rules.items():
        where = f'retention.projects."{name}"'
        directory = os.path.normpath(os.path.expanduser(name))
        if not os.path.isabs(directory):
            problems.append(SettingProblem(where, "the whole path of a directory is expected"))
        elif directory in seen:
            problems.append(SettingProblem(where, "this directory is there twice"))
        else:
            seen.add(directory)
            days = _rule(rule)
            if isinstance(days, str):
                problems.append(SettingProblem(where, days))
            else:
                yield ProjectRule(directory=directory, days=days)


def _rule(rule: Any) -> int | str | None:
    """Parse one project's rule: days, None for never, or what is wrong with it."""
    if not isinstance(rule, Mapping):
        return f"{_shown(rule)} is not a table with days or never"
    for name, value in rule.items():
        if name == "never" and isinstance(value, bool):
            continue
        if name != "days" or not is_days(value):
            return f"{name}: {_fault(name, value)}"
    days: int | None = rule.get("days")
    if rule.get("never", False) is (days is None):
        return days
    return "it says both days and never" if days is not None else "it says neither days nor never"


def _fault(name: str, value: Any) -> str:
    if name in _COUNTS:
        return f"{_shown(value)} is not a whole number of days from 1 to {MOST_DAYS:,}"
    if name in (*_SWITCHES, "never"):
        return f"{_shown(value)} is neither true nor false"
    return "a table of directories is expected" if name == "projects" else "no such setting"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
