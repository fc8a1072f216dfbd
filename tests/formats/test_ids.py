"""Ids: what may become part of a file name."""

from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.errors import InvalidId
from turnlog.formats import (
    check_session_id,
    check_subagent_id,
    is_session_id,
    is_subagent_id,
    is_uuid,
    new_session_id,
    new_subagent_id,
)


@pytest.mark.parametrize(
    "text", ["0", "main", "a_b-c", "x" * 128, "25568e21-39f0-4018-a741-ee405a85ff74"]
)
def test_plain_ids_pass(text):
    assert check_session_id(text) == text
    assert check_subagent_id(text) == text


@pytest.mark.parametrize("text", ["a1a93487", "acompact-1f", "aprompt_suggestion-9", "-x", "_"])
def test_agents_ids_seen_in_the_wild_pass(text):
    assert check_subagent_id(text) == text


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "a/b", "a\\b", "../x", "/x", "C:", "a\0", "a\n", "é", "x" * 129, "a b", "a.b"],
)
def test_anything_that_is_not_one_plain_component_is_refused_with_a_hint(text):
    for check in (check_session_id, check_subagent_id):
        with pytest.raises(InvalidId) as caught:
            check(text)
        assert caught.value.hint


@pytest.mark.parametrize("given", [None, 7, b"a1", ["a1"], object()])
def test_what_is_no_text_is_no_id(given):
    for check in (check_session_id, check_subagent_id):
        with pytest.raises(InvalidId, match=type(given).__name__) as caught:
            check(given)
        assert "text" in caught.value.hint


@pytest.mark.parametrize("text", ["CON", "nul", "Aux", "PRN", "com1", "LPT9", "COM0"])
def test_windows_devices_are_refused(text):
    for check in (check_session_id, check_subagent_id):
        with pytest.raises(InvalidId, match="cannot be") as caught:
            check(text)
        assert "Windows" in caught.value.hint


@pytest.mark.parametrize("text", ["-x", "_x"])
def test_a_session_id_does_not_begin_like_an_option(text):
    with pytest.raises(InvalidId):
        check_session_id(text)


def test_the_message_for_a_huge_id_stays_short():
    with pytest.raises(InvalidId) as caught:
        check_session_id("/" * 1_000_000)
    assert len(str(caught.value)) < 200


@given(st.text(max_size=140))
def test_the_check_and_the_question_agree(text):
    for check, question in ((check_session_id, is_session_id), (check_subagent_id, is_subagent_id)):
        if question(text):
            assert check(text) == text
        else:
            with pytest.raises(InvalidId):
                check(text)


def test_new_ids_are_fresh_and_pass_their_own_checks():
    sessions = {new_session_id() for _ in range(50)}
    assert len(sessions) == 50
    assert all(is_uuid(each) and uuid.UUID(each).version == 4 for each in sessions)
    assert re.fullmatch(r"a[0-9a-f]{6}", check_subagent_id(new_subagent_id()))


def test_a_uuid_is_known_in_either_case_and_only_in_full():
    text = str(uuid.uuid4())
    assert is_uuid(text)
    assert is_uuid(text.upper())
    assert not is_uuid(text[:-1])
    assert not is_uuid(text + "\n")
    assert not is_uuid(text.replace("-", ""))
