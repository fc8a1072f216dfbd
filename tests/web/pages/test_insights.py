"""Every row of insights leads to what it counts; the figures are those of the command."""

import re
from datetime import UTC
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import pytest

import turnlog
from mcp_contexts import ONE, make_home
from turnlog.api.arguments import configured_prices
from turnlog.web.context import PageContext, Params
from turnlog.web.pages.costs import costs_page
from turnlog.web.pages.insights import insights_page_for

PAGES = {"/insights": insights_page_for, "/costs": costs_page}


@pytest.fixture(scope="module")
def ctx(tmp_path_factory):
    place = tmp_path_factory.mktemp("insights")
    make_home(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_HOME", str(place / "own"))
        yield PageContext(turnlog.open(place / "home"), configured_prices(), zone=UTC)


def ask(ctx, address):
    parts = urlsplit(unescape(address))
    answer = PAGES[parts.path](Params(dict(parse_qsl(parts.query)), ctx))
    assert answer.status_code == 200
    return answer.body.decode()


def head_of(page):
    return unescape(re.search("<h1>(.*?)</h1>", page)[1])


def rows_of(page, title):
    """Return the rows of a section, each as cells of HTML."""
    section = re.search(rf"<h2>{title}</h2>.*?</section>", page, re.DOTALL)[0]
    rows = re.findall("<tr>(<td.*?)</tr>", section)
    return [re.findall("<td[^>]*>(.*?)</td>", row) for row in rows]


def href_in(cell):
    return unescape(re.search('<a href="([^"]*)"', cell)[1])


@pytest.mark.parametrize(
    ("title", "linked", "counted"),
    [("Tools", 0, 1), ("Tools", 2, 2), ("One after another", 0, 1), ("Errors", 2, 3),
     ("Subagents", 0, 2)],
)  # fmt: skip
def test_a_row_leads_to_as_many_records_as_it_counts(ctx, title, linked, counted):
    rows = [row for row in rows_of(ask(ctx, "/insights?since=all"), title) if "<a" in row[linked]]
    assert rows
    for row in rows:
        page = ask(ctx, href_in(row[linked]))
        total = re.sub("<.*?>", "", row[counted])
        assert head_of(page).endswith(f": {total}"), row
        assert len(re.findall('<tr><td><a href="/session/', page)) == min(100, int(total))


@pytest.mark.parametrize(("title", "cost"), [("Models", 6), ("Projects", 5)])
def test_a_row_about_money_leads_to_its_costs(ctx, title, cost):
    rows = rows_of(ask(ctx, "/insights?since=all"), title)
    assert rows
    for row in rows:
        assert head_of(ask(ctx, href_in(row[0]))) == row[cost]


def test_days_lead_to_their_costs_and_hours_to_their_responses(ctx):
    page = ask(ctx, "/insights?since=all")
    chart = re.search('aria-label="Cost over time".*?</svg>', page)[0]
    days = re.findall('<a href="([^"]*)"[^>]*><circle[^>]*><title>.*?: (.*?)</title>', chart)
    assert days
    assert [head_of(ask(ctx, href)) for href, _ in days[:5]] == [usd for _, usd in days[:5]]
    chart = re.search('aria-label="Messages by hour of the week".*?</svg>', page)[0]
    for href, number in re.findall('<a href="([^"]*)"[^>]*><rect[^>]*><title>.*?: (.*?)<', chart):
        assert head_of(ask(ctx, href)).endswith(f": {number}")


def test_long_turns_lead_to_their_place(ctx):
    rows = rows_of(ask(ctx, "/insights?since=all"), "Longest turns")
    links = [href_in(row[1]) for row in rows]
    assert any(re.fullmatch(rf"/session/{ONE}\?record=[0-9a-f-]{{36}}", link) for link in links)


def test_a_mistake_keeps_the_form(ctx, tmp_path, monkeypatch):
    (tmp_path / "orchart").mkdir()
    monkeypatch.chdir(tmp_path)  # A directory of the server is no project.
    page = ask(ctx, "/insights?since=never&project=orchart")
    form = unescape(re.search('<form [^>]*id="strip".*?</form>', page)[0])
    assert "invalid date or duration: 'never'" in form
    assert "no project is called 'orchart'" in form
    assert 'value="never"' in form
    assert 'value="orchart"' in form
    assert str(tmp_path) not in page
    assert "Longest turns" not in page
