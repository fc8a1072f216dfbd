"""Pages in a real browser: they do what ours do, and nothing that a log wants."""

import json
from itertools import product

import pytest

from export import hostile
from export.browser import Visit, browser, narrowest_text, needs_browser
from export.pages import ID, home_of, page_of, told
from sampling import sampled
from sessions.trees import answer, call, record
from turnlog.export.exporter import Listed, contents_page

pytestmark = needs_browser


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


def said(uuid, parent, text, **fields):
    return record(uuid, parent, message={"role": "user", "content": text}, **fields)


def replied(uuid, parent, call_id, content):
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return record(uuid, parent, message={"role": "user", "content": [block]})


def told_in(visit, words):
    """Wait until the page says how many it has found; its policy lets nobody wait within it."""
    for _ in range(50):
        if visit.page.evaluate("document.getElementById('told').value").endswith(words):
            return True
        visit.page.wait_for_timeout(100)
    return False


@pytest.fixture
def page(tmp_path):
    """Write *text* as a page, and give where."""

    def write(text, name="page.html"):
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return write


@pytest.mark.parametrize("evil", [hostile.EVERYTHING, hostile.LINE], ids=["everything", "line"])
def test_a_hostile_log_runs_nothing_and_asks_for_nothing(chromium, tmp_path, page, evil):
    path = page(page_of(home_of(tmp_path, raw=hostile.log(evil)), thread="all"))
    visit = Visit(chromium, path)
    visit.page.click("#fold")  # Everything unfolded, so that everything is drawn.
    visit.page.mouse.move(400, 400)
    visit.page.evaluate("for (const each of document.querySelectorAll('*')) each.focus?.()")
    visit.page.wait_for_timeout(300)
    assert visit.wrong == []
    assert visit.page.evaluate("window.pwned") is None
    assert visit.page.url == visit.address
    assert visit.page.evaluate("document.scripts.length") == 1
    assert hostile.MARK in visit.page.inner_text("main")


def test_the_policy_stops_what_would_slip_through(chromium, page, tmp_path):
    """The second wall: a script that stood in the page all the same would not run."""
    made = page_of(home_of(tmp_path, said("q", None, "kite")))
    broken = made.replace(
        "<main>", "<main><script>window.pwned=1</script><img src=x onerror=pwned=1>"
    )
    visit = Visit(chromium, page(broken))
    assert visit.page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in each for each in visit.wrong)


def test_text_is_found_and_unfolded(chromium, page, tmp_path):
    home = home_of(
        tmp_path,
        said("q", None, "Where is the heron?"),
        answer("a", "q", "m", call("c", "Bash", command="cat birds")),
        replied("r", "a", "c", "a stork\nthe Heron stands"),
        answer(
            "b", "r", "n", {"type": "text", "text": "```python\ndef heron_nest():\n    pass\n```"}
        ),
    )
    visit = Visit(chromium, page(page_of(home)))
    assert not visit.page.is_visible("text=the Heron stands")
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("heron")
    assert told_in(visit, "of 3")
    visit.page.keyboard.press("Enter")
    assert visit.page.input_value("#find") == "heron"
    assert visit.page.is_visible("text=the Heron stands")
    visit.page.fill("#find", "def heron")  # Across the words of coloured code.
    assert told_in(visit, "1 of 1")
    visit.page.fill("#find", "no such bird")
    assert told_in(visit, "not found")
    visit.page.uncheck("#tools")
    assert not visit.page.is_visible("details.call")
    assert visit.wrong == []


@pytest.mark.parametrize(
    ("width", "scheme"), sampled(product([320, 700, 1400], ["light", "dark"]), 5)
)
def test_it_fits_every_screen(chromium, page, tmp_path, width, scheme):
    wide = "x" * 400
    home = home_of(
        tmp_path,
        said("q", None, f"Look at {wide}"),
        answer("a", "q", "m", call("c", "Bash", command=wide)),
        replied("r", "a", "c", wide),
        answer(
            "b", "r", "n", {"type": "text", "text": f"| a | b |\n|---|---|\n| {wide} | `{wide}` |"}
        ),
    )
    viewport = {"width": width, "height": 800}
    visit = Visit(chromium, page(page_of(home)), viewport=viewport, color_scheme=scheme)
    visit.page.click("#fold")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = visit.page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    dark = sum(map(int, paper.strip("rgb()").split(","))) < 200
    assert dark == (scheme == "dark")
    assert ink != paper


def test_the_head_of_a_turn_is_not_hidden_on_a_phone(chromium, page, tmp_path):
    turns = []
    for number in range(1, 9):
        parent = f"a{number - 1}" if number > 1 else None
        turns.append(said(f"q{number}", parent, f"Question {number}"))
        turns.append(answer(f"a{number}", f"q{number}", f"m{number}"))
    path = page(page_of(home_of(tmp_path, *turns)))
    visit = Visit(chromium, path, viewport={"width": 390, "height": 500})
    visit.page.click("nav a[href='#t5']")
    visit.page.wait_for_timeout(200)
    assert visit.page.evaluate(
        "(() => { const head = document.querySelector('#t5 h2');"
        " const { left, top, height } = head.getBoundingClientRect();"
        " return head.contains(document.elementFromPoint(left + 5, top + height / 2)); })()"
    )


def test_a_table_on_a_phone_breaks_no_word(chromium, page, tmp_path):
    row = "| irrigation | pumps | valves | orchard | weather | harvest |"
    table = {"type": "text", "text": f"{row}\n|{'---|' * 6}\n{row}"}
    home = home_of(tmp_path, said("q", None, "Compare"), answer("a", "q", "m", table))
    visit = Visit(chromium, page(page_of(home)), viewport={"width": 390, "height": 800})
    heights = visit.page.evaluate("[...document.querySelectorAll('td')].map(c => c.clientHeight)")
    assert len(heights) == 6
    assert max(heights) < 50  # One line.
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_list_of_sessions_can_be_read_on_a_phone(chromium, page, tmp_path):
    where = {"cwd": "/home/ada/src/a-long-name/and-deeper/service"}
    home = home_of(tmp_path, said("q", None, "Migrate the orders table", **where))
    listed = [Listed(file=f"{ID}.html", session=told(home).head, turns=2)]
    visit = Visit(chromium, page(contents_page(listed)), viewport={"width": 390, "height": 800})
    assert narrowest_text(visit) >= 100
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert visit.wrong == []


def test_it_prints(chromium, page, tmp_path):
    home = home_of(tmp_path, said("q", None, "Print the kite"), answer("a", "q", "m"))
    visit = Visit(chromium, page(page_of(home)))
    visit.page.emulate_media(media="print")
    assert not visit.page.is_visible("#bar")
    assert visit.page.is_visible("div.said")
    assert visit.page.pdf().startswith(b"%PDF")
    assert visit.wrong == []


@pytest.mark.slow
def test_a_session_of_ten_megabytes_is_usable_at_once(chromium, page, tmp_path):
    lines, parent, size = [], None, 0
    text = "\n".join(
        f"{number:5}→def kite_{number}(wind): return wind * {number}" for number in range(400)
    )
    number = 0
    while size < 10_000_000:
        number += 1
        made = [
            said(f"q{number}", parent, f"Question {number}"),
            answer(
                f"a{number}", f"q{number}", f"m{number}", call(f"c{number}", "Read", file_path="a")
            ),
            replied(f"r{number}", f"a{number}", f"c{number}", text),
            answer(
                f"b{number}", f"r{number}", f"n{number}", {"type": "text", "text": "It **flies**."}
            ),
        ]
        lines += made
        size += sum(len(json.dumps(each)) for each in made)
        parent = f"b{number}"
    path = page(page_of(home_of(tmp_path, *lines)))
    assert path.stat().st_size < 12_000_000
    taken = []
    for _ in range(3):  # The best of three: others may be busy on this machine.
        visit = Visit(chromium, path)
        taken.append(
            visit.page.evaluate(
                "performance.timing.loadEventEnd - performance.timing.navigationStart"
            )
        )
        assert visit.page.is_visible(f"text={ID}")
        visit.page.context.close()
        if taken[-1] < 2000:
            break
    assert min(taken) < 2000, taken
