"""Install automatic runs of ``turnlog keep``: at the end of every session, and every hour.

A hook of Claude Code keeps a session the moment it ends; the hourly run keeps sessions whose
program was killed, and whatever else changed. This module plans both as steps that can be shown
first; ``formats.claude_code.hooks`` and ``schedulers`` implement them. Nothing is done before
``carry_out``, and installing twice finds nothing to do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from turnlog.errors import UsageError
from turnlog.formats import Home, find_homes
from turnlog.formats.claude_code.hooks import FILE_NAME, hook_command, hook_step, unhook_step
from turnlog.formats.settings_changes import Step, carry_out
from turnlog.keep.schedule.schedulers import all_schedules, available_schedule, check_text

__all__ = ["Step", "carry_out", "install_steps", "passing_place", "program", "uninstall_steps"]

# The variables that decide where turnlog's home and the agents' homes are.
_OWN_PLACE: Final = ("TURNLOG_HOME", "XDG_DATA_HOME")
_HOMES_PLACE: Final = ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME")


def install_steps(
    named: Sequence[str | os.PathLike[str]] = (), environ: Mapping[str, str] = os.environ
) -> list[Step]:
    """Return the steps to keep the homes *named*, else the usual ones."""
    words = program()
    homes = find_homes(named, environ)
    own = _carried(environ, _OWN_PLACE)
    command = [*words, "keep", "--quiet"]
    for home in homes if named else ():
        command += ["--home", str(home.path)]
    around = own if named else own | _carried(environ, _HOMES_PLACE)
    check_text((*command, *own.values(), *around.values(), *(str(home.path) for home in homes)))
    steps = [hook_step(home, hook_command(words, own)) for home in _with_hooks(homes)]
    return [*steps, _schedule_step(command, around)]


def uninstall_steps(
    named: Sequence[str | os.PathLike[str]] = (), environ: Mapping[str, str] = os.environ
) -> list[Step]:
    """Return the steps that remove what was installed."""
    steps = [unhook_step(home) for home in _with_hooks(find_homes(named, environ))]
    steps += [each.uninstall() for each in all_schedules()]
    return [step for step in steps if step.state != "missing"]


def program() -> list[str]:
    """Return the command line that starts this very turnlog, from any directory."""
    called = sys.argv[0] if sys.argv else ""
    candidates = [os.path.abspath(called)] if os.sep in called else []
    # Not resolved: a link such as ~/.local/bin/turnlog outlives its target.
    candidates.append(os.path.join(os.path.dirname(sys.executable), "turnlog"))
    for path in candidates:
        if os.path.basename(path) == "turnlog" and os.access(path, os.X_OK | os.R_OK):
            return [path]
    return [sys.executable, "-m", "turnlog.cli"]


def passing_place(words: Sequence[str]) -> str:
    """Return the cache from which *words* start turnlog; "" if it is installed permanently."""
    import platformdirs  # noqa: PLC0415 - Nobody else here needs it.

    cache = os.path.dirname(platformdirs.user_cache_dir("turnlog", appauthor=False))
    return cache if words[0].startswith(cache + os.sep) else ""


def _schedule_step(command: Sequence[str], environ: Mapping[str, str]) -> Step:
    schedule = available_schedule()
    if schedule is None:
        return Step(
            kind="none",
            place="a timer",
            state="refused",
            reason="neither systemd's user timers nor cron work here",
            hint="run turnlog keep in your own way, or turnlog keep --watch",
        )
    try:
        return schedule.install(command, environ)
    except UsageError as error:
        return Step(
            kind=schedule.kind,
            place="a timer",
            state="refused",
            reason=error.message,
            hint=error.hint,
        )


def _with_hooks(homes: Sequence[Home]) -> list[Home]:
    """Return the homes that are Claude Code's; other programs have no hooks."""
    return [
        home
        for home in homes
        if os.path.isdir(home)
        and (
            home.path.name == ".claude"
            or os.path.isdir(home.path / "projects")
            or os.path.lexists(home.path / FILE_NAME)
        )
    ]


def _carried(environ: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the set variables of *names*, valid in any directory."""
    found = {name: environ.get(name, "") for name in names}
    return {name: _anywhere(name, value) for name, value in found.items() if value.strip()}


def _anywhere(name: str, value: str) -> str:
    if value.startswith("~"):
        return value
    if name == "CLAUDE_CONFIG_DIR" and "," in value and not os.path.isdir(value):
        return ",".join(_anywhere("", part.strip()) for part in value.split(",") if part.strip())
    return os.path.abspath(value)
