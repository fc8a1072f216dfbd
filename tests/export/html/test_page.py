"""The shell of a page: what is no fragment is text, and the page forbids itself everything else."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.export.html.page import (
    BASIC_CSS,
    Fragment,
    element,
    escaped,
    is_safe_address,
    joined,
    page,
)

ODD = "<b>&\"'\x00\x1b[31m\u202e\u2028\ud800</script><!--"


class Seen(HTMLParser):
    """The elements and the text that a browser would find."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@given(st.text())
def test_text_comes_out_as_text(text):
    found = Seen(element("p", text, title=text, class_="x"))
    assert [tag for tag, _ in found.tags] == ["p"]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\ud800-\udfff]", found.text)
    if text.isalnum():
        assert found.text == text == found.tags[0][1]["title"]


def test_fragments_stay_and_texts_are_escaped():
    assert joined(Fragment("<i>a</i>"), "<i>", None, ["&", [Fragment("<br>")]]) == (
        "<i>a</i>&lt;i&gt;&amp;<br>"
    )
    assert escaped("a\nb") == "a\nb"
    assert element("input", disabled=True, checked=False, value=None) == "<input disabled>"


@pytest.mark.parametrize(
    "name", ["onclick", "ONLOAD", "style", "srcdoc", "formaction", "a b", "x=y"]
)
def test_a_handler_or_a_style_is_the_callers_mistake(name):
    with pytest.raises(ValueError, match="attribute"):
        element("p", **{name: "x"})


def test_an_element_is_named_as_one():
    with pytest.raises(ValueError, match="element"):
        element("p><script")


@pytest.mark.parametrize(
    ("address", "is_safe"),
    [("#top", True), ("https://example.com/a", True), ("mailto:ada@example.com", True),
     ("javascript:alert(1)", False), ("JaVaScript:alert(1)", False), ("data:text/html,x", False),
     ("data:image/svg+xml;base64,AA", False), ("data:image/png;base64,AA", True),
     (" javascript:x", False), ("vbscript:x", False), ("//evil.example", False),
     ("file:///x", False),
     ("\x01javascript:x", False)],
)  # fmt: skip
def test_addresses_that_could_act_are_left_out(address, is_safe):
    assert is_safe_address(address) is is_safe
    assert ("href" in element("a", "x", href=address)) is is_safe


def test_a_page_allows_its_own_style_and_script_and_nothing_else():
    html = page(ODD, element("p", ODD), css="p { color: red; }", script="let x = 1;")
    found = Seen(html)
    tags = [tag for tag, _ in found.tags]
    assert tags.count("script") == tags.count("style") == tags.count("title") == 1
    (policy,) = [each["content"] for tag, each in found.tags if each.get("http-equiv") is not None]
    assert policy.startswith("default-src 'none'")
    for text in (BASIC_CSS + "p { color: red; }", "let x = 1;"):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "script-src 'none'" in page("x", "y")


@pytest.mark.parametrize("what", ["css", "script"])
def test_a_style_or_script_cannot_end_its_element(what):
    with pytest.raises(ValueError, match="end its own element"):
        page("x", "y", **{what: "a</script>b"})
