"""The fold that tells what a session is about."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.records.codec import decode
from turnlog.records.session_summary import PROMPT_LENGTH, SessionSummary, prompt_preview


def fold(*records):
    found = SessionSummary()
    for fields in records:
        found.take(decode(json.dumps(fields).encode()))
    return found


def prompt(text, **more):
    return {"type": "user", "message": {"role": "user", "content": text}, "uuid": "u"} | more


TITLES = [
    prompt("first words"),
    {"type": "summary", "summary": "a summary", "leafUuid": "u"},
    {"type": "last-prompt", "lastPrompt": "last words", "sessionId": "s"},
    {"type": "ai-title", "aiTitle": "what a model says", "sessionId": "s"},
    {"type": "custom-title", "customTitle": "what a person says", "sessionId": "s"},
]
EXPECTED = ["first words", "a summary", "last words", "what a model says", "what a person says"]


@pytest.mark.parametrize("count", range(1, 6))
def test_the_surest_title_wins(count):
    assert fold(*TITLES[:count]).title == EXPECTED[count - 1]


def test_the_last_title_of_a_kind_counts():
    titles = [{"type": "ai-title", "aiTitle": title} for title in ("one", "two")]
    assert fold(*titles).title == "two"


def test_a_title_inside_a_tools_input_is_no_title():
    block = {"type": "tool_use", "id": "c", "name": "Write", "input": {"customTitle": "EVIL"}}
    sly = {"type": "assistant", "message": {"role": "assistant", "content": [block]}}
    assert fold(prompt("honest"), sly).title == "honest"


def test_an_empty_tag_clears_the_one_before():
    assert fold({"type": "tag", "tag": "x"}, {"type": "tag", "tag": ""}).tag is None


def test_times_are_the_earliest_and_the_latest_whatever_the_order():
    found = fold(
        prompt("a", timestamp="2026-01-02T00:00:00Z"),
        prompt("b", timestamp="2026-01-01T00:00:00Z"),
        prompt("c", timestamp="9999-99-99T99:99:99Z"),
    )
    assert found.started_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert found.last_active_at == datetime(2026, 1, 2, tzinfo=UTC)
    assert found.records == found.prompts == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Fix\n  the   gate", "Fix the gate"),
        ("<local-command-stdout>ok</local-command-stdout>", None),
        ("[Request interrupted by user for tool use]", None),
        ("<bash-input>ls -l</bash-input>", "! ls -l"),
        ("", None),
        ("x" * 300, "x" * 200 + "…"),
        ("a < b, is it not?", "a < b, is it not?"),
        ("<orchard>Whose is it?</orchard>", "<orchard>Whose is it?</orchard>"),
        ("<system-reminder>Be kind.</system-reminder>\nWhose?", "Whose?"),
    ],
)
def test_what_a_human_typed_is_told_from_what_a_program_wrapped(text, said):
    assert prompt_preview(text) == said


def test_a_session_of_commands_is_called_by_its_first():
    found = fold(prompt("<command-name>/review</command-name>"))
    assert found.title == "/review"


def test_a_command_is_no_title_where_something_was_asked():
    command = prompt("<command-name>/clear</command-name>")
    last = {"type": "last-prompt", "lastPrompt": "/clear", "sessionId": "s"}
    assert fold(command, prompt("Fix the gate"), last).title == "Fix the gate"
    assert fold(command, last).title == fold(last).title == "/clear"
    last["lastPrompt"] = "/review"
    assert fold(prompt("Fix the gate"), last).title == "/review"  # A model answered that.


@given(st.text(st.sampled_from("ab \n\t\u2028"), max_size=1500))
def test_a_long_text_is_cut_as_a_short_one_is(text):
    line = " ".join(text.split())
    cut = line if len(line) <= PROMPT_LENGTH else line[:PROMPT_LENGTH].rstrip() + "…"
    assert prompt_preview(text) == (cut or None)


def test_what_an_editor_adds_to_a_prompt_does_not_hide_it():
    blocks = [
        {"type": "text", "text": text} for text in ("<ide_selection>x</ide_selection>", "Why?")
    ]
    assert fold(prompt(blocks)).title == "Why?"
    assert fold(prompt(blocks[:1])).title is None


def test_results_and_injected_records_are_no_prompts():
    block = {"type": "tool_result", "tool_use_id": "c", "content": "done"}
    tool = {"type": "user", "message": {"role": "user", "content": [block]}}
    assert fold(tool, prompt("Caveat", isMeta=True), prompt("real")).first_prompt == "real"


def test_the_prompt_of_an_agent_in_the_same_log_neither_counts_nor_names_the_session():
    found = fold(prompt("Look for pears", isSidechain=True), prompt("mine"))
    assert (found.prompts, found.title) == (1, "mine")


def test_a_session_that_moved_is_where_it_went():
    moved = {"type": "relocated", "relocatedCwd": "/new", "sessionId": "s"}
    assert fold(prompt("a", cwd="/old"), moved).cwd == "/new"


def test_an_agents_log_is_no_session_of_its_own():
    assert fold(prompt("a", isSidechain=True)).is_sidechain
    assert not fold(prompt("a"), prompt("b", isSidechain=True)).is_sidechain
