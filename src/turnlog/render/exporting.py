"""A session in the shape that was asked for: Markdown, a page, or JSON.

What is a secret anywhere in the session is masked wherever else it stands, unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, get_args

from turnlog.config import load_config
from turnlog.errors import UsageError
from turnlog.formats import turnlog_home
from turnlog.redact import gather_known, rules_from
from turnlog.render.conversation import Choice, Conversation, ThreadName
from turnlog.render.gathering import known_lines
from turnlog.render.outgoing import Outgoing
from turnlog.render.telling import as_json, tell
from turnlog.sessions.session import Session
from turnlog.storage.logger import warn_of_settings

Shape = Literal["md", "html", "json"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)


def exported(session: Session, shape: Shape, choice: Choice, *, is_redacted: bool = True) -> str:
    """Give *session* whole, as text."""
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
    out = Outgoing(is_redacted=is_redacted, rules=rules)
    return b"".join(pages(shape, tell(session, choice, out))).decode()


def pages(shape: str, conversation: Conversation) -> Iterator[bytes]:
    """Give a conversation, piece by piece."""
    if shape == "html":
        from turnlog.render.session_page import session_page

        yield from (piece.encode() for piece in session_page(conversation))
    elif shape == "md":
        from turnlog.render.markdown import session_markdown

        yield from (piece.encode() for piece in session_markdown(conversation))
    else:
        from turnlog.render.conversation import document_of

        yield as_json(document_of(conversation))
