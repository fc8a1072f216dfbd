"""Relocate a session to another directory: change the cwd of its lines, and verify it.

Two things tie a session to its directory: the name of the directory under ``projects/``, and the
``cwd`` of its records (with ``relocatedCwd`` of a ``relocated`` record, which takes precedence).
Only these change: not messages, tools' inputs and results, snapshots, worktree states or damaged
lines. Those describe the past, and Claude Code resumes without them.

A line keeps its spacing, escapes and order of members; only the value is replaced, if it is the old
directory or below it. Every line is then compared with the original by a second method, and
`shape_of` shows whether the threads of both logs are the same.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnlog.errors import UsageError, WriteFailed
from turnlog.formats import FORMATS
from turnlog.records.codec import decode
from turnlog.records.damage import Reason
from turnlog.records.lenient_json import NotJson, loads_noting, walk_object
from turnlog.records.record import Record
from turnlog.sessions.reading.threads import main_thread, whole_thread
from turnlog.sessions.reading.tree import Tree
from turnlog.storage.reader import Placed, pieces_of
from turnlog.storage.sources import LINE_CAP

if TYPE_CHECKING:
    from _hashlib import HASH

_CWD: Final = b'"cwd"'
_RELOCATED: Final = b'"relocatedCwd"'
_SPELLED_OUT: Final = re.compile(rb"\\u00[4-7]")  # A letter may be escaped.
_MEMBER: Final = re.compile(
    rb'"cwd"[ \t\r\n]*+:[ \t\r\n]*+("[^"\\]*+(?:\\.[^"\\]*+)*+")', re.DOTALL
)
_WINDOWS: Final = re.compile(r"[A-Za-z]:(?:[\\/]|$)|\\\\")
_ROOT: Final = re.compile(r"/?|[A-Za-z]:\\?")
_SPACE: Final = b" \t\r\n"
_BEFORE: Final = re.compile(rb"(?:\xef\xbb\xbf)?\x00*")  # Ignored before a record.


class Move(Struct, frozen=True):
    """A move from one directory to another; both absolute, of any system."""

    old: str
    new: str

    def of(self, path: str) -> str:
        """Return *path* after the move: unchanged unless it is the old directory or below it."""
        old, here = _comparable(self.old), _comparable(path)
        if here == old:
            return self.new
        windows, to_windows = is_windows(self.old), is_windows(self.new)
        # Everything is below the root of a disk, without being part of a project there.
        if _ROOT.fullmatch(old) or not here.startswith(old + ("\\" if windows else "/")):
            return path
        rest = path[len(old) :]
        if windows != to_windows:
            rest = rest.replace("/", "\\") if to_windows else rest.replace("\\", "/")
        return self.new.rstrip("\\/" if to_windows else "/") + rest


def is_windows(path: str) -> bool:
    """Return whether *path* is a Windows path, with a drive or a server."""
    return _WINDOWS.match(path) is not None


def new_project(directory: str | os.PathLike[str]) -> str:
    """Return *directory* as Claude Code would name it; it need not exist yet.

    A path of another system is returned as it is.
    """
    text = os.fspath(directory)
    if not text or "\0" in text:
        raise UsageError(f"{text[:80]!r} is not a directory", hint="name the project's directory")
    if os.sep == "/" and is_windows(text):
        return text
    path = unicodedata.normalize("NFC", os.path.realpath(text))
    if os.path.lexists(path) and not os.path.isdir(path):
        raise UsageError(f"{path} is not a directory", hint="name the project's directory")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{path!r} is not valid text", hint="Claude Code cannot record this directory"
        ) from None
    return path


def project_in(lines: Iterable[bytes], name: str | None) -> str | None:
    """Return the directory of a session from the *lines* of its log.

    *name* is that of the log's directory under ``projects/``: of several directories, the one with
    this key counts, else the first.
    """
    first: str | None = None
    for line in lines:
        for _, _, value in _values(line):
            if name is None or any(each.is_project_name(name, value) for each in FORMATS):
                return value
            first = first or value
    return first


def relocate_line(line: bytes, move: Move) -> bytes:
    """Return *line* with its ``cwd`` moved; the same bytes if there is none to move."""
    for start, end, value in reversed(_values(line)):
        if (new := move.of(value)) != value:
            line = line[:start] + _encoded(new) + line[end:]
    return line


def differs_only_in_cwd(old: bytes, new: bytes, move: Move) -> bool:
    """Return whether *new* is *old* with its ``cwd`` moved, and otherwise byte for byte equal.

    It finds the members with a decoder, where `relocate_line` searches bytes, and the other way
    round: the two do not share their mistakes.
    """
    if old == new and b"wd" not in old and not _SPELLED_OUT.search(old):
        return True
    try:
        members, moved = _members(old), _members(new)
    except (ValueError, RecursionError):
        return _differs_by_tokens(old, new, move)
    if list(members) != list(moved):
        return False
    changed = [name for name, raw in members.items() if bytes(raw) != bytes(moved[name])]
    speaking = _speaking(members)
    for name in speaking:
        value = _text(bytes(members[name]))
        if value is None:
            is_right = name not in changed  # A value that is not a string does not move.
        else:
            is_right = _text(bytes(moved[name])) == move.of(value)
        if not is_right:
            return False
    if not changed:
        return old == new or _differs_by_tokens(old, new, move)
    if changed[0] not in speaking or len(changed) > 1:
        return _differs_by_tokens(old, new, move)
    before, after = bytes(members[changed[0]]), bytes(moved[changed[0]])
    at = _same_until(old, new) - _same_until(before, after)
    once = at >= 0 and new == old[:at] + after + old[at + len(before) :]
    return once or _differs_by_tokens(old, new, move)


class Relocation:
    """Relocates one log line by line. *changed* counts the lines that it changed."""

    def __init__(self, move: Move, *, cap: int = LINE_CAP) -> None:
        self.move = move
        self.changed = 0
        self.elsewhere = 0
        """Lines of records from outside the project; they keep their ``cwd``."""
        self._cap = cap

    def lines(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the log in *chunks* after the move; raise if the verification fails."""
        for line, is_whole in split(chunks, cap=self._cap):
            if not is_whole:  # Beyond the cap, it is not a record for any reader.
                yield line
                continue
            new = relocate_line(line, self.move)
            if not differs_only_in_cwd(line, new, self.move):
                raise WriteFailed(
                    "moving a session would have changed more than its working directory",
                    path=self.move.new,
                    hint="nothing was changed; please report this",
                )
            self.changed += new is not line
            self.elsewhere += new is line and bool(_values(line))
            yield new


def shape_of(chunks: Iterable[bytes]) -> str:
    """Return a digest of a log's structure: its records, links, threads and gaps."""
    digest = sha256()
    tree = Tree(_records(chunks, digest))
    for thread in (tree.nodes, main_thread(tree), whole_thread(tree)):
        for node in thread:
            above = node.parent.uuid if node.parent else None
            digest.update(repr((node.uuid, node.type, node.parent_uuid, above)).encode())
        digest.update(b"\n")
    for gap in tree.gaps:
        digest.update(repr((gap.node.uuid, gap.named, gap.reason)).encode())
    digest.update(repr((len(tree.replaced), [item.record.type for item in tree.loose])).encode())
    return digest.hexdigest()


def _records(chunks: Iterable[bytes], digest: HASH) -> Iterator[Placed]:
    """Yield the records of a log, and its damage."""
    offset = 0
    for line, is_whole in split(chunks):
        data = line.removesuffix(b"\n")
        record = decode(data) if is_whole else None
        if isinstance(record, Record):
            yield Placed(record, offset, len(data))
        elif record is None or record.reason is Reason.BLANK:
            digest.update(data)
        else:
            for item in pieces_of(data, record, offset):
                if isinstance(item, Placed):
                    yield item
                else:
                    digest.update(repr((item.reason, item.length)).encode())
        offset += len(line)


def split(chunks: Iterable[bytes], *, cap: int = LINE_CAP) -> Iterator[tuple[bytes, bool]]:
    """Split *chunks* into lines, with their newlines; a line past the cap comes in pieces.

    All bytes are returned in order; False marks a piece that is not a whole line.
    """
    carry = BytesIO()
    overlong = False
    for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start) + 1) or start < len(chunk):
            piece = chunk[start : end or len(chunk)]
            start = end or len(chunk)
            carry.write(piece)
            overlong = overlong or carry.tell() > cap
            if end or overlong:
                yield carry.getvalue(), not overlong
                carry = BytesIO()
                overlong = overlong and not end
    if carry.tell():
        yield carry.getvalue(), not overlong


def _comparable(path: str) -> str:
    """Return *path* in a form in which equal paths compare equal; its length stays."""
    if is_windows(path):
        path = path[:1].lower() + path[1:].replace("/", "\\")
        return path if _ROOT.fullmatch(path) else path.rstrip("\\")
    return path if _ROOT.fullmatch(path) else path.rstrip("/")


# -- where a line says its cwd ------------------------------------------------------------------


class _Cwd(Struct):
    cwd: Raw | UnsetType = UNSET


_decode_cwd: Final = msgspec.json.Decoder(_Cwd).decode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def _values(line: bytes) -> list[tuple[int, int, str]]:
    """Return the spans and values of the members that hold a record's directory."""
    spelled_out = _SPELLED_OUT.search(line) is not None
    at = line.find(_CWD)
    if not spelled_out and _RELOCATED not in line:
        if at < 0:
            return []
        if line.find(_CWD, at + 1) < 0 and (found := _MEMBER.match(line, at)):
            # The key occurs once. If a decoder finds the member at the top level, it is this one.
            try:
                if _decode_cwd(line).cwd is not UNSET:
                    value = _text(found[1])
                    return [] if value is None else [(*found.span(1), value)]
                return []
            except (ValueError, RecursionError):
                pass
    return _values_by_tokens(line)


def _values_by_tokens(line: bytes) -> list[tuple[int, int, str]]:
    spans = _spans(line)
    if spans is None:
        return []
    tokens = _speaking_tokens(line, spans)
    texts = ((start, end, _text(line[start:end])) for start, end in tokens)
    return [(start, end, text) for start, end, text in texts if text is not None]


def _spans(line: bytes) -> tuple[tuple[int, int, int, int], ...] | None:
    """Return the spans of the top-level members; None if the line is not one whole object."""
    before = _BEFORE.match(line)
    walk = walk_object(line, before.end() if before else 0)
    return walk.members if walk.whole and not line[walk.end :].strip(_SPACE) else None


def _speaking_tokens(
    line: bytes, spans: tuple[tuple[int, int, int, int], ...]
) -> list[tuple[int, int]]:
    named = [(_text(line[a:b]), (c, d)) for a, b, c, d in spans]
    types = [_text(line[start:end]) for name, (start, end) in named if name == "type"]
    wanted = {"cwd", "relocatedCwd"} if "relocated" in types else {"cwd"}
    return [span for name, span in named if name in wanted]


def _speaking(members: dict[str, Raw]) -> list[str]:
    """Return the names of the members that hold a record's directory."""
    is_relocated = "type" in members and _text(bytes(members["type"])) == "relocated"
    wanted = ("cwd", "relocatedCwd") if is_relocated else ("cwd",)
    return [name for name in wanted if name in members]


def _differs_by_tokens(old: bytes, new: bytes, move: Move) -> bool:
    """Compare lines that no decoder accepts, or that have a member twice."""
    spans, others = _spans(old), _spans(new)
    if spans is None or others is None or len(spans) != len(others):
        return old == new
    speaking = set(_speaking_tokens(old, spans))
    done, gone_by = 0, 0
    for (_, _, start, end), (_, _, at, stop) in zip(spans, others, strict=True):
        if old[done:start] != new[gone_by:at]:
            return False
        before, after = old[start:end], new[at:stop]
        value = _text(before) if (start, end) in speaking else None
        if value is None or move.of(value) == value:
            if before != after:
                return False
        elif _text(after) != move.of(value):
            return False
        done, gone_by = end, stop
    return old[done:] == new[gone_by:]


def _text(token: bytes) -> str | None:
    """Return the string of a token; None if it is not a string, or not valid text."""
    if token[:1] != b'"':
        return None
    try:
        value, noted = loads_noting(token)
    except NotJson:
        return None
    return value if isinstance(value, str) and not noted else None


def _encoded(text: str) -> bytes:
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:  # A lone surrogate has no UTF-8 form, only an escape.
        return json.dumps(text).encode("ascii")


def _same_until(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
