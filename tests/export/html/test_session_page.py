"""A session's page: whatever a log holds, the page shows it and does nothing with it."""

import base64
import html
import re

import pytest

from export import hostile
from export.pages import ID, assert_inert, home_of, page_of
from sessions.trees import answer, call, record
from turnlog.export.conversation import anchor_of
from turnlog.export.html import markdown
from turnlog.export.html.session_page import SCRIPT

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 60).decode()


def said(uuid, parent, text, **fields):
    return record(uuid, parent, message={"role": "user", "content": text}, **fields)


def replied(uuid, parent, call_id, content, *, failed=False, **fields):
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": failed}
    return record(uuid, parent, message={"role": "user", "content": [block]}, **fields)


def texts(page):
    return "".join(assert_inert(page, SCRIPT).text)


@pytest.mark.parametrize("thread", ["current", "whole", "all"])
def test_evil_words_in_every_field_do_nothing(tmp_path, thread):
    page = page_of(home_of(tmp_path, raw=hostile.log()), thread=thread)
    found = assert_inert(page, SCRIPT)
    text = "".join(found.text)
    assert text.count(hostile.MARK) > (3 if thread == "current" else 40)
    assert all(character not in page for character in "\x1b\u202e\u2066\x00\u2028")


@pytest.mark.parametrize("payload", hostile.PAYLOADS)
def test_an_evil_answer_is_shown(tmp_path, payload):
    home = home_of(
        tmp_path,
        said("q", None, payload),
        answer("a", "q", "m", {"type": "text", "text": f"{payload}\n\n{hostile.MARK}"}),
    )
    assert hostile.MARK in texts(page_of(home))


def test_links_of_good_schemes_survive_and_leak_nothing(tmp_path):
    words = "[a](https://example.org/x?y=1&z) <mailto:ada@example.org> [b](javascript:alert(1))"
    home = home_of(tmp_path, answer("a", None, "m", {"type": "text", "text": words}))
    found = assert_inert(page_of(home), SCRIPT)
    assert "https://example.org/x?y=1&z" in found.addresses
    assert "mailto:ada@example.org" in found.addresses
    assert "javascript" not in "".join(map(str, found.addresses))
    assert 'rel="noopener noreferrer"' in page_of(home)


def test_an_edit_is_shown_as_a_change(tmp_path):
    asked = call("c", "Edit", file_path="/srv/a.py", old_string="one\ntwo", new_string="one\n2")
    home = home_of(
        tmp_path,
        answer("a", None, "m", asked),
        replied("r", "a", "c", "The file has been updated."),
    )
    page = page_of(home)
    assert re.search(r'<td class="del"><del>(<mark>)?two', page)
    assert re.search(r'<td class="ins"><ins>(<mark>)?(<i class=n>)?2', page)
    assert ">+1<" in page


def test_a_failed_edit_says_why(tmp_path):
    asked = call("c", "Edit", file_path="/srv/a.py", old_string="one", new_string="2")
    reply = replied("r", "a", "c", "String not found", failed=True)
    page = page_of(home_of(tmp_path, answer("a", None, "m", asked), reply))
    assert 'class="call failed"' in page
    assert "String not found" in texts(page)


def test_code_has_colours_and_huge_code_has_none(tmp_path):
    small = "```python\ndef kite():\n    return 'wind'\n```"
    huge = "```python\n" + "x = 'kite'\n" * 5000 + "```"
    coloured = page_of(
        home_of(tmp_path / "a", answer("a", None, "m", {"type": "text", "text": small}))
    )
    plain = page_of(home_of(tmp_path / "b", answer("a", None, "m", {"type": "text", "text": huge})))
    assert "<i class=k>def </i>" in coloured or "<i class=k>def</i>" in coloured
    assert "<i class=" not in plain


def test_an_agent_stands_below_its_call(tmp_path):
    asked = call("c", "Task", description="look", prompt="Look around", subagent_type="Explore")
    home = home_of(
        tmp_path,
        said("q", None, "Begin"),
        answer("a", "q", "m", asked),
        replied("r", "a", "c", "Seen it", toolUseResult={"agentId": "a7"}),
        subagents=[
            (
                "a7",
                [
                    said("x", None, "Look around", isSidechain=True, agentId="a7"),
                    answer("y", "x", "n", {"type": "text", "text": "I see a heron"}),
                ],
            )
        ],
    )
    page = page_of(home)
    assert page.index("<b>Task</b>") < page.index("<b>subagent Explore</b>") < page.index("a heron")
    without = page_of(home, tools="none")
    assert "a heron" not in without
    assert "Seen it" not in without


def test_images_are_drawn_only_from_the_log_itself(tmp_path):
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    }
    drawing = {**image, "source": {**image["source"], "media_type": "image/svg+xml"}}
    home = home_of(tmp_path, said("q", None, [{"type": "text", "text": "See"}, image, drawing]))
    assert assert_inert(page_of(home), SCRIPT).images == [f"data:image/png;base64,{PIXEL}"]
    assert assert_inert(page_of(home, images=False), SCRIPT).images == []


def test_turns_are_listed_and_chosen(tmp_path):
    turns = []
    for number in range(1, 6):
        parent = f"a{number - 1}" if number > 1 else None
        turns.append(said(f"q{number}", parent, f"Question {number}"))
        turns.append(answer(f"a{number}", f"q{number}", f"m{number}"))
    home = home_of(tmp_path, *turns)
    whole, part = page_of(home), page_of(home, turns=(2, 3))
    assert [f"Question {n}" in whole for n in range(1, 6)] == [True] * 5
    assert [f"Question {n}" in part for n in range(1, 6)] == [False, True, True, False, False]
    assert part.count("<li>") == 2


@pytest.mark.parametrize("raw", [b"", b"{damaged", b"\0" * 40 + b"\n", b"[]\n", b"\n\n"])
def test_a_session_without_a_record_has_a_page(tmp_path, raw):
    page = page_of(home_of(tmp_path, raw=raw))
    text = texts(page)
    assert "Nothing was said." in text
    assert ID in text
    assert ("could not be read" in text) == bool(raw.strip(b"\n"))


def test_secrets_are_masked_unless_asked_for(tmp_path):
    secret = "sk-ant-api03-" + "Qm7x" * 23 + "AA"
    home = home_of(
        tmp_path,
        said("q", None, f"use {secret}"),
        answer("a", "q", "m", call("c", "Bash", command=f"export KEY={secret}")),
        replied("r", "a", "c", f"KEY={secret}"),
        answer("b", "r", "n", {"type": "thinking", "thinking": secret, "signature": "s"}),
        answer("d", "b", "o", call("e", "Write", file_path=f"/{secret}", content=secret)),
    )
    assert secret not in page_of(home)
    assert page_of(home, is_redacted=False).count(secret) >= 6


def test_the_snapshot_of_a_small_session(tmp_path):
    home = home_of(
        tmp_path,
        said("q", None, "Fix the kite", timestamp="2026-03-04T10:00:00Z", cwd="/srv/orchard"),
        answer(
            "a", "q", "m", call("c", "Bash", command="make kite"), timestamp="2026-03-04T10:00:02Z"
        ),
        replied("r", "a", "c", "sewn\nflown", timestamp="2026-03-04T10:00:05Z"),
        answer(
            "b",
            "r",
            "n",
            {"type": "text", "text": "It **flies**."},
            timestamp="2026-03-04T10:00:09Z",
        ),
    )
    main = page_of(home).partition("<main>")[2].partition("</main>")[0]
    q, a, b = (anchor_of(each) for each in "qab")

    def link(anchor):
        words = "Link to this place"
        return f'<a class="permalink" href="#{anchor}" title="{words}" aria-label="{words}">#</a>'

    assert main == (
        '<section class="turn" id="t1"><h2><a href="#t1">#1</a><span>2026-03-04 10:00</span>'
        "<span>9 s</span><span>1 call</span></h2>"
        f'<div class="said prompt prose" id="{q}-s0"><p>Fix the kite</p>{link(f"{q}-s0")}</div>'
        f'<div class="folded" id="{a}-c0"><details class="call"><summary><b>Bash</b>'
        '<code>make kite</code><span class="came">sewn +1 line</span></summary>'
        '<div class="inside"><pre tabindex="0">make kite</pre>'
        f'<pre tabindex="0">sewn\nflown</pre></div></details>{link(f"{a}-c0")}</div>'
        f'<div class="answer prose" id="{b}-a0"><p>It <strong>flies</strong>.</p>\n'
        f"{link(f'{b}-a0')}</div></section>"
    )


def test_terminal_colors_become_classes_and_other_escapes_stay_visible(tmp_path):
    said = "\x1b[1;32mok\x1b[0m \x1b[38;5;1mred\x1b[39m \x1b]0;title\x07 \x1b[999999999999m."
    home = home_of(
        tmp_path,
        answer("a", None, "m", call("c", "Bash", command="make kite")),
        replied("r", "a", "c", said),
    )
    page = page_of(home, colors=True)
    assert '<span class="fg2 bold">ok</span> <span class="fg1">red</span> ␛]0;title␇ .' in page
    assert "ok red ␛]0;title␇ ." in texts(page_of(home))  # Without colors.
    secret = "sk-ant-api03-" + "Qm7x" * 23 + "AA"
    split = f"{secret[:30]}\x1b[31m{secret[30:]}"
    masked = page_of(home_of(tmp_path / "masked", answer("a", None, "m", call("c", "Bash")),
                             replied("r", "a", "c", split)), colors=True)  # fmt: skip
    assert secret[30:] not in masked


def test_long_changes_are_plain(tmp_path):
    old = "\n".join(f"line {n}" for n in range(400))
    asked = call("c", "Edit", file_path="/a.py", old_string=old, new_string=old.upper())
    page = page_of(home_of(tmp_path, answer("a", None, "m", asked), replied("r", "a", "c", "ok")))
    assert '<pre class="diff" tabindex="0">' in page
    assert "<table" not in page


@pytest.mark.parametrize("piece", ["[", "![", "[a](", "*a ", "`a", "_a_", "<!--", "> ", "|a", "\\"])
def test_no_log_can_make_a_page_slow(tmp_path, piece):
    """Parsers have inputs that take them squares of their length; such text stays plain."""
    evil = (piece * 60_000)[:60_000]
    home = home_of(tmp_path, *(answer(f"a{n}", None, f"m{n}", {"type": "text", "text": evil})
                               for n in range(2)))  # fmt: skip
    page = page_of(home)
    assert_inert(page, SCRIPT)


@pytest.mark.parametrize("name", sorted(set(markdown._LANGUAGES.values())))
def test_code_of_every_language_gets_colours_and_stays_the_same(name):
    code = '<?php 1\n// # größe := "1" -- \n- a: 1\n+ if <b c=0x2>\n\n'
    made = str(markdown.Highlighter().code(code, name))
    assert "<i class=" in made
    assert html.unescape(re.sub("</?i[^>]*>", "", made)) == code


@pytest.mark.parametrize("code", ["x = 1\n" * 500, "x = " + "1" * 2_000, "x = 1  # y\n" * 800])
def test_code_that_may_take_lexers_long_stays_plain(code):
    assert str(markdown.Highlighter().code(code, "python")) == code
