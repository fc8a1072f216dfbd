"""Project keys, the directory names of a project's logs, and project path comparisons.

Implements Claude Code's key (`-home-u-my-app`) and the dated layout's hash (`v_FXjHoCS5zUJmfyn-5v`)
exactly, also for astral characters and paths beyond the cap of 200. Both lose information (/a/b,
/a-b and /a.b share a key), so a key is never converted back to a path: the real directory is in the
records.

Paths typed by a person are made absolute; paths from a log are used as they are, since logs may
come from another machine. A Windows path stays one on any system.
"""

from __future__ import annotations

import base64
import os
import re
import string
import unicodedata
from collections.abc import Mapping
from pathlib import PurePath, PureWindowsPath

from turnlog.errors import UsageError
from turnlog.formats.ids import is_device

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


KEY_CAP = 200
"""A key of more UTF-16 units than this is cut and gets a hash of the whole path."""

_DIGITS = string.digits + string.ascii_lowercase
_PLAIN = frozenset((string.ascii_letters + string.digits).encode())
_CHOSEN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def key_of(path: str) -> str:
    """Return the key of a path that is already resolved and in NFC.

    Counts in UTF-16 units as JavaScript does: an astral character becomes two hyphens.
    """
    units = memoryview(path.encode("utf-16-le", "surrogatepass")).cast("B")
    codes = [low | high << 8 for low, high in zip(units[::2], units[1::2], strict=True)]
    key = "".join(chr(code) if code in _PLAIN else "-" for code in codes)
    if len(key) <= KEY_CAP:
        return key
    return f"{key[:KEY_CAP]}-{_base36(_hash32(codes))}"


def project_key(
    directory: str | os.PathLike[str], *, environ: Mapping[str, str] = os.environ
) -> str:
    """Return the key under which Claude Code stores the sessions of *directory*.

    CLAUDE_CODE_PROJECT_DIR_NAME overrides it as in Claude Code: only with CLAUDE_CONFIG_DIR, and
    only if it is a safe name.
    """
    chosen = environ.get("CLAUDE_CODE_PROJECT_DIR_NAME", "")
    if (
        environ.get("CLAUDE_CONFIG_DIR")
        and _CHOSEN_NAME.fullmatch(chosen) is not None
        and not is_device(chosen)
    ):
        return chosen
    path = _path_text(directory)
    if os.name != "nt" and is_windows_path(path):  # It cannot be resolved here.
        return key_of(unicodedata.normalize("NFC", path.rstrip("\\/")))
    return key_of(unicodedata.normalize("NFC", os.path.realpath(path)))


def hash_of(path: str) -> str:
    """Return the dated layout's name for an absolute path: 20 URL-safe characters."""
    from hashlib import sha256  # noqa: PLC0415 - Few need it, and it brings all of OpenSSL.

    digest = sha256(path.encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(digest).decode("ascii")[:20]


def project_hash(directory: str | os.PathLike[str]) -> str:
    """Return the hash of *directory*, made absolute but not resolved: links keep their name."""
    return hash_of(absolute(_path_text(directory)))


def same_project_key(key: str, other: str) -> bool:
    """Return whether two keys may name one project.

    Older builds of Claude Code hashed long paths differently, so of two cut keys only the first 200
    characters are compared. To be sure, compare the records' cwd.
    """
    if key == other:
        return True
    return _is_cut(key) and _is_cut(other) and key[:KEY_CAP] == other[:KEY_CAP]


def _is_cut(key: str) -> bool:
    return len(key) > KEY_CAP and key[KEY_CAP] == "-"


def _hash32(codes: list[int]) -> int:
    # JavaScript's `h = (h << 5) - h + c | 0`, then Math.abs: a signed 32-bit value made positive.
    value = 0
    for code in codes:
        value = (value * 31 + code) & 0xFFFFFFFF
    return value if value < 1 << 31 else (1 << 32) - value


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits or "0"


def _path_text(directory: str | os.PathLike[str]) -> str:
    text = os.fspath(directory)
    if "\0" in text:
        raise UsageError(
            f"{text[:80]!r} is not a directory: it holds a NUL character",
            hint="give the path of the project's directory",
        )
    return text
