"""``turnlog convert``, run as a person runs it."""

import json

import msgspec
import pytest
from jsonschema import validate

from cli.conftest import DAMAGED, WHOLE, line, prompt
from turnlog.api.sessions.writing import ConvertDocument


def files(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_session_goes_to_another_layout_and_back(turnlog, home, tmp_path):
    before = files(home)
    there = tmp_path / "there"
    code, out, err = turnlog("convert", "1111", "--layout", "flat", "--to", there, "--home", home)
    assert (code, err) == (0, "")
    assert f"{WHOLE} with 1 record\n" in out
    assert (there / "sessions" / f"{WHOLE}.jsonl").exists()
    assert (there / "sessions" / "index.json").exists()
    back = tmp_path / "back"
    code, out, _ = turnlog("convert", "1111", "--layout", "claude", "--to", back, "--home", there)
    assert code == 0
    assert f"claude --resume {WHOLE}" in out
    log = back / "projects" / "-home-ada-orchard" / f"{WHOLE}.jsonl"
    assert log.read_bytes() == prompt(WHOLE, "one") + b"\n"
    assert files(home) == before


def test_json_is_one_document(turnlog, home, tmp_path):
    code, out, err = turnlog(
        "convert", "1111", "--layout", "dated", "--to", tmp_path / "days", "--home", home, "--json"
    )
    assert (code, err) == (0, "")
    document = json.loads(out)
    (path,) = document.pop("paths")
    assert path.endswith("2026-11-01.jsonl")
    assert document == {
        "id": WHOLE,
        "layout": "dated",
        "converted_from": WHOLE,
        "records": 1,
        "rewritten": 0,
        "damage": 0,
        "subagents": 0,
    }
    validate(json.loads(out), msgspec.json.schema(ConvertDocument))


def test_damage_stays_behind_and_is_told(turnlog, home, tmp_path):
    code, out, _ = turnlog("convert", DAMAGED, "--layout", "flat", "--to", tmp_path, "--home", home)
    assert code == 1
    assert "with 2 records" in out
    assert "2 damaged ranges" in out
    assert f"turnlog check {DAMAGED}" in out


def test_the_dialect_at_home_is_told_when_asked_for(turnlog, home, tmp_path):
    arguments = ("convert", "1111", "--layout", "dated", "--to", tmp_path / "days", "--home", home)
    code, out, _ = turnlog(*arguments, "--dialect", "native")
    assert code == 0
    assert "1 record translated" in out
    (log,) = (tmp_path / "days").rglob("2026-11-01.jsonl")
    assert b'{"type":"user","content":"one"' in log.read_bytes()


def test_a_session_of_a_flat_store_goes_to_claude_code(turnlog, tmp_path):
    store = tmp_path / "subagent" / "sessions"
    store.mkdir(parents=True)
    block = {"type": "text", "text": "hello"}
    said = line(type="user", uuid="m1", content=[block], timestamp=1772600000000)
    (store / "abc123.jsonl").write_bytes(said + b"\n")
    code, out, err = turnlog(
        *("convert", "abc", "--layout", "claude", "--to", tmp_path / "home"),
        *("--home", tmp_path / "subagent", "--for", tmp_path / "orchard", "--json"),
    )
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["converted_from"] == "abc123"
    assert document["rewritten"] == 1
    code, out, _ = turnlog("show", document["id"], "--home", tmp_path / "home")
    assert code == 0
    assert "hello" in out


def test_of_several_layouts_in_a_home_one_can_be_chosen(turnlog, home, tmp_path):
    turnlog("convert", "1111", "--layout", "dated", "--to", home, "--home", home)
    arguments = ("convert", "1111", "--layout", "flat", "--to", tmp_path / "to", "--home", home)
    assert turnlog(*arguments)[0] == 0
    days = [path for path in home.rglob("*.jsonl") if "11111111" not in path.name]
    (day,) = [path for path in days if b"11111111" in path.read_bytes()]
    code, out, _ = turnlog(
        *("convert", day, "--layout", "flat", "--to", tmp_path / "day", "--home", home, "--json")
    )
    assert (code, json.loads(out)["records"]) == (0, 1)
    code, _, err = turnlog(
        *("convert", tmp_path / "no.jsonl", "--layout", "flat", "--to", "to", "--home", home)
    )
    assert (code, "is not a log of a home" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("nope", "--layout", "flat", "--to", "to"), "nope"),
        (("1111", "--to", "to"), "--layout"),
        (("1111", "--layout", "flat"), "--to"),
        (("1111", "--layout", "round", "--to", "to"), "round"),
        (("1111", "--layout", "flat", "--to", "to", "--dialect", "morse"), "morse"),
        (("1111", "--layout", "claude", "--to", "home"), "exists"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(turnlog, home, tmp_path, arguments, word):
    before = files(tmp_path)
    code, out, err = turnlog("convert", *arguments, "--home", home)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert word in err
    assert "hint: " in err
    assert files(tmp_path) == before
