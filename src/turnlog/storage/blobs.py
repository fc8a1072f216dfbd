"""Blobs: long lines moved out of a log into files of their own.

    {"type":"turnlog","event":"blob","sha256":"9f86…","length":181204,"uuid":"…",…}

A stub like this replaces the line in the log. Other programs ignore it as one of turnlog's own
records. The line itself is in ``ID/blobs/SHA256.zst`` next to the log ``ID.jsonl``, so it moves
along with the session's other files.

Reading returns the original line byte for byte and verifies its digest every time. A missing or
altered blob is reported as damage. Unpacking stops at the length in the stub, which is at most the
line cap. Symbolic links are not followed, and nothing is written here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from turnlog.records.codec import Envelope, decode, decode_envelope, encode
from turnlog.records.damage import Damage, Reason, damage_at
from turnlog.records.record import Record
from turnlog.storage.sources import LINE_CAP, open_regular
from turnlog.storage.system import read_at

STUB: Final = b'{"type":"turnlog","event":"blob","sha256":"'
"""What every stub, and no other line, begins with. One comparison of bytes recognizes it."""

_SUFFIX: Final = ".zst"
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
# The fields that scanners need without reading the line. No cwd: a relocation would miss it.
_CARRIED: Final = ("uuid", "parentUuid", "sessionId", "timestamp", "agentId", "isSidechain")


class _Stub(Struct):
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    length: Annotated[int, Meta(ge=1)]


class Blob(Struct, frozen=True):
    """A line to be moved: its digest, the stub that replaces it, and its compressed bytes."""

    sha256: str
    stub: bytes
    packed: bytes


class _Unusable(Exception):  # Internal: converted to damage in this module.
    """Why a blob cannot be read."""


_decode_stub = msgspec.json.Decoder(_Stub).decode


def whole_line(log: str | os.PathLike[str], line: bytes, *, cap: int = LINE_CAP) -> bytes | Damage:
    """Return the line that *line* of *log* represents: itself, or the blob if it is a stub."""
    if not line.startswith(STUB):
        return line
    try:
        stub = _decode_stub(line)
    except (ValueError, RecursionError):
        return line  # Truncated, glued, or not ours: an ordinary line.
    try:
        return _content(Path(log), stub, cap)
    except _Unusable as error:
        why = f"the blob {stub.sha256[:12]} {error}"
        return damage_at(line, Reason.BROKEN_BLOB, detail=why)


def decode_line(
    log: str | os.PathLike[str], line: bytes, known: Record | None = None, *, cap: int = LINE_CAP
) -> Record | Damage:
    """Decode the line that *line* of *log* represents; *known* is its own record if at hand."""
    original = whole_line(log, line, cap=cap)
    if isinstance(original, Damage):
        return original
    if original is line:
        return known or decode(line)
    found = decode(original)
    if isinstance(found, Damage):
        return damage_at(line, Reason.BROKEN_BLOB, detail="the blob holds no record")
    return found


def blob_of(line: bytes) -> Blob:
    """Return the blob of *line*, which has no newline."""
    from hashlib import sha256  # noqa: PLC0415 - Few logs have blobs, and it brings all of OpenSSL.

    from turnlog.storage.compressed import pack  # noqa: PLC0415 - It brings the compressor.

    digest = sha256(line).hexdigest()
    stub_fields: dict[str, object] = {"length": len(line)}
    envelope = decode_envelope(line)
    if isinstance(envelope, Envelope):
        values = {field.encode_name: getattr(envelope, field.name) for field in _FIELDS}
        stub_fields |= {key: values[key] for key in _CARRIED if _is_sound(values[key])}
    return Blob(digest, STUB + digest.encode() + b'",' + encode(stub_fields)[1:], pack(line))


def blob_place(log: Path, digest: str) -> Path:
    """Return the path of a blob of *log*."""
    return log.parent / _stem(log) / "blobs" / (digest + _SUFFIX)


def _is_sound(value: object) -> bool:
    """Return whether the value can be parsed by any program: a stub must be readable for all."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode() == value
    return isinstance(value, int | float) and -(2**53) < value < 2**53


def _content(log: Path, stub: _Stub, cap: int) -> bytes:
    if stub.length > cap:
        raise _Unusable(f"holds a line of {stub.length:,} bytes, over the cap")
    problems = []
    for path in _places(log, stub.sha256):
        try:
            return _read(path, stub)
        except LookupError:
            continue
        except _Unusable as error:
            problems.append(str(error))
    raise _Unusable(problems[0] if problems else "is missing")


def _read(path: Path, stub: _Stub) -> bytes:
    """Return the contents of a blob; raise LookupError if it does not exist."""
    from hashlib import sha256  # noqa: PLC0415 - As above.

    # Compression adds little to any line, so a larger file is not one of our blobs.
    most = stub.length + stub.length // 64 + 4096
    try:
        fd = open_regular(path, os.O_RDONLY | _NO_FOLLOW)
        try:
            data = read_at(fd, most + 1, 0)
        finally:
            os.close(fd)
    except OSError as error:
        raise _Unusable(f"cannot be read: {error}") from None
    for _ in path.suffixes:  # A kept copy of a blob is compressed twice.
        data = _unpacked(data, most)
    if len(data) != stub.length or sha256(data).hexdigest() != stub.sha256:
        raise _Unusable("was altered: its digest differs")
    return data


def _unpacked(data: bytes, most: int) -> bytes:
    """Decompress *data* to at most *most* bytes plus one."""
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - As above.
    else:
        from backports import zstd  # noqa: PLC0415 - As above.

    if not data.startswith(_MAGIC):
        raise _Unusable("was altered: it is not a blob")
    try:
        with zstd.ZstdFile(BytesIO(data), "rb") as file:
            return bytes(file.read(most + 1))
    except (OSError, EOFError, zstd.ZstdError) as error:
        raise _Unusable(f"was altered: it does not unpack ({error})") from None


def _places(log: Path, digest: str) -> Iterator[Path]:
    """Return the paths where a blob may be: next to its log, or where the log came from.

    An archive in ``compressed/`` left the directory behind, an earlier generation of a kept copy
    shares the blobs of the newest one, and a kept copy of a blob has one more suffix.
    """
    parents = [log.parent]
    if log.parent.name == "compressed":
        parents.append(log.parent.parent)
    parts = log.parent.parts
    if "generations" in parts:
        at = len(parts) - 1 - parts[::-1].index("generations")
        parents.append(Path(*parts[:at], *parts[at + 2 :]))
    for parent in parents:
        place = parent / _stem(log) / "blobs"
        yield place / (digest + _SUFFIX)
        yield place / (digest + _SUFFIX * 2)


def _stem(log: Path) -> str:
    """Return a log's name without its suffixes and without the affixes of a rewrite."""
    return log.name.removeprefix(".").partition(".jsonl")[0] or log.name


_FIELDS: Final = msgspec.structs.fields(Envelope)
