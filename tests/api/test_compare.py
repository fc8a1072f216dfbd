"""Two sessions side by side: what each has of its own, and what both have."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.homes import own_index
from insights.edited_home import edited_home, plain_edits
from mcp_contexts import ONE, TWO
from turnlog.api.sessions.compare import PromptSide, _aligned, compare_sessions
from turnlog.api.sessions.lists import session_figures
from turnlog.errors import AmbiguousSession, NotFound
from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh

NOW = datetime(2026, 11, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    directory = tmp_path_factory.mktemp("compare")
    home = edited_home(directory)
    with own_index(directory / "own"), open_fresh(find_homes((home,))) as found:
        found.home = home
        yield found


class Costs:
    """The costs of sessions, made up."""

    def of(self, sessions):
        return {each: "1.5" for each in sessions if each == ONE}


@pytest.fixture(scope="module")
def found(index):
    return compare_sessions(index, ONE, TWO, costs=Costs(), now=NOW)


def test_prompts_are_aligned_and_the_first_difference_is_marked(found):
    told = [
        (pair.match, pair.a and pair.a.text[:13], pair.b and pair.b.text) for pair in found.prompts
    ]
    assert told == [
        ("same", "Prune the tre", "Prune the tree"),
        ("changed", "And the fence", "And the press"),
    ]
    assert found.first_difference == 1
    assert found.prompts[1].shared == len("And the ")


def test_figures_are_those_of_the_sessions(index, found):
    for side, session in ((found.a, ONE), (found.b, TWO)):
        plain = [edit for edit in plain_edits(index.home) if edit.session == session]
        assert side.session.id == session
        assert side.files == len({edit.path for edit in plain})
        assert (side.added, side.removed) == (
            sum(edit.added for edit in plain),
            sum(edit.removed for edit in plain),
        )
        number = index.db.execute("SELECT id FROM sessions WHERE session = ?", (session,))
        figures = session_figures(index, number.fetchone()[0])
        assert side.calls == sum(each.calls for each in figures.calls)
        assert side.errors == sum(each.errors for each in figures.calls)
    assert (found.a.session.cost_usd, found.b.session.cost_usd) == ("1.5", None)
    assert found.a.answer == "The **fence** stands."
    assert found.b.answer == "Pressed."


def test_tools_files_and_errors_are_side_by_side(found):
    tools = {each.tool: (each.a_calls, each.a_errors, each.b_calls, each.b_errors)
             for each in found.tools}  # fmt: skip
    assert tools == {"Edit": (4, 1, 1, 0), "Write": (1, 0, 1, 0), "Bash": (1, 1, 0, 0),
                     "Read": (1, 0, 0, 0)}  # fmt: skip
    files = {each.path: (each.a and each.a.edits, each.b and each.b.edits) for each in found.files}
    assert files["src/tree.py"] == (2, 1)
    assert files["notes.md"] == (1, None)
    assert files["press.py"] == (None, 1)
    assert sorted((each.tool, each.text, each.a, each.b) for each in found.errors) == [
        ("Bash", "Error: no fence", 1, 0),
        ("Edit", "ok", 1, 0),
    ]


def test_a_session_is_the_same_as_itself(index):
    found = compare_sessions(index, ONE, ONE[:6], now=NOW)
    assert found.first_difference is None
    assert found.a == found.b
    assert all(each.a == each.b for each in found.files)


def test_names_that_fit_no_session_or_several_are_refused(index):
    with pytest.raises(NotFound):
        compare_sessions(index, ONE, "nobody", now=NOW)
    with pytest.raises(NotFound):
        compare_sessions(index, "", TWO, now=NOW)


def test_a_name_of_several_sessions_is_ambiguous(tmp_path):
    home = edited_home(tmp_path)
    log = next(home.rglob(f"{ONE}.jsonl"))
    other = f"{ONE[:4]}{ONE[4:].replace('1', '3')}"
    log.with_name(f"{other}.jsonl").write_text(log.read_text().replace(ONE, other))
    with (
        own_index(tmp_path / "own"),
        open_fresh(find_homes((home,))) as index,
        pytest.raises(AmbiguousSession),
    ):
        compare_sessions(index, ONE[:4], TWO, now=NOW)


texts = st.lists(st.sampled_from(["go on", "test", "commit", "why?"]), max_size=12)


@given(texts, texts)
def test_an_alignment_has_every_prompt_in_its_order(one, other):
    def sides(said):
        return [PromptSide(number=n, record=None, at=None, text=text)
                for n, text in enumerate(said, 1)]  # fmt: skip

    pairs = list(_aligned(sides(one), sides(other)))
    assert [pair.a.text for pair in pairs if pair.a] == one
    assert [pair.b.text for pair in pairs if pair.b] == other
    for pair in pairs:
        is_same = pair.a is not None and pair.b is not None and pair.a.text == pair.b.text
        assert is_same == (pair.match == "same")
    if one == other:
        assert {pair.match for pair in pairs} <= {"same"}
