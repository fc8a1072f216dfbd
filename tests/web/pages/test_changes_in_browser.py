"""What a person changes and keeps in a real browser: labels, chosen rows, what is typed."""

import re

import pytest

from export.browser import browser, needs_browser, visits
from live.live_world import World, call, prompt
from mcp_contexts import ONE, ORCHARD, TWO, Log, make_home
from web.served import served
from web.test_pages import words_of

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = needs_browser


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture
def visit(chromium):
    with visits(chromium) as go:
        yield go


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("changes")
    make_home(tmp_path)
    with served(tmp_path) as found:
        yield found


def test_title_tags_and_pin_are_changed_on_the_page(visit, tmp_path):
    make_home(tmp_path)
    log = next((tmp_path / "home").rglob(f"{ONE}.jsonl"))
    with served(tmp_path) as server:
        page = visit(server, f"/session/{ONE}")
        page.click("#about summary")
        before = log.read_bytes()
        page.click("#about button")
        expect(page.locator("#about output")).to_have_text("Nothing changed")
        assert log.read_bytes() == before
        page.fill("#about [name=title]", "Pears <b>again</b>")
        page.fill("#about [name=tags]", "fruit, old")
        page.check("#about [name=pinned]")
        page.click("#about button")
        expect(page.locator("#about")).to_contain_text("#fruit")
        expect(page.locator("#about")).to_contain_text("pinned")
        expect(page.locator("h1")).to_have_text("Pears <b>again</b>")
        page.reload()
        page.click("#about summary")
        assert page.input_value("#about [name=title]") == "Pears <b>again</b>"
        page.goto(f"{server.address}/?tag=old")
        expect(page.locator("tr[data-row]")).to_have_count(1)


def test_read_only_there_is_no_form(tmp_path):
    make_home(tmp_path)
    with served(tmp_path, "--read-only") as server:
        assert "<form" not in server.ask(f"/session/{ONE}/about").text
    with served(tmp_path) as server:
        assert "data-labels" in server.ask(f"/session/{ONE}/about").text


def test_two_chosen_rows_are_compared_also_when_the_list_changes(visit, tmp_path):
    make_home(tmp_path)
    with served(tmp_path) as server:
        page = visit(server)
        assert not page.locator("#compare").is_visible()
        for session in (ONE, TWO):
            page.check(f"#row-{session} input")
        log = Log(tmp_path / "home", "c" * 8 + ONE[8:], ORCHARD, hostile="")
        log.prompt("Graft quinces").save()
        expect(page.locator("td.title", has_text="Graft quinces")).to_have_count(1)
        page.click("#compare button")
        assert page.inner_text("h1") == "Two sessions compared"


def test_a_session_leads_to_a_comparison(server):
    page = server.ask(f"/compare?a={ONE}").text
    assert f'href="/compare?a={ONE}&amp;b=' in page
    assert f'href="/compare?a={ONE}"' in server.ask(f"/session/{ONE}/about").text


def test_the_palette_has_pages_sessions_projects_hits_and_commands(visit, server):
    page = visit(server)

    def typed(words):
        page.keyboard.press("Control+k")
        page.keyboard.type(words)
        expect(page.locator("#found a").first).to_have_text(re.compile(words))

    typed("health")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/health")
    typed("orchard")
    expect(page.locator("#found small", has_text="project")).to_have_count(1)
    page.keyboard.press("Escape")
    typed("apples")
    page.locator("#found a[href*='record=']").first.click()
    page.wait_for_url("**/session/**")
    typed("light or dark")
    page.click("#found a[data-press]")
    assert page.evaluate("document.documentElement.dataset.theme") in ("light", "dark")
    assert page.locator("dialog").count() == 0
    typed("turnlog doctor")
    assert page.get_attribute("#found [data-copy]", "data-copy") == "turnlog doctor"


def test_what_is_typed_stays_while_the_page_of_now_follows(visit, tmp_path):
    world, session = World(tmp_path), "1" * 8 + ONE[8:]
    world.write(session, prompt("Fly the kite"))
    world.run(session)
    try:
        with served(tmp_path) as server:
            page = visit(server, "/now")
            page.fill("#top input[type=search]", "half a wo")
            page.wait_for_timeout(600)  # Until the page listens.
            world.write(session, call(1, "Bash", command="make kite"))
            expect(page.locator("#now")).to_contain_text("make kite")
            page.keyboard.type("rd")
            assert page.input_value("#top input[type=search]") == "half a word"
    finally:
        world.close()


def test_copied_responses_are_explained_in_the_list_and_in_the_session(tmp_path):
    copy = "d" * 8 + ONE[8:]
    log = Log(tmp_path / "home", ONE, ORCHARD, hostile="").prompt("Count pears")
    log.answer({"type": "text", "text": "Forty-two."}).save()
    path = next((tmp_path / "home").rglob(f"{ONE}.jsonl"))
    path.with_name(f"{copy}.jsonl").write_text(path.read_text().replace(ONE, copy))
    with served(tmp_path) as server:
        row = re.search(rf'<tr id="row-{copy}".*?</tr>', server.ask("/").text, re.DOTALL)[0]
        for text in (row, server.ask(f"/session/{copy}/about").text):
            words = " ".join(words_of(text).split())
            assert f"1 response copied, counted in session {ONE[:8]}" in words
        assert "copied" not in server.ask(f"/session/{ONE}/about").text


def test_pages_are_used_with_the_keyboard_alone(visit, server):
    page = visit(server)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for key in "jjk":
        page.keyboard.press(key)
    first = page.locator("tr[data-row]").first
    expect(first).to_have_class("chosen")
    title = first.locator("td.title > a").inner_text()
    page.keyboard.press("o")
    page.wait_for_url("**/session/**")
    expect(page.locator("h1")).to_contain_text(title.split()[0])
    page.keyboard.press("?")
    expect(page.locator("dialog dl.keys")).to_contain_text("Next prompt")
    page.keyboard.press("Escape")
    for keys, path in {"gc": "/costs", "gn": "/now", "gf": "/files", "gi": "/insights",
                       "gh": "/health", "gs": "/"}.items():  # fmt: skip
        page.keyboard.type(keys)
        page.wait_for_url(f"{server.address}{path}")
    page.keyboard.press("/")
    page.keyboard.type("apples")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=apples")
