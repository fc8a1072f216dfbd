"""What is wrong with a kept copy is found, and told exactly; what is well is not complained of."""

import gzip
import json
import os
import random
import subprocess
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keep.orchard_home import (
    ID,
    OTHER,
    Orchard,
    conversation,
    files_in,
    line,
    parts_of,
    write_files,
)
from turnlog.formats import Home
from turnlog.formats.kept_copies import generation_copy
from turnlog.keep import verify as verifying
from turnlog.keep.catalog import CATALOGUE, Catalogue, lock_mirror
from turnlog.keep.copies.keep import keep
from turnlog.keep.copies.reader import content
from turnlog.keep.restore.restorable import Mirror, all_mirrors
from turnlog.keep.trash.delete import delete_session
from turnlog.keep.verify import Parity, VerifyProblem, bytes_to_verify, verify
from turnlog.records.damage import Damage
from turnlog.storage.compressed import FrameTable, pack, unpack
from turnlog.storage.reader import Placed, read_log


@pytest.fixture
def long(tmp_path, monkeypatch):
    """A main log of four frames."""
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    found = Orchard(tmp_path)
    numbers = random.Random(7)
    lines = (line(type="mode", mode=numbers.randbytes(900).hex(), n=n) for n in range(2000))
    found.write(found.main, b"".join(lines))
    found.keep()
    return found


def look(orchard):
    before = files_in(orchard.home) if orchard.home.exists() else None
    kept = files_in(orchard.place)
    done = verify([Home(orchard.home)])
    assert files_in(orchard.place) == kept
    assert before is None or files_in(orchard.home) == before
    return done


def only(done):
    (found,) = done.findings
    return found


def spoil(path, how):
    data = bytearray(path.read_bytes())
    path.unlink()
    path.write_bytes(how(data))


def flip(at):
    def flipped(data):
        data[at] ^= 1
        return data

    return flipped


# -- all well -------------------------------------------------------------------------------------


def test_what_is_well_is_not_complained_of(orchard):
    steps = []
    done = verify([Home(orchard.home)], advance=steps.append)
    assert not done.findings
    (home,) = done.homes
    assert home.home == str(orchard.home)
    assert home.copies == home.same == len(orchard.files)
    assert (home.behind, home.differs, home.gone, home.unkept) == (0, 0, 0, 0)
    assert home.size_bytes == sum(map(len, orchard.files.values())) == sum(steps)
    assert home.size_bytes == bytes_to_verify([Home(orchard.home)])
    assert 0 < home.packed_bytes < home.size_bytes


def test_generations_are_read_too(orchard):
    for number in range(3):
        orchard.write(orchard.main, conversation(start=10 * number))
        orchard.keep()
    done = look(orchard)
    assert not done.findings
    assert done.homes[0].generations == 3


def test_a_home_that_is_gone_is_no_fault(orchard):
    orchard.burn()
    done = look(orchard)
    assert not done.findings
    (home,) = done.homes
    assert not home.is_there
    assert home.gone == home.copies == len(orchard.files)


def test_where_nothing_is_kept_nothing_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    orchard = Orchard(tmp_path)
    (home,) = verify([Home(orchard.home)]).homes
    assert (home.copies, home.unkept) == (0, len(orchard.files))
    assert verify([Home(tmp_path / "nowhere")]).homes == []


# -- parity ---------------------------------------------------------------------------------------


def test_a_file_that_has_grown_is_told_with_how_much(orchard):
    more = conversation(start=50)
    orchard.write(orchard.main, orchard.files[orchard.main] + more)
    write_files(orchard.home, {"plans/new.md": b"# New\n"})
    done = look(orchard)
    assert not done.findings
    (home,) = done.homes
    assert (home.behind, home.behind_bytes) == (1, len(more))
    (row,) = home.unlike
    assert (row.name, row.parity, row.session) == (orchard.main, Parity.BEHIND, ID)
    assert (home.unkept, home.unkept_bytes) == (1, 6)


@pytest.mark.parametrize("what", ["rewritten", "shorter", "same size"])
def test_a_file_that_was_rewritten_is_told(long, what):
    path = long.home / long.main
    data = path.read_bytes()
    match what:
        case "rewritten":
            data = conversation()
        case "shorter":
            data = data[:-1]
        case _:
            data = changed(data)
    path.write_bytes(data)
    done = look(long)
    assert not done.findings
    assert done.homes[0].differs == 1
    assert done.homes[0].unlike[0].parity is Parity.DIFFERS


def changed(data):
    """One byte in the middle is another."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def change_unnoticed(orchard):
    """Change the main log so that neither its size nor its time tell; give what it held, holds."""
    path = orchard.home / orchard.main
    old, status = path.read_bytes(), path.stat()
    path.write_bytes(changed(old))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return old, path.read_bytes()


@pytest.mark.parametrize("at", [0, 1_772_600_000])
def test_a_copy_that_differs_where_size_and_time_tell_nothing_is_found_and_made_anew(long, at):
    os.utime(long.home / long.main, (at, at))
    long.keep()
    old, new = change_unnoticed(long)
    assert keep([Home(long.home)]).copied == 0
    for _ in range(2):  # Until it is made anew.
        done = verify([Home(long.home)])
        found = only(done)
        assert (found.kind, found.name, found.session) == (VerifyProblem.STALE, long.main, ID)
        assert "the next turnlog keep makes it again" in found.detail
        assert done.homes[0].differs == 1
    assert keep([Home(long.home)]).begun_anew == [str(long.home / long.main)]
    assert not look(long).findings
    catalogue = Catalogue.load(long.place)
    copies = [catalogue.copy_of(each) for each in catalogue.generations(long.main)]
    assert [b"".join(unpack(copy)) for copy in copies] == [old, new]


def test_a_copy_that_is_kept_anew_while_it_is_compared_is_no_fault(long, monkeypatch):
    change_unnoticed(long)
    real = verifying.file_begins_with

    def kept_meanwhile(fd, known):
        if known.name == long.main:
            os.utime(long.home / long.main)
            keep([Home(long.home)])
        return real(fd, known)

    monkeypatch.setattr(verifying, "file_begins_with", kept_meanwhile)
    assert not verify([Home(long.home)]).findings


def test_what_cannot_be_noted_is_told(long, monkeypatch):
    def full(_catalogue):
        raise OSError(28, "No space left on device")

    change_unnoticed(long)
    monkeypatch.setattr(Catalogue, "save", full)
    found = only(look(long))
    assert found.kind is VerifyProblem.STALE
    assert "no space left on device" in found.detail.lower()


@pytest.mark.parametrize("what", ["directory", "fifo"])
def test_what_is_no_file_any_more_does_not_hang_it(orchard, what):
    path = orchard.home / orchard.main
    path.unlink()
    path.mkdir() if what == "directory" else os.mkfifo(path)
    done = verify([Home(orchard.home)])
    assert not done.findings
    assert done.homes[0].unlike[0].parity is Parity.UNREADABLE


def test_single_files_that_are_gone_are_counted(orchard):
    (orchard.home / orchard.main).unlink()
    (home,) = look(orchard).homes
    assert (home.gone, home.same) == (1, len(orchard.files) - 1)


# -- missing, altered, extra ----------------------------------------------------------------------


def test_a_missing_copy_is_found(orchard):
    orchard.copy().unlink()
    found = only(look(orchard))
    assert (found.kind, found.name, found.session) == (VerifyProblem.MISSING, orchard.main, ID)
    assert "the file itself is complete" in found.detail
    orchard.keep()
    assert not look(orchard).findings


def test_a_missing_generation_is_found(orchard):
    orchard.write(orchard.main, conversation())
    orchard.keep()
    generation_copy(orchard.place, 1, orchard.main).unlink()
    found = only(look(orchard))
    assert (found.kind, found.generation) == (VerifyProblem.MISSING, 1)
    assert "whole" not in found.detail


def test_an_altered_copy_is_found_and_which_bytes_it_concerns(long):
    data = (long.home / long.main).read_bytes()
    spoil(long.copy(), flip(long.copy().stat().st_size // 2))
    found = only(look(long))
    assert (found.kind, found.name) == (VerifyProblem.ALTERED, long.main)
    (bad,) = found.ranges
    assert 0 < bad.offset < bad.offset + bad.length < len(data)
    assert bad.length <= 1024 * 1024
    assert f"{bad.length:,} of {len(data):,} bytes" in found.detail
    # And that is what readers miss of it; the other frames are as they were.
    items = list(read_log(long.copy()))
    damaged = [item for item in items if isinstance(item, Damage)]
    assert damaged
    whole = {(item.offset, item.length) for item in items if isinstance(item, Placed)}
    lines = data.splitlines(keepends=True)
    at = 0
    for each in lines:
        outside = at + len(each) <= bad.offset or at >= bad.offset + bad.length
        assert ((at, len(each) - 1) in whole) == outside
        at += len(each)


def test_several_damages_are_told_apart(long):
    size = long.copy().stat().st_size
    spoil(long.copy(), lambda data: flip(size // 9)(flip(size * 8 // 9)(data)))
    found = only(look(long))
    assert len(found.ranges) == 2


@pytest.mark.parametrize("left", [0.0, 0.1, 0.5, 0.95])
def test_a_copy_that_was_cut_short_tells_how_far_it_goes(long, left):
    data = (long.home / long.main).read_bytes()
    spoil(long.copy(), lambda packed: packed[: int(left * len(packed))])
    found = only(look(long))
    assert found.kind is VerifyProblem.ALTERED
    (bad,) = found.ranges
    assert bad.length is None
    assert bad.offset <= left * len(data) * 1.1
    if left == 0.95:
        assert bad.offset > len(data) // 2


def test_a_copy_of_something_else_is_altered(orchard):
    other = pack(conversation(OTHER))
    table = FrameTable([(len(other), len(conversation(OTHER)))]).encode()
    spoil(orchard.copy(), lambda _data: other + table)
    assert only(look(orchard)).kind is VerifyProblem.ALTERED


def test_a_directory_or_a_fifo_in_place_of_a_copy_is_found(orchard):
    for make in (os.mkdir, os.mkfifo):
        orchard.copy().unlink()
        make(orchard.copy())
        assert only(verify([Home(orchard.home)])).kind is VerifyProblem.ALTERED
        orchard.copy().rmdir() if make is os.mkdir else orchard.copy().unlink()
        orchard.keep()


@given(st.data())
def test_any_flipped_bit_of_a_copy_is_found_or_harmless(tmp_path_factory, draw):
    place = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_HOME", str(place / "turnlog"))
        orchard = Orchard(place)
        orchard.keep()
        name = draw.draw(st.sampled_from(sorted(orchard.files)))
        path = orchard.copy(name)
        at = draw.draw(st.integers(0, path.stat().st_size - 1))
        bit = draw.draw(st.integers(0, 7))

        def flipped(data):
            data[at] ^= 1 << bit
            return data

        spoil(path, flipped)
        orchard.burn()
        found = verify([Home(orchard.home)]).findings
        if found:
            assert [(each.kind, each.name) for each in found] == [(VerifyProblem.ALTERED, name)]
        else:
            session = orchard.session().mirror.newest(name)
            assert b"".join(content(session, session.known)) == orchard.files[name]


def test_extra_copies_are_found(orchard):
    extra = orchard.copy("projects/x/99999999-cccc-4ccc-8ccc-999999999999.jsonl")
    extra.parent.mkdir(parents=True)
    extra.write_bytes(orchard.copy().read_bytes())
    (orchard.place / "generations" / "7" / "plans").mkdir(parents=True)
    stray = generation_copy(orchard.place, 7, "plans/x.md")
    stray.write_bytes(b"no copy at all")
    odd = orchard.place / "settings.json.zst"
    odd.write_bytes(orchard.copy().read_bytes())
    found = {each.path: each for each in look(orchard).findings}
    assert found.keys() == {str(extra), str(stray), str(odd)}
    assert {each.kind for each in found.values()} == {VerifyProblem.EXTRA}
    assert "does not unpack" in found[str(stray)].detail
    assert "no file of a home" in found[str(odd)].detail


def test_without_a_catalogue_every_copy_is_extra_and_keeping_mends_that(orchard):
    (orchard.place / CATALOGUE).unlink()
    done = look(orchard)
    assert {each.kind for each in done.findings} == {VerifyProblem.EXTRA}
    assert len(done.findings) == len(orchard.files)
    orchard.keep()
    assert not look(orchard).findings


def test_a_copy_that_is_ahead_of_its_catalogue_is_no_fault(orchard):
    before = (orchard.place / CATALOGUE).read_bytes()
    orchard.write(orchard.main, orchard.files[orchard.main] + conversation(start=40, turns=2000))
    orchard.keep()
    (orchard.place / CATALOGUE).write_bytes(before)
    assert not look(orchard).findings


def test_what_is_kept_while_it_looks_is_no_fault(orchard, monkeypatch):
    """The copy is replaced after its catalogue was read."""
    (mirror,) = all_mirrors([Home(orchard.home)])
    assert mirror.copies
    orchard.write(orchard.main, conversation(turns=1))
    orchard.keep()
    monkeypatch.setattr(verifying, "mirrors", lambda _homes: [mirror])
    assert not verify([Home(orchard.home)]).findings


def test_what_is_first_kept_while_it_looks_is_no_fault(orchard, monkeypatch):
    """A copy comes that was not there when the copies were listed."""
    (mirror,) = all_mirrors([Home(orchard.home)])
    assert mirror.copies
    orchard.write("projects/x/99999999-cccc-4ccc-8ccc-999999999999.jsonl", conversation(turns=1))
    orchard.keep()
    odd = orchard.place / "settings.json.zst"
    odd.write_bytes(orchard.copy().read_bytes())
    monkeypatch.setattr(verifying, "mirrors", lambda _homes: [mirror])
    assert [each.path for each in verify([Home(orchard.home)]).findings] == [str(odd)]


def test_what_is_deleted_while_it_looks_is_no_fault(orchard, monkeypatch):
    (mirror,) = all_mirrors([Home(orchard.home)])
    assert mirror.copies
    delete_session([Home(orchard.home)], ID)
    monkeypatch.setattr(verifying, "mirrors", lambda _homes: [mirror])
    done = verify([Home(orchard.home)])
    assert not done.findings
    assert done.homes[0].copies == len(Mirror(mirror.home, mirror.place).copies)


def test_who_puts_copies_in_place_is_waited_for(orchard):
    """They lie there before the catalogue knows them."""
    before = (orchard.place / CATALOGUE).read_bytes()
    orchard.write("projects/x/99999999-cccc-4ccc-8ccc-999999999999.jsonl", conversation(turns=1))
    orchard.write(orchard.main, conversation(turns=1))
    orchard.keep()
    after = (orchard.place / CATALOGUE).read_bytes()
    (orchard.place / CATALOGUE).write_bytes(before)
    is_held = threading.Event()

    def write_down():
        with lock_mirror(orchard.place, 0):
            is_held.set()
            time.sleep(0.5)
            (orchard.place / CATALOGUE).write_bytes(after)

    keeper = threading.Thread(target=write_down)
    keeper.start()
    is_held.wait()
    assert not verify([Home(orchard.home)]).findings
    keeper.join()


def test_a_bomb_does_not_go_off(orchard):
    one = pack(b"\0" * (16 * 1024 * 1024))
    spoil(
        orchard.copy(),
        lambda _: one * 4000 + FrameTable([(len(one), 16 * 1024 * 1024)] * 4000).encode(),
    )
    assert only(look(orchard)).kind is VerifyProblem.ALTERED
    (orchard.place / CATALOGUE).unlink()
    assert any(each.name == orchard.main for each in look(orchard).findings)


# -- archives in the homes ------------------------------------------------------------------------


LOG = b"".join(line(type="user", uuid=f"m{n}", content=f"apple {n}") for n in range(5000))


@pytest.fixture(params=["sessions/", ""])
def flat(request, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    home = tmp_path / "flat"
    meta = {
        "sessionId": "abc",
        "isArchived": True,
        "originalSha256": sha256(LOG).hexdigest(),
        "compressionRatio": 0.1,
    }
    write_files(
        home,
        {
            f"{request.param}compressed/abc.jsonl.gz": gzip.compress(LOG),
            f"{request.param}abc.meta.json": json.dumps(meta).encode(),
            f"{request.param}index.json": b"{}",
        },
    )
    return home, home / request.param / "compressed" / "abc.jsonl.gz"


def test_archives_of_a_flat_store_are_read(flat):
    home, _ = flat
    done = verify([Home(home)])
    assert not done.findings
    assert done.homes[0].archives == 1
    assert done.homes[0].size_bytes == len(LOG)


@pytest.mark.parametrize("what", ["cut", "flipped", "another", "plain", "trailing"])
def test_an_altered_archive_is_found(flat, what):
    home, path = flat
    data = bytearray(path.read_bytes())
    match what:
        case "cut":
            data = data[: len(data) // 2]
        case "flipped":
            data[len(data) // 2] ^= 1
        case "another":
            data = gzip.compress(LOG[:-10])
        case "plain":
            data = LOG
        case "trailing":
            data += b"rubbish"
    path.write_bytes(data)
    found = only(verify([Home(home)]))
    assert found.kind is VerifyProblem.ALTERED
    assert found.session == "abc"
    if what == "cut":
        assert 0 < found.ranges[0].offset < len(LOG)


def test_a_lost_archive_is_found(flat):
    home, path = flat
    path.unlink()
    found = only(verify([Home(home)]))
    assert found.kind is VerifyProblem.MISSING
    path.parent.with_name("abc.jsonl").write_bytes(LOG)
    assert not verify([Home(home)]).findings


def test_an_archive_without_a_digest_is_judged_by_itself(flat):
    home, path = flat
    for meta in home.rglob("*.meta.json"):
        meta.write_bytes(b"not even JSON")
    assert not verify([Home(home)]).findings
    path.write_bytes(path.read_bytes()[:-4])
    assert only(verify([Home(home)])).kind is VerifyProblem.ALTERED


# -- bounds ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_needs_little_memory_however_long_the_logs_are(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    orchard = Orchard(tmp_path)
    orchard.write(
        orchard.main, b"".join(line(type="mode", n=n, x="y" * 400) for n in range(400_000))
    )
    orchard.keep()
    code = (
        "import resource, sys; from turnlog.keep.verify import verify;"
        "from turnlog.formats import Home; from pathlib import Path;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "done = verify([Home(Path(sys.argv[1]))]);"
        "assert not done.findings and done.homes[0].same;"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, orchard.home], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 40_000  # KB, of a log of 170 MB.


def test_a_catalogue_that_lies_about_sizes_is_found_out(orchard):
    catalogue = Catalogue.load(orchard.place)
    stored = json.loads((orchard.place / CATALOGUE).read_bytes())
    for each in stored["files"]:
        each["size_bytes"] += 5
    (orchard.place / CATALOGUE).write_text(json.dumps(stored), "utf-8")
    done = verify([Home(orchard.home)])
    assert len(done.findings) == len(catalogue.current)
    assert {each.kind for each in done.findings} == {VerifyProblem.ALTERED}


def test_problems_of_the_home_are_told(orchard):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (orchard.home / "plans").chmod(0)
    try:
        assert verify([Home(orchard.home)]).problems
    finally:
        (orchard.home / "plans").chmod(0o700)


def test_sessions_of_several_homes_are_told_apart(orchard, tmp_path):
    other = tmp_path / "other" / ".claude"
    write_files(other, parts_of(OTHER))
    keep([Home(other)])
    orchard.copy().unlink()
    done = verify([Home(orchard.home), Home(other)])
    assert [home.home for home in done.homes] == [str(orchard.home), str(other)]
    assert only(done).home == str(orchard.home)
    assert Path(only(done).path) == orchard.copy()
