"""Is the ground firm? Who else can read it, and how much room is left on it."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from turnlog.formats.home_files import home_files
from turnlog.formats.side_files import PROGRAMS_OWN
from turnlog.keep.trash.trash import Trash
from turnlog.questions.doctor_checks import Example, Finding, Patient, Urgency, counted, finding

if sys.platform != "win32":
    import grp
    import pwd

LEAST_FREE_BYTES: Final = 1_000_000_000
"""With less than this a session may stop in the middle of a record."""

# What one may do with a file: others, and the group.
_CLASSES: Final = ((stat.S_IROTH, stat.S_IXOTH), (stat.S_IRGRP, stat.S_IXGRP))


class Exposed(Struct):
    """What of a directory others can read."""

    path: str
    files: int = 0
    directories: int = 0
    sample: str = ""
    """One of the files."""


def permissions(patient: Patient) -> list[Finding]:
    """Find what other people of this machine can read.

    A file counts if they can get to it: behind a directory that is closed to them all is well.
    """
    if sys.platform == "win32":
        return []
    places = [*(home.path for home in patient.homes), patient.own]
    roots = dict.fromkeys(os.path.realpath(each) for each in places)
    found = [each for root in roots if (each := exposed(root)).files or each.directories]
    found.sort(key=lambda each: -each.files)
    examples = [Example(path=each.path, detail=_words(each)) for each in found]
    files = sum(each.files for each in found)
    message = f"Other users of this machine can read {counted(files, 'file')} of yours"
    if not files:
        message = "Other users of this machine can see the names of your files"
    command = patient.shell("chmod", "-R", "go-rwx", *(each.path for each in found))
    return finding("permissions", Urgency.ACT, message, examples, command)


def exposed(root: str) -> Exposed:
    """Tell what others can read of the tree at *root*; what the agent program owns is left out."""
    found = Exposed(path=root)
    ways = [_can_pass_to(root, passing) for _, passing in _CLASSES]
    waiting = [(root, ways)]
    while waiting:
        place, ways = waiting.pop()
        status = _status(place)
        if status is None or stat.S_ISLNK(status.st_mode) or not any(ways):
            continue
        is_open = [
            way and bool(status.st_mode & reading) and not _is_own_group(status, reading)
            for way, (reading, _) in zip(ways, _CLASSES, strict=True)
        ]
        if stat.S_ISDIR(status.st_mode):
            found.directories += any(is_open)
            inner = [
                way and bool(status.st_mode & passing)
                for way, (_, passing) in zip(ways, _CLASSES, strict=True)
            ]
            waiting += ((path, inner) for path in _inside(place, is_top=place == root))
        elif any(is_open):
            found.files += 1
            found.sample = found.sample or place
    return found


def _can_pass_to(path: str, passing: int) -> bool:
    """Tell whether a class of people can get as far as *path*."""
    for directory in Path(path).parents:
        status = _status(str(directory))
        if status is None or not status.st_mode & passing:
            # Who is of the group may still be let in as one of the others.
            if status is not None and passing == stat.S_IXGRP and status.st_mode & stat.S_IXOTH:
                continue
            return False
    return True


def _is_own_group(status: os.stat_result, reading: int) -> bool:
    """Tell whether the group is the owner's own, as many systems give each user one."""
    if sys.platform == "win32" or reading != stat.S_IRGRP:
        return False
    try:
        return grp.getgrgid(status.st_gid).gr_name == pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        return False


def _inside(directory: str, *, is_top: bool) -> Iterator[str]:
    try:
        with os.scandir(directory) as listing:
            for item in listing:
                if not (is_top and item.name in PROGRAMS_OWN and item.is_dir()):
                    yield item.path
    except OSError:
        return  # Not to be read by us; whoever looks for logs there says so.


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _words(found: Exposed) -> str:
    if not found.files:
        return counted(found.directories, "directory", "directories")
    return f"{counted(found.files, 'file')}, such as {os.path.relpath(found.sample, found.path)}"


def space(patient: Patient) -> list[Finding]:
    """Find disks on which there is little room left."""
    size_bytes = sum(file.size_bytes for home in patient.homes for file in home_files(home))
    disks: dict[int, str] = {}
    for place in (*(os.fspath(home) for home in patient.homes), os.fspath(patient.own)):
        there = _nearest(place)
        disks.setdefault(os.stat(there).st_dev, there)
    tight = []
    for place in disks.values():
        free = shutil.disk_usage(place).free
        if free < max(LEAST_FREE_BYTES, size_bytes):
            tight.append((free, Example(path=place, detail=f"{free / 1e6:,.0f} MB free")))
    tight.sort(key=lambda each: each[0])
    is_urgent = bool(tight) and tight[0][0] < LEAST_FREE_BYTES
    message = (
        "Less than 1 GB of disk is left"
        if is_urgent
        else f"Less disk is left than the homes take up ({size_bytes / 1e6:,.0f} MB)"
    )
    return finding(
        "space",
        Urgency.ACT if is_urgent else Urgency.LOOK,
        message,
        [example for _, example in tight],
        _way_to_room(patient),
    )


def _way_to_room(patient: Patient) -> str:
    """Tell what makes room: the trash if its time has come, else what nobody used for long."""
    if any(each.is_due(patient.now) for each in Trash(patient.own).entries()):
        return patient.command("trash", "empty", "--write")
    homes = [os.fspath(home) for home in patient.homes]
    return patient.command("retain", "--days", "90", "--archive-first", homes=homes)


def _nearest(place: str) -> str:
    """Give *place*, or the directory above it that exists."""
    while not os.path.exists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    return place
