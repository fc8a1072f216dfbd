"""What a session is called: the same wherever it is told, whoever reads how much of its log."""

import json

import pytest

from turnlog.keep.activity import activity_of, title_of
from turnlog.layout import Home
from turnlog.questions.catalog import list_sessions
from turnlog.render.reading import read_session
from turnlog.sessions.session import Session

SESSION = "11111111-aaaa-4aaa-8aaa-111111111111"
FIRST = {"type": "user", "message": {"role": "user", "content": "Count the apples"}}
COMMAND = {
    "type": "user",
    "message": {"role": "user", "content": "<command-name>/review</command-name>"},
}
SUMMARY = {"type": "summary", "summary": "Another session's pears", "leafUuid": "x"}
ASKED = {"type": "last-prompt", "lastPrompt": "And the pears?"}
FILLER = [{"type": "system", "content": "x" * 10_000}] * 20


@pytest.mark.parametrize(
    ("records", "title"),
    [
        ([SUMMARY, FIRST], "Another session's pears"),
        ([SUMMARY, FIRST, *FILLER], "Count the apples"),
        ([FIRST, *FILLER, SUMMARY], "Another session's pears"),
        ([FIRST, ASKED, *FILLER], "Count the apples"),
        ([FIRST, *FILLER, ASKED], "And the pears?"),
        ([COMMAND, *FILLER, FIRST], "/review"),
        ([COMMAND, FIRST, *FILLER], "Count the apples"),
    ],
)
def test_whoever_reads_all_of_a_log_calls_it_as_lists_do(tmp_path, records, title):
    place = tmp_path / "projects" / "-srv"
    place.mkdir(parents=True)
    named = ({"sessionId": SESSION, "uuid": str(n)} | each for n, each in enumerate(records))
    (place / f"{SESSION}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in named))
    home = Home(tmp_path)
    session = Session.find([home], SESSION)
    assert [row.title for row in list_sessions([home]).sessions] == [title]
    assert session.summary.title == session.metadata.title == title
    assert read_session(session).summary.title == title
    assert activity_of(SESSION, session.logs).title == title
    assert title_of(SESSION, session.logs) == title
