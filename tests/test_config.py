"""Settings: what can be read holds, what cannot is told and changes nothing."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.config import Config, load_config


@pytest.fixture
def home(tmp_path):
    def write(text):
        (tmp_path / "config.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(tmp_path)

    write.path = tmp_path
    return write


def test_no_file_is_no_problem(tmp_path):
    found = load_config(tmp_path)
    assert (found.line_cap_bytes, dict(found.prices), found.problems) == (None, {}, ())


def test_what_is_set_holds(home):
    found = home('line_cap_mb = 8\n[prices."m"]\ninput = 1.5\noutput = 2\n')
    assert found.line_cap_bytes == 8 * 1024 * 1024
    assert found.prices == {"m": {"input": 1.5, "output": 2}}
    assert not found.problems


@pytest.mark.parametrize("value", ["0", "-1", "true", '"8"', "1.5", "99999999999999999999", "[]"])
def test_a_broken_setting_is_told_and_the_others_hold(home, value):
    found = home(f'line_cap_mb = {value}\n[prices."m"]\ninput = 1\noutput = 2\n')
    assert found.line_cap_bytes is None
    assert found.prices
    assert [each.where for each in found.problems] == ["line_cap_mb"]


def test_a_setting_nobody_knows_is_told(home):
    assert [each.where for each in home("colour = 1").problems] == ["colour"]


def test_prices_that_are_no_table(home):
    found = home("prices = 3")
    assert (dict(found.prices), [each.where for each in found.problems]) == ({}, ["prices"])


def test_budgets_are_handed_on_as_they_stand(home):
    found = home('[budgets]\ndaily = 20\n[budgets.projects."/srv/kites"]\nmonthly = "50"\n')
    assert found.budgets == {"daily": 20, "projects": {"/srv/kites": {"monthly": "50"}}}
    assert not found.problems
    found = home("line_cap_mb = 8\nbudgets = 20")
    assert (dict(found.budgets), found.line_cap_bytes) == ({}, 8 * 1024 * 1024)
    assert [each.where for each in found.problems] == ["budgets"]


def test_retention_is_handed_on_as_it_stands(home):
    found = home('[retention]\ndays = 0\n[retention.projects."/srv/kites"]\nnever = true\n')
    assert found.retention == {"days": 0, "projects": {"/srv/kites": {"never": True}}}
    assert not found.problems
    for text in ("retention = 3", "retention = true", "[[retention]]\ndays = 3"):
        found = home(text)
        assert dict(found.retention) == {}
        assert [each.where for each in found.problems] == ["retention"]


def test_redaction_is_handed_on_as_it_stands(home):
    found = home('[redact]\npatterns = ["ORCH-[0-9]+", "("]\nallow = ["x"]\n')
    assert found.redact == {"patterns": ["ORCH-[0-9]+", "("], "allow": ["x"]}
    assert not found.problems
    found = home("line_cap_mb = 8\nredact = true")
    assert (dict(found.redact), found.line_cap_bytes) == ({}, 8 * 1024 * 1024)
    assert [each.where for each in found.problems] == ["redact"]


@pytest.mark.parametrize("data", [b"= =", b"\xff\xfe", b"a = [" * 5000, b"x" * 2_000_000, b"\0"])
def test_a_file_that_is_no_toml_leaves_the_defaults(home, data):
    found = home(data)
    assert found.line_cap_bytes is None
    assert [each.where for each in found.problems] == ["config.toml"]


def test_things_that_are_no_file(home):
    os.mkfifo(home.path / "config.toml")
    assert load_config(home.path).problems
    os.unlink(home.path / "config.toml")
    (home.path / "config.toml").mkdir()
    assert [each.reason for each in load_config(home.path).problems] == ["is a directory"]


@given(st.binary(max_size=200))
def test_any_bytes_give_settings(tmp_path_factory, data):
    home = tmp_path_factory.mktemp("home")
    (home / "config.toml").write_bytes(data)
    assert isinstance(load_config(home), Config)
