"""The scope holds: no argument leads out of it, and what is outside cannot be told from nothing."""

import json
import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from index.homes import own_index
from mcp_contexts import HUSHED, ONE, ORCHARD, OUTSIDE, Log, desk_of, text_of
from turnlog.errors import TurnlogError
from turnlog.formats import find_homes
from turnlog.formats.projects import is_within
from turnlog.mcp.context import ToolContext
from turnlog.mcp.tools import TOOLS

PARTS = st.sampled_from(
    ["..", ".", "press", "orchard", "orchards", "home", "ada", "~", "", "/", "//", "\x00", "…"]
)


@given(st.lists(PARTS, max_size=8).map("/".join) | st.text(max_size=40), st.booleans())
@example("/home/ada/orchard/../orchards", False)
@example("/home/ada/orchard/press/../..", False)
@example("/home/ada/orchard\n", False)
@example("~", False)
def test_no_path_leads_out(asked, is_whole):
    ctx = ToolContext(homes=(), scope=ORCHARD)
    try:
        project = ctx.project(f"{ORCHARD}/{asked}" if is_whole else asked)
    except TurnlogError:
        return
    assert is_within(os.path.normpath(project), ORCHARD)
    assert ".." not in project.split("/")


def test_without_a_scope_a_path_must_be_whole():
    ctx = ToolContext(homes=(), scope=None)
    assert ctx.project(None) is None
    assert ctx.project("/home/ada/orchard/../orchards") == OUTSIDE
    for asked in (".", "orchard", ""):
        with pytest.raises(TurnlogError):
            ctx.project(asked)


def test_the_same_session_in_another_home_and_project_stays_outside(tmp_path):
    with own_index(tmp_path / "own"):
        for home, project, word in (("a", ORCHARD, "inside"), ("b", OUTSIDE, HUSHED)):
            Log(tmp_path / home, ONE, project, word=word, hostile="").say_everything()
            Log(
                tmp_path / home, ONE, project, word=word, hostile="", subagent=f"a{home}00"
            ).say_everything()
        homes = find_homes((tmp_path / "a", tmp_path / "b"))
        calls = {
            "search_history": [{"query": HUSHED}, {"query": "apples", "session": ONE}],
            "session_overview": [{"session": ONE}],
            "session_turns": [{"session": ONE}, {"session": ONE, "turn": 1}],
            "query_history": [{"resource": "messages"}, {"resource": "tools", "filter": {}}],
            "past_files": [{}, {"session": ONE}],
        }
        for tool in TOOLS:
            for arguments in calls.get(tool.name, [{}]):
                text = text_of(desk_of(homes), tool, **arguments)
                heard = text.replace(json.dumps(HUSHED), "")
                assert HUSHED not in heard, f"{tool.name}({arguments})"
                assert OUTSIDE not in text, f"{tool.name}({arguments})"


def test_what_is_outside_and_what_is_nowhere_are_told_alike(ctx):
    def said(session):
        (tool,) = (each for each in TOOLS if each.name == "session_overview")
        with pytest.raises(TurnlogError) as caught:
            text_of(ctx, tool, session=session)
        return caught.value.message.replace(session, "X"), caught.value.hint

    assert said("ffffffff") == said("eeeeeeee")
