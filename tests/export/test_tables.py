"""Tables: the figures are the ledger's, the columns are as documented, nothing in a cell runs."""

import csv
import io
import json
import re
import sys
import tracemalloc
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

from export import hostile
from export.pages import ID, home_of
from index.homes import own_index
from turnlog.catalog.period import Period
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.usage import IndexSource
from turnlog.errors import UsageError
from turnlog.export.masking import Masking
from turnlog.export.tables import MARK, TABLES, Tables, as_csv, schema_of, write_parquet
from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh
from turnlog.sessions.session import Session
from turnlog.sessions.totals import usual_prices

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"
DOCUMENT = Path(__file__).parents[2] / "docs" / "guides" / "exports.md"
NUMBERS = ("messages", "input", "output", "cache_write_5m", "cache_write_1h", "cache_read")


def answered(number, session=ID, *, model="claude-sonnet-4-5-20250929", day=4, output=100):
    usage = {
        "input_tokens": 10 + number,
        "output_tokens": output,
        "cache_read_input_tokens": 1_000_000 + number,
        "cache_creation_input_tokens": 7,
    }
    tool = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": "make"}}
    message = {"role": "assistant", "id": f"m{number}", "model": model, "usage": usage}
    return {
        "type": "assistant",
        "uuid": f"a{number}",
        "parentUuid": None,
        "sessionId": session,
        "timestamp": f"2026-03-{day:02}T23:59:59.{number:03}Z",
        "requestId": f"r{number}",
        "cwd": "/srv/orchard",
        "gitBranch": "main",
        "message": message | {"content": [tool]},
    }


def result(number, text, *, failed=False):
    block = {"type": "tool_result", "tool_use_id": f"c{number}", "content": text}
    return {
        "type": "user",
        "uuid": f"u{number}",
        "parentUuid": f"a{number}",
        "sessionId": ID,
        "timestamp": f"2026-03-05T00:00:01.{number:03}Z",
        "message": {"role": "user", "content": [block | {"is_error": failed}]},
    }


@pytest.fixture
def home(tmp_path):
    twice = answered(3, output=500)
    unpriced = answered(4, model="nobody-knows-this-model")
    undated = answered(5) | {"timestamp": None}
    records = [answered(1), result(1, "sewn"), answered(2, day=6), answered(3), twice]
    return home_of(tmp_path, *records, unpriced, result(2, "torn", failed=True), undated)


def written(home, target, *, period=None, only=None, out=None, force=False):
    """Write a home as Parquet; give what the ledger says of the same."""
    period = period or Period()
    homes = find_homes([home])
    out = out or Masking()
    prices = usual_prices()
    with own_index(), open_fresh(homes) as index:
        source = IndexSource(index, prices)
        tables = Tables(lambda: [Session.find(homes, ID)], out, period)
        rows = {
            "messages": tables.messages(source, prices, only),
            "calls": tables.calls(),
            "records": tables.records(),
        }
        write_parquet(target, rows, force=force)
        asked = Question(by=("day",), zone=UTC, period=period)
        return ledger(source.responses(period), prices, asked)


def asked(target, table, what="*", more=""):
    files = f"{target}/{table}/**/*.parquet"
    return duckdb.sql(
        f"SELECT {what} FROM read_parquet('{files}', hive_partitioning=true) {more}"
    ).fetchall()


def test_duckdb_and_pandas_add_up_to_the_ledger(home, tmp_path):
    target = tmp_path / "out.parquet"
    account = written(home, target)
    sums = ", ".join(f"sum({name})" for name in (*NUMBERS, "cost_usd"))
    found = asked(target, "messages", sums)[0]
    told = [getattr(account.totals, name) for name in NUMBERS]
    assert [int(each) for each in found[:-1]] == told
    assert found[-1] == Decimal(account.totals.cost_usd)
    frame = pd.read_parquet(target / "messages")
    assert [int(frame[name].sum()) for name in NUMBERS] == told
    assert sum(frame["cost_usd"].dropna()) == Decimal(account.totals.cost_usd)
    by_day = dict(asked(target, "messages", "day, sum(output)", "GROUP BY day"))
    rows = {row.day: row.output for row in account.rows}
    undated = {"1970-01-01": None}
    assert {undated.get(str(day), str(day)): int(count) for day, count in by_day.items()} == rows


def test_a_period_is_the_ledgers_period(home, tmp_path):
    period = Period(since=datetime(2026, 3, 5, tzinfo=UTC))
    account = written(home, tmp_path / "p", period=period)
    assert asked(tmp_path / "p", "messages", "count(*)") == [(account.totals.messages,)] == [(1,)]
    assert {row[0] for row in asked(tmp_path / "p", "records", "uuid")} == {"u1", "u2", "a2"}


def test_calls_have_what_came_of_them(home, tmp_path):
    written(home, tmp_path / "p")
    columns = "call_id, tool, is_error, elapsed_ms, result"
    found = {row[0]: row[1:] for row in asked(tmp_path / "p", "calls", columns)}
    assert found["c1"] == ("Bash", False, 2000, "sewn")
    assert found["c2"][:2] == ("Bash", True)
    assert found["c4"] == ("Bash", None, None, None)


def test_the_schema_is_as_documented(home, tmp_path):
    written(home, tmp_path / "p")
    text = DOCUMENT.read_text("utf-8")
    for name, columns in TABLES.items():
        section = text.partition(f"### `{name}`")[2].partition("\n#")[0]
        documented = re.findall(r"(?m)^\| `(\w+)` \| (\w+) \| (.+) \|$", section)
        assert documented == [tuple(column) for column in columns]
        part = next((tmp_path / "p" / name).rglob("*.parquet"))
        stored = pq.read_schema(part)
        assert stored.names == [column.name for column in columns if column.name != "day"]
        assert [stored.field(each).type for each in stored.names] == [
            schema_of(name).field(each).type for each in stored.names
        ]


def test_days_are_directories(home, tmp_path):
    written(home, tmp_path / "p")
    days = sorted(path.name for path in (tmp_path / "p" / "messages").iterdir())
    assert days == ["day=1970-01-01", "day=2026-03-04", "day=2026-03-06"]
    assert json.loads((tmp_path / "p" / MARK).read_text())["schema"] == 1
    assert (tmp_path / "p").stat().st_mode & 0o777 == 0o700


def test_only_what_turnlog_made_is_replaced(home, tmp_path):
    target = tmp_path / "p"
    written(home, target)
    with pytest.raises(UsageError, match="exists"):
        written(home, target)
    written(home, target, force=True)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="not made by turnlog"):
        written(home, mine, force=True)
    assert (mine / "thesis.txt").read_text() == "years of work"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "mine", "p"]


def test_a_failure_leaves_nothing(tmp_path):
    def rows():
        yield from ()
        raise OSError(28, "no space left on device")

    with pytest.raises(OSError, match="no space"):
        write_parquet(tmp_path / "p", {"calls": rows()}, force=False)
    assert list(tmp_path.iterdir()) == []


def test_no_session_no_rows_still_has_columns(tmp_path):
    write_parquet(tmp_path / "p", dict.fromkeys(TABLES, ()), force=False)
    for name in TABLES:
        assert (tmp_path / "p" / name).is_dir()


def test_evil_words_stay_in_their_cells(tmp_path):
    homes = find_homes([home_of(tmp_path, raw=hostile.log())])
    tables = Tables(lambda: [Session.find(homes, ID)], Masking(), Period())
    for name, rows in (("calls", tables.calls()), ("records", tables.records())):
        text = b"".join(as_csv(name, rows)).decode()
        found = list(csv.reader(io.StringIO(text)))
        assert {len(row) for row in found} == {len(TABLES[name])}
        assert any(hostile.MARK in cell for row in found for cell in row)
        assert all(cell.lstrip()[:1] not in ("=", "+", "@", "-") for row in found for cell in row)
        assert all(character not in text for character in "\x1b\u202e\x00")


def test_tokens_beyond_all_numbers_are_no_failure(tmp_path):
    huge = answered(1, output=10**30)
    written(home_of(tmp_path, huge), tmp_path / "p")
    assert asked(tmp_path / "p", "messages", "count(*), min(output) >= 0") == [(1, True)]


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pyarrow") as caught:
        write_parquet(tmp_path / "p", {}, force=False)
    assert "turnlog[parquet]" in caught.value.hint
    assert not (tmp_path / "p").exists()


@pytest.mark.slow
def test_the_rows_of_a_long_session_are_not_held(tmp_path):
    asked = {"type": "user", "sessionId": ID, "message": {"role": "user", "content": "kite " * 40}}
    records = (asked | {"uuid": f"{number:08}-{'0' * 28}"} for number in range(5_000))
    homes = find_homes((home_of(tmp_path, *records),))
    tables = Tables(lambda: [Session.find(homes, ID)], Masking(), Period())
    tracemalloc.start()
    try:
        assert sum(1 for _ in tables.records()) == 5_000
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
