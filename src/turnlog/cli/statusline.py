"""`turnlog statusline`, which runs at every prompt, before click is imported.

It prints a line from the stored figures without waiting, and starts a background process that
updates them for the next line.

The request on stdin is one JSON object from Claude Code. Anything in it may be missing, null or of
another type, and it may not come at all; unknown fields are left out of the line. On a narrow
terminal the least important fields are dropped first. Nothing here raises or waits for long, and no
import takes time.
"""

from __future__ import annotations

import json
import os
import re
import select
import sys
import time
import unicodedata
from contextlib import suppress

from turnlog.costs.statusline_figures import (
    LARGE_WINDOW,
    FiguresFile,
    end_of_file,
    number_of,
    text_of,
    window_of,
    within,
)
from turnlog.errors import TurnlogError
from turnlog.formats.home_paths import all_home_paths, turnlog_home_path
from turnlog.text import inert

TYPE_CHECKING = False  # Importing typing would take time.
if TYPE_CHECKING:
    from typing import Any

    Piece = tuple[str, str]
    """A text and its colour."""


# The least time between two updates: usually, and if the log has grown since the last one.
_UPDATE_SECONDS = 5
_GROWN_UPDATE_SECONDS = 1
_FOR_CLICK = {"-h", "--help"}


def answer(arguments: list[str]) -> bool:
    """Print the line; return False if *arguments* need the full command."""
    if not _FOR_CLICK.isdisjoint(arguments):
        return False
    homes, template, unknown = _options(arguments)
    request: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    file = None
    line = NOTHING
    with suppress(Exception):  # Always print a line.
        request = read_input()
        file = _figures_file(homes)
        figures = file.read() if file else {}
        line = line_of(request, figures, template, time.time())
    with suppress(OSError):
        _print(line, unknown)
    with suppress(Exception):  # The next prompt tries again.
        if file is not None and _is_update_due(file, request, figures):
            _start_update(session_id(request), homes)
    return True


def _options(arguments: list[str]) -> tuple[list[str], str, list[str]]:
    """Return the homes, the template, and unknown arguments, which must not suppress the line."""
    homes: list[str] = []
    template = ""
    unknown = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in ("--home", "--template"):
            unknown.append(argument)
            continue
        value = value if equals else next(rest, "")
        if name == "--template":
            template = value
        elif value:
            homes.append(value)
    return homes, template, unknown


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
    command = [sys.executable, "-P", "-m", "turnlog.api.statusline", session, *homes]
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
    except NotImplementedError:  # No setsid here: the process calls it itself.
        os.posix_spawn(command[0], command, os.environ, file_actions=silent)


FIELDS = ("model", "session", "today", "block", "left", "burn", "context", "project", "age")
NOTHING = "turnlog: no figures yet"

_UNKNOWN = "-"
_FIELD = re.compile(r"\{([a-z]+)\}")
# The default line: each field with the text before and after it.
_DEFAULT = (
    ("model", "", ""),
    ("session", " · ", " session"),
    ("today", " · ", " today"),
    ("block", " · ", " block"),
    ("left", ", ", " left"),
    ("burn", ", ", ""),
    ("context", " · ", " context"),
    ("age", " · ", " old"),
)
_DROPPED_FIRST = ("age", "burn", "left", "today", "block", "session", "context")
_DIM, _RED, _GREEN, _YELLOW, _CYAN = "2", "31", "32", "33", "36"
_BUSY_PERCENT, _FULL_PERCENT = 50, 80
_MOST_PERCENT = 999

_STALE_SECONDS = 60
_BLOCK_SECONDS = 5 * 3600
_SHORTEST_SECONDS = 60

_WAIT_SECONDS = 0.1
_CHUNK_BYTES = 1 << 16
_MOST_BYTES = 1 << 20
_TAIL_BYTES = 1 << 17
_INPUT_TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def line_of(request: dict[str, Any], figures: dict[str, Any], template: str, now: float) -> str:
    """Return the line as *template* describes it, or the default line."""
    fields = _fields(request, figures, now)
    columns = _columns()
    pieces = _filled(template, fields) if template else _default(fields, columns)
    if not any(text.strip() for text, _ in pieces):
        pieces = [(NOTHING, _DIM)]
    return _drawn(_cut(pieces, columns))


def _fields(request: dict[str, Any], figures: dict[str, Any], now: float) -> dict[str, Piece]:
    """Return the known fields."""
    noted = within(figures, "sessions", session_id(request))
    is_today = figures.get("day") == time.strftime("%Y-%m-%d", time.localtime(now))
    fields = {
        "model": (model_name(request), _CYAN),
        "session": (_shown(noted) or _claudes_own_cost(request), ""),
        "today": (_shown(figures.get("today")) if is_today else "", ""),
        **_block(figures.get("block"), now),
        "context": _context(request, number_of(within(noted, "context_tokens"))),
        "project": (_project(request), ""),
        "age": (_age(figures, now), _DIM),
    }
    return {name: (inert(text), colour) for name, (text, colour) in fields.items() if text}


def _shown(figure: object) -> str:
    return text_of(within(figure, "shown"), 24)


def _claudes_own_cost(request: dict[str, Any]) -> str:
    cost = number_of(within(request, "cost", "total_cost_usd"))
    return "" if cost is None else f"${cost:,.2f}"


def _block(block: object, now: float) -> dict[str, Piece]:
    """Return the fields of the stored five-hour block, if it has not ended."""
    names = ("start_at", "end_at", "first_at", "last_at")
    times = [at for name in names if (at := number_of(within(block, name))) is not None]
    if len(times) < len(names):
        return {}
    start, end, first, last = times
    if not start <= now < end or now - last >= _BLOCK_SECONDS:
        return {}
    left = f"{int(end - now) // 3600}h {int(end - now) % 3600 // 60:02}m"
    fields = {"block": (_shown(block), ""), "left": (left, "")}
    try:
        cost = number_of(float(text_of(within(block, "cost_usd"))))
    except ValueError:
        return fields
    if cost is not None:
        hours = max(now - first, _SHORTEST_SECONDS) / 3600
        fields["burn"] = (f"${cost / hours:,.2f}/h", "")
    return fields


def _context(request: dict[str, Any], noted_tokens: float | None) -> Piece:
    percent = context_percent(request, noted_tokens)
    if percent is None:
        return "", ""
    colour = _RED if percent >= _FULL_PERCENT else _YELLOW if percent >= _BUSY_PERCENT else _GREEN
    return f"{min(percent, _MOST_PERCENT):.0f}%", colour


def _project(request: dict[str, Any]) -> str:
    places = (
        within(request, "workspace", "project_dir"),
        within(request, "workspace", "current_dir"),
        request.get("cwd"),
    )
    path = next((path for path in places if isinstance(path, str) and path), "")
    return text_of(os.path.basename(path.rstrip("/\\")), 60)


def _age(figures: dict[str, Any], now: float) -> str:
    """Return the age of the figures if it is more than a minute."""
    noted_at = number_of(figures.get("noted_at"))
    if noted_at is None or now - noted_at < _STALE_SECONDS:
        return ""
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60)):
        if now - noted_at >= seconds:
            return f"{int((now - noted_at) // seconds)} {unit}"
    return ""


def _default(fields: dict[str, Piece], columns: int) -> list[Piece]:
    """Return the default line, without the fields that do not fit."""
    names = set(fields)
    pieces = _joined(fields, names)
    for name in _DROPPED_FIRST:
        if not columns or sum(_cells(text) for text, _ in pieces) <= columns:
            break
        names.discard(name)
        pieces = _joined(fields, names)
    return pieces


def _joined(fields: dict[str, Piece], names: set[str]) -> list[Piece]:
    pieces: list[Piece] = []
    for name, before, after in _DEFAULT:
        if name in names:
            text, colour = fields[name]
            if pieces:
                pieces.append((before, _DIM))
            pieces.append((text + after, colour))
    return pieces


def _filled(template: str, fields: dict[str, Piece]) -> list[Piece]:
    """Fill the fields into *template*; unknown names stay as they are."""
    pieces: list[Piece] = []
    end = 0
    for match in _FIELD.finditer(template):
        if match[1] not in FIELDS:
            continue
        pieces.append((_plain(template[end : match.start()]), ""))
        text, colour = fields.get(match[1], (_UNKNOWN, _DIM))
        if match[1] == "block" and "left" in fields:
            text = f"{text} ({fields['left'][0]} left)"
        pieces.append((text, colour))
        end = match.end()
    return [*pieces, (_plain(template[end:]), "")]


def _plain(text: str) -> str:
    return inert(re.sub(r"[\r\n\t]+", " ", text))


def _columns() -> int:
    """Return the width of the terminal, or 0 if it is unknown."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isascii() and columns.isdigit() and len(columns) < 6 else 0


def _cut(pieces: list[Piece], columns: int) -> list[Piece]:
    """Cut the line to *columns*."""
    if not columns or sum(_cells(text) for text, _ in pieces) <= columns:
        return pieces
    cut: list[Piece] = []
    room = columns - 1
    for text, colour in pieces:
        part = text
        while _cells(part) > room:
            part = part[:-1]
        cut.append((part, colour))
        room -= _cells(part)
        if part != text:
            break
    return [*cut, ("…", _DIM)]


def _cells(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _drawn(pieces: list[Piece]) -> str:
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return "".join(
        text if is_plain or not colour or not text else f"\x1b[{colour}m{text}\x1b[0m"
        for text, colour in pieces
    )


def read_input() -> dict[str, Any]:
    """Return the object on stdin, or an empty one."""
    document = _document(_stdin())
    return document if isinstance(document, dict) else {}


def model_name(request: dict[str, Any]) -> str:
    """Return the model's display name or id, or an empty string."""
    model = request.get("model")
    names = (within(model, "display_name"), within(model, "id"), model)
    return next(filter(None, (text_of(name, 60) for name in names)), "")


def session_id(request: dict[str, Any]) -> str:
    """Return the session's id, or an empty string if it is not a valid one."""
    text = text_of(request.get("session_id"), 129)
    is_id = len(text) < 129 and text.isascii() and text.replace("-", "").isalnum()
    return text if is_id and not text.startswith("-") else ""


def log_path(request: dict[str, Any]) -> str:
    """Return the path of the session's log, or an empty string."""
    path = request.get("transcript_path")
    return path if isinstance(path, str) and os.path.isabs(path) else ""


def context_percent(request: dict[str, Any], noted_tokens: float | None) -> float | None:
    """Return the percentage of the model's context that is in use.

    Older versions of Claude Code do not send it: then use the end of the log, or if its lines are
    too long, *noted_tokens* from the index.
    """
    window = request.get("context_window")
    percent = number_of(within(window, "used_percentage"))
    if percent is not None:
        return percent
    used = _tokens(within(window, "current_usage"))
    if used is None:
        used = _tokens_at_end(log_path(request))
    if used is None:
        used = noted_tokens
    return None if used is None else 100 * used / _window(request, used)


def _window(request: dict[str, Any], used: float) -> float:
    size = number_of(within(request, "context_window", "context_window_size"))
    if size:
        return size
    if request.get("exceeds_200k_tokens") is True:
        return LARGE_WINDOW
    return window_of(text_of(within(request, "model", "id")), used)


def _tokens_at_end(log: str) -> float | None:
    """Return the input tokens of the last response in the last bytes of the log."""
    try:
        data = end_of_file(log, _TAIL_BYTES) if log else b""
    except (OSError, ValueError):
        return None
    for line in reversed(data.split(b"\n")):
        if b'"usage"' not in line:
            continue
        record = _document(line)
        used = _tokens(within(record, "message", "usage"))
        if used and within(record, "isSidechain") is not True:
            return used
    return None


def _tokens(usage: object) -> float | None:
    if not isinstance(usage, dict):
        return None
    return sum(number_of(usage.get(name)) or 0 for name in _INPUT_TOKENS)


def _document(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _stdin() -> bytes:
    """Read stdin until it ends, a whole document was read, or time is up."""
    if sys.stdin is None or os.isatty(0):
        return b""
    deadline = time.monotonic() + _WAIT_SECONDS
    data = b""
    while (left := deadline - time.monotonic()) > 0:
        try:
            if os.name == "posix" and not select.select([0], [], [], left)[0]:
                break
            chunk = os.read(0, _CHUNK_BYTES)
        except (OSError, ValueError):
            break
        if not chunk:
            break
        if len(data) <= _MOST_BYTES:  # Read the rest as well, so that the writer gets no error.
            data += chunk
        if len(data) < _CHUNK_BYTES and data.rstrip().endswith(b"}") and _document(data):
            break
    return data if len(data) <= _MOST_BYTES else b""
