"""Homes and flat stores to archive, and ways to ask whether everything of them still exists."""

import errno
import gzip
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

from keep.orchard_store import ID, KEY, put, said
from turnlog.api.sessions.kept_session import KeptSession
from turnlog.errors import TurnlogError
from turnlog.formats import Home
from turnlog.formats.kept_copies import kept_copy, kept_place
from turnlog.storage.compressed import unpack

CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or Path(__file__).parents[4] / "shared" / "corpus" / "claude"
)
MAIN = f"{KEY}/{ID}.jsonl"
CALLS = ("rename", "replace", "link", "unlink", "rmdir", "mkdir", "open", "fsync", "fdatasync",
         "write", "utime")  # fmt: skip


_LINES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([said(ID), said(ID)[:-1], b"\r\n", b"\0" * 9, b'{"type":"user"', b"\x1f\x8b"]),
)
LOGS = st.builds(
    lambda lines, end: b"\n".join(lines) + end,
    st.lists(_LINES, max_size=6),
    st.sampled_from([b"", b"\n", b"\r\n", b"\0"]),
)
HUGE = said(ID) + said(ID, "k" * 3 * 1024 * 1024) + b'"' + os.urandom(100_000)


@contextmanager
def somewhere():
    """Give a directory, and a home of turnlog's own in it."""
    before = os.environ["TURNLOG_HOME"]
    with tempfile.TemporaryDirectory(prefix="turnlog-archives-") as place:
        os.environ["TURNLOG_HOME"] = os.path.join(place, "own")
        try:
            yield Path(place)
        finally:
            os.environ["TURNLOG_HOME"] = before


def small_home(path, main=None, **more):
    """A session of Claude Code with one file of each kind that is treated in a way of its own."""
    home = Home(path)
    parts = {
        MAIN: said(ID) + said(ID, "And the apple tree") if main is None else main,
        f"{KEY}/{ID}/subagents/agent-a1.jsonl": said(ID, "look", agentId="a1"),
        f"{KEY}/{ID}/tool-results/b1.txt": b"a long answer\0",
        f"todos/{ID}-agent-{ID}.json": b"[]",
        **more,
    }
    for name, data in parts.items():
        put(home, name, data, at=1_767_400_000)
    return home, parts


def flat_store(path, main=None, session=ID):
    """A session of a flat store, with a subagent and what else may lie in its directory."""
    home = Home(path)
    parts = {
        f"sessions/{session}.jsonl": said(session) + said(session, "B") if main is None else main,
        f"sessions/{session}/subagents/agent-a1.jsonl": said(session, "look", agentId="a1"),
        f"sessions/{session}/tool-results/b1.txt": b"a long answer\0",
        f"sessions/{session}/blobs/{'0' * 64}.zst": b"packed already",
    }
    for name, data in parts.items():
        put(home, name, data, at=1_767_400_000)
    return home, parts


def session_in(home, text=ID):
    return KeptSession.find((home,), text)


def there(home, parts):
    """Give those of *parts* that lie in the home, and hold what they did."""
    found = {name: home.path / name for name in parts}
    return {n: p.read_bytes() for n, p in found.items() if p.is_file()}


def is_safe(home, name, data):
    """Tell whether a file is whole in its place, or a copy of it is, which was read back."""
    path = home.path / name
    if path.is_file() and path.read_bytes() == data:
        return True
    return copied(home, name) == data


def copied(home, name):
    """Give what the kept copy, or the archive, of a file holds; None if none can be read."""
    top, _, rest = name.partition("/")
    flat = home.path / top / "compressed" / rest
    try:
        if flat.is_file():
            return flat.read_bytes()
        if flat.with_name(flat.name + ".gz").is_file():
            return gzip.decompress(flat.with_name(flat.name + ".gz").read_bytes())
        return b"".join(unpack(kept_copy(kept_place(home), name)))
    except (TurnlogError, OSError, EOFError):
        return None


class Stopped(OSError):
    """What a test makes the system say."""


@contextmanager
def stops_at(monkeypatch, number, *, code=errno.EIO, for_good):
    """Let the *number*-th of the calls that change a disk fail, and all that follow if *for_good*.

    Gives a list of the calls that were made; it is longer than *number* if one failed.
    """
    calls = []
    with monkeypatch.context() as patch:
        for name in CALLS:
            real = getattr(os, name)

            def one(*args, _real=real, _name=name, **more):
                if _name == "open" and not args[1] & os.O_CREAT:
                    return _real(*args, **more)
                calls.append(_name)
                if len(calls) > number if for_good else len(calls) == number + 1:
                    raise Stopped(code, os.strerror(code))
                return _real(*args, **more)

            patch.setattr(os, name, one)
        yield calls
