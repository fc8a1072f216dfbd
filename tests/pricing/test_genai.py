"""The compiled table costs time when it is missing, and nothing else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from turnlog.pricing import table as prices
from turnlog.pricing.cost import load_prices
from turnlog.pricing.table import FILE_NAME, compile_table, load_table


@pytest.fixture(scope="module")
def table():
    return compile_table()


@pytest.fixture
def count(monkeypatch, table):
    """Count how often the table is compiled, without spending the time."""
    calls = []

    def compile_now():
        calls.append(1)
        return table

    monkeypatch.setattr(prices, "compile_table", compile_now)
    return calls


def test_it_is_compiled_once_and_read_from_then_on(tmp_path, count, table):
    home = tmp_path / "not" / "yet"
    assert load_table(home) == load_table(home) == load_table(home) == table
    assert len(count) == 1
    assert os.listdir(home) == [FILE_NAME]
    assert stat.S_IMODE((home / FILE_NAME).stat().st_mode) == 0o600


def test_prices_read_from_the_file_are_the_same(tmp_path, prices):
    load_table(tmp_path)
    again = load_prices(tmp_path)
    assert again.table == prices.table
    assert again.find("claude-opus-4-6") == prices.find("claude-opus-4-6")


def test_reading_it_does_not_import_genai_prices(tmp_path):
    load_table(tmp_path)
    code = """
        import sys
        from turnlog.pricing.cost import load_prices
        assert load_prices(sys.argv[1]).find("claude-opus-4-6")
        print([name for name in ("genai_prices", "pydantic") if name in sys.modules])
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    source = str(Path(prices.__file__).parents[2])
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": source}
    )
    assert done.stdout.strip() == "[]"


def test_another_genai_prices_makes_another_table(tmp_path, count, monkeypatch):
    load_table(tmp_path)
    monkeypatch.setattr(prices, "_fingerprint", lambda: "another")
    load_table(tmp_path)
    load_table(tmp_path)
    assert len(count) == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"claude", b"clouds", 1),
        lambda data: b"\0" * len(data),
        lambda data: data.replace(b'"format":1', b'"format":99', 1),
        lambda _data: b"[" * 100_000,
        lambda data: data.partition(b"\n")[2],
    ],
)
def test_a_corrupt_file_is_made_anew(tmp_path, count, table, spoil):
    load_table(tmp_path)
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    path.write_bytes(spoil(whole))
    assert load_table(tmp_path) == table
    assert len(count) == 2
    assert path.read_bytes() == whole


def test_a_directory_that_cannot_be_written_costs_only_time(tmp_path, count, table):
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    assert load_table(in_the_way) == load_table(in_the_way / "below") == table
    (tmp_path / FILE_NAME).mkdir()
    assert load_table(tmp_path) == table
    assert len(count) == 3
    assert sorted(os.listdir(tmp_path)) == ["file", FILE_NAME]


def test_without_genai_prices_there_is_our_own_table_and_a_reason(tmp_path):
    code = """
        import sys
        sys.modules["genai_prices"] = None
        from turnlog.pricing.cost import load_prices
        prices = load_prices(sys.argv[1])
        assert "genai-prices cannot be read" in prices.table.problem, prices.table.problem
        assert prices.find("claude-mythos-5") is not None
        assert prices.find("claude-opus-4-6") is None
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    source = str(Path(prices.__file__).parents[2])
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": source})
    assert os.listdir(tmp_path) == []  # Nothing to keep.
