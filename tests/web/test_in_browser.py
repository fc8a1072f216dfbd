"""The pages in a real browser: from the address that is shown to the words that were sought."""

import re

import pytest

from export import hostile
from export.browser import browser, needs_browser
from export.pages import ID
from mcp_contexts import ONE, TWO, Log, make_home
from web.served import served

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = needs_browser


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("browser")
    make_home(tmp_path)
    evil = Log(tmp_path / "home", ID, "/home/ada/evil", word="kestrel")
    evil.path.write_bytes(hostile.log(hostile.EVERYTHING))
    with served(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture
def page(chromium, server):
    """Come in by the address that was shown; nothing on the way may go wrong."""
    wrong = []
    made = chromium.new_context().new_page()
    made.on("console", lambda said: wrong.append(said.text))
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    made.on("request", lambda asked: wrong.append(asked.url) if _is_strange(asked.url) else None)

    def _is_strange(url):
        return not url.startswith((server.address, "data:"))

    made.goto(f"{server.address}/?token={server.token}")
    made.wait_for_url(f"{server.address}/")
    yield made
    assert wrong == []


def test_from_the_search_to_the_words(page, server):
    assert page.url == f"{server.address}/"
    page.fill("#top input", '"No pears"')
    page.press("#top input", "Enter")
    page.click(f"#results a[href*='{ONE}']")
    page.wait_for_url("**/session/**")
    expect(page.locator("#told")).to_have_text(re.compile(r"^\d+ of \d+$"))
    page.wait_for_function(
        "() => { const place = [...CSS.highlights.get('now')][0]?.getBoundingClientRect();"
        " return place && place.top >= 0 && place.bottom <= innerHeight; }"
    )
    page.click("#top a.name")
    assert page.url == f"{server.address}/"


def test_a_link_elsewhere_leads_in(chromium, server, tmp_path):
    page = chromium.new_context().new_page()
    link = tmp_path / "link.html"
    link.write_text(f'<a href="{server.address}/?token={server.token}">in</a>')
    page.goto(link.as_uri())
    page.click("a")
    page.wait_for_url(f"{server.address}/")
    assert "sessions" in page.inner_text("h1")


def test_costs_are_narrowed_by_marks_and_while_one_types(page, server):
    page.goto(f"{server.address}/costs?since=all&by=model")
    page.evaluate("window.same = true")
    mark = page.locator("svg.bars a:has(.series-0)").first
    figure = mark.locator("title").text_content().rpartition(": ")[2]
    mark.click()
    page.wait_for_url("**model=**")
    assert page.inner_text("h1") == figure
    assert page.input_value("select[name=model]") != ""
    page.fill("input[name=project]", "nowhere")
    page.wait_for_selector("#project-wrong")
    assert page.input_value("input[name=project]") == "nowhere"
    page.fill("input[name=project]", "orchard")
    page.wait_for_selector("svg.bars")
    assert "project=orchard" in page.url
    assert page.evaluate("window.same")  # It was never reloaded.


def test_costs_are_narrowed_without_scripts(chromium, server):
    page = chromium.new_context(java_script_enabled=False).new_page()
    page.goto(f"{server.address}/?token={server.token}")
    page.wait_for_url(f"{server.address}/")
    page.goto(f"{server.address}/costs?since=all")
    cell = page.locator("svg.treemap.on-wide a").first
    figure = cell.locator("title").text_content().rpartition(": ")[2]
    cell.click(position={"x": 20, "y": 8})
    page.wait_for_url("**project=**")
    assert page.inner_text("h1") == figure
    page.select_option("select[name=subagent]", "main")
    page.click("form.strip button")
    page.wait_for_url("**subagent=main**")
    page.click("#responses ~ .scroll td a >> nth=0")
    page.wait_for_url("**/session/**record=**")


def test_a_hostile_log_runs_nothing_on_any_page(page, server):
    for path in ("/", "/search?q=kestrel", "/costs?by=tool&since=all", "/insights?since=all",
                 f"/session/{ID}?thread=all", f"/session/{ID}/about", "/files", "/health", "/now",
                 "/palette?q=kestrel", f"/compare?a={ID}", f"/compare?a={ID}&b={ID}"):  # fmt: skip
        page.goto(server.address + path)
        page.evaluate("for (const each of document.querySelectorAll('*')) each.focus?.()")
        page.wait_for_timeout(100)
        assert page.evaluate("window.pwned") is None


@pytest.mark.parametrize("width", [320, 390, 1024, 1280])
def test_no_page_is_wider_than_the_screen(chromium, server, width):
    page = chromium.new_context(viewport={"width": width, "height": 800}).new_page()
    page.goto(f"{server.address}/?token={server.token}")
    page.wait_for_url(f"{server.address}/")
    for path in ("/", "/search?q=apples", "/costs?by=session&since=all", "/insights?since=all",
                 f"/session/{ONE}", "/search", "/nowhere", "/files?since=all", "/health", "/now",
                 f"/compare?a={ONE}&b={TWO}"):  # fmt: skip
        page.goto(server.address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (390, "light"), (1440, "dark")])
def test_reports_fit_the_screen(chromium, server, width, scheme):
    view = {"width": width, "height": 800}
    page = chromium.new_context(viewport=view, color_scheme=scheme).new_page()
    page.goto(f"{server.address}/?token={server.token}")
    page.wait_for_url(f"{server.address}/")
    for path in ("/costs?since=all", "/costs?since=1y&time=day&by=tool", "/costs?since=no",
                 "/costs?since=all&show=responses", "/insights?since=all",
                 "/insights?since=all&figure=tools", "/insights?project=nowhere"):  # fmt: skip
        page.goto(server.address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        sizes = page.evaluate(
            "[...document.querySelectorAll('.linked-chart text')].filter(t => t.checkVisibility())"
            ".map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().d)"
        )
        assert min(sizes, default=12) >= 9, path  # Pixels of letters as they are drawn.
