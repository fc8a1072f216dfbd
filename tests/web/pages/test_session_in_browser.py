"""Reading a session in a real browser: scroll, find, keys, links, back, and a log that grows."""

import re

import pytest

from export.browser import browser, needs_browser, visits
from web.pages.long_sessions import DEEP, MANY, OLD, deep_turn, many_turns, old_sidechain
from web.served import served

pytestmark = needs_browser
GROWING = "a4444444-bbbb-4bbb-8bbb-444444444444"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("reading")
    many_turns(tmp_path / "home", 120)
    deep_turn(tmp_path / "home", 200)
    old_sidechain(tmp_path / "home")
    return tmp_path


@pytest.fixture(scope="module")
def server(place):
    with served(place) as found:
        yield found


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture
def visit(chromium, server):
    wide = {"viewport": {"width": 1440, "height": 900}}
    with visits(chromium) as go:
        yield lambda path, **context: go(server, path, **(wide | context))


def until(page, script, *words):
    """Wait until *script* is true in the page."""
    for _ in range(100):
        if page.evaluate(script, *words):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"{script} never became true on {page.url}")


TOP = "(id) => document.getElementById(id)?.getBoundingClientRect().top"
HAS = "(words) => document.getElementById(location.hash.slice(1))?.innerText.includes(words)"
IN_VIEW = (
    "(id) => { const box = document.getElementById(id)?.getBoundingClientRect();"
    " return box && box.bottom > 0 && box.top < innerHeight; }"
)


def test_turns_are_loaded_as_one_scrolls_down_and_up(visit):
    page = visit(f"/session/{MANY}?turn=60#t60")
    until(page, IN_VIEW, "t60")
    count = page.locator("section.turn").count()
    assert count < 80
    until(page, "() => document.querySelectorAll('section.turn[id]').length > 10")
    top = page.evaluate(TOP, "t60")
    assert -5 <= top < 400
    for _ in range(60):
        page.mouse.move(700, 500)
        page.mouse.wheel(0, -6000)
        page.wait_for_timeout(30)
        if page.locator("#t1").count() and page.evaluate("scrollY") == 0:
            break
    assert page.locator("#t1").count() == 1
    for _ in range(200):
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        page.wait_for_timeout(30)
        if page.locator("#end").count():
            break
    ids = page.evaluate(
        "[...document.querySelectorAll('section.turn h2 > a')].map(a => a.textContent)"
    )
    assert ids == [f"#{number}" for number in range(1, 121)]


def test_what_is_loaded_above_does_not_move_the_page(visit):
    page = visit(f"/session/{MANY}?turn=60#t60")
    until(page, IN_VIEW, "t60")
    page.wait_for_timeout(500)
    before = page.evaluate(TOP, "t60")
    page.evaluate(
        "document.getElementById('links').append("
        " Object.assign(document.createElement('p'), {textContent: 'More '.repeat(200)}))"
    )
    page.wait_for_timeout(300)
    assert abs(page.evaluate(TOP, "t60") - before) < 2


def test_what_comes_before_does_not_move_the_page(visit):
    page = visit(f"/session/{MANY}?turn=60#t60")
    until(page, IN_VIEW, "t60")
    page.wait_for_timeout(500)
    before = page.evaluate(TOP, "t60")
    page.evaluate("document.getElementById('before')?.scrollIntoView({block: 'end'})")
    page.wait_for_timeout(400)
    page.evaluate("document.getElementById('t60').scrollIntoView()")
    assert abs(page.evaluate(TOP, "t60") - before) < 3


def test_words_are_found_where_nothing_is_loaded_yet(visit):
    page = visit(f"/session/{MANY}")
    page.keyboard.press("/")
    page.keyboard.type("output 11")
    until(page, "() => document.getElementById('told').value === '11 places'")
    assert page.locator("text=output 110").count() <= 1  # Only in the list of places.
    page.keyboard.press("Enter")
    until(page, "() => document.getElementById('told').value === '1 of 11'")
    until(
        page, "() => [...CSS.highlights.get('now')].some(range => range.toString() === 'output 11')"
    )
    page.keyboard.press("Enter")
    until(page, "() => document.getElementById('told').value === '2 of 11'")
    until(page, "() => /output 110/.test([...CSS.highlights.get('now')][0]?.startContainer.data)")
    inside = (
        "() => { const box = [...CSS.highlights.get('now')][0].getBoundingClientRect();"
        " return box.top > 0 && box.bottom < innerHeight; }"
    )
    until(page, inside)
    page.click("#previous")
    until(page, "() => document.getElementById('told').value === '1 of 11'")
    page.fill("#find", "no such words")
    until(page, "() => document.getElementById('told').value === 'not found'")


def test_words_in_a_subagent_are_found(visit):
    page = visit(f"/session/{OLD}")
    page.fill("#find", "medlar 77")
    page.press("#find", "Enter")
    until(page, "() => document.getElementById('told').value === '1 of 1'")
    until(page, "() => [...CSS.highlights.get('now')][0]?.toString() === 'medlar 77'")


def test_keys_lead_to_prompts_errors_and_calls(visit):
    page = visit(f"/session/{MANY}")
    until(page, "() => document.getElementById('rail') !== null")
    page.wait_for_timeout(200)
    for key, words in [("n", "t2"), ("n", "t3"), ("p", "t2")]:
        page.keyboard.press(key)
        page.wait_for_url(f"**#{words}")
        until(page, IN_VIEW, words)
    for number in (10, 20, 30):
        page.keyboard.press("e")
        until(page, HAS, f"done {number}")
    page.keyboard.press("E")
    until(page, HAS, "done 20")
    before = page.url
    page.keyboard.press("c")
    page.wait_for_url(lambda url: url != before)
    assert re.search(r"#r\w+-c0$", page.url)


def test_a_permalink_opens_its_block_and_back_returns_to_the_same_place(visit, server):
    page = visit(f"/session/{MANY}?turn=30#t30")
    until(page, IN_VIEW, "t30")
    page.locator("#t31 details.call > summary").nth(0).click()
    until(page, "() => document.querySelector('#t31 details.call').innerText.includes('output 31')")
    link = page.locator("#t31 .permalink").nth(3)
    link.hover()
    link.click()
    page.wait_for_url("**record=*")
    address, anchor = page.url, page.url.rpartition("#")[2]
    top = page.evaluate(TOP, anchor)
    page.evaluate("location.assign('/')")
    page.wait_for_url(f"{server.address}/")
    page.go_back()
    page.wait_for_url(address)
    until(page, "() => document.querySelector('#t31 details.call')?.open")
    until(page, "() => document.querySelector('#t31 details.call').innerText.includes('output 31')")
    page.wait_for_timeout(300)
    assert abs(page.evaluate(TOP, anchor) - top) < 8
    page.reload()
    until(page, IN_VIEW, anchor)


def test_bodies_are_loaded_when_they_are_opened(visit):
    page = visit(f"/session/{DEEP}")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    assert page.locator("text=line 3 of quinces").count() <= 1
    page.locator("details.call > summary").nth(3).focus()
    page.keyboard.press("Enter")
    until(page, "() => document.querySelectorAll('details.call')[3].querySelector('pre')")
    assert len([url for url in asked if "/block?" in url]) == 1


def test_code_messages_and_links_can_be_copied(visit, server):
    page = visit(f"/session/{MANY}", permissions=["clipboard-read", "clipboard-write"])

    def copied():
        page.wait_for_timeout(100)
        return page.evaluate("navigator.clipboard.readText()")

    page.hover("#t1 .said")
    page.click("#t1 .said button.copy")
    assert copied() == "Prompt 1 about pears"
    page.mouse.move(0, 0)
    page.focus("#t1 .answer pre")  # With the keyboard, too.
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert copied() == "def pear():\n    return 1"
    page.hover("#t2 .said")
    page.click("#t2 .said .permalink")
    assert copied() == page.url
    page.click("#links .command >> nth=1 >> button")
    assert copied() == f"cd /home/ada/orchard && claude --resume {MANY}"


def test_everything_can_be_read_without_a_script(visit):
    page = visit(f"/session/{MANY}", java_script_enabled=False)
    assert not page.is_visible(".switches")
    page.click("#after a")
    page.wait_for_url("**window=*")
    page.locator("details.call > summary").first.click()
    page.locator("details.call[open] a >> text=Show").first.click()
    page.wait_for_url("**record=*")
    page.wait_for_selector("details.call[open] .path")
    page.fill("#find", "output 99")
    page.press("#find", "Enter")
    page.wait_for_selector("#places >> text=1 place")
    page.click("#places a")
    page.wait_for_selector("details.call[open] pre:has-text('output 99')")
    page.fill("#outline input[name=turns]", "error")
    page.press("#outline input[name=turns]", "Enter")
    page.wait_for_url("**turns=error*")
    assert page.locator("#outline li").count() == 12
    page.click("#side summary")
    page.click("#side a >> text=Show")
    page.wait_for_selector("#side >> text=Cost by turn")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (320, "dark"), (1440, "dark")])
def test_it_fits_the_screen_and_heads_are_not_hidden(visit, width, scheme):
    page = visit(
        f"/session/{MANY}?turn=41#t41",
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
    )
    until(page, IN_VIEW, "t41")
    page.locator("#t41 details.call > summary").nth(1).click()
    until(page, "() => document.querySelector('#t41 table.diff') !== null")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("location.hash = ''; location.hash = '#t41'")
    page.wait_for_timeout(300)
    assert page.evaluate(
        "() => { const head = document.querySelector('#t41 h2');"
        " const { left, top, height } = head.getBoundingClientRect();"
        " return head.contains(document.elementFromPoint(left + 5, top + height / 2)); }"
    )
    unreachable = """() => [...document.querySelectorAll('#session *')].filter((each) => {
      const style = getComputedStyle(each), scrolls = /auto|scroll/;
      const down = scrolls.test(style.overflowY) && each.scrollHeight > each.clientHeight + 1;
      const across = scrolls.test(style.overflowX) && each.scrollWidth > each.clientWidth + 1;
      return each.checkVisibility() && (down || across) && each.tabIndex < 0
        && !each.querySelector('a[href], button, input, [tabindex="0"]');
    }).map((each) => each.outerHTML.slice(0, 80))"""
    assert page.evaluate(unreachable) == []


def test_the_page_grows_with_its_log_and_keeps_the_place(chromium, tmp_path):
    log = many_turns(tmp_path / "home", 12, GROWING)
    with served(tmp_path) as server:
        page = chromium.new_context(viewport={"width": 1440, "height": 600}).new_page()
        page.goto(f"{server.address}/?token={server.token}")
        page.wait_for_url(f"{server.address}/")
        page.goto(f"{server.address}/session/{GROWING}?turn=11#t11")
        until(page, "() => document.getElementById('end') !== null")
        page.wait_for_timeout(1000)  # Until the page listens.
        top = page.evaluate(TOP, "t11")
        log.answer({"type": "text", "text": "The plums are ripe"}).prompt("And the figs?").save()
        until(page, "() => document.getElementById('turns').innerText.includes('And the figs?')")
        until(page, "() => document.getElementById('new').innerText === '2 new ↓'")
        assert abs(page.evaluate(TOP, "t11") - top) < 2
        until(page, "() => document.querySelector('#outline a[data-turn=t13]') !== null")
        page.click("#new")
        until(page, IN_VIEW, "t13")
        page.check("#follow")
        for number in range(40):
            log.answer({"type": "text", "text": f"Fig {number}"})
        log.save()
        until(page, "() => document.getElementById('turns').innerText.includes('Fig 39')")
        until(page, IN_VIEW, "end")
        page.context.close()


def test_growth_beyond_the_window_is_announced(chromium, tmp_path):
    log = many_turns(tmp_path / "home", 3, GROWING)
    other = many_turns(tmp_path / "home", 2, MANY)
    with served(tmp_path) as server:
        page = chromium.new_context(viewport={"width": 1440, "height": 600}).new_page()
        page.goto(f"{server.address}/?token={server.token}")
        page.wait_for_url(f"{server.address}/")
        page.goto(f"{server.address}/session/{GROWING}#t1")
        until(page, "() => document.getElementById('end') !== null")
        page.wait_for_timeout(1000)  # Until the page listens.
        with page.expect_response(lambda answer: "/turns?" in answer.url) as asked:
            other.prompt("Somebody else's plums?").save()
        assert asked.value.status == 304
        assert not page.is_visible("#new")
        for number in range(200):
            log.call("Read", f"line {number} of figs", file_path="/home/ada/orchard/figs.py")
        log.prompt("Are the figs ripe?").save()
        until(page, "() => document.getElementById('new').innerText === 'new ↓'")
        page.click("#new")
        until(
            page, "() => document.getElementById('turns').innerText.includes('Are the figs ripe?')"
        )
        until(page, "() => document.getElementById('new').hidden")
        page.context.close()
