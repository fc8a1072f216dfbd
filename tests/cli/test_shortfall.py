"""What the commands say of a log that lost content while a copy of it is kept."""

import json
import os
import time

import pytest

from keep.orchard_home import ID, OTHER, PROJECT, conversation, files_in, parts_of, write_files
from turnlog.formats import key_of

MAIN = f"projects/{key_of(PROJECT)}/{ID}.jsonl"
REMEDY = f"turnlog restore {ID[:8]} --force"


@pytest.fixture
def orchard(tmp_path, turnlog):
    home = tmp_path / ".claude"
    files = {name: data for name, data in parts_of().items() if name.startswith("projects/")}
    files[MAIN] = conversation(turns=9)
    write_files(home, files | parts_of(OTHER))
    environ = {"TURNLOG_HOME": str(tmp_path / "turnlog"), "CLAUDE_CONFIG_DIR": str(home)}

    def run(*arguments):
        return turnlog(*arguments, **environ)

    def injure(data):
        (home / MAIN).write_bytes(data)
        old = time.time() - 3600
        os.utime(home / MAIN, (old, old))

    assert run("keep")[0] == 0
    run.home, run.log, run.whole, run.injure = home, home / MAIN, files[MAIN], injure
    return run


INJURIES = {
    "emptied": lambda data: data[:0],
    "head": lambda data: data[data.index(b"\n", 1000) + 1 :],
    "middle": lambda data: data[:900] + data[2000:],
    "tail": lambda data: data[: data.index(b"\n", 1000) + 1],
}


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)])
def is_kept_again(request):
    return request.param


@pytest.fixture(params=INJURIES)
def injured(orchard, request, is_kept_again):
    how = request.param
    orchard.injure(INJURIES[how](orchard.whole))
    if is_kept_again:
        assert orchard("keep")[0] == 0
    return orchard


def test_every_command_says_so_and_the_copy_makes_it_whole(injured):
    for command in (["check"], ["check", ID], ["repair", ID], ["recover", ID], ["doctor"]):
        code, out, err = injured(*command)
        assert (code, err) == (1, ""), command
        assert "less than was kept" in " ".join(out.split()), command
        assert REMEDY in out or REMEDY.replace(ID[:8], ID) in out, command
    code, out, _ = injured("restore", ID)
    assert code in (1, 2)
    before = injured.log.read_bytes()
    code, out, err = injured("restore", ID, "--force")
    assert (code, err) == (0, "")
    assert "original log:" in out
    assert injured.log.read_bytes() == injured.whole
    (aside,) = injured.log.parent.glob("*.replaced-*")
    assert aside.read_bytes() == before
    for command in (["check"], ["repair", ID], ["recover", ID], ["doctor"]):
        _, out, _ = injured(*command)
        assert "less than was kept" not in " ".join(out.split()), command


def test_documents_say_so_too(injured):
    def document(*command):
        return json.loads(injured(*command, "--json")[1])

    found = [each for each in document("check")["findings"] if each["code"] == "less-than-kept"]
    assert [each["path"] for each in found] == [str(injured.log)]
    repair = next(each for each in document("repair", ID)["repairs"] if each["lacking"])
    assert repair["path"] == str(injured.log)
    assert document("recover", ID)["lacking"] == repair["lacking"]
    assert document("doctor")["findings"][0]["kind"] == "shortened"


def test_the_doctor_never_advises_to_delete_what_the_copy_holds(injured):
    findings = json.loads(injured("doctor", "--json")[1])["findings"]
    commands = [each["command"] for each in findings if ID[:8] in each["command"]]
    assert commands
    assert not [each for each in commands if not each.startswith("turnlog restore")]


def test_an_empty_log_of_which_nothing_is_kept_may_be_deleted(orchard):
    name = f"projects/{key_of(PROJECT)}/99999999-bbbb-4bbb-8bbb-888888888888.jsonl"
    write_files(orchard.home, {name: b""})
    os.utime(orchard.home / name, (1, 1))
    assert "turnlog delete 99999999" in orchard("doctor")[1]


def test_restore_says_that_an_earlier_generation_holds_more(orchard):
    orchard.injure(b"")
    orchard("keep")
    code, out, _ = orchard("restore", ID)
    assert code == 1
    assert "less than was kept" in " ".join(out.split())
    assert "--force" in out
    assert orchard.log.read_bytes() == b""


def test_replace_has_no_project(orchard, tmp_path):
    code, _, err = orchard("restore", ID, "--force", "--for", tmp_path)
    assert code == 2
    assert "--force" in err


def test_records_after_the_loss_are_carried_over_and_counted(orchard):
    orchard.injure(conversation(start=40, turns=2))
    code, out, _ = orchard("restore", ID, "--force")
    assert code == 0
    assert "4 newer records of it appended" in out
    assert files_in(orchard.home)[MAIN] == orchard.whole + conversation(start=40, turns=2)
