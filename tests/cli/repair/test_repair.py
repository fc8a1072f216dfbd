"""``turnlog repair``, run as a person runs it."""

import json
from pathlib import Path

import jsonschema

SCHEMA = Path(__file__).parent.parent.parent.parent / "docs" / "schemas" / "repair.json"


def test_a_repair_is_a_dry_run_unless_told(turnlog, home, damaged_log):
    before = damaged_log.read_bytes()
    code, out, _ = turnlog("repair", "2222", "--home", home)
    assert code == 1
    assert "2 records would be kept, 2 from damaged lines" in out
    assert "Run again with --yes to repair it" in out
    assert damaged_log.read_bytes() == before
    assert len(list(damaged_log.parent.iterdir())) == 2


def test_write_mends_the_log_and_keeps_everything(turnlog, home, damaged_log):
    before = damaged_log.read_bytes()
    code, out, _ = turnlog("repair", "2222", "--home", home, "--yes")
    assert code == 0
    assert "repaired" in out
    assert turnlog("check", damaged_log)[0] == 0
    beside = {
        path.name.split(".jsonl.")[-1].split("-")[0]: path for path in home.rglob("*.jsonl.*")
    }
    assert beside["original"].read_bytes() == before
    ranges = [json.loads(row) for row in beside["quarantine"].read_bytes().splitlines()]
    assert [row["reason"] for row in ranges] == ["nul-run", "fragment"]
    assert before.endswith(ranges[1]["text"].encode())
    for path in beside.values():
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_whole_log_needs_no_repair(turnlog, home):
    code, out, _ = turnlog("repair", "1111", "--home", home, "--yes")
    assert code == 0
    assert "nothing to repair" in out
    assert not list(home.rglob("*.original-*"))


def test_json_is_one_document_that_fits_its_schema(turnlog, home):
    code, out, err = turnlog("repair", "2222", "--home", home, "--json")
    document = json.loads(out)
    jsonschema.validate(document, json.loads(SCHEMA.read_text("utf-8")))
    assert code == 1
    assert not err
    assert document["repairs"][0]["needed"] is True


def test_an_archive_is_never_changed(turnlog, tmp_path):
    import gzip

    log = tmp_path / "s.jsonl.gz"
    log.write_bytes(gzip.compress(b'{"type":"mode"}{"type":"mode"}\n'))
    code, _, err = turnlog("repair", log, "--yes")
    assert code == 2
    assert "archives are never changed" in err
