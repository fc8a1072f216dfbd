"""No way out forgets to mask: secrets of every kind, wherever a session can hold one."""

import html
import random

import pytest

from export.pages import ID, home_of, told
from redact.planted import KINDS, plant, survives
from sessions.trees import answer, call, record
from turnlog.catalog.period import Period
from turnlog.export.conversation import document_of
from turnlog.export.conversation_builder import as_json
from turnlog.export.exporter import session_lines
from turnlog.export.html.session_page import session_page
from turnlog.export.markdown import session_markdown
from turnlog.export.masking import Masking
from turnlog.export.tables import Tables, as_csv
from turnlog.formats import find_homes
from turnlog.sessions.session import Session

RNG = random.Random(20260304)
PLANTED = [plant(RNG, kind) for kind in KINDS for _ in range(2)]


def records():
    """Each secret as a prompt, an answer, a thought, a call, a result and a change, in turn."""
    parent = None
    for number, planted in enumerate(PLANTED):
        text, own = planted.text, f"{number}"
        patch = [{"oldStart": 1, "newStart": 1, "lines": [f"+{x}" for x in text.split("\n")]}]
        answered = {"type": "tool_result", "tool_use_id": f"c{own}", "content": text}
        where = number % 5
        if where == 0:
            yield record(own, parent, message={"role": "user", "content": text})
        elif where == 1:
            yield answer(own, parent, f"m{own}", {"type": "text", "text": text})
        elif where == 2:
            yield answer(own, parent, f"m{own}", {"type": "thinking", "thinking": text})
        elif where == 3:
            yield answer(own, parent, f"m{own}", call(f"c{own}", "Write", content=text))
        else:
            yield answer(f"a{own}", parent, f"m{own}", call(f"c{own}", "Edit", new_string=text))
            message = {"role": "user", "content": [answered]}
            result = {"structuredPatch": patch}
            yield record(own, f"a{own}", message=message, toolUseResult=result)
        parent = own


def ways(home):
    session = Session.find(find_homes([home]), ID)
    tables = Tables(lambda: [session], Masking(), Period())
    return {
        "html": lambda: "".join(session_page(told(home))),
        "md": lambda: "".join(session_markdown(told(home))),
        "json": lambda: as_json(document_of(told(home))).decode(),
        "jsonl": lambda: b"".join(session_lines(session, Masking())).decode(),
        "calls": lambda: b"".join(as_csv("calls", tables.calls())).decode(),
        "records": lambda: b"".join(as_csv("records", tables.records())).decode(),
    }


@pytest.mark.parametrize("way", ["html", "md", "json", "jsonl", "calls", "records"])
def test_planted_secrets_do_not_leave(tmp_path, way):
    text = ways(home_of(tmp_path, *records()))[way]()
    assert len(text) > 2000
    left = [each.kind for each in PLANTED if survives(each.secret, html.unescape(text))]
    assert len(left) <= len(PLANTED) * 3 // 100, left


def test_secrets_leave_when_asked_to(tmp_path):
    text = "".join(session_page(told(home_of(tmp_path, *records()), is_redacted=False)))
    left = sum(survives(each.secret, html.unescape(text)) for each in PLANTED)
    assert left > len(PLANTED) * 9 // 10
