"""``turnlog verify``, run as a person runs it."""

import json
import os
import shutil

import jsonschema
import msgspec
import pytest

from keep.orchard_home import ID, PROJECT, SHARED, conversation, parts_of, write_files
from turnlog.api.keep.restore import VerifyDocument
from turnlog.formats import key_of

MAIN = f"projects/{key_of(PROJECT)}/{ID}.jsonl"


@pytest.fixture
def orchard(tmp_path, turnlog):
    home = tmp_path / "home" / ".claude"
    write_files(home, parts_of() | SHARED)
    environ = {"TURNLOG_HOME": str(tmp_path / "turnlog"), "CLAUDE_CONFIG_DIR": str(home)}

    def run(*arguments, **more):
        return turnlog(*arguments, **(environ | more))

    assert run("keep")[0] == 0
    run.home = home
    (run.copy,) = (tmp_path / "turnlog" / "kept").rglob(f"projects/*/{ID}.jsonl.zst")
    return run


def test_all_is_well(orchard):
    code, out, err = orchard("verify")
    assert (code, err) == (0, "")
    assert "12 copies: 12 up to date" in out
    assert "✓ all copies are intact: 12 copies read" in out


def test_a_home_that_is_gone_is_verified_all_the_same(orchard, tmp_path):
    shutil.rmtree(orchard.home)
    code, out, _ = orchard("verify", CLAUDE_CONFIG_DIR=str(tmp_path / "another"))
    assert code == 0
    assert "(gone)" in out
    assert "12 with deleted sources" in out


def test_what_is_behind_is_told_and_no_fault(orchard):
    with (orchard.home / MAIN).open("ab") as log:
        log.write(conversation(start=70))
    write_files(orchard.home, {"plans/new.md": b"new"})
    code, out, _ = orchard("verify")
    assert code == 0
    assert "1 behind by 2.3 KB" in out
    assert f"behind by 2.3 KB: {MAIN}" in out
    assert "1 file not kept yet" in out


def test_what_is_wrong_is_told_with_what_helps(orchard):
    data = bytearray(orchard.copy.read_bytes())
    data[100] ^= 1
    orchard.copy.write_bytes(data)
    next(orchard.copy.parents[2].glob("history.jsonl.zst")).unlink()
    code, out, _ = orchard("verify")
    assert code == 1
    assert "altered" in out
    assert "missing" in out
    assert "the file itself is complete" in out
    assert "✗ 1 missing, 1 altered" in out
    assert "hint: missing: " in out


def test_a_copy_that_is_stale_is_told_and_the_next_keep_mends_it(orchard):
    path = orchard.home / MAIN
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"user", b"usel"))
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    code, out, _ = orchard("verify")
    assert code == 1
    assert "stale" in out
    assert "✗ 1 stale" in out
    assert "hint: stale: turnlog keep makes a new copy" in out
    assert "rewritten:" in orchard("keep")[1]
    code, out, _ = orchard("verify")
    assert code == 0
    assert "1 earlier generation" in out


def test_json_is_one_document_that_fits_its_schema(orchard):
    orchard.copy.unlink()
    code, out, err = orchard("verify", "--json")
    assert (code, err) == (1, "")
    found = json.loads(out)
    jsonschema.validate(found, msgspec.json.schema(VerifyDocument))
    (finding,) = found["findings"]
    assert (finding["kind"], finding["name"], finding["session"]) == ("missing", MAIN, ID)
    assert found["totals"]["copies"] == 12
    assert found["next"] is None


def test_one_home_can_be_named(orchard, tmp_path):
    other = tmp_path / "other" / ".claude"
    write_files(other, {"plans/a.md": b"a"})
    orchard.copy.unlink()
    assert orchard("verify", "--home", other)[0] == 0
    assert orchard("verify", "--home", orchard.home)[0] == 1
    code, _, err = orchard("verify", "--home", tmp_path / "nowhere")
    assert code == 2
    assert "hint: " in err


def test_nothing_kept_is_told(turnlog, tmp_path):
    code, out, _ = turnlog("verify", TURNLOG_HOME=str(tmp_path / "none"))
    assert code == 0
    assert "No kept copies yet" in out
