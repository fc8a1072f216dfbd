"""The page of costs has the figures of the ledger, and every mark leads to what is behind it."""

import csv
import io
import json
import os
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

import turnlog
from turnlog.api.arguments import configured_prices
from turnlog.pricing.money import shown
from turnlog.web.context import PageContext, Params
from turnlog.web.pages.costs import costs_csv, costs_page

CORPUS = Path(os.environ.get("TURNLOG_CORPUS") or Path(__file__).parents[4] / "shared" / "corpus")
NOW = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
OPUS, SONNET = "claude-opus-4-6", "claude-sonnet-4-5-20250929"
DAYS = 380


class Home:
    """Sessions of more than a year, in projects of which one is inside another."""

    def __init__(self, path):
        self.path, self.count = path, 0

    def session(self, days, project, branch, model, *, tags=(), subagent=None, speed=None):
        """Write a session of two responses, *days* ago."""
        self.count += 1
        session = f"{self.count:08x}-aaaa-4aaa-8aaa-{self.count:012x}"
        where = self.path / "projects" / re.sub("[^A-Za-z0-9]", "-", project)
        where.mkdir(parents=True, exist_ok=True)
        logs = {None: where / f"{session}.jsonl"}
        if subagent:
            logs[subagent] = where / session / "subagents" / f"agent-{subagent}.jsonl"
            logs[subagent].parent.mkdir(parents=True)
        for number, (agent, log) in enumerate(logs.items()):
            records = [self._said(session, number, days, project, branch, model, agent, speed)]
            records += [{"type": "tag", "tag": tag, "sessionId": session} for tag in tags]
            log.write_text("".join(json.dumps(each) + "\n" for each in records))

    def _said(self, session, number, days, project, branch, model, agent, speed):  # noqa: PLR0917
        usage = {
            "input_tokens": 100 * self.count,
            "output_tokens": 5_000 + 70 * self.count,
            "cache_read_input_tokens": 90_000,
        }
        at = NOW - timedelta(days=days, minutes=number)
        return {
            "type": "assistant",
            "uuid": f"{self.count:08x}-0000-4000-8000-{number:012x}",
            "sessionId": session,
            "cwd": project,
            "gitBranch": branch,
            "timestamp": f"{at:%Y-%m-%dT%H:%M:%S}.000Z",
            "requestId": f"req_{self.count}_{number}",
            "version": "2.1.0",
            "message": {
                "id": f"msg_{self.count}_{number}",
                "role": "assistant",
                "model": model,
                "content": [{"type": "text", "text": "Done."}],
                "usage": usage | ({"speed": speed} if speed else {}),
            },
        } | ({"isSidechain": True, "agentId": agent} if agent else {})


@pytest.fixture(scope="module")
def ctx(tmp_path_factory):
    place = tmp_path_factory.mktemp("costs")
    home = Home(place / "home")
    projects = ["/home/ada/orchard", "/home/ada/orchard/press", "/srv/site", "/home/ada/site"]
    for days in range(0, DAYS, 5):
        home.session(
            days,
            projects[days % 4],
            ("main", "fix/pears")[days % 2],
            (OPUS, SONNET, OPUS)[days % 3],
            tags=("fruit", "red")[: days % 3],
            subagent="helper" if days % 4 == 1 else None,
            speed="fast" if days % 15 == 0 else None,
        )
    for number in range(12):
        home.session(3, f"/srv/many/{number}", "main", OPUS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_HOME", str(place / "own"))
        yield PageContext(turnlog.open(home.path), configured_prices(), zone=UTC)


def ask(ctx, path):
    """Return the page at an address; its status must be 200."""
    answer = costs_page(Params(dict(parse_qsl(urlsplit(path).query)), ctx))
    assert answer.status_code == 200, path
    return answer.body.decode()


def total_of(page):
    """Return the total as the page shows it."""
    return unescape(re.search("<h1>(.*?)</h1>", page)[1])


def marks_of(page):
    """Return what every mark of the charts says, its figure and its address."""
    found = re.findall(r'<a href="([^"]*)" tabindex="-1"[^>]*><title>(.*?)</title>', page)
    marks = [(*unescape(words).rpartition(": ")[::2], unescape(href)) for href, words in found]
    assert len(marks) == page.count('tabindex="-1" data-swap')
    return marks


def filtered(ctx, by=("model",), **filters):
    return ctx.store.cost(by=by, timezone=UTC, **filters)


@pytest.mark.parametrize("by", ["project", "model", "subagent", "branch", "tag", "session", "tool"])
def test_totals_and_rows_are_those_of_the_ledger(ctx, by):
    for query, filters in {
        "": {"since": "30d"},
        "since=all": {},
        "since=2000&until=90d": {"until": "90d"},
        "since=1y&project=/home/ada/orchard": {"since": "1y", "project": "/home/ada/orchard"},
        "since=1y&project=orchard&model=sonnet": {
            "since": "1y", "project": "/home/ada/orchard", "model": "sonnet",
        },
    }.items():  # fmt: skip
        found = filtered(ctx, [by], **filters)
        page = ask(ctx, f"/costs?{query}&by={by}")
        assert total_of(page) == shown(Decimal(found.totals.cost_usd))
        assert f"each of {found.totals.messages:,} responses" in page
        text = costs_csv(Params(dict(parse_qsl(f"{query}&by={by}")), ctx)).body.decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        total, rows = rows[-1], rows[:-1]
        assert Decimal(total["cost_usd"]) == Decimal(found.totals.cost_usd)
        for row in found.rows:
            alike = [each for each in rows if each[by] == (getattr(row, by) or "")]
            assert sum(Decimal(each["cost_usd"]) for each in alike) == Decimal(row.cost_usd)
            assert sum(int(each["messages"]) for each in alike) == row.messages


@pytest.mark.parametrize(
    ("unit", "names"),
    [
        ("project", ["/home/ada/orchard", "/home/ada/orchard/press"]),
        ("model", [OPUS, f"{OPUS}-fast", SONNET]),
        ("subagent", [None, "helper"]),
        ("branch", ["main", "fix/pears"]),
        ("tag", [None, "fruit", "red"]),
        ("tool", [None]),
    ],
)
def test_a_filter_keeps_what_its_row_of_the_ledger_has(ctx, unit, names):
    rows = {getattr(row, unit): row for row in filtered(ctx, [unit]).rows}
    for name in names:
        page = ask(ctx, f"/costs?since=all&exact=1&{unit}={name or '-'}")
        assert total_of(page) == shown(Decimal(rows[name].cost_usd))
    if unit == "subagent":
        assert total_of(ask(ctx, "/costs?since=all&subagent=subagents")) == shown(
            Decimal(rows["helper"].cost_usd)
        )


def check_marks(ctx, path):
    """Follow every mark of a page; the total there must be the figure of the mark."""
    page = ask(ctx, path)
    marks = marks_of(page)
    for words, figure, href in marks:
        if not re.search(r"others$|\d more( projects?)?$", words):
            assert total_of(ask(ctx, href)) == figure, (path, words, href)
    return marks


@pytest.mark.parametrize(
    "query",
    ["", "by=model&since=40d&time=week", "by=branch&inner=session", "by=tag", "since=today",
     "since=1y&time=month&by=subagent"],
)  # fmt: skip
def test_every_mark_leads_to_a_page_with_its_figure(ctx, query):
    marks = check_marks(ctx, f"/costs?{query}")
    assert len(marks) >= (2 if query == "since=today" else 10)


def test_rows_and_legends_narrow_too(ctx):
    page = ask(ctx, "/costs?since=90d&by=project")
    legend = re.search('<ul class="legend">.*?</ul>', page)[0]
    entries = re.findall(r'href="(/[^"]*)".*?<b>(.*?)</b>', legend)
    rows = re.search('id="by".*?</table>', page)[0]
    entries += re.findall(r'<tr><td><a href="([^"]*)".*?<td class="number">(\$.*?)</td>', rows)
    assert len(entries) > 12
    for href, figure in entries:
        assert total_of(ask(ctx, unescape(href))) == unescape(figure)


def test_the_last_step_is_responses_with_their_places(ctx):
    listed, seen = [], "/costs?since=all&show=responses"
    while seen:
        page = ask(ctx, seen)
        part = page.partition('id="responses"')[2]
        listed += re.findall(r'<a href="/session/([^"?]+)\?record=([^"]+)">', part)
        following = re.search(r'<a href="([^"]+)" rel="next">', part)
        seen = following and unescape(following[1])
    found = filtered(ctx)
    assert len(listed) == len(set(listed)) == found.totals.messages
    assert all(uuid[:8] == session[:8] for session, uuid in listed)
    assert f"{found.totals.messages} responses behind it" in page


def test_a_year_by_day_draws_every_day_with_few_labels(ctx):
    page = ask(ctx, "/costs?since=1y&time=day")
    chart = re.search(r'<svg[^>]*class="bars very-many">.*?</svg>', page)[0]
    assert chart.count('class="room"') in {366, 367}
    assert 4 < chart.count("text-anchor") <= 8


def test_the_change_is_that_of_the_comparison(ctx):
    since = f"{NOW - timedelta(days=60):%Y-%m-%d}"
    until = f"{NOW - timedelta(days=30):%Y-%m-%d}"
    compared = ctx.store.compare_costs(by="project", since=since, until=until, timezone=UTC)
    page = ask(ctx, f"/costs?since={since}&until={until}")
    percent = f"{compared.totals.percent:+,.0f} %".replace("-", "\N{MINUS SIGN}")
    assert f">{percent}</span> vs. the 30 days before (" in page
    before = re.search(r'the 30 days before \(<a href="([^"]*)"', page)[1]
    assert total_of(ask(ctx, unescape(before))) == shown(Decimal(compared.totals.before_usd))


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ("since=nov&model=opus", "since", "invalid date or duration: 'nov'"),
        ("until=%3Cb%3E&model=opus", "until", "invalid date"),
        ("since=today&until=2020&model=opus", "until", "the period ends before it begins"),
        ("project=orchart&model=opus", "project", "no project is called 'orchart'"),
        ("model=gpt-99&branch=main", "model", "no such model: 'gpt-99'"),
    ],
)
def test_a_mistake_is_shown_at_its_field_and_the_form_stays(ctx, query, field, words):
    answer = costs_page(Params(dict(parse_qsl(query)), ctx))
    page = answer.body.decode()
    form = re.search('<form [^>]*id="strip".*?</form>', page)[0]
    label = next(
        each for each in re.findall("<label>.*?</label>", form) if f'name="{field}"' in each
    )
    assert words in unescape(label)
    assert 'aria-invalid="true"' in label
    for name, value in parse_qsl(query):
        assert f'name="{name}"' in form
        assert value in unescape(form)
    assert os.getcwd() not in page


def test_a_name_of_two_projects_is_both(ctx):
    rows = {row.project: Decimal(row.cost_usd) for row in filtered(ctx, ["project"]).rows}
    both = rows["/srv/site"] + rows["/home/ada/site"]
    assert total_of(ask(ctx, "/costs?since=all&project=site")) == shown(both)


def test_budgets_and_the_block_show_their_pace(ctx, monkeypatch, tmp_path):
    (tmp_path / "config.toml").write_text("[budgets]\nmonthly = 0.5\n")
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path))
    page = ask(ctx, "/costs")
    assert "of $0.50, monthly budget" in page
    assert "exceeded" in page
    month = filtered(ctx, since="this month")
    card = re.search(r'<b><a href="([^"]*)"[^>]*>([^<]*)</a></b><span>of \$0.50', page)
    assert card[2] == shown(Decimal(month.totals.cost_usd))
    assert total_of(ask(ctx, unescape(card[1]))) == card[2]


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_the_corpus_has_the_figures_of_the_ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path))
    home = CORPUS / "claude" if (CORPUS / "claude").exists() else CORPUS
    ctx = PageContext(turnlog.open(home), configured_prices(), zone=UTC)
    found = filtered(ctx)
    assert total_of(ask(ctx, "/costs?since=all")) == shown(Decimal(found.totals.cost_usd))
    for by in ("project", "model", "branch"):
        for row in filtered(ctx, [by]).rows:
            name = {None: "-", "": '""'}.get(getattr(row, by), getattr(row, by))
            page = costs_page(Params({"since": "all", by: name, "exact": "1"}, ctx)).body.decode()
            assert total_of(page) == shown(Decimal(row.cost_usd)), (by, name)
    assert len(check_marks(ctx, "/costs?since=all&time=month&by=model")) > 10


def test_an_offset_beyond_the_end_is_the_last_page(ctx):
    page = ask(ctx, "/costs?since=all&show=responses&offset=9999")
    assert "?record=" in page.partition('id="responses"')[2]
    assert 'rel="prev"' in page
    assert 'rel="next"' not in page
