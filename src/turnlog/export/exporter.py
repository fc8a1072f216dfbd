"""Export sessions as Markdown, HTML, JSON or raw lines, and list the exported files.

A value that is a secret anywhere in a session is masked everywhere in it. Raw lines are the log's
own bytes, including damage and a missing last newline; only lines with a secret differ. Lines moved
to a blob are restored. From the log of a day only the session's own lines are exported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Literal, get_args

from msgspec import Struct

from turnlog.config import load_config
from turnlog.errors import TurnlogError, UsageError
from turnlog.export.conversation import Conversation, ConversationOptions, Head, ToolDetail
from turnlog.export.conversation_builder import as_json, read_conversation
from turnlog.export.masking import Masking
from turnlog.formats import Home, LogFile, find_everywhere, turnlog_home
from turnlog.formats.find import in_reading_order
from turnlog.records.damage import Damage
from turnlog.redact import Pseudonyms, Rules, gather_known, rules_from
from turnlog.sessions.metadata import last_activity
from turnlog.sessions.owners import owner_in, share_out
from turnlog.sessions.session import Session
from turnlog.storage.blobs import whole_line
from turnlog.storage.logger import warn_of_settings
from turnlog.storage.scan import FoundLines
from turnlog.storage.sources import BrokenArchive, open_source

Shape = Literal["md", "html", "json"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)

_CSS: Final = """
td.title a { color: inherit; font-weight: 600; text-decoration-color: var(--line); }
td.title a:hover { color: var(--accent); }
td.when { white-space: nowrap; }
"""


def gather(homes: Iterable[Home], ids: Sequence[str]) -> Iterator[Session]:
    """Yield the sessions with *ids*, in that order; those without any log are left out.

    A session may have only its subagents' logs left.
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
    """Yield every line of every log of *sessions*, to gather known secrets from."""
    for session in sessions:
        for log in session.logs:
            with suppress(TurnlogError, OSError):  # Rendering reports it.
                for _, found in FoundLines(log.path, b"{"):
                    line = found if isinstance(found, Damage) else whole_line(log.path, found)
                    if not isinstance(line, Damage):
                        yield line


def masking_of(
    sessions: Iterable[Session],
    rules: Rules,
    *,
    is_redacted: bool,
    pseudonyms: Pseudonyms | None = None,
) -> Masking:
    """Return what masks *sessions*: a secret or name found anywhere in them, everywhere in them."""
    lines = known_lines(sessions)
    if pseudonyms is not None:
        lines = pseudonyms.learning(lines)
    if is_redacted:
        rules = gather_known(lines, rules)
    deque(lines if pseudonyms is not None else (), maxlen=0)  # Learn from the rest.
    return Masking(is_redacted=is_redacted, rules=rules, pseudonyms=pseudonyms)


def exported(
    session: Session,
    shape: Shape,
    choice: ConversationOptions,
    *,
    is_redacted: bool = True,
    pseudonyms: Pseudonyms | None = None,
) -> str:
    """Return the whole *session* as text; names are replaced if there are *pseudonyms*."""
    details = get_args(ToolDetail)
    for what, name, known in (("export", shape, SHAPES), ("detail", choice.tools, details)):
        if name not in known:
            raise UsageError(f"no {what} is called {name!r}", hint=f"there are {', '.join(known)}")
    config = load_config(turnlog_home())
    rules, problems = rules_from(config.redact)
    warn_of_settings((*config.problems, *problems))
    out = masking_of((session,), rules, is_redacted=is_redacted, pseudonyms=pseudonyms)
    return b"".join(pages(shape, read_conversation(session, choice, out))).decode()


def pages(shape: str, conversation: Conversation) -> Iterator[bytes]:
    """Yield a conversation, piece by piece."""
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
    """Yield the lines of the main log, or of the session's share of several."""
    session.path  # noqa: B018 - Raises if the main log is missing.
    for log in session.main_logs:
        yield from log_lines(session, log, out)


def log_lines(session: Session, log: LogFile, out: Masking) -> Iterator[bytes]:
    """Yield the session's lines of one log, each with its newline if it has one."""
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
        pass  # The rest is damaged, which turnlog check reports.
    finally:
        source.close()
    if rest := b"".join(held):
        yield rest


class Listed(Struct, kw_only=True):
    """A session and the file that it was written to."""

    file: str
    session: Head
    turns: int


class ContentsDocument(Struct, kw_only=True):
    """The ``index.json`` of several exported sessions."""

    sessions: list[Listed]


def newest_first(listed: Sequence[Listed]) -> list[Listed]:
    """Sort sessions by their last activity."""
    return sorted(listed, key=lambda item: str(item.session.last_active_at or ""), reverse=True)


def contents_page(listed: Sequence[Listed]) -> str:
    """Return the list as a page."""
    from turnlog.export.html.page import Fragment, element, escaped, page

    heads = ("session", "project", "when", "turns", "tokens", "cost")
    top = element(
        "tr",
        [element("th", head, class_="number" if n > 2 else None) for n, head in enumerate(heads)],
    )
    rows = []
    for item in listed:
        head = item.session
        # A relative address, which ``element`` does not allow.
        title = Fragment(f'<a href="./{escaped(item.file)}">{escaped(head.title or head.id)}</a>')
        cells = [
            element("td", title, class_="title"),
            element("td", head.project or "", class_="faint"),
            element("td", _when(head), class_="faint when"),
            element("td", f"{item.turns:,}", class_="number"),
            element("td", f"{head.figures.tokens:,}", class_="number"),
            element("td", head.figures.cost, class_="number"),
        ]
        rows.append(element("tr", cells))
    table = element("div", element("table", top, rows), class_="scroll")
    count = f"{len(listed):,} session" + ("s" if len(listed) != 1 else "")
    return page("Sessions", [element("h1", count), table], css=_CSS)


def contents_markdown(listed: Sequence[Listed]) -> str:
    """Return the list as Markdown."""
    from turnlog.export.markdown import plain

    lines = ["# Sessions", ""]
    for item in listed:
        head = item.session
        facts = (_when(head), f"{item.turns:,} turns", head.figures.cost)
        shown = ", ".join(fact for fact in facts if fact)
        lines.append(f"- [{plain(head.title or head.id)}](./{item.file}) ({shown})")
    return "\n".join(lines) + "\n"


def _when(head: Head) -> str:
    return f"{head.last_active_at:%Y-%m-%d %H:%M}" if head.last_active_at else ""
