"""Markdown: inert in every viewer, whatever it is made of, and no prompt is ever lost."""

import html
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from export import hostile
from export.pages import home_of, markdown_of, told
from sampling import examples
from sessions.trees import answer, call, record
from turnlog.export import markdown as inert_module
from turnlog.export.exporter import Listed, contents_markdown, contents_page
from turnlog.export.markdown import fenced, inert_markdown, plain, span
from turnlog.text import inert

PIECES = (
    *hostile.PAYLOADS,
    *("`", "``", "```", "~~~~", "\n", "\n\n", "    ", "- ", "> ", "1. ", "|", "\\", "#", "kite "),
    *("<", ">", "<b>", "</b>", "<!--", "-->", "](", "![", "[a]", "[a]: ", "javascript:", "&lt;"),
    *("\t", "<script>", "```html\n", "---\n", "***", "<?php", "<![CDATA[", "\r", "  \n"),
)


def readers():
    """Viewers of both kinds, that let everything through."""
    for extra in ((), ("table", "strikethrough")):
        reader = MarkdownIt("commonmark", {"html": True}).enable(list(extra))
        reader.validateLink = lambda _url: True
        yield reader


def harm_in(text):
    """Give what a careless viewer would run, draw or link to."""
    for reader in readers():
        waiting = list(reader.parse(text))
        for token in waiting:
            waiting += token.children or ()
            if token.type in ("html_block", "html_inline", "image"):
                yield token.type, token.content
            href = str(token.attrs.get("href", "")) if token.type == "link_open" else ""
            scheme = re.match(r"\s*([a-z][a-z0-9+.-]*):", href, re.IGNORECASE)
            if scheme and scheme[1].lower() not in ("http", "https", "mailto"):
                yield "link", href


@pytest.mark.parametrize("payload", hostile.PAYLOADS)
def test_no_payload_does_anything(payload):
    for text in (payload, f"> {payload}", f"- {payload}", f"kite {payload} {payload}"):
        assert list(harm_in(inert_markdown(text))) == []


@settings(max_examples=examples(150))
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_nothing_made_of_such_pieces_does_anything(pieces):
    safe = inert_markdown("".join(pieces))
    assert list(harm_in(safe)) == []
    # And it ends where it ends: what follows is not swallowed.
    assert "<p>the end</p>" in next(iter(readers())).render(f"{safe}\n\nthe end\n")


@given(st.text(alphabet=st.sampled_from("`~ab\n <&*[]()\\"), max_size=60))
def test_code_comes_out_as_it_went_in(text):
    made = next(iter(readers())).render(fenced(text))
    body = made.removeprefix("<pre><code>").removesuffix("</code></pre>\n")
    assert html.unescape(body).strip("\n") == inert(text, keep="\n\t").strip("\n")
    line = next(iter(readers())).renderInline(span(text))
    assert list(harm_in(plain(text))) == []
    assert html.unescape(re.sub(r"</?code>", "", line)).split() == text.split()


LINES = st.lists(
    st.text(alphabet="ab |>#*_-+=1.)(!&\\\t:/\"'{}$", max_size=12), min_size=1, max_size=6
)


@given(LINES.map("\n".join))
def test_what_has_nothing_that_could_do_something_stays_as_it_is(text):
    text = inert_module.inert(text, keep="\n\t").strip("\n")
    assert inert_markdown(text) == text
    assert inert_module._closed("".join(inert_module._pieces(text))) == text


def test_a_whole_evil_session_does_nothing(tmp_path):
    text = markdown_of(home_of(tmp_path, raw=hostile.log()), thread="all")
    assert text.count(hostile.MARK) > 40
    assert list(harm_in(text)) == []
    assert all(character not in text for character in "\x1b\u202e\u2066\x00\u2028")


prompts = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=80),
        st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join),
        st.sampled_from(("<command-name>/review</command-name>", "<bash-input>make</bash-input>")),
    ).map(str.strip),  # Blanks around a prompt are no words.
    min_size=1,
    max_size=5,
)


def words_of(text):
    """The letters and digits of a text: Markdown moves and escapes the rest."""
    return "".join(re.findall(r"\w", html.unescape(text).replace("\\", "")))


@given(prompts)
def test_no_prompt_is_lost(tmp_path_factory, asked):
    lines, parent = [], None
    for number, text in enumerate(asked):
        lines.append(record(f"q{number}", parent, message={"role": "user", "content": text}))
        lines.append(answer(f"a{number}", f"q{number}", f"m{number}"))
        parent = f"a{number}"
    made = markdown_of(home_of(tmp_path_factory.mktemp("prompts"), *lines), is_redacted=False)
    turns = re.split(r"(?m)^## ", made)[1:]
    heads = [f"this is a{number}" for number in range(len(asked))]
    assert all(head in made for head in heads)
    written = words_of(made)
    for text in asked:
        shown = json.loads(json.dumps(text)).encode("utf-8", "replace").decode()
        shown = re.sub(r"</?(?:command-name|bash-input)>", "", shown)
        assert words_of(inert(shown, keep="\n\t")) in written
    assert len(turns) >= 1


def test_a_small_session_as_markdown(tmp_path):
    def said(uuid, parent, text, **fields):
        return record(uuid, parent, message={"role": "user", "content": text}, **fields)

    result = {"type": "tool_result", "tool_use_id": "c", "content": "sewn\nflown"}
    edit = call("e", "Edit", file_path="/srv/a.py", old_string="one", new_string="two")
    home = home_of(
        tmp_path,
        said("q", None, "Fix <b>the</b> kite\n# now", timestamp="2026-03-04T10:00:00Z"),
        answer("a", "q", "m", call("c", command="make kite")),
        record("r", "a", message={"role": "user", "content": [result]}),
        answer("b", "r", "n", {"type": "thinking", "thinking": "Hm.", "signature": "s"}),
        answer("d", "b", "n", {"type": "text", "text": "It **flies**:\n```\nopen"}),
        answer("f", "d", "o", edit),
    )
    assert markdown_of(home).partition("\n## ")[2] == (
        "1 · 2026-03-04 10:00\n\n"
        "> Fix &lt;b>the&lt;/b> kite\n> # now\n\n"
        "**Bash** `make kite` → sewn +1 line\n\n"
        "```\nsewn\nflown\n```\n\n"
        "*Thinking*\n\n> Hm.\n\n"
        "It **flies**:\n```\nopen\n```\n\n"
        "**Edit** `/srv/a.py` → no result\n\n"
        "```diff\n-one\n+two\n```\n\n"
    )
    assert "Hm." not in markdown_of(home, thinking=False)
    assert "make kite" not in markdown_of(home, tools="none")


def test_what_has_no_price_is_not_said_to_cost_nothing(tmp_path):
    said = {**answer("a", "q", "m", {"type": "text", "text": "Yes."}), "requestId": "r"}
    said["message"] |= {"model": "my-local-model", "usage": {"input_tokens": 5, "output_tokens": 2}}
    home = home_of(tmp_path, record("q", None), said)
    assert "- cost at API prices: $0.00 and more" in markdown_of(home)
    listed = [Listed(file="a.html", session=told(home).head, turns=1)]
    assert "$0.00 and more" in contents_page(listed)
    assert "$0.00 and more" in contents_markdown(listed)
