"""Side files as the index reads them: prompts, plans, todos, tasks.

The home's list of prompts is appended to, like a log. Plans, todo lists and tasks are replaced as a
whole, so they are identified by a digest of their content, and are one record each.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from turnlog.formats import FORMATS, Home
from turnlog.formats.kept_copies import KEPT_SUFFIX, copy_roots, kept_place
from turnlog.formats.walk import DirectoryWalk
from turnlog.index.ids import BESIDE
from turnlog.index.texts import Text, TextKind, leaves
from turnlog.records.lenient_json import NotJson, loads

PROMPTS, PLAN, TODOS, TASK = "prompts", "plan", "todos", "task"
_SIZE_CAP: Final = 16 * 1024 * 1024


class SideFile(NamedTuple):
    """A side file that the index reads like a log."""

    path: Path
    home: Home
    kind: str
    session_id: str | None = None
    agent_id: str | None = None
    project_key: str | None = None
    layout: str = BESIDE


def side_files_of(homes: Iterable[Home], times: dict[str, int]) -> Iterator[SideFile]:
    """Yield the side files of *homes*; add the mtime of each directory to *times*.

    For a file that is gone but has a kept copy, the copy is yielded.
    """
    for home in homes:
        there = set()
        for name, side in _files_in(home, home.path, times):
            there.add(name)
            yield side
        place = kept_place(home)
        if os.path.isdir(place):  # Also false without permission to look.
            for root in copy_roots(place).values():
                kept = _files_in(home, root, times, suffix=KEPT_SUFFIX)
                yield from (side for name, side in kept if name not in there)


def _files_in(
    home: Home, place: Path, times: dict[str, int], *, suffix: str = ""
) -> Iterator[tuple[str, SideFile]]:
    """Yield the side files at *place*, which is laid out like *home*, with their names there."""
    with suppress(OSError):
        times[os.fspath(place)] = os.stat(place).st_mtime_ns
    walk = DirectoryWalk(times=times)
    for form in FORMATS:
        for kind, pattern in form.text_files.items():
            for name, item in walk.matching(str(place), pattern, suffix):
                todos = form.todo_owners(name) if kind == TODOS else None
                owners = [(form.owner_of(name), None)] if todos is None else todos
                if owners and item.kind == "file":
                    yield name, SideFile(Path(item.path), home, kind, *owners[0])


def texts_of_side(kind: str, data: bytes) -> list[Text]:
    """Return the texts of a side file, or of one line of the list of prompts."""
    if kind == PLAN:
        text = data.decode(errors="replace")
        return [Text(TextKind.PLAN, text)] if text.strip() else []
    try:
        value = loads(data)
    except (NotJson, ValueError, RecursionError):
        return []
    if kind == PROMPTS:
        return [Text(TextKind.HISTORY, text) for text in _typed(value) if text]
    text = leaves(_text_of(value))
    return [Text(TextKind.TODO, text)] if text else []


def content_of(path: str | os.PathLike[str]) -> tuple[bytes, bytes]:
    """Return the content of a side file, and its digest."""
    if os.fspath(path).endswith(KEPT_SUFFIX):
        from turnlog.storage.compressed import unpack  # noqa: PLC0415 - Few are kept copies.

        data = b"".join(unpack(path))[:_SIZE_CAP]
    else:
        with open(path, "rb") as file:
            data = file.read(_SIZE_CAP)
    return data, blake2b(data, digest_size=16).digest()


def _typed(value: Any) -> Iterator[str]:
    """Yield a prompt as it was typed, and what was pasted into it."""
    if isinstance(value, dict):
        yield from (value[key] for key in ("display",) if isinstance(value.get(key), str))
        pasted = value.get("pastedContents")
        if isinstance(pasted, dict):
            for paste in pasted.values():
                if isinstance(paste, dict) and isinstance(paste.get("content"), str):
                    yield paste["content"]


def _text_of(value: Any) -> Any:
    """Return the text of todos and tasks, without states and ids."""
    if isinstance(value, list):
        return [_text_of(each) for each in value]
    if isinstance(value, dict):
        wanted = ("content", "activeForm", "subject", "description", "todos")
        return [_text_of(value[key]) for key in wanted if key in value]
    return value
