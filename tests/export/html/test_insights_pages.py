"""Insights as pages: all of it is there, nothing of a log acts, a summary gives no name away."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from export.browser import (
    PROGRAM,
    Visit,
    browser,
    narrowest_text,
    needs_browser,
    smallest_word,
)
from turnlog.export.html.insights_page import insights_page, spending
from turnlog.export.html.summary_page import summary_page
from turnlog.export.masking import Masking
from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh
from turnlog.insights.report import insights
from turnlog.insights.scope import Scope
from turnlog.pricing.cost import load_prices

SESSION = "aaaaaaaa-1111-4111-8111-111111111111"
BEGIN = datetime(2026, 7, 3, 9, tzinfo=UTC)
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202e"
KEY = "sk-ant-api03-" + "Zk9vQ2mX7pLr4TfWb1Nc" * 4 + "AA"
SECRETS = (
    "orchard-of-ada",
    "pear-secret",
    "mcp__acme__deploy",
    "acme-7b",
    "launch-acme",
    "plans.py",
)


def line(number, **fields):
    at = BEGIN + timedelta(hours=3 * number)
    common = {"uuid": f"{number:08x}-0000-4000-8000-00000000000a", "sessionId": SESSION}
    common |= {"cwd": f"/home/ada/orchard-of-ada{HOSTILE}", "version": "2.1.200"}
    return common | {"timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.000Z")} | fields


def said(number, *blocks, model="claude-opus-4-6"):
    usage = {"input_tokens": 50, "output_tokens": 900, "cache_read_input_tokens": 9000 * number}
    message = {"role": "assistant", "id": f"msg_{number}", "model": model, "usage": usage}
    return line(number, type="assistant", message=message | {"content": list(blocks)})


def call(number, tool, **given):
    return {"type": "tool_use", "id": f"toolu_{number}_{tool}", "name": tool, "input": given}


def answer(number, call_id, text, *, is_error=False, **more):
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}
    return line(number, type="user", message={"role": "user", "content": [block]}, **more)


@pytest.fixture
def found(tmp_path):
    patch = {"structuredPatch": [{"lines": ["+a", "+b", "-c"]}]}
    records = [
        line(0, type="user", message={"role": "user", "content": f"pear-secret {KEY} {HOSTILE}"}),
        said(1, call(1, "mcp__acme__deploy", x=1), model=f"acme-7b{HOSTILE}"),
        answer(2, "toolu_1_mcp__acme__deploy", f"pear-secret {HOSTILE} {KEY}", is_error=True),
        said(3, call(3, "Edit", file_path=f"/srv/plans.py{HOSTILE}")),
        answer(4, "toolu_3_Edit", "ok", toolUseResult=patch),
        line(
            5,
            type="user",
            message={
                "role": "user",
                "content": f"<command-name>/launch-acme{KEY[:4]}</command-name>",
            },
        ),
        said(6, {"type": "text", "text": "done"}),
    ]
    folder = tmp_path / "home" / "projects" / "-home-ada-orchard"
    folder.mkdir(parents=True)
    log = folder / f"{SESSION}.jsonl"
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    asked = Scope(
        now=datetime(2026, 8, 2, tzinfo=UTC),
        since=datetime(2026, 7, 1, tzinfo=UTC),
        until=datetime(2026, 8, 1, tzinfo=UTC),
        limit=None,
    )
    with open_fresh(find_homes([tmp_path / "home"])) as index:
        return insights(index, load_prices(), asked)


def clean(text):
    return Masking().text(text)


def test_the_page_tells_all_of_it_and_masks_secrets(found):
    html = insights_page(found, UTC, clean)
    for word in ("orchard-of-ada", "pear-secret", "mcp__acme__deploy", "plans.py", "/launch-acme"):
        assert word in html
    assert KEY not in html
    assert "<img" not in html
    assert "<script" not in html
    assert "\u202e" not in html
    for figure in ("days", "models", "projects", "tools", "errors:", "edits", "cache", "turns"):
        assert f"--explain {figure}" in html
    assert "--since 2026-07-01 --until 2026-08-01" in html


def test_a_summary_gives_no_name_away_unless_asked(found):
    html = summary_page(found, "2026-07", UTC, clean)
    assert "July 2026" in html
    assert not [word for word in (*SECRETS, KEY, SESSION, "/home/", "/srv/") if word in html]
    assert "others" in html
    named = summary_page(found, "2026-07", UTC, clean, with_names=True)
    assert "orchard-of-ada" in named
    assert "mcp__acme__deploy" in named
    assert KEY not in named
    assert "pear-secret" not in named


def test_pages_of_nothing_say_so(tmp_path):
    folder = tmp_path / "home" / "projects" / "-home-ada-orchard"
    folder.mkdir(parents=True)
    asked = Scope(
        now=datetime(2026, 8, 2, tzinfo=UTC),
        since=datetime(2026, 1, 1, tzinfo=UTC),
        until=datetime(2027, 1, 1, tzinfo=UTC),
    )
    with open_fresh(find_homes([tmp_path / "home"])) as index:
        empty = insights(index, load_prices(), asked)
    html = insights_page(empty, UTC, clean)
    assert "Nothing happened in this period." in html
    assert 'class="card"' not in html
    assert "cache" not in html
    assert "Nothing happened in this period." in summary_page(empty, "2026", UTC, clean)


def test_nothing_is_fetched_and_no_style_is_inline(found):
    for html in (insights_page(found, UTC, clean), summary_page(found, "2026-07", UTC, clean)):
        assert not re.search(r"""(src|href|url)\s*[=(]\s*["']?(https?:)?//""", html)
        assert not re.search(r"<[^>]+\sstyle=", html)
        assert "default-src 'none'" in html


@needs_browser
def test_a_browser_draws_them_and_nothing_acts(found, tmp_path):
    pytest.importorskip("playwright", reason="playwright is not installed")
    assert PROGRAM
    pages = {
        "page": insights_page(found, UTC, clean),
        "summary": summary_page(found, "2026-07", UTC, clean, with_names=True),
    }
    with browser() as chromium:
        for name, html in pages.items():
            path = tmp_path / f"{name}.html"
            path.write_text(html)
            for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390)):
                viewport = {"width": width, "height": 800}
                visit = Visit(chromium, path, color_scheme=scheme, viewport=viewport)
                assert visit.wrong == []
                charts = visit.page.locator("svg.chart")
                assert charts.count() >= 3
                for number in range(charts.count()):
                    box = charts.nth(number).bounding_box()
                    assert box["width"] > 50
                    assert box["height"] > 15
                wide = visit.page.evaluate(
                    "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
                )
                assert wide
                if name == "page":
                    assert narrowest_text(visit) >= 100
                assert smallest_word(visit) >= 5


def test_the_cost_of_two_years_is_drawn_by_day_with_few_labels():
    chart = spending({"2025-03-04": 7.0, "2026-10-31": 1.0}, "2024-11-01", "2026-10-31")
    assert chart.count("<circle") == 730
    assert "<title>2025-03-04: $7.00</title>" in chart
    assert chart.count("text-anchor") < 12
