"""The pages of files: edits of all sessions, one file's history, and what an edit changed."""

import os
import re
from html import unescape

import pytest

from insights.edited_home import EVIL, edit, edited_home, plain_edits
from mcp_contexts import ONE, ORCHARD, PASSWORD, PRESS, SECRET, TWO, Log, make_home
from web.served import served
from web.test_pages import Elements, words_of


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("files")
    edited_home(place)
    return place


@pytest.fixture(scope="module")
def server(place):
    with served(place) as found:
        yield found


def diffs_of(page):
    """Return the addresses of the diffs that a page loads when they are unfolded."""
    return [unescape(each) for each in re.findall(r'data-src="([^"]+)"', page)]


def test_every_edit_is_there_and_leads_to_its_place(place, server):
    page = server.ask("/files").text
    plain = list(plain_edits(place / "home"))
    assert sorted(
        re.findall(r"/files/diff\?session=([^&]+)&amp;record=([^&\"]+)\"", page)
    ) == sorted((edit.session, edit.record) for edit in plain)
    for each in plain:
        assert f'href="/session/{each.session}?record={each.record}"' in page
    words = words_of(page)
    assert (
        f"{len(plain)} edits of {len({edit.path for edit in plain})} files in 2 sessions" in words
    )
    assert "subagent a1b2c3" in words


def test_filters_narrow_the_list(server):
    def sessions(path):
        return set(re.findall(r'href="/session/([^"?]+)\?', server.ask(path).text))

    assert sessions("/files") == {ONE, TWO}
    assert sessions(f"/files?project={PRESS}") == {TWO}
    assert sessions("/files?words=NOTES") == {ONE}
    assert sessions("/files?since=today") == set()
    assert "No edits found" in server.ask("/files?words=pears").text


def test_a_bad_date_keeps_the_form(server):
    page = server.ask("/files?since=whenever&words=tree").text
    assert 'value="whenever"' in page
    assert 'value="tree"' in page
    assert "whenever" in words_of(re.search(r'<span id="since-wrong".*?</span>', page)[0])


def test_a_page_behind_the_last_leads_back(server):
    page = server.ask("/files?offset=9999&words=tree").text
    assert "There are only" in words_of(page)
    link = unescape(re.search(r'<a href="([^"]+)" rel="last"', page)[1])
    assert '<ol class="edits">' in server.ask(link).text


def test_all_of_the_time_is_a_period(server):
    assert '<ol class="edits">' in server.ask("/files?since=all").text
    assert "No edits found" in server.ask("/files?until=2000").text


def test_an_unknown_project_is_told_and_is_no_directory_of_the_server(server):
    page = server.ask("/files?project=nowhere").text
    assert "no project is called" in words_of(page)
    assert os.getcwd() not in page


def test_a_name_that_two_projects_have_is_both(tmp_path):
    for number, folder in enumerate(("a", "b")):
        project = f"/home/{folder}/orchard"
        log = Log(tmp_path / "home", f"{number}aaaaaaa-bbbb-4bbb-8bbb-cccccccccccc", project)
        log.prompt("Write it")
        edit(log, f"{project}/x.py", tool="Write", content="1\n").save()
    with served(tmp_path) as server:
        page = server.ask("/files?project=orchard").text
        assert "2 edits of 2 files in 2 sessions" in words_of(page)


def test_the_history_of_a_file_has_the_prompts_behind_it(place, server):
    page = server.ask(f"/files?path={ORCHARD}/src/tree.py").text
    assert "2 edits in 1 session" in words_of(page)
    quotes = [words_of(each).strip() for each in re.findall(r"<blockquote>.*?</blockquote>", page)]
    assert sorted(quotes) == ["Paint it", "Prune the tree"]
    ends = server.ask("/files?path=src/tree.py").text
    assert "3 edits of 2 files in 2 sessions" in words_of(ends)


def test_a_diff_is_a_part_and_a_page(server):
    (address,) = diffs_of(server.ask("/files?words=notes").text)
    part = server.ask(address).text
    assert part.startswith("<div")
    assert "+# Notes\n+One\n+Two" in unescape(re.sub("<[^>]*>", "", part))
    page = server.ask(address.removesuffix("&part=1")).text
    assert part in page
    assert "<h1>" in page


@pytest.mark.parametrize(
    "path",
    ["/files/diff", "/files/diff?session=x&record=y", "/files/diff?session=x&record=y&block=no",
     f"/files/diff?session={ONE}&record=x&block=99999999"],
)  # fmt: skip
def test_an_edit_that_is_nowhere_is_not_found(server, path):
    assert server.ask(path).status == 404


def test_what_acts_is_shown_as_text(server):
    pages = ["/files", *diffs_of(server.ask("/files?words=onerror").text)]
    assert len(pages) == 2
    for path in pages:
        text = server.ask(path).text
        assert "window.pwned=1" in text
        assert not set(EVIL) & set(text) & {"\x1b", "\u202e"}
        seen = Elements()
        seen.feed(text)
        assert not [tag for tag, given in seen.found if tag == "img" or "onerror" in given]


def test_masked_nothing_tells_a_secret(tmp_path):
    make_home(tmp_path)
    with served(tmp_path, "--redact") as server:
        page = server.ask("/files").text
        paths = re.findall(r'href="(/files\?path=[^"]+)"', page)
        for path in ["/files", *map(unescape, paths), *diffs_of(page)]:
            status, _, text = server.ask(path)
            assert status == 200
            assert SECRET.secret not in text
            assert PASSWORD.secret not in text
        assert len(diffs_of(page)) == 5
