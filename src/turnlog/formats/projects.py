"""Paths of projects: the directories in which sessions worked.

Paths typed by a person are made absolute; paths from a log are used as they are, since logs may
come from another machine. A Windows path stays one on any system.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePath, PureWindowsPath

from turnlog.errors import UsageError

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]+[\\/]")  # S:\Repos, S:/Repos, \\server\share


def is_windows_path(path: str) -> bool:
    """Return whether *path* is absolute on Windows: it has a drive or a server."""
    return _WINDOWS.match(path) is not None


def absolute(directory: str | os.PathLike[str]) -> str:
    """Return *directory* as an absolute path; a Windows path as it is, on any system."""
    path = os.fspath(directory)
    return path if os.name != "nt" and is_windows_path(path) else os.path.abspath(path)


def expand_path(directory: str) -> str:
    """Return the absolute path of a directory typed by a person."""
    return absolute(os.path.expanduser(directory))


def last_part(path: str) -> str:
    """Return the name of a directory, as in lists."""
    if is_windows_path(path):
        return re.split(r"[/\\]", path.rstrip("/\\"))[-1]
    return path.rstrip("/").rpartition("/")[2]


def is_within(path: str | None, directory: str) -> bool:
    """Return whether *path* is *directory*, an absolute path, or inside it."""
    if path is None:
        return False
    # Windows accepts both slashes and ignores case.
    is_windows = is_windows_path(path) and is_windows_path(directory)
    flavour = PureWindowsPath if is_windows else PurePath
    there, wanted = flavour(path), flavour(directory)
    return there == wanted or wanted in there.parents


def project_text(directory: str | os.PathLike[str]) -> str:
    """Return *directory* as text; raise UsageError if no directory can have that name."""
    text = os.fspath(directory)
    if "\0" in text:
        raise UsageError(
            f"{text[:80]!r} is not a directory: it holds a NUL character",
            hint="give the path of the project's directory",
        )
    return text
