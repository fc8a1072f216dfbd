"""What the pages say: what the commands say, and nothing that a log wants."""

import json
import re
from html import unescape
from html.parser import HTMLParser

import pytest

from export import hostile
from export.pages import ID
from mcp_contexts import ACTING, ONE, OUTSIDE, PASSWORD, PRESS, SECRET, TWO, Log, make_home
from turnlog.cli.app import run
from web.served import served


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("pages")
    make_home(tmp_path)
    evil = Log(tmp_path / "home", ID, "/home/ada/evil", word="kestrel")
    evil.path.write_bytes(hostile.log(hostile.EVERYTHING))
    return tmp_path


@pytest.fixture(scope="module")
def server(place):
    with served(place) as found:
        yield found


@pytest.fixture
def asked(place, capsys, monkeypatch):
    """Ask a command of the same home, and give its JSON."""
    monkeypatch.setenv("TURNLOG_HOME", str(place / "own"))

    def ask(*words):
        run([*words, "--json", "--home", str(place / "home")])
        return json.loads(capsys.readouterr().out)

    return ask


class Elements(HTMLParser):
    """Gathers the elements of a page, as a browser would, with their attributes."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def words_of(page):
    """Give what a person reads."""
    body = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", " ", body))


def ids_on(page):
    """Return the sessions that a page lists, in order."""
    return re.findall(r'id="row-([^"]+)"', page)


def test_the_list_has_the_sessions_that_the_command_lists(server, asked):
    page = server.ask("/").text
    listed = asked("sessions", "--limit", "0")["sessions"]
    assert ids_on(page) == [row["id"] for row in listed]
    assert f"{len(listed)} sessions" in words_of(page)


def test_the_list_is_narrowed_by_project_words_and_time(server):
    def found(path):
        return set(ids_on(server.ask(path).text))

    assert found(f"/?project={PRESS}") == {TWO}
    assert ONE in found("/?words=APPLES")
    assert found("/?words=no+such+title") == set()
    assert found("/?since=today") == set()
    assert "No session matches all of these filters" in server.ask("/?since=today").text
    assert ONE in found("/?cost=0&agent=claude+code")
    assert found("/?cost=99999") == set()


def test_facets_lead_to_as_many_sessions_as_they_say(server, asked):
    page = server.ask("/").text
    facets = re.findall(
        r'<li><a href="(/\?(\w+)=[^"]*)"[^>]*>[^<]*</a><small>([\d,]+)</small>', page
    )
    assert {name for _, name, _ in facets} >= {"project", "model", "tool"}
    for link, _, number in facets:
        assert len(ids_on(server.ask(unescape(link)).text)) == int(number), link


@pytest.mark.parametrize("sort", ["title", "project", "cost", "tokens", "duration", "errors"])
def test_a_column_sorts_both_ways(server, asked, sort):
    head = r'aria-sort="(\w+)"><a href="([^"]*)"[^>]*>'
    for reverse in ((), ("--reverse",)):
        page = server.ask(f"/?sort={sort}" + ("&reverse=1" if reverse else "")).text
        listed = asked("sessions", "--sort", sort, *reverse, "--limit", "0")["sessions"]
        assert ids_on(page) == [row["id"] for row in listed]
        way, link = re.search(head, page).groups()
        assert way == (
            "ascending" if (sort in {"title", "project"}) != bool(reverse) else "descending"
        )
        assert ("reverse=1" in link) != bool(reverse)


def test_a_filter_that_cannot_be_understood_keeps_the_form(server):
    answer = server.ask("/?since=whenever&words=apples&cost=much&project=nowhere")
    assert answer.status == 200
    assert 'value="whenever"' in answer.text
    assert 'value="apples"' in answer.text
    problems = re.findall(r'class="problem" id="problem-(\w+)">([^<]*)<', answer.text)
    assert {name: unescape(words).partition(":")[0] for name, words in problems} == {
        "since": "invalid date or duration",
        "cost": "invalid amount",
        "project": "no project is called 'nowhere'",
    }
    assert str(ids_on(answer.text)) == "[]"  # Not those of a directory of the server.
    page = server.ask("/search?q=since:someday").text
    assert 'value="since:someday"' in page
    assert "someday" in words_of(page)


def test_a_name_that_two_projects_have_matches_both(tmp_path):
    for number, place in enumerate(("/home/ada/entire-graph", "/work/entire-graph", "/work/graph")):
        session = f"{number:08x}-bbbb-4bbb-8bbb-{number:012x}"
        Log(tmp_path / "home", session, place, hostile="").prompt(f"Plum {number}").save()
    with served(tmp_path) as server:
        page = server.ask("/?project=entire-graph").text
        assert len(ids_on(page)) == 2
        assert "ada/entire-graph" in words_of(page)
        assert len(ids_on(server.ask("/?project=/work").text)) == 2
        found = server.ask("/search?q=plum&project=entire-graph").text
        assert "2 hits in 2 sessions" in words_of(found)


@pytest.mark.parametrize("unit", ["project", "model", "session", "tool"])
def test_costs_are_those_of_the_command(server, asked, unit):
    words = words_of(server.ask(f"/costs?by={unit}&since=all").text)
    found = asked("cost", "--by", unit, "--since", "2000")
    total = f"${float(found['totals']['cost_usd']):.2f}"
    assert total in words
    for row in found["rows"]:
        assert f"${float(row['cost_usd']):.2f}" in words
        assert f"{row['messages']:,}" in words


def test_a_search_finds_what_the_command_finds_and_marks_it(server, asked):
    page = server.ask("/search?q=seven+apples").text
    hits = asked("search", "seven", "apples")["hits"]
    assert page.count('class="snippet"') == len(hits) > 0
    places = re.findall(r'<p class="facts"><a href="/session/([^"?]+)\?record=([^&"]+)', page)
    assert places == [(hit["session"], hit["uuid"]) for hit in hits if hit["session"]]
    assert "<mark>seven</mark> <mark>apples</mark>" in page
    assert "#here" in page


def test_filters_notes_and_refusals_of_a_search_are_shown(server):
    page = words_of(server.ask("/search?q=zanzibarium").text)
    assert "Nothing was found." in page
    assert "zanzibarium" in page
    results = server.ask("/search?q=is:result&results=1&newest=1").text
    assert "result, Bash" in results
    assert f"/session/{ONE}" in server.ask("/search?q=apples&project=/home/ada/orchard").text
    assert "/session/f" not in server.ask("/search?q=apples&project=/home/ada/orchard").text
    assert "/session/f" in server.ask(f"/search?q=apples&project={OUTSIDE}").text


def test_a_hit_leads_to_its_words(server):
    page = server.ask("/search?q=%22No+pears%22").text
    address = unescape(re.search(rf'href="(/session/{ONE}[^"]*)"', page)[1])
    shown = server.ask(address.partition("#")[0]).text
    assert 'value="No' in shown
    _before, after = shown.split('<span id="here"></span>')
    assert words_of(after).strip().startswith("No pears")


def test_search_facets_count_what_they_lead_to(server):
    page = server.ask("/search?q=apples&results=1").text
    facets = re.findall(r'<li><a href="([^"]*)"[^>]*>[^<]*</a><small>([\d,]+)</small>', page)
    assert len(facets) > 5
    for link, number in facets:
        found = words_of(server.ask(unescape(link)).text)
        assert int(re.search(r"([\d,]+) hits? in", found)[1]) == int(number), link


def test_further_hits_of_a_session_are_loaded(tmp_path):
    log = Log(tmp_path / "home", ONE, "/home/ada/many", hostile="")
    for number in range(9):
        log.prompt(f"The medlar of row {number}")
    log.save()
    with served(tmp_path) as server:
        page = server.ask("/search?q=medlar").text
        assert page.count('class="snippet"') == 3
        assert "6 more in this session" in page
        more = server.ask(unescape(re.search(r'data-src="([^"]*)"', page)[1])).text
        assert more.count('class="snippet"') == 6
        assert "<html" not in more
        texts = set(re.findall(r"row (\d)", words_of(page + more)))
        assert texts == set("012345678")


def test_pages_lead_to_the_next(place, tmp_path):
    for number in range(53):
        session = f"{number:08x}-bbbb-4bbb-8bbb-{number:012x}"
        Log(tmp_path / "home", session, "/home/ada/many", hostile="").prompt(f"Say {number}").save()
    with served(tmp_path) as server:
        first = server.ask("/").text
        link = unescape(re.search(r'<a href="([^"]+)" rel="next">', first)[1])
        second = server.ask(link).text
        ids = [ids_on(page) for page in (first, second)]
        assert [len(ids[0]), len(ids[1]), len({*ids[0], *ids[1]})] == [50, 3, 53]
        assert 'rel="prev"' in second
        assert 'rel="next"' not in second
        rows = server.ask(unescape(re.search(r'data-src="([^"]*)"', first)[1])).text
        assert ids_on(rows) == ids[1]
        assert rows.startswith("<tr")
        beyond = server.ask("/?offset=9999").text
        assert "There are only 53 sessions" in words_of(beyond)
        last = unescape(re.search(r'href="([^"]*)" rel="last"', beyond)[1])
        assert ids_on(server.ask(last).text) == ids[1]


def test_a_report_of_a_time_in_which_nothing_happened(server):
    assert "Nothing was used then" in server.ask("/costs?since=today").text
    assert "Nothing happened" in server.ask("/insights?since=today").text


def test_insights_are_those_of_the_command(server, asked):
    words = words_of(server.ask("/insights?since=all").text)
    top = asked("insights", "--since", "2020-01-01")["overview"]
    for figure in (top["sessions"], top["prompts"], top["messages"], top["calls"]):
        assert f"{figure:,}" in words


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nowhere", 404, "no such page"),
        ("/session/nobody", 404, "No session's id begins with 'nobody'"),
        ("/session/../../etc/passwd", 404, ""),
        ("/session/%2e%2e%2fetc", 404, ""),
        (f"/session/{ONE}/export.exe", 404, "md, html, json"),
        ("/?sort=colour", 400, "colour"),
        ("/?offset=-1", 400, "Invalid offset"),
        (
            "/?offset=%D9%A3%D9%A3%D9%A3%D9%A3%D9%A3%D9%A3%D9%A3%D9%A3%D9%A3%D9%A3",
            400,
            "Invalid offset",
        ),
        ("/costs?by=%3Cscript%3E", 400, "<script>"),
        ("/insights?since=never", 200, "invalid date or duration: 'never'"),
        (f"/session/{ONE}?thread=none", 400, "none"),
    ],
)
def test_a_mistake_is_told_with_a_way_out(server, path, status, words):
    answer = server.ask(path)
    assert answer.status == status
    assert words in words_of(answer.text)
    assert 'id="top"' in answer.text
    assert "<script>" not in answer.text


def test_exports_are_files_without_secrets(server):
    shown = server.ask(f"/session/{ONE}").text
    assert SECRET.secret in shown
    for shape, media in (
        ("md", "text/markdown"),
        ("html", "text/html"),
        ("json", "application/json"),
    ):
        answer = server.ask(f"/session/{ONE}/export.{shape}")
        assert answer.headers["content-type"].startswith(media)
        assert answer.headers["content-disposition"] == (
            f'attachment; filename="session-{ONE[:8]}.{shape}"'
        )
        assert SECRET.secret not in answer.text
        assert "apples" in answer.text


def test_masked_no_page_tells_a_secret(place):
    paths = (
        "/", "/now", "/search?q=apples", "/search?q=apples&results=1&newest=1",
        "/insights?since=all",
        *(f"/insights?since=all&figure={figure}" for figure in ("prompts", "turns", "edits")),
        "/costs.csv?since=all&by=branch", "/costs.csv?since=all&show=responses",
        *(f"/costs?since=all&by={unit}" for unit in ("session", "project", "branch", "tool")),
        f"/session/{ONE}", f"/session/{ONE}?thread=all", f"/session/{TWO}",
        f"/session/{ONE}/about", f"/compare?a={ONE}", f"/compare?a={ONE}&b={TWO}", "/files",
        "/health?all=1", "/palette?q=apples", "/palette?q=DATABASE",
    )  # fmt: skip
    with served(place, "--redact") as server:
        for path in paths:
            status, _, text = server.ask(path)
            assert status == 200
            assert SECRET.secret not in text, path
            assert PASSWORD.secret not in text, path


@pytest.mark.parametrize(
    "path",
    ["/", "/search?q=apples", "/search?q=kestrel", f"/session/{ONE}", f"/session/{ID}",
     "/costs?by=tool&since=all", "/costs?by=branch&since=all", "/insights?since=all",
     "/?rows=1", "/search?q=apples&hits=1", "/files", "/health", "/health?all=1", "/now",
     "/palette?q=apples", "/palette?q=kestrel", f"/compare?a={ONE}", f"/compare?a={ONE}&b={ID}",
     f"/session/{ONE}/about", f"/session/{ID}/about"],
)  # fmt: skip
def test_what_acts_is_shown_and_does_not_act(server, path):
    text = server.ask(path).text
    assert not set(ACTING) & set(text)
    seen = Elements()
    seen.feed(text)
    for tag, given in seen.found:
        assert tag not in {"iframe", "object", "embed", "base", "style"}
        if tag == "script":
            assert given["src"].startswith("/static/")
        if tag == "link":
            assert given["rel"] == "stylesheet"
            assert given["href"].startswith("/static/")
        assert not [name for name in given if name.startswith("on") or name in {"style", "srcdoc"}]
        for name in {"href", "src", "action"} & given.keys():
            assert re.match(r"#|/(?!/)|https?:|mailto:|data:image/", given[name])
        assert tag != "form" or "data-labels" in given or given["action"].startswith("/")


def test_the_secret_words_of_a_query_come_back_as_text(server):
    page = server.ask("/search?q=%22%3E%3Cimg+src%3Dx+onerror%3Dalert(1)%3E").text
    assert "<img" not in page


def test_what_is_appended_is_seen_at_once(place, server):
    log = Log(place / "home", f"{'9' * 8}-aaaa-4aaa-8aaa-{'9' * 12}", "/home/ada/late", hostile="")
    assert "<mark>" not in server.ask("/search?q=quincebush").text
    log.prompt("Where is the quincebush?").save()
    page = server.ask("/search?q=quincebush").text
    assert "<mark>quincebush</mark>" in page
    log.path.unlink()
