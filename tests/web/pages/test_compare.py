"""The page of two sessions side by side."""

import re

import pytest

from insights.edited_home import edited_home
from mcp_contexts import ONE, PASSWORD, SECRET, TWO, make_home
from web.served import served
from web.test_pages import Elements, words_of


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("compare")
    edited_home(place)
    with served(place) as found:
        yield found


def section(page, name):
    """Return a section of the page in words."""
    return " ".join(
        words_of(re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL)[0]).split()
    )


def test_two_sessions_are_side_by_side(server):
    page = server.ask(f"/compare?a={ONE}&b={TWO}").text
    assert "1 of 2 prompts are the same" in section(page, "prompts")
    first = re.search(r'<li class="changed first" id="first">.*?</li>', page, re.DOTALL)[0]
    assert "first difference" in first
    assert "And the <mark>press</mark>" in first
    assert "prompts 2 2" in section(page, "figures")
    assert "failed calls 2 0" in section(page, "figures")
    assert "In both: 1 file A B src/tree.py +3 -2 in 2 edits +1 -0 in 1 edit" in section(
        page, "files"
    )
    assert "Only in A: 2" in section(page, "files")
    assert "Bash Error: no fence 1 —" in section(page, "errors")
    assert "<strong>fence</strong>" in page
    assert "Pressed." in section(page, "outcome")


def test_two_boxes_of_a_list_name_the_sessions(server):
    by_boxes = server.ask(f"/compare?id={TWO[:8]}&id={ONE[:8]}").text
    assert by_boxes == server.ask(f"/compare?a={TWO}&b={ONE}").text
    assert "only the first two of 3" in server.ask(f"/compare?id={ONE}&id={TWO}&id=x").text


def test_with_less_than_two_it_asks_for_them(server):
    page = server.ask(f"/compare?id={ONE[:8]}").text
    assert 'name="b"' in page
    assert f'value="{ONE[:8]}"' in page
    assert server.ask("/compare?a=nobody&b=nobody").status == 404


def test_what_acts_is_shown_as_text(server):
    text = server.ask(f"/compare?a={ONE}&b={TWO}").text
    assert "window.pwned=1" in text
    assert not {"\x1b", "\u202e"} & set(text)
    seen = Elements()
    seen.feed(text)
    assert not [tag for tag, given in seen.found if tag == "img" or "onerror" in given]


def test_masked_it_tells_no_secret(tmp_path):
    make_home(tmp_path)
    with served(tmp_path, "--redact") as server:
        status, _, text = server.ask(f"/compare?a={ONE}&b={TWO}")
    assert status == 200
    assert "apples" in text
    assert SECRET.secret not in text
    assert PASSWORD.secret not in text
