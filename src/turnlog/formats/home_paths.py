"""Paths of homes, as plain strings.

The status line runs at every prompt and needs only these, so this module imports neither pathlib
nor msgspec. A home is listed once however many paths lead to it; a home that is named must exist,
or have kept copies; nothing is created.
"""

from __future__ import annotations

import os
import sys
from binascii import crc32
from functools import cache

from turnlog.errors import NotFound
from turnlog.formats import AGENT_HOMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


HOME_VARIABLES = tuple(AGENT_HOMES)
"""The environment variables that say where agents keep their sessions."""

_WITH_SESSIONS = ("projects", "sessions", "archived_sessions", "session-state")
MACHINE = "machine"
"""The file in a mirror with the id of the machine that keeps its home there."""
_READABLE = 80  # Characters of a home's path that the name of its mirror has.


def home_paths(
    named: Sequence[str | os.PathLike[str]] = (), environ: Mapping[str, str] = os.environ
) -> list[str]:
    """List the homes: those *named*, else those of the agents' variables, else the usual ones."""
    if named:
        return once(_named_home(os.fspath(name), environ) for name in named)
    candidates: list[str] = []
    for variable, usual in AGENT_HOMES.items():
        setting = environ.get(variable, "")
        # Set but absent means no homes: falling back to the user's own would mix two worlds.
        if setting.strip():
            candidates += _homes_of_setting(setting, environ)
        else:
            candidates += (_usual_home(path, environ) for path in usual)
    return once(path for path in candidates if os.path.isdir(path) or _is_kept(path, environ))


def usual_homes(environ: Mapping[str, str] = os.environ) -> list[str]:
    """List where agents keep their sessions by default, whether it exists or not."""
    return [_usual_home(path, environ) for usual in AGENT_HOMES.values() for path in usual]


def configured_homes(environ: Mapping[str, str] = os.environ) -> list[str] | None:
    """List the homes named by variables, whether they exist or not; None if none is set."""
    settings = [environ.get(name, "") for name in HOME_VARIABLES]
    settings = [each for each in settings if each.strip()]
    homes = [home for each in settings for home in _homes_of_setting(each, environ)]
    return homes if settings else None


def all_home_paths(
    named: Sequence[str | os.PathLike[str]] = (), environ: Mapping[str, str] = os.environ
) -> list[str]:
    """List the homes as `home_paths` does, and turnlog's own unless others are *named*.

    turnlog's own home counts only once it has sessions.
    """
    homes = home_paths(named, environ)
    own = turnlog_home_path(environ)
    has_sessions = any(os.path.isdir(os.path.join(own, each)) for each in _WITH_SESSIONS)
    if named or not (has_sessions or _is_kept(own, environ)):
        return homes
    return once(iter((*homes, own)))


def turnlog_home_path(environ: Mapping[str, str] = os.environ) -> str:
    """Return where turnlog keeps its own things; the directory need not exist yet."""
    setting = environ.get("TURNLOG_HOME", "")
    if setting.strip():
        return _absolute(setting, environ)
    return _usual_data() or _platforms_data()


def _usual_data() -> str | None:
    """Return what platformdirs would in the usual case: it takes a while to import."""
    data, user = os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME", "")
    if sys.platform != "linux" or "ANDROID_ROOT" in os.environ:
        return None
    if data is None and user.startswith("/"):
        data = os.path.join(user.rstrip("/") or "/", ".local", "share")
    is_plain = data is not None and data.startswith("/") and data == os.path.normpath(data)
    return os.path.join(data, "turnlog") if data is not None and is_plain else None


def _platforms_data() -> str:
    import platformdirs

    return platformdirs.user_data_dir("turnlog", appauthor=False)


def kept_root(environ: Mapping[str, str] = os.environ) -> str:
    """Return the directory of all mirrors; it need not exist."""
    return os.path.join(turnlog_home_path(environ), "kept")


def kept_path(home: str, environ: Mapping[str, str] = os.environ, *, to_keep: bool = False) -> str:
    """Return the directory of the mirror of *home*; neither needs to exist.

    Containers that share turnlog's home may all have a home of the same path. The first has the
    mirror that is named after the path; another gets one that is named after the machine as well,
    as soon as it keeps something (*to_keep*). A home that has a log in common with a mirror is the
    mirrored one, even if the machine's id has changed.
    """
    true, root = os.path.realpath(home), kept_root(environ)
    if os.path.dirname(true) == os.path.realpath(root):
        return true  # A mirror named by hand: that of another machine.
    readable = "".join(each if each.isascii() and each.isalnum() else "-" for each in true)
    digest = crc32(true.encode(errors="surrogateescape"))
    first = os.path.join(root, f"{readable[-_READABLE:].lstrip('-')}-{digest:08x}")
    own = f"{first}-{machine_id()}"
    if os.path.isdir(own):
        return own
    if noted_machine(first) in {None, machine_id()} or _is_within(true, root):
        return first
    has_logs = False
    for name in _log_names(true):
        has_logs = True
        for mirror in (first, *_others(first)):
            if os.path.exists(os.path.join(mirror, f"{name}.zst")):
                return mirror
    return own if to_keep and has_logs else first


@cache
def machine_id() -> str:
    """Return eight characters that identify this machine or container."""
    try:
        with open("/etc/machine-id", "rb") as file:
            known = file.read(64)
    except OSError:
        known = b""
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return f"{crc32(known + name.encode(errors='surrogateescape')):08x}"


def noted_machine(mirror: str) -> str | None:
    """Return the machine that keeps its home in *mirror*; None if nothing says so."""
    try:
        with open(os.path.join(mirror, MACHINE), encoding="ascii", errors="replace") as file:
            return file.read(64).strip() or None
    except OSError:
        return None


def _is_within(home: str, root: str) -> bool:
    """Return whether a home is inside turnlog's own, which containers share."""
    own = os.path.dirname(os.path.realpath(root))
    return home == own or home.startswith(os.path.join(own, ""))


def _others(first: str) -> list[str]:
    """Return the mirrors of other homes with the same path."""
    root, name = os.path.split(first)
    try:
        return [
            os.path.join(root, each) for each in os.listdir(root) if each.startswith(f"{name}-")
        ]
    except OSError:
        return []


def _log_names(home: str) -> Iterator[str]:
    """Yield the names of the sessions' logs in *home*; days' logs are named alike everywhere."""
    for top in _WITH_SESSIONS:
        for directory, _, names in os.walk(os.path.join(home, top)):
            for each in names:
                if each.endswith(".jsonl") and not _is_day(each):
                    yield os.path.relpath(os.path.join(directory, each), home)


def _is_day(name: str) -> bool:
    return name[:4].isdecimal() and len(name) == len("2026-01-01.jsonl")


def _is_kept(home: str, environ: Mapping[str, str]) -> bool:
    return os.path.isdir(kept_root(environ)) and os.path.isdir(kept_path(home, environ))


def once(homes: Iterator[str]) -> list[str]:
    """Return the first of several paths to each home."""
    found: dict[str, str] = {}
    for home in homes:
        found.setdefault(os.path.realpath(home), home)
    return list(found.values())


def _named_home(name: str, environ: Mapping[str, str]) -> str:
    path = _absolute(name, environ)
    above, last = os.path.split(path)
    if last == "projects" and not os.path.lexists(path) and _is_kept(above, environ):
        return above
    if not os.path.isdir(path) and (os.path.lexists(path) or not _is_kept(path, environ)):
        there = "is not a directory" if os.path.lexists(path) else "does not exist"
        raise NotFound(
            f"the home {path!r} {there}",
            hint="name a directory that holds projects/ or sessions/, such as ~/.claude",
        )
    # People point at the directory they see the logs in; the home is the one above it. A home
    # that merely happens to be called "projects" has a projects/ or sessions/ of its own.
    inner = any(os.path.isdir(os.path.join(path, name)) for name in _WITH_SESSIONS)
    return above if last == "projects" and not inner else path


def _homes_of_setting(setting: str, environ: Mapping[str, str]) -> Iterator[str]:
    whole = _as_claude_reads(setting, environ)
    if "," not in setting or os.path.isdir(whole):
        yield whole
        return
    for part in setting.split(","):
        if part.strip():
            yield _as_claude_reads(part.strip(), environ)


def _as_claude_reads(text: str, environ: Mapping[str, str]) -> str:
    # Claude Code composes the setting (NFC) before it uses it. Where only the decomposed
    # directory exists, someone else made it, and that is the one to read.
    import unicodedata

    given = _absolute(text, environ)
    composed = unicodedata.normalize("NFC", given)
    return composed if os.path.isdir(composed) else given


def _user_directory(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def _usual_home(path: str, environ: Mapping[str, str]) -> str:
    first, _, rest = path.partition("/")
    if first == "~":
        return os.path.join(_user_directory(environ), rest)
    # The XDG specification calls a relative value invalid and asks to ignore it.
    setting = environ.get("XDG_CONFIG_HOME", "")
    base = setting if os.path.isabs(setting) else os.path.join(_user_directory(environ), ".config")
    return os.path.join(base, rest)


def _absolute(text: str, environ: Mapping[str, str]) -> str:
    # A "~" survives in settings and quoted arguments, where no shell has replaced it.
    if text == "~" or text.startswith("~/"):
        text = _user_directory(environ) + text[1:]
    return os.path.abspath(text)
