"""Lists of edits have what the lines of the logs have, each edit once, the latest first."""

import os
from pathlib import Path

import pytest

from index.homes import own_index
from insights.edited_home import edited_home, plain_edits
from mcp_contexts import ONE, ORCHARD, PRESS, TWO
from turnlog.api.files import edit_diff, list_edits
from turnlog.errors import NotFound
from turnlog.export.diffs import counted
from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh

CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus" / "claude"
)


@pytest.fixture(scope="module", params=["made", "corpus"])
def home(request, tmp_path_factory):
    """An index and the plain edits of the same home."""
    if request.param == "corpus" and not CORPUS.is_dir():
        pytest.skip("no corpus: TURNLOG_CORPUS names none")
    directory = tmp_path_factory.mktemp("edits")
    home = edited_home(directory) if request.param == "made" else CORPUS
    with own_index(directory / "own"), open_fresh(find_homes((home,))) as index:
        yield index, list(plain_edits(home))


def test_every_edit_is_listed_once_with_its_lines(home):
    index, plain = home
    found = list_edits(index, limit=100_000)
    told = sorted(
        (
            edit.path,
            edit.tool,
            edit.session,
            edit.record,
            edit.added,
            edit.removed,
            edit.subagent is not None,
        )
        for edit in found.edits
    )
    assert told == sorted(
        (
            edit.path,
            edit.tool,
            edit.session,
            edit.record,
            edit.added,
            edit.removed,
            edit.is_subagents,
        )
        for edit in plain
    )
    assert found.total == len(plain) > 5
    assert found.files == len({edit.path for edit in plain})
    assert found.sessions == len({edit.session for edit in plain})
    times = [edit.at for edit in found.edits]
    assert times == sorted(times, reverse=True)


def test_pages_are_parts_of_the_whole(home):
    index, _ = home
    whole = list_edits(index, limit=100_000).edits
    assert list_edits(index, limit=3).edits == whole[:3]
    assert list_edits(index, limit=3, offset=2).edits == whole[2:5]
    assert list_edits(index, limit=3).next == 3
    assert list_edits(index, limit=len(whole)).next is None
    assert list_edits(index, offset=len(whole)).edits == []


def test_a_diff_has_the_lines_that_the_list_counts(home):
    index, _ = home
    for edit in list_edits(index, limit=200).edits:
        diff = edit_diff(index, edit.session, edit.record, edit.block)
        assert diff.hunks is not None
        if edit.added is not None:
            assert (diff.added, diff.removed) == (edit.added, edit.removed)
        if not diff.unlisted:
            assert counted(diff.hunks) == (diff.added, diff.removed)


@pytest.fixture
def made(tmp_path):
    home = edited_home(tmp_path)
    with own_index(tmp_path / "own"), open_fresh(find_homes((home,))) as index:
        yield index, list(plain_edits(home))


def records(found):
    return {edit.record for edit in found.edits}


def test_filters_keep_what_matches(made):
    index, plain = made

    def kept(is_kept):
        return {edit.record for edit in plain if is_kept(edit)}

    tree = f"{ORCHARD}/src/tree.py"
    assert records(list_edits(index, file=tree)) == kept(lambda edit: edit.path == tree)
    assert records(list_edits(index, file="src/tree.py")) == kept(
        lambda edit: edit.path.endswith("/src/tree.py")
    )
    assert records(list_edits(index, file="ree.py")) == set()
    assert records(list_edits(index, words=["TREE", "press"])) == kept(
        lambda edit: "tree" in edit.path and "press" in edit.path
    )
    assert records(list_edits(index, projects=[PRESS])) == kept(lambda edit: edit.session == TWO)
    assert records(list_edits(index, session=ONE)) == kept(lambda edit: edit.session == ONE)
    last = max(edit.at for edit in list_edits(index).edits)
    assert records(list_edits(index, until=last)) == kept(
        lambda edit: edit.at < f"{last:%Y-%m-%dT%H:%M}"
    )
    assert len(records(list_edits(index, since=last))) == 1


def test_an_edit_has_the_prompt_behind_it(made):
    index, plain = made
    said = {edit.record: edit.prompt for edit in plain}
    for edit in list_edits(index, prompts=True).edits:
        assert edit.prompt == " ".join(said[edit.record].split())
        assert edit.prompt_record
    masked = list_edits(index, prompts=True, mask=lambda text: text.replace("Prune", "****"))
    assert {edit.prompt for edit in masked.edits if edit.session == TWO} == {
        "**** the tree", "And the press",
    }  # fmt: skip


def test_a_diff_that_is_nowhere_is_not_found(made):
    index, _ = made
    with pytest.raises(NotFound):
        edit_diff(index, ONE, "nobody", 0)
