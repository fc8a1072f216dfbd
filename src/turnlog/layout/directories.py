"""Is a project this directory, or below it? One answer for every question that asks.

A path that a person types is made absolute first; a path that a log tells is taken as it is. Logs
may come from another machine: a Windows path stays one wherever it is read.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePath, PureWindowsPath

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]+[\\/]")  # S:\Repos, S:/Repos, \\server\share


def is_windows_path(path: str) -> bool:
    """Return whether *path* is absolute on Windows: it has a drive, or names a server."""
    return _WINDOWS.match(path) is not None


def absolute(directory: str | os.PathLike[str]) -> str:
    """Return *directory* as an absolute path; a Windows path as it is, on any system."""
    path = os.fspath(directory)
    return path if os.name != "nt" and is_windows_path(path) else os.path.abspath(path)


def whole(directory: str) -> str:
    """Return the absolute path that a person means."""
    return absolute(os.path.expanduser(directory))


def last_part(path: str) -> str:
    """Return the name of a directory, as lists show it."""
    if is_windows_path(path):
        return re.split(r"[/\\]", path.rstrip("/\\"))[-1]
    return path.rstrip("/").rpartition("/")[2]


def is_within(path: str | None, directory: str) -> bool:
    """Return whether *path* is *directory*, which is an absolute path, or lies below it."""
    if path is None:
        return False
    # Windows takes both slashes, and does not tell capitals apart.
    is_windows = is_windows_path(path) and is_windows_path(directory)
    flavour = PureWindowsPath if is_windows else PurePath
    there, wanted = flavour(path), flavour(directory)
    return there == wanted or wanted in there.parents
