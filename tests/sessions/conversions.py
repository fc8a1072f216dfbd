"""Sessions to convert: of every layout and dialect, tidy and odd, and how to compare them."""

import json
import os
from datetime import date
from pathlib import Path

from hypothesis import strategies as st

from records.samples import CLAUDE
from strategies import good_records, spoiled, to_line
from turnlog.formats import Home, hash_of, key_of
from turnlog.records.annotations import note_on, with_note
from turnlog.records.codec import decode
from turnlog.records.record import Record
from turnlog.records.record_types import Marker
from turnlog.sessions.session import Session

ID = "77777777-abcd-4bcd-8bcd-777777777777"
PROJECT = "/srv/kites"
KEY, HASH = key_of(PROJECT), hash_of(PROJECT)
DAY = date(2026, 3, 4)
LAYOUTS = ("claude", "dated", "flat")
NAMELESS = f"{HASH}/{DAY}"


def write(root, layout, lines, session_id=ID, *, day=DAY):
    """Put a session of *lines* where *layout* has it, as another program would; give its log."""
    places = {
        "claude": f"projects/{KEY}/{session_id}.jsonl",
        "dated": f"projects/{HASH}/{day}.jsonl",
        "flat": f"sessions/{session_id}.jsonl",
    }
    path = Path(root) / places[layout]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def found(root, session_id=ID, layout=None):
    """Find a session; *layout* tells which where several have that id."""
    session = Session.find((Home(Path(root)),), session_id)
    if layout is None:
        return session
    mains = [log for log in session.logs if log.kind != "subagent" and log.layout == layout]
    return Session(session.id, mains)


def lines_of(session):
    return [item.record.raw for item in session.items()]


def subagents_of(session):
    """Give the lines of every subagent's log, by its place beside the main one."""
    base = session.path.parent
    return {
        os.path.relpath(log.path, base): [item.record.raw for item in session.read(log)]
        for log in session.logs
        if log.kind == "subagent"
    }


def bytes_under(root):
    return {path: path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


# -- lines ----------------------------------------------------------------------------------

# Lines of other conversions, or that pretend to be: each must come back as it was.
PRETENDERS = [
    with_note(to_line(CLAUDE["user"]), session=ID),
    with_note(to_line(CLAUDE["user"]), session="another"),
    with_note(to_line(CLAUDE["summary"]), was='{"type":"user"}'),
    with_note(to_line(CLAUDE["summary"]), part=True),
    with_note(to_line(CLAUDE["summary"]), kept=True),
    with_note(b'{"type":"user","content":"said"}', kept=True, session=ID),
    b'{"type":"user","turnlogNote":{"was":5},"message":{"role":"user","content":"x"}}',
    b'{"type":"turnlog","format":1,"convertedFrom":"flat","originalId":"kite"}',
    b'{"type":"turnlog","format":1,"writer":"turnlog 0.1"}',
    b'{"type":"turnlog","event":"kept","sessionId":"' + ID.encode() + b'"}',
]
ODDITIES = [
    b"{}",
    b"{ }",
    b'\xef\xbb\xbf{"type":"user","content":"marked"}',
    b'{"type":"user","content":"\xff\xfe"}',
    b'{"type":"assistant","content":[{"type":"text","text":"\\ud800"}]}',
    b'{"type":"user","content":"x","odd":NaN}',
    b'{"type":"user","content":"ends in","as":"others do"}\r',
    b'{"type":"tool_result","tool_use_id":"gone","content":"nobody asked"}',
    b'{"type":"tool_call","tool":"Read","arguments":{}}',
    b'{"type":"tool_result","tool":"Read","result":{"any":["thing",1.50]}}',
    b'{"role":"user","content":"the sibling"}',
    b'{"type":["no","name"],"content":[]}',
]

lines = st.one_of(
    good_records().map(to_line),
    good_records().map(lambda fields: to_line(fields, spaced=True, ascii_only=True)),
    spoiled().map(to_line),
    st.sampled_from(PRETENDERS),
    st.sampled_from(ODDITIES),
)


@st.composite
def sessions(draw, layout):
    """The lines of a session that may stand in *layout*, and the session's id."""
    # A log whose first lines are the head of a conversion is a converted one: that is another test.
    first = to_line(draw(st.sampled_from([CLAUDE["user"], CLAUDE["mode"], CLAUDE["summary"]])))
    found = [first, *draw(st.lists(lines, max_size=8))]
    found = [line for line in found if not _is_newer(line)]
    if layout != "dated":
        return found, draw(st.sampled_from([ID, "kite_1"]))
    if draw(st.booleans()):
        return [named(line, ID) for line in found], ID
    return [nameless for line in found if (nameless := _nameless(line)) is not None], NAMELESS


def named(line, session_id):
    """Give *line* its session's id, in whatever way it can bear it."""
    if note_on(line):
        return with_note(line, session=session_id)
    try:
        return to_line(json.loads(line) | {"sessionId": session_id}, ascii_only=True)
    except UnicodeDecodeError:
        return with_note(line, session=session_id)


def _nameless(line):
    """Give *line* without any session's id; None if it then belongs to nobody."""
    try:
        fields = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError:
        return line
    if note_on(line):
        return None
    fields.pop("sessionId", None)
    fields.pop("metadata", None)
    bare = to_line(fields, ascii_only=True)
    record = decode(bare)
    head = isinstance(record, Marker) and record.event is None
    return bare if isinstance(record, Record) and record.session_id is None and not head else None


def _is_newer(line):
    record = decode(line)
    return isinstance(record, Marker) and record.format is not None and record.format > 1
