"""Every page in a browser: wide and narrow, light and dark, with and without JavaScript.

Nothing complains on the console or asks another host, nothing is wider than the screen, and
axe-core finds nothing serious, whether the page is folded or opened. A new page of the app is
visited, too.
"""

from importlib.resources import files
from itertools import product

import pytest

from export.browser import browser, needs_browser
from mcp_contexts import ONE, TWO, make_home
from sampling import sampled
from turnlog.web.app import _PAGES
from web.served import served

pytestmark = needs_browser

ASKED = {  # What a page needs to show something.
    "/search": "?q=apples",
    "/costs": "?since=all",
    "/insights": "?since=all",
    "/files": "?since=all",
    "/compare": f"?a={ONE}&b={TWO}",
}
NOT_PAGES = {"/costs.csv", "/files/diff"}  # A file, and the diff of one edit, which a page loads.
PAGES = [
    *(path + ASKED.get(path, "") for path in _PAGES if path not in NOT_PAGES),
    f"/session/{ONE}",
    "/search",
    "/nowhere",
]
WAYS = [
    (width, scheme, has_scripts)
    for has_scripts, (width, scheme) in product(
        (True, False), ((1440, "light"), (390, "dark"), (1440, "dark"), (390, "light"))
    )
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("walk")
    make_home(tmp_path)
    with served(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def axe():
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    return (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


# Wide and light, narrow and without scripts: the quick run.
@pytest.mark.parametrize("way", sampled([pytest.param(each, id=str(each)) for each in WAYS], 5))
def test_every_page_can_be_read(chromium, server, axe, way):
    width, scheme, has_scripts = way
    context = chromium.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        java_script_enabled=has_scripts,
    )
    name, _, value = server.cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": server.address}])
    found = {path: list(_wrong(context, server, path, axe, has_scripts)) for path in PAGES}
    context.close()
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def _wrong(context, server, path, axe, has_scripts):
    """Visit a page; give what is wrong with it."""
    wrong = []
    page = context.new_page()
    page.on("console", lambda said: wrong.append(f"console: {said.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith((server.address, "data:"))
            else wrong.append(f"asks {asked.url}")
        ),
    )
    answer = page.goto(server.address + path)
    if answer.status != 200:  # The browser says so on its console.
        assert path == "/nowhere", (path, answer.status)
        wrong.clear()
    for is_opened in (False, True):
        if is_opened:
            page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            page.wait_for_timeout(300)  # What is opened may be fetched.
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wide > 0:
            wrong.append(f"{wide} pixels too wide, {is_opened=}")
        if has_scripts:
            yield from (f"{each}, {is_opened=}" for each in _found_by(axe, page))
    page.close()
    yield from wrong


def _found_by(axe, page):
    """Give what axe-core finds serious or critical."""
    page.evaluate(axe)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    for each in found["violations"]:
        if each["impact"] in ("serious", "critical"):
            yield f"{each['id']}: {each['nodes'][0]['html'][:150]} ({len(each['nodes'])})"


def test_what_is_wrong_is_found(chromium, axe, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text('<html lang="en"><title>x</title><main><h1>x</h1><img src="data:,"></main>')
    page = chromium.new_page()
    page.goto(bad.as_uri())
    assert [each.partition(":")[0] for each in _found_by(axe, page)] == ["image-alt"]
