"""What a person typed, told from what the program writes in a person's name."""

import pytest

from turnlog.records.meaning import command_in, is_interruption, is_news, is_typed, typed_text
from turnlog.records.record import (
    CallBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    UnknownBlock,
)

NOTICE = "<task-notification>done</task-notification>"


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Prune it.", "Prune it."),
        ("<command-name>/model</command-name>", "<command-name>/model</command-name>"),
        ("<bash-input>ls</bash-input>", "<bash-input>ls</bash-input>"),
        ("Why does <bash-stdout> say so?", "Why does <bash-stdout> say so?"),
        ("<role>Gardener</role>", "<role>Gardener</role>"),
        (f"{NOTICE}\nRead the output file", ""),
        ("\n <local-command-stderr>no</local-command-stderr> ", ""),
        ("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>", ""),
        ("<tick>10:00</tick>", ""),
        ("[Request interrupted by user]", ""),
        ("[Request interrupted by user] Why?", " Why?"),
        ("[Request interrupted by", "[Request interrupted by"),
        ("<ide_selection>a</ide_selection><system-reminder>b</system-reminder>Why?", "Why?"),
        ("<system-reminder>that was never closed", ""),
        ("", ""),
    ],
)
def test_what_was_typed_begins_behind_what_the_program_wrote(text, typed):
    assert typed_text(text) == typed
    assert is_typed([TextBlock(text)]) == bool(typed or not text)


@pytest.mark.parametrize(
    ("block", "typed"),
    [
        (ImageBlock(), True),
        (DocumentBlock(), True),
        (UnknownBlock("voice", {}), True),
        (ThinkingBlock("hm"), False),
        (CallBlock("c", "Bash"), False),
    ],
)
def test_what_is_pasted_is_typed_and_what_a_model_says_is_not(block, typed):
    assert is_typed([block]) is typed
    assert is_typed([TextBlock(NOTICE), block]) is typed


def test_who_says_nothing_is_taken_for_a_person_unless_the_program_speaks_beside():
    assert is_typed([])
    assert is_typed([TextBlock(" \n")])
    assert not is_typed([TextBlock(NOTICE), TextBlock(" \n")])


@pytest.mark.parametrize(
    ("text", "origin", "source", "typed"),
    [
        ("Prune it.", {"kind": "task-notification"}, None, False),
        ("Prune it.", {"kind": "peer", "from": "ada"}, None, False),
        ("Prune it.", None, "system", False),
        ("Prune it.", {"kind": "channel", "server": "post"}, None, True),
        ("Prune it.", {"kind": "a kind of tomorrow"}, "typed", True),
        (NOTICE, {"kind": "human"}, "typed", True),
        (NOTICE, {"kind": "channel", "server": "post"}, None, False),
        ("Prune it.", {"kind": ["odd"]}, None, True),
        ("Prune it.", "odd", None, True),
    ],
)
def test_what_a_record_says_of_its_origin_counts_more_than_its_words(text, origin, source, typed):
    assert is_typed([TextBlock(text)], origin, source) is typed


def test_marks_of_the_program_are_known_by_how_they_begin():
    assert is_interruption("[Request interrupted by user for tool use]")
    assert not is_interruption("Why [Request interrupted by user]?")
    assert is_news(f" {NOTICE}")
    assert not is_news("What is a <task-notification>?")
    assert (
        command_in("<command-message>m</command-message> <command-name> /m </command-name>") == "/m"
    )
    assert command_in("What is <command-name>/m</command-name>?") is None
