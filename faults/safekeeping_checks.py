"""What must hold in a world whatever happened to a command: looked at from outside.

Every byte that a session wrote is there, whole: at its place, in a kept copy that unpacks, in the
trash, in a flat store's archive or in what a compaction put aside. Files that are still being made
count for nothing. Every log that a reader is shown is one that stood there before, or one that the
undisturbed command would have left; no session is listed twice, and none is missing unless it is in
the trash. And once the command was run again, the world is the one that it would have left.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from backports.zstd import decompress

from turnlog.catalog.sessions import list_sessions
from turnlog.errors import TurnlogError
from turnlog.formats.find import find_everywhere
from turnlog.keep.trash.trash import Trash
from turnlog.sessions.journal import DELETED, RESTORED
from turnlog.sessions.session import owner_in
from turnlog.storage.compressed import unpack
from turnlog.storage.reader import Placed, Reader

from .safekeeping_world import World, is_cache
from .tally import Tally

_LITTER = re.compile(r"^\.turnlog-[0-9a-f]+\.part$|^\..*\.repair-[0-9TZ.]+$|^\.purging-")
_RANDOM = re.compile(r"(?<=\.turnlog-)[0-9a-f]+|[0-9]{8}T[0-9]{6}(\.[0-9]+)?Z")
_ORIGINAL = re.compile(r"\.(?:original|replaced)-[0-9TZ.]+$")
_ENTRY = re.compile(r"^(own/trash/)[0-9TZ]+-")
_PASSING = {".lock", "last-run.json"}
# When something was done, what a copy's file was touched last, and sums that may be left out.
# What is not known any more is found out again at the next rewrite: is_whole.
_STAMPS = re.compile(r"_at$|At$|^mtime_ns$|^sums$|^is_whole$|modified|updated|created")

State = dict[str, object]
Seen = dict[tuple[str, str | None], set[tuple[bytes, ...]]]


class Litter(NamedTuple):
    """Something half made that nobody needs any more."""

    name: str
    path: Path


def files_of(world: World) -> Iterator[tuple[str, Path]]:
    """Give every file and directory, by the name that it has in the world."""
    for tree, top in world.trees:
        for directory, inner, files in os.walk(top):
            for each in (*inner, *files):
                path = Path(directory, each)
                yield f"{tree}/{path.relative_to(top).as_posix()}", path


def is_litter(name: str) -> bool:
    """Tell whether somebody was still making what is called that, or taking it apart."""
    return any(_LITTER.match(part) for part in name.split("/"))


def litter(world: World) -> list[Litter]:
    return [Litter(name, path) for name, path in files_of(world) if is_litter(name)]


def fingerprint(world: World) -> bytes:
    """Sum up everything that lies there, half made or not, but for what is random in names."""
    found = sha256()
    for name, path in sorted(files_of(world)):
        found.update(_RANDOM.sub("", name).encode() + b"\0")
        if path.is_file():
            found.update(path.read_bytes() + b"\0")
    return found.digest()


# -- bytes ----------------------------------------------------------------------------------


def contents(world: World) -> dict[str, bytes]:
    """Give what every file holds, unpacked; raises if a copy that has its name is broken."""
    found = {}
    for name, path in files_of(world):
        if is_litter(name) or not path.is_file() or path.is_symlink():
            continue
        if name.endswith(".zst") and "/blobs/" not in name:
            found[name] = b"".join(unpack(path))
        elif name.endswith(".zst"):
            found[name] = decompress(path.read_bytes())
        elif name.endswith(".gz"):
            found[name] = gzip.decompress(path.read_bytes())
        else:
            found[name] = path.read_bytes()
    return found


def precious(world: World) -> dict[str, bytes]:
    """Give what of the world must never be lost: what sessions wrote, wherever it lies."""
    found = contents(world)
    return {name: data for name, data in found.items() if _is_precious(name)}


def _is_precious(name: str) -> bool:
    if name.startswith("home/"):
        return not is_cache(name.removeprefix("home/"))
    if name.startswith("own/kept/"):
        return name.endswith(".zst")
    tree, _, inner = "/".join(name.split("/")[3:]).partition("/")
    return name.startswith("own/trash/") and tree in {"home", "kept"} and not is_cache(inner)


def lost(wanted: dict[str, bytes], world: World) -> list[str]:
    """Name what is neither in its place nor in any copy."""
    there = list(contents(world).values())
    whole = set(there)
    return [
        name
        for name, data in wanted.items()
        if data not in whole and not any(each.startswith(data) for each in there)
    ]


# -- readers --------------------------------------------------------------------------------


def seen_by_readers(world: World) -> Seen:
    """Give the records of every log that turnlog shows, by session and agent."""
    found: Seen = {}
    for log in find_everywhere(world.homes):
        with Reader(log.path) as reader:
            items = list(reader)
        records = tuple(
            item.record.raw if isinstance(item, Placed) else b"damage: " + item.excerpt
            for item in items
        )
        owner = log.session_id or owner_in(log.path) or ""
        found.setdefault((owner, log.agent_id), set()).add(records)
    return found


def sessions_listed(world: World) -> Counter[str]:
    rows = list_sessions(world.homes, archived=None).sessions
    return Counter(row.id for row in rows)


def sessions_in_trash(world: World) -> set[str]:
    return {one for each in Trash(world.own).entries() for one in each.entry.sessions}


# -- the whole ------------------------------------------------------------------------------


def state_of(world: World) -> State:
    """Describe the world as far as it follows from what was done, and not from when."""
    found: dict[str, object] = {}
    for name, path in files_of(world):
        plain = _ENTRY.sub(r"\1", _ORIGINAL.sub(".original", name))
        base = path.name
        if is_litter(name) or base in _PASSING or (plain in found and path.is_dir()):
            continue
        if _is_held(path):
            continue
        if path.is_dir():
            found[plain] = "directory"
        elif plain in found:
            found[f"{plain} once more"] = path.read_bytes()
        elif base == "journal.jsonl" and name.startswith("own/"):
            found[plain] = _events(path)
        elif base == "catalogue.json":
            found[plain] = _without_stamps(_sorted(path, json.loads(path.read_bytes())))
        elif base == "entry.json" or is_cache(name.removeprefix("home/")):
            found[plain] = _without_stamps(json.loads(path.read_bytes()))
        else:
            found[plain] = path.read_bytes()
    return found


def _events(path: Path) -> object:
    """Give what the journal says, once: a command that was cut off says it again.

    A deletion that failed was taken back before the one that did not.
    """
    records = [json.loads(each) for each in path.read_bytes().splitlines()]
    said: set[tuple[str, str]] = set()
    for each in records:
        event, session = str(each.get("event")), str(each.get("sessionId"))
        if event == DELETED:
            said.discard((RESTORED, session))
        said.add((event, session))
    return sorted(said)


def _is_held(path: Path) -> bool:
    """Return whether a copy is an earlier generation that the copy in place begins with.

    The next rewrite drops it; a `keep` that was killed may leave it until then.
    """
    mirror, _, below = str(path).partition("/generations/")
    newest = Path(mirror, below.partition("/")[2])
    if not below or not path.is_file() or not newest.is_file():
        return False
    try:
        return b"".join(unpack(newest)).startswith(b"".join(unpack(path)))
    except TurnlogError:
        return False


def _sorted(path: Path, catalogue: dict[str, Any]) -> dict[str, Any]:
    def is_held(each: Any) -> bool:
        copy = f"generations/{each.get('generation', 1)}/{each['name']}.zst"
        return _is_held(path.parent / copy)

    return {
        name: sorted(
            (each for each in value if not is_held(each)),
            key=lambda each: (each["name"], each.get("generation", 1)),
        )
        if isinstance(value, list)
        else value
        for name, value in catalogue.items()
    }


def _without_stamps(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_stamps(each) for name, each in value.items() if not _STAMPS.search(name)
        }
    return [_without_stamps(each) for each in value] if isinstance(value, list) else value


def differences(ours: State, expected: State) -> list[str]:
    """Say in which files two states differ."""
    return [
        *(f"{name} is missing" for name in sorted(expected.keys() - ours.keys())),
        *(f"{name} is left over" for name in sorted(ours.keys() - expected.keys())),
        *(
            f"{name} differs: {_shown(ours[name], expected[name])}"
            for name in sorted(ours.keys() & expected.keys())
            if ours[name] != expected[name]
        ),
    ]


def _shown(ours: object, expected: object) -> str:
    if isinstance(ours, bytes) and isinstance(expected, bytes):
        return f"{len(ours)} bytes, not {len(expected)}"
    return f"{ours} instead of {expected}"[:900]


class Check:
    """What must hold in one scene: learnt from the world before, and from an undisturbed run."""

    def __init__(self, world: World, *, is_purge: bool = False, replaced: str = "") -> None:
        """Look at the world before anything is done.

        *replaced* is the file that the command is meant to replace, though nobody wrote it but us.
        """
        self.wanted = {n: data for n, data in precious(world).items() if n != f"home/{replaced}"}
        self._known = seen_by_readers(world)
        self._sessions = set(sessions_listed(world)) | sessions_in_trash(world)
        self._is_purge = is_purge
        self.final: State = {}

    def undisturbed(self, tally: Tally, world: World) -> None:
        """Look at the world after the command has done its work."""
        self.final = state_of(world)
        gone = set(lost(self.wanted, world))
        if self._is_purge:
            self.wanted = {n: data for n, data in self.wanted.items() if n not in gone}
            self._sessions &= set(sessions_listed(world)) | sessions_in_trash(world)
        elif gone:
            tally.lose(f"undisturbed: {sorted(gone)[:3]}", len(gone))
        for key, lists in seen_by_readers(world).items():
            self._known.setdefault(key, set()).update(lists)

    def now(self, tally: Tally, where: str, world: World) -> None:
        """Check what must hold at every moment."""
        gone = lost(self.wanted, world)
        if gone:
            tally.lose(f"{where}: {gone[:3]}", len(gone))
        tally.acknowledged += len(self.wanted)
        for key, lists in seen_by_readers(world).items():
            if odd := lists - self._known.get(key, set()):
                tally.violate(f"{where}: a reader is shown {_briefly(odd)} as {key}")
        listed = sessions_listed(world)
        if twice := [each for each, count in listed.items() if count > 1]:
            tally.violate(f"{where}: listed twice: {twice}")
        if missing := self._sessions - listed.keys() - sessions_in_trash(world):
            tally.lose(f"{where}: neither listed nor in the trash: {sorted(missing)}")

    def finished(self, tally: Tally, where: str, world: World) -> None:
        """Check that the world is the one that an undisturbed command leaves."""
        for each in differences(state_of(world), self.final)[:4]:
            tally.violate(f"{where}: {each}")


def _briefly(lists: Iterable[tuple[bytes, ...]]) -> str:
    return "; ".join(f"{len(each)} records, {b' '.join(each)[:80]!r}" for each in lists)
