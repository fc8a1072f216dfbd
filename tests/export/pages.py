"""Homes with one session, told and drawn; and what a page is made of."""

import json
import re
from html.parser import HTMLParser

from turnlog.export.conversation import ConversationOptions
from turnlog.export.conversation_builder import read_conversation
from turnlog.export.html.session_page import session_page
from turnlog.export.markdown import session_markdown
from turnlog.export.masking import Masking
from turnlog.formats import find_homes
from turnlog.sessions.session import Session

ID = "77777777-dddd-4ddd-8ddd-777777777777"


def home_of(directory, *records, subagents=(), raw=None):
    """Make a home with one session and give it."""
    project = directory / "home" / "projects" / "-srv-orchard"
    project.mkdir(parents=True, exist_ok=True)
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in records)
    (project / f"{ID}.jsonl").write_bytes(lines if raw is None else raw)
    for subagent, said in subagents:
        path = project / ID / "subagents" / f"agent-{subagent}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in said))
    return directory / "home"


def told(home, *, is_redacted=True, **choice):
    session = Session.find(find_homes([home]), ID)
    return read_conversation(
        session, ConversationOptions(**choice), Masking(is_redacted=is_redacted)
    )


def page_of(home, **choice):
    return "".join(session_page(told(home, **choice)))


def markdown_of(home, **choice):
    return "".join(session_markdown(told(home, **choice)))


class Inspection(HTMLParser):
    """What a browser would find in a page, as far as it could do harm."""

    VOID = frozenset({"meta", "input", "img", "br", "hr"})

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.addresses, self.images = set(), set(), [], []
        self.text, self.comments, self.open, self.inside = [], [], [], {"script": [], "style": []}
        self.feed(page)
        self.close()
        assert self.open == [], "elements that are never closed"

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        for name, value in attrs:
            if name in ("href", "action", "formaction"):
                self.addresses.append(value)
            if name in ("src", "srcset", "data", "poster"):
                self.images.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open[-1:] == [tag], f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] in self.inside:
            self.inside[self.open[-1]].append(data)
        else:
            self.text.append(data)

    def handle_comment(self, data):
        self.comments.append(data)


ALLOWED_TAGS = set(
    "html head meta title style body header h1 h2 h3 h4 h5 h6 dl div dt dd p main section a span "  # noqa: SIM905
    "details summary b i code pre ins del em strong s ul ol li blockquote table thead tbody tr th "
    "td hr br img nav input button output label script mark".split()
)
ALLOWED_ATTRIBUTES = set(
    "charset http-equiv content name lang class id href rel src alt loading type placeholder "  # noqa: SIM905
    "aria-label title role hidden checked start tabindex data-n".split()
)
ADDRESS = re.compile(r"#t\d+|#[tr][0-9a-f]{12}(?:-[a-z]\d+)?|https?://\S+|mailto:\S+")
IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")


def assert_inert(page, script):
    """Assert that nothing in *page* runs but *script*, and nothing is asked for."""
    found = Inspection(page)
    assert found.tags <= ALLOWED_TAGS
    assert found.attributes <= ALLOWED_ATTRIBUTES
    assert all(ADDRESS.fullmatch(each) for each in found.addresses)
    assert all(IMAGE.fullmatch(each) for each in found.images)
    assert found.inside["script"] == [script]
    assert len(found.inside["style"]) == 1
    assert found.comments == []
    assert "default-src 'none'" in page
    return found
