"""`turnlog statusline`, which runs at every prompt, before click is imported.

It prints a line from the stored figures without waiting, and starts a background process that
updates them for the next line.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from turnlog.cli.statusline.line import NOTHING, line_of, log_path, read_input, session_id
from turnlog.costs.statusline_figures import FiguresFile, within
from turnlog.errors import TurnlogError
from turnlog.formats.home_paths import all_home_paths, turnlog_home_path
from turnlog.text import inert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The least time between two updates: usually, and if the log has grown since the last one.
_UPDATE_SECONDS = 5
_GROWN_UPDATE_SECONDS = 1
_TURNLOG = "from turnlog.cli import main; main()"
_FOR_CLICK = {"-h", "--help", "--install", "--update"}


def answer(arguments: list[str]) -> bool:
    """Print the line; return False if *arguments* need the full command."""
    if not _FOR_CLICK.isdisjoint(arguments):
        return False
    homes, pattern, unknown = _options(arguments)
    request: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    file = None
    line = NOTHING
    with suppress(Exception):  # Always print a line.
        request = read_input()
        file = _figures_file(homes)
        figures = file.read() if file else {}
        line = line_of(request, figures, pattern, time.time())
    with suppress(OSError):
        _print(line, unknown)
    with suppress(Exception):  # The next prompt tries again.
        if file is not None and _is_update_due(file, request, figures):
            _start_update(session_id(request), homes)
    return True


def _options(arguments: list[str]) -> tuple[list[str], str, list[str]]:
    """Return the homes, the format, and unknown arguments, which must not suppress the line."""
    homes: list[str] = []
    pattern = ""
    unknown = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in ("--home", "--format"):
            unknown.append(argument)
            continue
        value = value if equals else next(rest, "")
        if name == "--format":
            pattern = value
        elif value:
            homes.append(value)
    return homes, pattern, unknown


def _figures_file(homes: list[str]) -> FiguresFile | None:
    with suppress(OSError):
        if not homes:  # Turnlog's own home counts once it exists.
            os.makedirs(turnlog_home_path(), mode=0o700, exist_ok=True)
    try:
        return FiguresFile(all_home_paths(homes))
    except (TurnlogError, OSError):
        return None


def _print(line: str, unknown: list[str]) -> None:
    if sys.stdout is not None:  # Not through Python's buffer, whose errors appear at exit.
        os.write(sys.stdout.fileno(), f"{line}\n".encode("utf-8", "replace"))
    if unknown and sys.stderr is not None:
        warning = f"warning: statusline: unknown argument {inert(' '.join(unknown))}\n"
        os.write(sys.stderr.fileno(), warning.encode("utf-8", "replace"))


def _is_update_due(file: FiguresFile, request: dict[str, Any], figures: dict[str, Any]) -> bool:
    """Return whether to start an update now, and record that it was started."""
    fd = file.lock(tries=1)
    if fd is None:
        return False  # One is running.
    try:
        before = os.fstat(fd)
        started_at = before.st_mtime if before.st_size else 0.0
        since = abs(time.time() - started_at)
        session = session_id(request)
        is_new = bool(session) and within(figures, "asked", session) is None
        has_grown = is_new or _is_newer(log_path(request), started_at)
        is_due = since >= (_GROWN_UPDATE_SECONDS if has_grown else _UPDATE_SECONDS)
        if is_due:
            os.write(fd, b".")  # Sets the file's mtime.
        return is_due
    finally:
        os.close(fd)


def _is_newer(log: str, than: float) -> bool:
    try:
        return bool(log) and os.stat(log).st_mtime > than
    except (OSError, ValueError):
        return False


def _start_update(session: str, homes: list[str]) -> None:
    """Start a silent background process that updates the figures."""
    # -P: do not import from the current directory.
    command = [sys.executable, "-P", "-c", _TURNLOG, "statusline", "--update"]
    if session:
        command += ["--session", session]
    for home in homes:
        command += ["--home", home]
    if not sys.executable:
        return
    if sys.platform == "win32":
        import subprocess

        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        null = subprocess.DEVNULL
        subprocess.Popen(  # noqa: S603 - Ourselves.
            command, stdin=null, stdout=null, stderr=null, creationflags=flags
        )
        return
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    try:
        os.posix_spawn(command[0], command, os.environ, file_actions=silent, setsid=True)
    except NotImplementedError:  # No setsid here: the update calls it itself.
        os.posix_spawn(command[0], command, os.environ, file_actions=silent)
