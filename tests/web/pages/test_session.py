"""The page of a session: small however long the session is, and nothing of it is lost."""

import re
from base64 import b64encode
from html import unescape
from html.parser import HTMLParser
from urllib.parse import quote

import pytest

from export import hostile
from export.pages import ID
from mcp_contexts import ACTING, ONE, PASSWORD, SECRET, Log, make_home
from web.pages.long_sessions import (
    DEEP,
    MANY,
    OLD,
    deep_turn,
    many_turns,
    old_sidechain,
    tree_of,
)
from web.served import served


class Seen(HTMLParser):
    """What is in a page: elements with their attributes, and the number of all nodes."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.nodes = [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.nodes += 1

    def handle_data(self, _data):
        self.nodes += 1

    @property
    def ids(self):
        return [given["id"] for _, given in self.elements if "id" in given]

    @property
    def blocks(self):
        return [each for each in self.ids if re.fullmatch(r"r[0-9a-f]{12}-[a-z]\d+", each)]

    def having(self, name):
        return [given[name] for _, given in self.elements if name in given]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("session")
    make_home(tmp_path)
    many_turns(tmp_path / "home", 120)
    deep_turn(tmp_path / "home", 200)
    old_sidechain(tmp_path / "home")
    evil = Log(tmp_path / "home", ID, "/home/ada/evil", word="kestrel")
    evil.path.write_bytes(hostile.log(hostile.EVERYTHING))
    return tmp_path


@pytest.fixture(scope="module")
def server(place):
    before = tree_of(place / "home")
    with served(place) as found:
        yield found
    assert tree_of(place / "home") == before  # Reading changes no log.


def words_of(page):
    body = re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def parts_of(server, session, query=""):
    """Follow everything that a script would load, from the first window on."""
    page = server.ask(f"/session/{session}{query}").text
    found, waiting, asked = [page], Seen(page), set()
    todo = [*waiting.having("data-window"), *waiting.having("data-src")]
    while todo:
        url = todo.pop(0)
        if url in asked:
            continue
        asked.add(url)
        answer = server.ask(url)
        assert answer.status == 200, (url, answer.text)
        found.append(answer.text)
        more = Seen(answer.text)
        todo += [*more.having("data-window"), *more.having("data-src")]
    return found


@pytest.mark.parametrize("session", [MANY, DEEP, OLD, ONE])
def test_windows_have_every_block_of_the_export_under_the_same_id(server, session):
    parts = parts_of(server, session)
    shown = {each for part in parts for each in Seen(part).blocks}
    exported = Seen(server.ask(f"/session/{session}/export.html").text)
    assert len(exported.blocks) == len(set(exported.blocks)) > 3
    assert shown == set(exported.blocks)
    links = {each for each in exported.having("href") if each.startswith("#r")}
    assert {each[1:] for each in links} == shown


@pytest.mark.slow
@pytest.mark.parametrize("make", [many_turns, deep_turn])
def test_a_session_of_5000_messages_is_a_small_page(tmp_path, make):
    log = make(tmp_path / "home", 850 if make is many_turns else 2500)
    assert len(log.lines) >= 5000
    with served(tmp_path) as server:
        for path in ("", "?turn=400", "?end=1"):
            page = server.ask(f"/session/{log.session}{path}").text
            assert len(page.encode()) < 300_000
            assert Seen(page).nodes < 3_000


def test_a_page_is_small_before_one_scrolls(server):
    for session in (MANY, DEEP):
        page = server.ask(f"/session/{session}").text
        assert len(page.encode()) < 150_000
        assert Seen(page).nodes < 2_500


def test_links_lead_through_all_windows_without_a_script(server):
    page, seen = server.ask(f"/session/{MANY}").text, []
    while True:
        seen += re.findall(r'<section class="turn" id="t(\d+)"', page)
        found = re.search(r'id="after"[^>]*><a href="([^"#]+)', page)
        if not found:
            break
        page = server.ask(unescape(found[1])).text
    assert list(map(int, seen)) == list(range(1, 121))
    assert "Answer 120" in words_of(page)


def test_a_turn_is_asked_for_by_its_number(server):
    page = server.ask(f"/session/{MANY}?turn=77").text
    assert 'id="t77"' in page
    assert "Prompt 77 about pears" in words_of(page)
    assert "Prompt 1 about pears" not in words_of(page.partition('id="turns"')[2])


def test_the_outline_has_every_turn_with_its_figures(server):
    rows = "".join(part for part in parts_of(server, MANY) if "data-turn" in part)
    assert set(Seen(rows).having("data-turn")) == {f"t{n}" for n in range(1, 121)}
    row = words_of(re.search(r'<a href="[^"]*" data-turn="t10">.*?</a>', rows)[0])
    assert row.startswith("10 Prompt **10** about pears")
    assert "1 error" in row
    assert "2 calls" in row
    assert "1 commit" in row
    assert "$" in row
    errors = server.ask(f"/session/{MANY}?turns=error").text.partition('id="outline"')[2]
    assert re.findall(r'data-turn="t(\d+)"', errors) == [str(n) for n in range(10, 121, 10)]


@pytest.mark.parametrize(
    ("session", "words", "count"),
    [
        (MANY, "answer 77", 1),
        (DEEP, "quinces", 200),
        (OLD, "medlar 41", 1),
        (ONE, "seven apples", 4),
    ],
)
def test_found_places_lead_to_their_words(server, session, words, count):
    found = server.ask(f"/session/{session}?find={quote(words)}").text
    fragment = server.ask(f"/session/{session}/find?q={quote(words)}").text
    assert fragment in found
    seen = Seen(fragment)
    assert len(seen.having("data-place")) == count
    for link in seen.having("href")[:3]:
        url, _, anchor = link.partition("#")
        page = server.ask(url).text
        block = page.partition(f'id="{anchor}"')[2][:3000]
        assert words in words_of(f"<p {block}").lower()
        assert page.count('id="here"') == 1


def test_a_record_of_a_sidechain_is_shown_inside_its_call(server):
    page = server.ask(f"/session/{OLD}").text
    assert "not shown here" not in page
    hit = server.ask("/search?q=%22medlar+41%22&results=1").text
    url = unescape(re.search(rf'href="(/session/{OLD}[^"#]*)', hit)[1])
    shown = server.ask(url).text
    before, after = shown.split('<span id="here"></span>')
    assert '<details class="subagent call" open>' in before
    assert "medlar 41" in words_of(after)[:200]


def test_a_record_that_is_nowhere_is_told(server):
    answer = server.ask(f"/session/{MANY}?record=nothing")
    assert answer.status == 200
    assert "is not in this thread" in answer.text
    for path in ("block?id=r000000000000-a0", "agent?id=x", "outline?first=9999"):
        assert server.ask(f"/session/{MANY}/{path}").status == 404


def test_the_next_place_of_a_kind_is_known_without_loading_it(server):
    def after(kind, place, step=1):
        text = server.ask(f"/session/{MANY}/next?kind={kind}&from={place}&step={step}").text
        return (Seen(text).having("data-place") or [None])[0]

    assert after("prompt", "t5") == "t6"
    assert after("prompt", "t5", -1) == "t4"
    assert after("prompt", "t120") is None
    first = after("error", "t1")
    assert "done 10" in server.ask(f"/session/{MANY}/block?id={first}").text
    second = after("error", first)
    assert "done 20" in server.ask(f"/session/{MANY}/block?id={second}").text
    assert after("error", second, -1) == first
    call = after("call", "t7")
    assert after("call", after("call", call), -1) == call


def test_bodies_have_colors_and_changes(server):
    calls = [part for part in parts_of(server, MANY) if part.startswith('<div class="inside">')]
    assert any('<span class="fg1 bold">FAILED</span> tests' in each for each in calls)
    diff = next(
        each
        for each in calls
        if "pears = " in unescape(re.sub("<[^>]*>", "", each)) and "<ins>" in each
    )
    assert re.search(r"<del>.*<mark>.*1.*</mark></del>", diff)
    assert "<i class=n>" in diff


def test_images_are_loaded_by_themselves(tmp_path):
    pixel = b64encode(b"\x89PNG and a bit more").decode()
    source = {"type": "base64", "media_type": "image/png", "data": pixel}
    drawing = source | {"media_type": "image/svg+xml"}
    log = Log(tmp_path / "home", MANY, "/home/ada/orchard", hostile="")
    log.prompt([{"type": "image", "source": each} for each in (source, drawing)]).save()
    with served(tmp_path) as server:
        page = server.ask(f"/session/{MANY}").text
        (src,) = Seen(page.partition('id="turns"')[2]).having("src")
        answer = server.ask(src)
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-length"] == str(len(b"\x89PNG and a bit more"))
        assert pixel not in page
        assert server.ask(src.replace("-i0", "-i1")).status == 404


def test_the_panel_leads_to_places(server):
    panel = server.ask(f"/session/{MANY}/side").text
    words = words_of(panel)
    for part in ("Context", "Cost by turn", "Tools", "Bash", "Edit", "12 errors"):
        assert part in words
    links = list(dict.fromkeys(Seen(panel).having("href")))
    for link in links[:: len(links) // 12]:
        assert server.ask(link.partition("#")[0]).status == 200
    assert "Subagents" in words_of(server.ask(f"/session/{OLD}/side").text)
    assert server.ask(f"/session/{MANY}?side=1").text.count(panel) == 1


def test_what_is_appended_is_in_the_last_window(tmp_path):
    log = many_turns(tmp_path / "home", 3)
    with served(tmp_path) as server:
        url = f"/session/{MANY}/turns?window=0&side=after"
        first = server.ask(url)
        tag = first.headers["etag"]
        assert server.ask(url, **{"If-None-Match": tag}).status == 304
        log.prompt("What about plums?").save()
        answer = server.ask(url, **{"If-None-Match": tag})
        assert answer.status == 200
        assert "What about plums?" in answer.text
        assert 'id="t4"' in answer.text


@pytest.mark.parametrize("session", [ID, ONE])
def test_every_fragment_is_inert(server, session):
    found = [
        *parts_of(server, session, "?thread=all"),
        server.ask(f"/session/{session}/find?q={hostile.MARK if session == ID else 'apples'}").text,
        server.ask(f"/session/{session}?side=1&find=%3Cscript%3E&turns=%22%3E%3Cimg").text,
    ]
    assert len(found) > 10
    for text in found:
        assert not set(ACTING) & set(text)
        for tag, given in Seen(text).elements:
            assert tag not in {"iframe", "object", "embed", "base", "style"}
            assert tag != "script" or given["src"].startswith("/static/")
            assert not [
                name for name in given if name.startswith("on") or name in {"style", "srcdoc"}
            ]
            for name in {"href", "src", "action", "data-src", "data-window"} & given.keys():
                assert re.match(r"#|/(?!/)|https?:|mailto:|data:image/", given[name])


def test_masked_no_fragment_tells_a_secret(place):
    with served(place, "--redact") as server:
        found = parts_of(server, ONE)
        found.append(server.ask(f"/session/{ONE}/find?q=apples").text)
        for secret in (SECRET.secret, PASSWORD.secret):
            assert not [text for text in found if secret in text]
            asked = server.ask(f"/session/{ONE}/find?q={quote(secret)}").text
            assert not Seen(asked).having("data-place")
