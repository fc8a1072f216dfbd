"""Homes: the directories in which agents keep their sessions.

Owns where to look when nobody says where, and what was meant when somebody does. It promises that
a home is listed once however many ways lead to it, that a home named by hand either exists or is
an error, and that looking creates nothing.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnlog.errors import NotFound


@dataclass(frozen=True, slots=True)
class Home:
    """A directory in which an agent keeps its sessions. Serves wherever a path is asked for."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)


def find_homes(
    named: Sequence[str | os.PathLike[str]] = (), environ: Mapping[str, str] = os.environ
) -> tuple[Home, ...]:
    """List the homes: those *named*, else CLAUDE_CONFIG_DIR's, else the usual two that exist."""
    if named:
        return _once(_named_home(os.fspath(name), environ) for name in named)
    setting = environ.get("CLAUDE_CONFIG_DIR", "")
    if setting.strip():
        # Set but absent means no homes: falling back to the user's own would mix two worlds.
        candidates = _homes_of_setting(setting, environ)
    else:
        candidates = iter((_user_directory(environ) / ".claude", _xdg_config(environ) / "claude"))
    return _once(path for path in candidates if os.path.isdir(path))


def all_homes(
    named: Sequence[str | os.PathLike[str]] = (), environ: Mapping[str, str] = os.environ
) -> tuple[Home, ...]:
    """List the homes as `find_homes` does, and turnlog's own unless others are *named*."""
    homes = find_homes(named, environ)
    own = turnlog_home(environ)
    return homes if named or not os.path.isdir(own) else _once(iter((*homes, Home(own))))


def turnlog_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Tell where turnlog keeps its own things; the directory need not exist yet."""
    setting = environ.get("TURNLOG_HOME", "")
    if setting.strip():
        return _absolute(setting, environ)
    import platformdirs  # noqa: PLC0415  Most commands never need it, and start-up is a feature.

    return platformdirs.user_data_path("turnlog", appauthor=False)


def _named_home(name: str, environ: Mapping[str, str]) -> Home:
    path = _absolute(name, environ)
    if not os.path.isdir(path):
        there = "is not a directory" if os.path.lexists(path) else "does not exist"
        raise NotFound(
            f"the home {os.fspath(path)!r} {there}",
            hint="name a directory that holds projects/ or sessions/, such as ~/.claude",
        )
    # People point at the directory they see the logs in; the home is the one above it. A home
    # that merely happens to be called "projects" has a projects/ or sessions/ of its own.
    inner = any(os.path.isdir(path / name) for name in ("projects", "sessions"))
    return Home(path.parent if path.name == "projects" and not inner else path)


def _homes_of_setting(setting: str, environ: Mapping[str, str]) -> Iterator[Path]:
    whole = _as_claude_reads(setting, environ)
    if "," not in setting or os.path.isdir(whole):
        yield whole
        return
    for part in setting.split(","):
        if part.strip():
            yield _as_claude_reads(part.strip(), environ)


def _as_claude_reads(text: str, environ: Mapping[str, str]) -> Path:
    # Claude Code composes the setting (NFC) before it uses it. Where only the decomposed
    # directory exists, someone else made it, and that is the one to read.
    given = _absolute(text, environ)
    composed = Path(unicodedata.normalize("NFC", str(given)))
    return composed if os.path.isdir(composed) else given


def _once(homes: Iterator[Path] | Iterator[Home]) -> tuple[Home, ...]:
    found: dict[str, Home] = {}
    for each in homes:
        home = each if isinstance(each, Home) else Home(each)
        found.setdefault(os.path.realpath(home), home)
    return tuple(found.values())


def _user_directory(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def _xdg_config(environ: Mapping[str, str]) -> Path:
    # The XDG specification calls a relative value invalid and asks to ignore it.
    setting = environ.get("XDG_CONFIG_HOME", "")
    return Path(setting) if os.path.isabs(setting) else _user_directory(environ) / ".config"


def _absolute(text: str, environ: Mapping[str, str]) -> Path:
    # A "~" survives in settings and quoted arguments, where no shell has replaced it.
    if text == "~" or text.startswith("~/"):
        text = str(_user_directory(environ)) + text[1:]
    return Path(os.path.abspath(text))
