"""Run ``turnlog keep`` automatically: at the end of every session, and every hour.

A hook of the agent keeps a session the moment it ends. The hourly run, by a systemd user timer, a
launchd agent or a cron line, keeps sessions whose program was killed, and whatever else changed.
Both are planned as steps that can be shown first. Nothing is done before ``carry_out``, installing
twice finds nothing to do, and only turnlog's own hook, unit, agent or line is changed. The
environment that the command needs is stored with it: no scheduler inherits that of the user's
shell.
"""

from __future__ import annotations

import difflib
import os
import plistlib
import re
import shlex
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from turnlog.errors import UsageError
from turnlog.formats import FORMATS, find_homes
from turnlog.formats.home_paths import HOME_VARIABLES
from turnlog.formats.settings_changes import (
    Deed,
    Kind,
    Remove,
    Run,
    State,
    Step,
    Write,
    content,
    ran,
)
from turnlog.storage.atomic_files import Unreadable

# The variables that decide where turnlog's home and the agents' homes are.
_OWN_PLACE: Final = ("TURNLOG_HOME", "XDG_DATA_HOME")
_HOMES_PLACE: Final = (*HOME_VARIABLES, "XDG_CONFIG_HOME")


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
    hooks = (each.hook_step(home, words, own) for home in homes for each in FORMATS)
    return [*(step for step in hooks if step is not None), _schedule_step(command, around)]


def uninstall_steps(
    named: Sequence[str | os.PathLike[str]] = (), environ: Mapping[str, str] = os.environ
) -> list[Step]:
    """Return the steps that remove what was installed."""
    homes = find_homes(named, environ)
    hooks = (each.unhook_step(home) for home in homes for each in FORMATS)
    steps = [*hooks, *(each.uninstall() for each in all_schedules())]
    return [step for step in steps if step is not None and step.state != "missing"]


def status_line_steps(
    named: Sequence[str | os.PathLike[str]] = (), environ: Mapping[str, str] = os.environ
) -> list[Step]:
    """Return the steps to show the status line in the homes *named*, else in the usual ones."""
    homes, own = find_homes(named, environ), _carried(environ, _OWN_PLACE)
    check_text((*own.values(), *(str(home.path) for home in homes)))
    steps = (each.status_line_step(home, program(), own) for home in homes for each in FORMATS)
    return [step for step in steps if step is not None]


def remove_status_line_steps(
    named: Sequence[str | os.PathLike[str]] = (), environ: Mapping[str, str] = os.environ
) -> list[Step]:
    """Return the steps that remove the status line."""
    homes = find_homes(named, environ)
    steps = (each.remove_status_line_step(home) for home in homes for each in FORMATS)
    return [step for step in steps if step is not None and step.state != "missing"]


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


def _carried(environ: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the set variables of *names*, valid in any directory."""
    found = {name: environ.get(name, "") for name in names}
    return {name: _anywhere(name, value) for name, value in found.items() if value.strip()}


def _anywhere(name: str, value: str) -> str:
    if value.startswith("~"):
        return value
    if name in HOME_VARIABLES and "," in value and not os.path.isdir(value):
        return ",".join(_anywhere("", part.strip()) for part in value.split(",") if part.strip())
    return os.path.abspath(value)


_UNIT: Final = "turnlog-keep"
_LABEL: Final = "turnlog.keep"
_MARK: Final = "# turnlog keep"
_EVERY_SECONDS: Final = 3600
# Controls, surrogates (a name that is not UTF-8), line and paragraph separators.
_NOT_IN_LINES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})

# systemd rejects programs with one of these in their path; a shell accepts them.
_ODD_IN_A_PROGRAM: Final = frozenset("\"'\\$")


class Schedule(Protocol):
    """One way to run a command every hour."""

    @property
    def kind(self) -> Kind: ...
    def is_usable(self) -> bool: ...
    def is_installed(self) -> bool: ...
    def install(self, words: Sequence[str], environ: Mapping[str, str]) -> Step: ...
    def uninstall(self) -> Step: ...


def check_text(words: Iterable[str]) -> None:
    """Raise UsageError if a word has a line break, or anything else that is not plain text.

    It would begin another line of a crontab or a unit.
    """
    for word in words:
        if any(unicodedata.category(each) in _NOT_IN_LINES for each in word):
            raise UsageError(
                f"{word!r} has characters that a command line in settings cannot have",
                hint="give the directory another name, or reach it by a link that has one",
            )


def all_schedules() -> tuple[Schedule, ...]:
    """Return the schedulers that this system may have, the better ones first."""
    if sys.platform == "darwin":
        return (Launchd(), Cron())
    return (Systemd(), Cron())


def available_schedule() -> Schedule | None:
    """Return the scheduler to use: the installed one, else the first that works here."""
    usable = [each for each in all_schedules() if each.is_usable()]
    return next((each for each in usable if each.is_installed()), usable[0] if usable else None)


class Systemd:
    """A timer of the user's own systemd; runs missed while the machine was off are made up."""

    kind: Final = "systemd"

    def __init__(self) -> None:
        setting = os.environ.get("XDG_CONFIG_HOME", "")
        config = setting if os.path.isabs(setting) else os.path.expanduser("~/.config")
        self._directory = Path(config, "systemd", "user")
        self._timer = self._directory / f"{_UNIT}.timer"
        self._service = self._directory / f"{_UNIT}.service"

    def is_usable(self) -> bool:
        if shutil.which("systemctl") is None:
            return False
        done = ran(("systemctl", "--user", "show-environment"))
        return done is not None and done.returncode == 0

    def is_installed(self) -> bool:
        return any(map(os.path.lexists, (self._timer, self._service)))

    def install(self, words: Sequence[str], environ: Mapping[str, str]) -> Step:
        wanted = {self._service: service_unit(words, environ), self._timer: timer_unit()}
        state, deeds = _writes(wanted)
        if state == "installed" and not self._is_enabled():
            state = "missing"
        if state != "installed":
            deeds.append(Run(words=("systemctl", "--user", "daemon-reload")))
            start = ("systemctl", "--user", "enable", "--now", self._timer.name)
            deeds.append(Run(words=start))
        if state == "outdated":  # A running timer keeps its old times.
            deeds.append(Run(words=("systemctl", "--user", "restart", self._timer.name)))
        return _step(self.kind, self._timer, state, words, deeds)

    def uninstall(self) -> Step:
        deeds: list[Deed] = []
        if self.is_installed():
            stop = ("systemctl", "--user", "disable", "--now", self._timer.name)
            deeds.append(Run(words=stop, may_fail=True))
        state = _removes(deeds, (self._timer, self._service))
        if deeds:
            reload = ("systemctl", "--user", "daemon-reload")
            deeds.append(Run(words=reload, may_fail=True))
        return _step(self.kind, self._timer, state, (), deeds)

    def _is_enabled(self) -> bool:
        done = ran(("systemctl", "--user", "is-enabled", self._timer.name))
        return done is not None and done.returncode == 0


def service_unit(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the unit that runs *words* once; a missing program is ignored silently."""
    check_text((*words, *environ.values()))
    carried = "".join(
        f"Environment={_unit_word(f'{name}={value}')}\n" for name, value in environ.items()
    )
    return (
        "[Unit]\n"
        "Description=Keep copies of coding agents' sessions (turnlog keep)\n"
        f"ConditionFileIsExecutable={words[0].replace('%', '%%')}\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        f"ExecStart={_exec_line(words)}\n"
        f"{carried}"
        "Nice=10\n"
        "IOSchedulingClass=idle\n"
    )


def timer_unit() -> str:
    return (
        "[Unit]\n"
        "Description=Keep copies of coding agents' sessions every hour\n"
        "\n"
        "[Timer]\n"
        "OnCalendar=hourly\n"
        "Persistent=true\n"
        "RandomizedDelaySec=5min\n"
        "\n"
        "[Install]\n"
        "WantedBy=timers.target\n"
    )


def _exec_line(words: Sequence[str]) -> str:
    line = list(words)
    if _ODD_IN_A_PROGRAM & set(words[0]):
        line = ["/bin/sh", "-c", 'exec "$0" "$@"', *words]
    program, *rest = map(_unit_word, line)
    return " ".join((program, *(word.replace("$", "$$") for word in rest)))


def _unit_word(word: str) -> str:
    """Quote one word for systemd."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    is_simple = word and all(each.isalnum() or each in "/._-=,:+@" for each in word)
    return plain if is_simple else f'"{plain}"'


class Launchd:
    """An agent of macOS's launchd; it also runs at login."""

    kind: Final = "launchd"

    def __init__(self) -> None:
        self._path = Path(os.path.expanduser("~/Library/LaunchAgents"), f"{_LABEL}.plist")
        self._domain = f"gui/{os.getuid()}" if hasattr(os, "getuid") else "gui/0"

    def is_usable(self) -> bool:
        return shutil.which("launchctl") is not None

    def is_installed(self) -> bool:
        return os.path.lexists(self._path)

    def install(self, words: Sequence[str], environ: Mapping[str, str]) -> Step:
        state, deeds = _writes({self._path: agent_plist(words, environ)})
        if state != "installed":
            if state == "outdated":
                deeds.insert(0, self._unload())
            load = ("launchctl", "bootstrap", self._domain, str(self._path))
            deeds.append(Run(words=load))
        return _step(self.kind, self._path, state, words, deeds)

    def uninstall(self) -> Step:
        deeds: list[Deed] = [self._unload()] if self.is_installed() else []
        state = _removes(deeds, (self._path,))
        return _step(self.kind, self._path, state, (), deeds)

    def _unload(self) -> Run:
        return Run(words=("launchctl", "bootout", f"{self._domain}/{_LABEL}"), may_fail=True)


def agent_plist(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the agent that runs *words* every hour."""
    agent = {
        "Label": _LABEL,
        "ProgramArguments": list(words),
        "StartInterval": _EVERY_SECONDS,
        "RunAtLoad": True,
        "ProcessType": "Background",
        "LowPriorityIO": True,
    }
    if environ:
        agent["EnvironmentVariables"] = dict(environ)
    return plistlib.dumps(agent, sort_keys=False).decode()


class Cron:
    """A line of the user's crontab; every other line stays as it is."""

    kind: Final = "cron"
    place: Final = "crontab"

    def is_usable(self) -> bool:
        return shutil.which("crontab") is not None and self._lines() is not None

    def is_installed(self) -> bool:
        return any(map(_is_our_line, self._lines() or ()))

    def install(self, words: Sequence[str], environ: Mapping[str, str]) -> Step:
        lines = self._lines()
        if lines is None:
            return self._refused(words)
        line = cron_line(words, environ)
        ours = [each for each in lines if _is_our_line(each)]
        if ours == [line]:
            return _step(self.kind, self.place, "installed", words, [])
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        after = [each for each in lines if not _is_our_line(each)] + [line]
        write = _crontab(after, "+ " + line.rstrip("\n"))
        return _step(self.kind, self.place, "outdated" if ours else "missing", words, [write])

    def uninstall(self) -> Step:
        lines = self._lines() if shutil.which("crontab") else []
        if lines is None:
            return self._refused(())
        ours = [each for each in lines if _is_our_line(each)]
        if not ours:
            return _step(self.kind, self.place, "missing", (), [])
        after = [each for each in lines if not _is_our_line(each)]
        write = _crontab(after, "\n".join("- " + each.rstrip("\n") for each in ours))
        return _step(self.kind, self.place, "installed", (), [write])

    def _lines(self) -> list[str] | None:
        """Return the crontab's lines; None if unreadable, so that it is not replaced."""
        done = ran(("crontab", "-l"))
        if done is None:
            return None
        if done.returncode == 0:
            # Any bytes are written back unchanged.
            text = done.stdout.decode("utf-8", "surrogateescape")
            return re.findall(r"[^\n]*\n|[^\n]+", text)
        return [] if b"no crontab" in done.stderr.lower() and not done.stdout else None

    def _refused(self, words: Sequence[str]) -> Step:
        return Step(
            kind=self.kind,
            place=self.place,
            state="refused",
            command=shlex.join(words),
            reason="crontab -l does not print the current crontab",
            hint="nothing was changed",
        )


def cron_line(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the line that runs *words* every hour, not at the full hour like everything else."""
    check_text((*words, *environ.values()))
    assignments = [f"{name}={shlex.quote(value)}" for name, value in environ.items()]
    command = " ".join([*assignments, shlex.join(words), ">/dev/null", "2>&1"])
    escaped = command.replace("%", r"\%")  # A bare % ends the command in cron.
    return f"17 * * * * {escaped} {_MARK}\n"


def _is_our_line(line: str) -> bool:
    return line.rstrip().endswith(_MARK) and not line.lstrip().startswith("#")


def _crontab(lines: Sequence[str], shown: str) -> Run:
    if not lines:
        return Run(words=("crontab", "-r"), shown=shown)
    given = "".join(lines).encode("utf-8", "surrogateescape")
    return Run(words=("crontab", "-"), given=given, shown=shown)


def _writes(wanted: Mapping[Path, str]) -> tuple[State, list[Deed]]:
    """Return the state of some files, and the writes that change them to *wanted*."""
    deeds: list[Deed] = []
    is_there = False
    for path, text in wanted.items():
        before = content(path)
        if isinstance(before, Unreadable):
            raise UsageError(f"{path} cannot be read: {before.reason}", hint="nothing was changed")
        is_there |= before is not None
        if before != text.encode():
            shown = _difference(before, text)
            deeds.append(Write(path=path, before=before, data=text.encode(), shown=shown))
    if not deeds:
        return "installed", deeds
    return ("outdated" if is_there else "missing"), deeds


def _difference(before: bytes | None, text: str) -> str:
    """Return what is new; of an existing file, only the lines that changed."""
    if before is None:
        return text.rstrip("\n")
    old = before.decode("utf-8", "replace").splitlines()
    lines = difflib.unified_diff(old, text.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def _removes(deeds: list[Deed], paths: Sequence[Path]) -> State:
    found = {path: content(path) for path in paths}
    for path, before in found.items():
        if before is not None and not isinstance(before, Unreadable):
            deeds.append(Remove(path=path, before=before))
    return "installed" if any(each is not None for each in found.values()) else "missing"


def _step(
    kind: Kind,
    place: str | os.PathLike[str],
    state: State,
    words: Sequence[str],
    deeds: Sequence[Deed],
) -> Step:
    return Step(
        kind=kind,
        place=os.fspath(place),
        state=state,
        command=shlex.join(words),
        deeds=tuple(deeds),
    )
