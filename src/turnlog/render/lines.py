"""A session's own lines, as its logs have them.

Without masking they are the log's bytes, damage and a missing last newline included; with it, a
line in which nothing had to be masked is still its own bytes. A line that turnlog had moved to a
blob is given whole. Of the log of a day only the session's own lines are given.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.formats import LogFile
from turnlog.render.outgoing import Outgoing
from turnlog.sessions.session import Session
from turnlog.storage.blobs import whole_line
from turnlog.storage.sources import BrokenArchive, open_source


def session_lines(session: Session, out: Outgoing) -> Iterator[bytes]:
    """Give the lines of the main log, or of the session's share of several."""
    session.path  # noqa: B018 - An error if there is none.
    for log in session.main_logs:
        yield from log_lines(session, log, out)


def log_lines(session: Session, log: LogFile, out: Outgoing) -> Iterator[bytes]:
    """Give the session's lines of one log, each with its newline if it has one."""
    if log.kind == "day":
        for placed in session.read(log):
            yield out.line(placed.record.raw) + b"\n"
        return
    for line in _lines(log):
        body = line.removesuffix(b"\n")
        whole = whole_line(log.path, body)
        if isinstance(whole, bytes):
            body = whole
        yield out.line(body) + line[len(line.removesuffix(b"\n")) :]


def _lines(log: LogFile) -> Iterator[bytes]:
    source = open_source(log.path)
    held: list[bytes] = []  # The pieces of the line whose end is not read yet.
    try:
        while chunk := source.read(1 << 20):
            *lines, last = chunk.split(b"\n")
            if lines:
                yield b"".join((*held, lines[0], b"\n"))
                yield from (line + b"\n" for line in lines[1:])
                held = []
            held.append(last)
    except BrokenArchive:
        pass  # What could be unpacked has been given; turnlog check tells of the rest.
    finally:
        source.close()
    if rest := b"".join(held):
        yield rest
