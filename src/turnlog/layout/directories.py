"""Is a project this directory, or below it? One answer for every question that asks.

A path that a person types is made whole first; a path that a log tells is taken as it is.
"""

from __future__ import annotations

import os
from pathlib import PurePath


def whole(directory: str) -> str:
    """Give the absolute path that a person means."""
    return os.path.abspath(os.path.expanduser(directory))


def is_within(path: str | None, directory: str) -> bool:
    """Tell whether *path* is *directory*, which is a whole path, or lies below it."""
    if path is None:
        return False
    there, wanted = PurePath(path), PurePath(directory)
    return there == wanted or wanted in there.parents
