"""``turnlog secrets scan`` and ``turnlog search --redact``, run as a person runs them."""

from __future__ import annotations

import json
import random

import pytest

from cli.conftest import WHOLE, prompt
from redact.planted import SHAPES


@pytest.fixture
def keys(home):
    """Three secrets in the home's whole session: two keys and a password."""
    made = [SHAPES[kind](random.Random(9)) for kind in ("anthropic", "github")]
    path = home / "projects" / "-home-ada-orchard" / f"{WHOLE}.jsonl"
    texts = [
        f"barn key {made[0]} here",
        f"again {made[0]}",
        f"{made[1]}",
        "DB_PASSWORD=plum-Tree-77",
    ]
    path.write_bytes(b"".join(prompt(WHOLE, text) + b"\n" for text in texts))
    return [*made, "plum-Tree-77"]


def test_one_row_each_masked_and_within_eighty_columns(turnlog, home, keys):
    code, out, err = turnlog("secrets", "scan", "--home", home)
    assert (code, err) == (1, "")
    assert out.count("anthropic key") == 1
    assert out.count("github token") == 1
    assert f"sk-ant-…{keys[0][-4:]}" in out
    assert "3 secrets found in 2 logs" in out
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())
    assert not any(key in out for key in keys)


def test_json_is_one_document(turnlog, home, keys):
    code, out, err = turnlog("secrets", "--json", "--home", home)
    assert (code, err) == (1, "")
    document = json.loads(out)
    assert document["next"] is None
    assert {row["kind"] for row in document["secrets"]} == {
        "anthropic key",
        "github token",
        "password",
    }
    assert all(row["sessions"] == [WHOLE] for row in document["secrets"])
    assert not any(key in out for key in keys)


def test_none_found_is_good_news(turnlog, home):
    code, out, _ = turnlog("secrets", "scan", "--home", home)
    assert code == 0
    assert "No secrets found in 2 logs" in out


def test_options_leave_out_the_others(turnlog, home, keys):
    assert turnlog("secrets", "scan", "--home", home, "--since", "2026-11-02")[0] == 0
    assert turnlog("secrets", "scan", "--home", home, "--project", "/nowhere")[0] == 0
    assert turnlog("secrets", "scan", "--home", home, "--since", "2026-11-01")[0] == 1


def test_own_rules_count_and_broken_ones_are_told(turnlog, home, keys, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    first = json.loads(turnlog("secrets", "--json", "--home", home, TURNLOG_HOME=str(own))[1])
    digest = next(row["id"] for row in first["secrets"] if row["kind"] == "github token")
    text = f"""[redact]\npatterns = ["barn", "("]\nallow = ["plum-Tree-77", "sha256:{digest}"]\n"""
    (own / "config.toml").write_text(text)
    code, out, err = turnlog("secrets", "--json", "--home", home, TURNLOG_HOME=str(own))
    assert code == 1
    assert {row["kind"] for row in json.loads(out)["secrets"]} == {"anthropic key", "pattern"}
    assert f"warning: {own / 'config.toml'}: redact.patterns[1]: " in err


def test_a_mistake_in_the_call(turnlog, home, tmp_path):
    assert turnlog("secrets", "sing", "--home", home)[0] == 2
    assert turnlog("secrets", "scan", "--since", "whenever", "--home", home)[0] == 2
    assert turnlog("secrets", "scan", "--home", tmp_path / "nowhere")[0] == 2


def test_search_masks_where_asked(turnlog, home, keys, tmp_path):
    own = str(tmp_path / "own")
    plain = turnlog("search", "barn", "--home", home, TURNLOG_HOME=own)
    assert keys[0] in "".join(plain[1].split())
    for more in ((), ("--json",), ("--exact",), ("-C", "2")):
        code, out, _ = turnlog(
            "search", "barn", "--redact", *more, "--home", home, TURNLOG_HOME=own
        )
        assert code == 0
        assert keys[0] not in "".join(out.split())
        assert "[redacted anthropic key]" in " ".join(out.split())
    # Not even when the snippet would begin within the key.
    code, out, _ = turnlog(
        "search", "--redact", "--exact", keys[0][60:80], "--home", home, TURNLOG_HOME=own
    )
    assert keys[0][60:80] not in out.partition("Nothing")[0]
