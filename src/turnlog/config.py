"""Settings from ``config.toml`` in turnlog's home.

    line_cap_mb = 64            # a longer line is reported as damage

    [prices."my-model"]         # see turnlog prices --help
    input = 3.00
    output = 15.00

    [budgets]                   # dollars; see turnlog cost --help
    monthly = 300

    [cost]
    week_starts = "sunday"      # for reports by week; monday unless set

    [retention]                 # off unless enabled; see turnlog prune --help
    enabled = true
    days = 90

    [redact]                    # in addition to the built-in rules; see turnlog secrets --help
    patterns = ["ORCH-[0-9]{8}"]
    allow = ["not-a-secret-1"]

    [mcp]                       # what agents may query; see turnlog mcp --help
    scope = "all"

An invalid setting is reported and its default applies. A missing file is fine; one that is not
valid TOML is reported, and all defaults apply.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

FILE_NAME = "config.toml"
LARGEST_BYTES = 1024 * 1024
_LARGEST_CAP_MB = 4096
_TABLES = {
    "prices": "models",
    "budgets": "periods",
    "cost": "settings",
    "retention": "settings",
    "redact": "patterns and values",
    "mcp": "settings",
}


class SettingProblem(Struct, frozen=True):
    """An invalid setting, and why."""

    where: str
    reason: str


class Config(Struct, frozen=True):
    """The settings in effect."""

    path: Path | None = None
    line_cap_bytes: int | None = None
    """None: the default."""
    prices: Mapping[str, Any] = field(default_factory=dict)
    """The plain table, parsed by ``pricing.overrides``."""
    budgets: Mapping[str, Any] = field(default_factory=dict)
    """The plain table, parsed by ``costs.budgets``."""
    cost: Mapping[str, Any] = field(default_factory=dict)
    """The plain table, parsed by ``costs.ledger``."""
    retention: Mapping[str, Any] = field(default_factory=dict)
    """The plain table, parsed by ``keep.retention.policy``."""
    redact: Mapping[str, Any] = field(default_factory=dict)
    """The plain table, parsed by ``redact.user_rules``."""
    mcp: Mapping[str, Any] = field(default_factory=dict)
    """The plain table, parsed by ``mcp.context``."""
    problems: tuple[SettingProblem, ...] = ()


def problem_message(problem: SettingProblem, directory: str | os.PathLike[str]) -> str:
    """Return a message about an invalid setting in *directory*'s config.toml, or about the file."""
    where = "" if problem.where == FILE_NAME else f"{problem.where}: "
    return f"{os.path.join(directory, FILE_NAME)}: {where}{problem.reason}"


def load_config(directory: str | os.PathLike[str]) -> Config:
    """Read the settings in *directory*, turnlog's home."""
    path = Path(directory) / FILE_NAME
    try:
        # A FIFO or a huge file must not block a program that only reads a setting.
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise ValueError("not a regular file")
            data = file.read(LARGEST_BYTES + 1)
        if len(data) > LARGEST_BYTES:
            raise ValueError(f"larger than {LARGEST_BYTES:,} bytes")
        import tomllib  # noqa: PLC0415 - Most have no settings, and it takes its time.

        settings = tomllib.loads(data.decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return Config(path)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return Config(path, problems=(SettingProblem(FILE_NAME, why),))
    except (ValueError, RecursionError) as error:
        return Config(path, problems=(SettingProblem(FILE_NAME, str(error)),))
    return _config(path, settings)


def _config(path: Path, settings: Mapping[str, Any]) -> Config:
    problems: list[SettingProblem] = []
    cap: int | None = None
    tables: dict[str, Mapping[str, Any]] = {}
    for name, value in settings.items():
        if name == "line_cap_mb":
            if _is_count(value) and 1 <= value <= _LARGEST_CAP_MB:
                cap = value * 1024 * 1024
            else:
                reason = f"{value!r} is not a number of megabytes from 1 to {_LARGEST_CAP_MB}"
                problems.append(SettingProblem(name, reason))
        elif name in _TABLES:
            if isinstance(value, dict):
                tables[name] = value
            else:
                problems.append(SettingProblem(name, f"a table of {_TABLES[name]} is expected"))
        else:
            problems.append(SettingProblem(name, "no such setting"))
    return Config(path, cap, **tables, problems=tuple(problems))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
