"""The lists of sessions and hits in a real browser: what is typed, clicked and scrolled."""

import re

import pytest

from export.browser import browser, needs_browser, visits
from mcp_contexts import ONE, Log, make_home
from web.served import served

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = needs_browser
MANY = 130


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("lists")
    make_home(tmp_path)
    for number in range(MANY):
        session = f"{number:08x}-bbbb-4bbb-8bbb-{number:012x}"
        log = Log(tmp_path / "home", session, f"/home/ada/many-{number % 2}", hostile="")
        log.prompt(f"Graft quince {number}").save()
    with served(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture
def opened(chromium, server):
    with visits(chromium) as go:
        yield lambda path="/", **context: go(server, path, **context)


def rows(page):
    return page.locator("tr[data-row]").count()


def test_filters_apply_as_one_types_and_stay_in_the_url(opened):
    page = opened()
    page.fill("#field-words", "quince 12")
    expect(page.locator("#total")).to_have_text("12 sessions")
    page.wait_for_url("**words=quince+12**")  # It follows the list.
    page.click("#facets a[title='/home/ada/many-1']")
    expect(page.locator("#total")).to_have_text("5 sessions")
    expect(page.locator("#field-project")).to_have_value("/home/ada/many-1")
    page.click(".chip >> text=project")
    expect(page.locator("#total")).to_have_text("12 sessions")
    page.go_back()
    expect(page.locator("#total")).to_have_text("5 sessions")
    page.reload()
    assert rows(page) == 5
    page.click("#save")
    page.click("text=Clear all")
    expect(page.locator(".chip")).to_have_count(0)
    page.click("#saved a")
    expect(page.locator("#total")).to_have_text("5 sessions")
    page.click("#saved button")
    assert page.locator("#saved li").count() == 0


def test_a_bad_date_is_told_beside_its_field(opened):
    page = opened("/?words=quince")
    page.fill("#field-since", "whenever")
    page.wait_for_selector("#problem-since")
    assert page.input_value("#field-since") == "whenever"
    assert page.get_attribute("#field-since", "aria-invalid") == "true"
    page.fill("#field-since", "2020")
    page.wait_for_selector("#problem-since", state="detached")


def test_a_click_on_a_head_sorts(opened):
    page = opened("/?words=quince")
    for way in ("ascending", "descending"):
        page.click("th >> text=session")
        page.wait_for_selector(f"th[aria-sort={way}] >> text=session")
    assert page.inner_text("td.title > a >> nth=0") == "Graft quince 99"


def test_further_rows_are_loaded_when_one_scrolls(opened):
    page = opened("/?words=quince")
    assert rows(page) == 50
    for loaded in (100, MANY):
        page.locator("tr.more").scroll_into_view_if_needed()
        expect(page.locator("tr[data-row]")).to_have_count(loaded)
    assert page.locator("tr.more").count() == 0


def test_a_phone_shows_cards_without_a_horizontal_scroll(opened, server):
    page = opened(viewport={"width": 390, "height": 800})
    for path in ("/?project=nowhere&since=nov", "/search?q=apples", "/?words=apples"):
        page.goto(server.address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = [
        box
        for each in page.locator("tr[data-row] td").all()
        if (box := each.bounding_box()) is not None
    ]
    assert boxes
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)


@pytest.mark.parametrize("width", [320, 600, 800, 1024, 1180, 1440])
def test_every_column_that_is_shown_is_on_the_screen(opened, width):
    page = opened(viewport={"width": width, "height": 800})
    boxes = [
        box
        for each in page.locator("table.sessions th a, table.sessions td").all()
        if (box := each.bounding_box()) is not None
    ]
    assert len(boxes) > 6
    assert max(box["x"] + box["width"] for box in boxes) <= width


def test_lists_work_without_scripts(opened):
    page = opened("/", java_script_enabled=False)
    page.fill("#field-words", "quince")
    page.click("#filters button")
    assert rows(page) == 50
    page.click("tr.more a[rel=next]")
    page.wait_for_url("**offset=50")
    page.click("tr.more a[rel=next]")
    page.wait_for_url("**offset=100")
    assert rows(page) == MANY - 100
    page.click("th >> text=project")
    assert "sort=project" in page.url
    page.goto(re.sub(r"/[^/]*$", "/search?q=apples", page.url))
    assert page.locator("mark").count() > 0
    page.locator("#facets section", has_text="tools").locator("a").first.click()
    page.wait_for_url("**tool=**")
    expect(page.locator("article.hits").first).to_be_visible()


def test_a_search_follows_what_is_typed_and_unfolds(opened):
    page = opened("/search")
    page.fill("#words", "apples")
    page.wait_for_selector("article.hits mark")
    assert "q=apples" in page.url
    article = page.locator("article.hits", has=page.locator(f"a[href*='{ONE}']")).first
    if article.locator("details").count():
        before = article.locator("li").count()
        article.locator("summary").click()
        expect(page.locator("details[open] [data-src]")).to_have_count(0)
        assert article.locator("li").count() > before
    page.locator("#facets section", has_text="kinds").locator("a").first.click()
    page.wait_for_url("**kind=**")
    assert page.locator("#results .chip").count() == 1
