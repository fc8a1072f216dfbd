"""A session in the shape that was asked for: Markdown, a page, or JSON.

What is a secret anywhere in the session is masked wherever else it stands, unless told otherwise.

Many sessions by their ids, found in one walk over the homes; and all that their logs say.

A session's own lines, as its logs have them.

Without masking they are the log's bytes, damage and a missing last newline included; with it, a
line in which nothing had to be masked is still its own bytes. A line that turnlog had moved to a
blob is given whole. Of the log of a day only the session's own lines are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Literal, get_args

from turnlog.config import load_config
from turnlog.errors import TurnlogError, UsageError
from turnlog.export.conversation import Conversation, ConversationOptions, ThreadName
from turnlog.export.conversation_builder import as_json, read_conversation
from turnlog.export.masking import Masking
from turnlog.formats import Home, LogFile, find_everywhere, turnlog_home
from turnlog.formats.find import in_reading_order
from turnlog.records.damage import Damage
from turnlog.redact import gather_known, rules_from
from turnlog.sessions.metadata import last_activity
from turnlog.sessions.owners import owner_in, share_out
from turnlog.sessions.session import Session
from turnlog.storage.blobs import whole_line
from turnlog.storage.logger import warn_of_settings
from turnlog.storage.scan import FoundLines
from turnlog.storage.sources import BrokenArchive, open_source


def gather(homes: Iterable[Home], ids: Sequence[str]) -> Iterator[Session]:
    """Return the sessions called *ids*, in that order; those without any log are left out.

    A session may have lost its main log and still have its subagents'.
    """
    wanted = set(ids)
    found: dict[str, list[LogFile]] = {}
    days: list[LogFile] = []
    for log in find_everywhere(homes):
        if log.kind == "day":
            days.append(log)
            continue
        owner = log.session_id or (owner_in(log.path) if log.kind == "subagent" else None)
        if owner in wanted:
            found.setdefault(str(owner), []).append(log)
    for session_id, logs in share_out(days).items() if days else ():
        if session_id in wanted:
            found.setdefault(session_id, []).extend(logs)
    for name in ids:
        if name in found:
            yield Session(name, in_reading_order(found[name], last_activity))


def known_lines(sessions: Iterable[Session]) -> Iterator[bytes]:
    """Give every line of every log of *sessions*, for those who look for what is a secret there."""
    for session in sessions:
        for log in session.logs:
            with suppress(TurnlogError, OSError):  # Who renders it tells that.
                for _, found in FoundLines(log.path, b"{"):
                    line = found if isinstance(found, Damage) else whole_line(log.path, found)
                    if not isinstance(line, Damage):
                        yield line


Shape = Literal["md", "html", "json"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)


def exported(
    session: Session, shape: Shape, choice: ConversationOptions, *, is_redacted: bool = True
) -> str:
    """Return *session* whole, as text."""
    threads = get_args(ThreadName)
    for what, said, there_are in (("export", shape, SHAPES), ("thread", choice.thread, threads)):
        if said not in there_are:
            raise UsageError(
                f"no {what} is called {said!r}", hint=f"there are {', '.join(there_are)}"
            )
    config = load_config(turnlog_home())
    rules, problems = rules_from(config.redact)
    warn_of_settings((*config.problems, *problems))
    if is_redacted:
        rules = gather_known(known_lines((session,)), rules)
    out = Masking(is_redacted=is_redacted, rules=rules)
    return b"".join(pages(shape, read_conversation(session, choice, out))).decode()


def pages(shape: str, conversation: Conversation) -> Iterator[bytes]:
    """Return a conversation, piece by piece."""
    if shape == "html":
        from turnlog.export.html.session_page import session_page

        yield from (piece.encode() for piece in session_page(conversation))
    elif shape == "md":
        from turnlog.export.markdown import session_markdown

        yield from (piece.encode() for piece in session_markdown(conversation))
    else:
        from turnlog.export.conversation import document_of

        yield as_json(document_of(conversation))


def session_lines(session: Session, out: Masking) -> Iterator[bytes]:
    """Return the lines of the main log, or of the session's share of several."""
    session.path  # noqa: B018 - An error if there is none.
    for log in session.main_logs:
        yield from log_lines(session, log, out)


def log_lines(session: Session, log: LogFile, out: Masking) -> Iterator[bytes]:
    """Return the session's lines of one log, each with its newline if it has one."""
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
