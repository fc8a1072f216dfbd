"""`turnlog statusline`, answered before click is imported: it runs at every prompt.

It always prints a line and never waits for figures: it shows those that were noted, and starts a
process of its own that brings them up to date, so that the next line has them.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from turnlog.cli.statusline.input import log_path, read_input, session_id
from turnlog.cli.statusline.line import NOTHING, line_of
from turnlog.costs.statusline_figures import FiguresFile, within
from turnlog.errors import TurnlogError
from turnlog.formats.home_paths import all_home_paths, turnlog_home_path
from turnlog.text import inert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# An update is started this often at most, and that often if the log has grown since the last.
_EVERY_SECONDS = 5
_OFTEN_SECONDS = 1
_TURNLOG = "from turnlog.cli import main; main()"
_FOR_CLICK = {"-h", "--help", "--install", "--update"}


def answer(arguments: list[str]) -> bool:
    """Print the line; False if *arguments* ask for something that click answers."""
    if not _FOR_CLICK.isdisjoint(arguments):
        return False
    homes, pattern, strangers = _options(arguments)
    told: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    file = None
    line = NOTHING
    with suppress(Exception):  # A line that says little is better than none.
        told = read_input()
        file = _figures_file(homes)
        figures = file.read() if file else {}
        line = line_of(told, figures, pattern, time.time())
    with suppress(OSError):
        _say(line, strangers)
    with suppress(Exception):  # There is always a next time.
        if file is not None and _is_update_due(file, told, figures):
            _start_update(session_id(told), homes)
    return True


def _options(arguments: list[str]) -> tuple[list[str], str, list[str]]:
    """Return the homes, the format, and what is neither: a mistake must not cost the line."""
    homes: list[str] = []
    pattern = ""
    strangers = []
    rest = iter(arguments)
    for each in rest:
        name, equals, value = each.partition("=")
        if name not in ("--home", "--format"):
            strangers.append(each)
            continue
        value = value if equals else next(rest, "")
        if name == "--format":
            pattern = value
        elif value:
            homes.append(value)
    return homes, pattern, strangers


def _figures_file(homes: list[str]) -> FiguresFile | None:
    with suppress(OSError):
        if not homes:  # Turnlog's own is one of them as soon as it exists.
            os.makedirs(turnlog_home_path(), mode=0o700, exist_ok=True)
    try:
        return FiguresFile(all_home_paths(homes))
    except (TurnlogError, OSError):
        return None


def _say(line: str, strangers: list[str]) -> None:
    if sys.stdout is not None:  # Not through Python's own buffer, which fails loudly at the end.
        os.write(sys.stdout.fileno(), f"{line}\n".encode("utf-8", "replace"))
    if strangers and sys.stderr is not None:
        told = f"warning: statusline does not know {inert(' '.join(strangers))}\n"
        os.write(sys.stderr.fileno(), told.encode("utf-8", "replace"))


def _is_update_due(file: FiguresFile, told: dict[str, Any], figures: dict[str, Any]) -> bool:
    """Return whether to start an update now, and note that it is started."""
    fd = file.lock(tries=1)
    if fd is None:
        return False  # One is at work.
    try:
        before = os.fstat(fd)
        started_at = before.st_mtime if before.st_size else 0.0
        since = abs(time.time() - started_at)
        is_news = _is_newer(log_path(told), started_at) or _is_new(session_id(told), figures)
        is_due = since >= (_OFTEN_SECONDS if is_news else _EVERY_SECONDS)
        if is_due:
            os.write(fd, b".")  # Its time is the file's.
        return is_due
    finally:
        os.close(fd)


def _is_newer(log: str, than: float) -> bool:
    try:
        return bool(log) and os.stat(log).st_mtime > than
    except (OSError, ValueError):
        return False


def _is_new(session: str, figures: dict[str, Any]) -> bool:
    return bool(session) and within(figures, "asked", session) is None


def _start_update(session: str, homes: list[str]) -> None:
    """Start the process that brings the figures up to date; nobody waits for it or hears it."""
    # -P: a directory that somebody works in is no place to import from.
    command = [sys.executable, "-P", "-c", _TURNLOG, "statusline", "--update"]
    if session:
        command += ["--session", session]
    for home in homes:
        command += ["--home", home]
    if not sys.executable:
        return
    if sys.platform == "win32":
        import subprocess

        apart = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        none = subprocess.DEVNULL
        subprocess.Popen(  # noqa: S603 - Ourselves.
            command, stdin=none, stdout=none, stderr=none, creationflags=apart
        )
        return
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    try:
        os.posix_spawn(command[0], command, os.environ, file_actions=silent, setsid=True)
    except NotImplementedError:  # Some systems cannot; the update does it then.
        os.posix_spawn(command[0], command, os.environ, file_actions=silent)
