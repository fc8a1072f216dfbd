"""``turnlog compact``, run as a person runs it."""

import json
import os

import pytest

from keep.compaction.compacting import ID, answer, call, lines_of, result, title, told, u, written

TEXT = "peregrine kites " * 8000


@pytest.fixture
def log(home):
    said = answer("a", u(1), "m", call("c1", "Bash", command="fly"))
    said["message"]["usage"] = {"input_tokens": 5, "output_tokens": 70}
    return written(
        home,
        *[each | {"sessionId": ID} for each in (told(1), said, said)],
        title("one"),
        result("r", "a", "c1", TEXT) | {"sessionId": ID, "timestamp": "2026-11-01T10:00:01.500Z"},
        title("two"),
        told(2, "r") | {"sessionId": ID},
    )


def test_it_is_a_dry_run_unless_told(turnlog, home, log):
    before = log.read_bytes()
    code, out, err = turnlog("compact", "7777", "--home", home)
    assert (code, err) == (0, "")
    assert "duplicate lines" in out
    assert "would save" in out
    assert "Run again with --yes to compact it" in out
    assert "blobs" not in out.split("would save")[0].replace("in blobs", "")
    assert log.read_bytes() == before
    assert len(list(log.parent.glob(f"{ID}*"))) == 1


@pytest.mark.parametrize("columns", [80, 200])
def test_it_says_what_it_saved_by_rule(turnlog, home, log, columns):
    code, out, _ = turnlog(
        "compact", "7777", "--home", home, "--blobs", "--yes", COLUMNS=str(columns)
    )
    assert code == 0
    rows = [row.split("  ") for row in out.splitlines()]
    assert any("long results, moved to blobs" in row[1:2] for row in rows)
    assert "replaced titles and modes" in out
    assert "all views unchanged" in out
    (original,) = log.parent.glob("*.original-*")
    assert str(original) in out
    paths = [row for row in out.splitlines() if str(original) not in row]
    assert max(map(len, paths)) <= 90


def test_nothing_to_gain_is_said(turnlog, home):
    code, out, _ = turnlog("compact", "1111", "--home", home, "--yes")
    assert code == 0
    assert "nothing to compact" in out


def test_what_other_commands_show_is_the_same(turnlog, home, log):
    commands = (
        ("show", ID),
        ("info", ID),
        ("cost",),
        ("files", ID),
        ("errors",),
        ("search", "peregrine", "--results"),
    )

    def all_shown():
        shown = {}
        for command in commands:
            code, out, err = turnlog(*command, "--home", home, "--json")
            assert code in (0, 1), (command, err)
            shown[command] = _without_places(json.loads(out))
        return shown

    before = all_shown()
    assert "peregrine" in json.dumps(before["search", "peregrine", "--results"])
    code, _, err = turnlog("compact", ID, "--home", home, "--blobs", "--yes")
    assert code == 0, err
    assert TEXT.encode() not in log.read_bytes()
    after = all_shown()
    for command in commands:
        assert after[command] == before[command], command


def test_a_search_without_the_index_looks_into_blobs(turnlog, home, log):
    turnlog("compact", ID, "--home", home, "--blobs", "--yes")
    code, out, _ = turnlog(
        "search", "--regex", "per.grine kites", "--results", "--home", home, "--json"
    )
    assert code == 0
    assert json.loads(out)["hits"]


def _without_places(value):
    """Leave out where in a log something stands, how many lines and bytes there are, and age."""
    words = "offset record records size_bytes id length elapsed_ms models sightings folded skipped"
    places = {*words.split(), "line", "next", "bytes", "repeats", "replaced", "score"}
    if isinstance(value, dict):
        return {key: _without_places(each) for key, each in value.items() if key not in places}
    return [_without_places(each) for each in value] if isinstance(value, list) else value


def test_undo_puts_everything_back(turnlog, home, log):
    before = log.read_bytes()
    turnlog("compact", "7777", "--home", home, "--blobs", "--yes")
    code, out, _ = turnlog("compact", "7777", "--home", home, "--undo")
    assert code == 0
    assert "would restore" in out
    assert log.read_bytes() != before
    code, out, _ = turnlog("compact", "7777", "--home", home, "--undo", "--yes")
    assert code == 0
    assert "✓ restored" in out
    assert log.read_bytes() == before
    (original,) = log.parent.glob("*.original-*")
    assert original.read_bytes() == before
    assert f"original log: {original}" in out
    assert "hint: delete it to free the space" in out
    assert "nothing to undo" in turnlog("compact", "7777", "--home", home, "--undo")[1]


def test_a_blob_that_is_lost_is_told(turnlog, home, log):
    turnlog("compact", "7777", "--home", home, "--blobs", "--yes")
    for path in (*log.parent.glob("*.original-*"), *(log.parent / ID / "blobs").iterdir()):
        path.unlink()
    code, out, _ = turnlog("compact", "7777", "--home", home, "--undo", "--yes")
    assert code == 1
    assert "is missing" in out, out
    code, out, _ = turnlog("check", "7777", "--home", home)
    assert code == 1
    assert "is missing" in out, out


def test_json_is_one_document(turnlog, home, log):
    code, out, err = turnlog("compact", "7777", "--home", home, "--blobs", "--yes", "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert (document["session"], document["written"], document["blobs"]) == (ID, True, True)
    (row,) = document["logs"]
    assert row["new_size_bytes"] == log.stat().st_size
    assert row["saved_bytes"] == document["saved_bytes"]
    assert row["saved_bytes"] == row["size_bytes"] - row["new_size_bytes"] - row["blob_bytes"]
    assert [each["rule"] for each in row["rules"]] == ["duplicates", "states", "blobs"]
    assert os.path.exists(row["original"])
    code, out, _ = turnlog("compact", "7777", "--home", home, "--undo", "--json")
    (row,) = json.loads(out)["logs"]
    assert (row["lines"], row["originals"], row["lost"]) == (
        3,
        [document["logs"][0]["original"]],
        [],
    )


def test_a_running_session_is_refused(turnlog, home, log):
    (home / "sessions").mkdir()
    (home / "sessions" / f"{os.getpid()}.json").write_text(json.dumps({"sessionId": ID}))
    code, _, err = turnlog("compact", "7777", "--home", home, "--yes")
    assert code == 3
    assert "is running" in err
    assert "hint:" in err


def test_help_says_what_blobs_mean_for_resuming(turnlog):
    code, out, _ = turnlog("compact", "--help")
    assert code == 0
    assert "resumes such a session without them" in " ".join(out.split())


def test_the_first_and_last_lines_are_still_there(turnlog, home, log):
    before = lines_of(log)
    turnlog("compact", "7777", "--home", home, "--yes")
    assert (lines_of(log)[0], lines_of(log)[-1]) == (before[0], before[-1])
