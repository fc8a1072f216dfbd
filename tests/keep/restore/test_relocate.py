"""A moved session says where it works now, and is otherwise the same, byte for byte."""

import json
import os
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sampling import examples
from turnlog.errors import UsageError, WriteFailed
from turnlog.formats import hash_of, key_of
from turnlog.keep.restore import relocate
from turnlog.keep.restore.relocate import (
    Move,
    Relocation,
    differs_only_in_cwd,
    is_windows,
    new_project,
    project_in,
    relocate_line,
    shape_of,
    split,
)

OLD, NEW = "/home/ann/orchard", "/srv/new place/obst garten"
MOVE = Move(OLD, NEW)


def line(**members):
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def moved(data, move=MOVE):
    new = relocate_line(data, move)
    assert differs_only_in_cwd(data, new, move)
    return new


# -- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "path", "becomes"),
    [
        (OLD, NEW, OLD, NEW),
        (OLD, NEW, OLD + "/", NEW),
        (OLD, NEW, OLD + "/src/deep", NEW + "/src/deep"),
        (OLD, NEW, OLD + "/.claude/worktrees/fix", NEW + "/.claude/worktrees/fix"),
        (OLD, NEW, OLD + "-worktrees/fix", OLD + "-worktrees/fix"),
        (OLD, NEW, OLD + "s", OLD + "s"),
        (OLD, NEW, "/home/ann", "/home/ann"),
        (OLD, NEW, "/tmp/x" + OLD, "/tmp/x" + OLD),
        (OLD, NEW, "", ""),
        (OLD + "/", NEW, OLD + "/src", NEW + "/src"),
        (OLD, "/", OLD + "/src", "/src"),
        (OLD, "/", OLD, "/"),
        ("/", NEW, "/", NEW),
        ("/", NEW, "/tmp", "/tmp"),
        (OLD, NEW, OLD + "\\x", OLD + "\\x"),
        ("C:\\Users\\Ann\\orchard", NEW, "c:\\Users\\Ann\\orchard\\src", NEW + "/src"),
        ("C:\\Users\\Ann\\orchard", NEW, "C:/Users/Ann/orchard/src", NEW + "/src"),
        ("C:\\Users\\Ann\\orchard", NEW, "C:\\Users\\Ann\\orchard2", "C:\\Users\\Ann\\orchard2"),
        ("C:\\Users\\Ann\\orchard\\", NEW, "C:\\Users\\Ann\\orchard", NEW),
        ("C:\\", NEW, "C:\\", NEW),
        ("C:\\", NEW, "C:\\Users", "C:\\Users"),
        ("\\\\nas\\share\\o", "D:\\o", "\\\\nas\\share\\o\\a", "D:\\o\\a"),
        (OLD, "D:\\orchard", OLD + "/a/b", "D:\\orchard\\a\\b"),
        (OLD, "D:\\", OLD + "/a", "D:\\a"),
    ],
)
def test_a_path_moves_with_its_project_and_no_other_does(old, new, path, becomes):
    assert Move(old, new).of(path) == becomes


@given(st.text(max_size=30), st.text(max_size=30))
def test_moving_there_and_back_is_not_moving(below, beside):
    inner = OLD + "/" + below.replace("\\", "")
    there, back = Move(OLD, NEW), Move(NEW, OLD)
    assert back.of(there.of(inner)).rstrip("/") == inner.rstrip("/")
    stranger = OLD + "x" + beside
    assert there.of(stranger) == stranger


def test_the_new_place_is_called_as_claude_code_would_call_it(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert new_project("link") == os.path.realpath(tmp_path / "real")
    assert new_project("not there yet") == os.path.join(os.path.realpath("."), "not there yet")
    assert new_project("C:\\Users\\Ann") == "C:\\Users\\Ann"
    assert new_project("cafe\u0301").endswith("caf\u00e9")


def test_what_can_be_no_project_is_refused(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for wrong in ("", "a\0b", file, b"/tmp/\xff".decode(errors="surrogateescape")):
        with pytest.raises(UsageError) as caught:
            new_project(wrong)
        assert caught.value.hint


# -- lines ----------------------------------------------------------------------------------------


def test_only_the_value_changes():
    odd = (
        b'{ "type" : "user" ,\t"cwd"  :\t"'
        + OLD.encode()
        + b'" , "n":1.0e+2,"u":"\\u00e9\\/" }\r\n'
    )
    assert moved(odd) == odd.replace(OLD.encode(), NEW.encode())


def test_what_was_said_is_not_touched():
    told = {
        "type": "user",
        "message": {
            "content": [{"type": "tool_use", "input": {"cwd": OLD, "command": f"cd {OLD}"}}]
        },
        "toolUseResult": {"cwd": OLD, "stdout": f'"cwd":"{OLD}"'},
        "cwd": OLD + "/src",
        "other": {"relocatedCwd": OLD},
    }
    assert json.loads(moved(line(**told))) == told | {"cwd": NEW + "/src"}
    nested = {key: value for key, value in told.items() if key != "cwd"}
    assert moved(line(**nested)) == line(**nested)


def test_other_places_of_a_record_stay():
    for data in (
        line(type="worktree-state", worktreeSession={"originalCwd": OLD, "worktreePath": OLD}),
        line(type="frame-link", path=OLD),
        line(type="user", relocatedCwd=OLD),
        line(type="user", cwd="/somewhere/else"),
        line(type="user", cwd=None),
        line(type="user", cwd=["/home/ann/orchard"]),
        line(type="user", cwd={"cwd": OLD}),
        line(type="user", Cwd=OLD),
    ):
        assert moved(data) == data


def test_a_relocated_record_names_the_new_place():
    told = {"type": "relocated", "relocatedCwd": OLD + "/b", "sessionId": "x"}
    assert json.loads(moved(line(**told))) == told | {"relocatedCwd": NEW + "/b"}


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"user","cwd":"%s"' % OLD.encode(),
        b'{"cwd":"%s"}{"cwd":"%s"}\n' % (OLD.encode(), OLD.encode()),
        b'["cwd","%s"]\n' % OLD.encode(),
        b'"cwd"\n',
        b"\n",
        b"",
        b"\0" * 50 + b"\n",
        b'{"cwd":"%s",}\n' % OLD.encode(),
        b'{"cwd":"%s\xff"}\n' % OLD.encode(),
        b'x{"cwd":"%s"}\n' % OLD.encode(),
        b'{"a":"say \\"cwd":"%s"}\n' % OLD.encode(),
    ],
)
def test_what_is_no_record_stays_as_it_is(data):
    assert moved(data) == data


@pytest.mark.parametrize(
    "data",
    [
        b'{"cwd":"%s","bad":"\xff\xfe"}\n',  # Not UTF-8, but elsewhere.
        b'\xef\xbb\xbf{"cwd":"%s"}\n',
        b'\0\0\0{"cwd":"%s"}\n',
        b'{"cwd":"%s","s":"\\ud88d"}\n',
        b'{"cwd":"%s","n":' + b"9" * 6000 + b"}\n",
        b'{"cwd":"%s","deep":' + b"[" * 20_000 + b"]" * 20_000 + b"}\n",
        b'{"\\u0063wd":"%s"}\n',
        b'{"x":"\\u0077","c\\u0077d":"%s"}\n',
        b'{"cwd":"%s","tab":"\t"}\n',
        b'{"cwd":"%s","n":NaN}\n',
    ],
)
def test_records_that_decoders_refuse_move_too(data):
    old = data.replace(b"%s", OLD.encode())
    assert moved(old) == data.replace(b"%s", NEW.encode())


def test_a_member_named_twice_moves_twice():
    old = b'{"cwd":"/x","cwd":"%s","cwd":"%s/a"}\n' % (OLD.encode(), OLD.encode())
    assert moved(old) == b'{"cwd":"/x","cwd":"%s","cwd":"%s/a"}\n' % (NEW.encode(), NEW.encode())


def test_escapes_in_the_value_mean_what_they_mean():
    old = b'{"cwd":"\\/home\\/ann\\/orch\\u0061rd\\/\\ud83d\\ude00 \\ud800"}\n'
    assert json.loads(moved(old)) == {"cwd": NEW + "/\U0001f600 \ud800"}
    windows = Move("C:\\Users\\Ann\\o", "D:\\p")
    assert moved(line(cwd="C:\\Users\\Ann\\o\\src"), windows) == line(cwd="D:\\p\\src")


def test_new_places_may_be_called_anything():
    move = Move(OLD, '/srv/"q"\\\n\u2028\u00fc')
    assert json.loads(moved(line(cwd=OLD, n=1), move)) == {"cwd": move.new, "n": 1}


# -- the proof ------------------------------------------------------------------------------------


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=12)
    | st.sampled_from([OLD, NEW, OLD + "/a", "cwd", '"cwd"', 'x\\"cwd']),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["cwd", "type", "relocatedCwd", "x", 'c"wd']), inner, max_size=3
        )
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(["cwd", "type", "relocatedCwd", "message", "a", '\\"cwd', "\u00e9"])
PATHS = st.sampled_from([OLD, OLD + "/a b", OLD + "x", "/tmp", OLD + "/\u00fc"])


@st.composite
def lines(draw):
    """JSON objects in every spelling: spaces, escapes, members named twice, broken ends."""
    members = draw(st.lists(st.tuples(KEYS, VALUES | PATHS), max_size=6))
    if draw(st.booleans()):
        members.append(("cwd", draw(PATHS)))
    if draw(st.booleans()):
        members.append(("type", draw(st.sampled_from(["user", "relocated"]))))
    ascii_only = draw(st.booleans())
    space = draw(st.sampled_from(["", " ", "\t "]))
    body = ("," + space).join(
        json.dumps(key, ensure_ascii=ascii_only)
        + space
        + ":"
        + space
        + json.dumps(value, ensure_ascii=ascii_only)
        for key, value in members
    )
    data = ("{" + space + body + space + "}").encode("utf-8", "surrogatepass")
    cut = draw(st.just(len(data)) | st.integers(0, len(data)))
    before = draw(st.sampled_from([b"", b"", b"\0\0", b"\xef\xbb\xbf", b"{}"]))
    return before + data[:cut] + draw(st.sampled_from([b"\n", b"", b"\r\n"]))


def top(data):
    """What every decoder makes of a line; pairs, so that none is hidden by another."""
    text = data.lstrip(b"\0").removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    depth = []

    def pairs(found):
        depth.append(found)
        return dict(found)

    try:
        value = json.loads(text, object_pairs_hook=pairs, strict=False)
    except ValueError:
        return None
    return depth[-1] if isinstance(value, dict) else None


@given(lines())
@settings(max_examples=examples(300))
@example(b'{"cwd":"/home/ann/orchard"}')
def test_any_line_moves_in_its_cwd_and_nowhere_else(data):
    new = moved(data)
    before, after = top(data), top(new)
    if before is None:
        assert new == data
        return
    is_relocated = ("type", "relocated") in before
    names = {"cwd", "relocatedCwd"} if is_relocated else {"cwd"}
    assert after == [
        (name, MOVE.of(value) if name in names and isinstance(value, str) else value)
        for name, value in before
    ]
    assert relocate_line(new, MOVE) == new


@given(lines(), st.data())
@settings(max_examples=examples(300))
def test_the_proof_sees_any_other_change(data, draw):
    """One byte more, less or other, anywhere but in the moved value, is seen."""
    new = bytearray(relocate_line(data, MOVE))
    at = draw.draw(st.integers(0, max(0, len(new) - 1)))
    how = draw.draw(st.sampled_from(["flip", "drop", "add"]))
    if how == "flip" and new:
        new[at] ^= 1 << draw.draw(st.integers(0, 7))
    elif how == "drop" and new:
        del new[at]
    else:
        new.insert(at, draw.draw(st.sampled_from(b' x"\\{},0')))
    spoilt = bytes(new)
    if spoilt == relocate_line(data, MOVE):
        return
    if differs_only_in_cwd(data, spoilt, MOVE):
        # The value may be written in another way (an escape for a letter), never say another thing.
        assert top(spoilt) == top(relocate_line(data, MOVE))
        assert top(data) != top(spoilt)


def test_the_proof_sees_a_change_in_a_directory_that_is_no_text():
    data = line(type="user", cwd=[OLD])
    assert relocate_line(data, MOVE) == data
    assert differs_only_in_cwd(data, data, MOVE)
    assert not differs_only_in_cwd(data, data.replace(b'"/', b'"', 1), MOVE)


def test_the_proof_wants_the_move():
    data = line(type="user", cwd=OLD)
    assert not differs_only_in_cwd(data, data, MOVE)
    assert not differs_only_in_cwd(data, line(type="user", cwd="/tmp"), MOVE)
    assert not differs_only_in_cwd(data, line(cwd=NEW, type="user"), MOVE)
    assert not differs_only_in_cwd(data, line(type="user"), MOVE)
    twice = b'{"cwd":"%s","b":{"cwd":"%s"}}'
    old = twice.replace(b"%s", OLD.encode())
    assert not differs_only_in_cwd(old, twice.replace(b"%s", NEW.encode()), MOVE)


def test_nothing_is_given_that_is_not_proven(monkeypatch):
    def careless(data, move):
        return data.replace(move.old.encode(), move.new.encode())

    monkeypatch.setattr(relocate, "relocate_line", careless)
    good = line(type="user", cwd=OLD)
    bad = line(type="user", message=OLD, cwd=OLD)
    given = []
    with pytest.raises(WriteFailed):
        given.extend(Relocation(MOVE).lines([good + bad]))
    assert given == [line(type="user", cwd=NEW)]


# -- logs -----------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_cutting_into_lines_loses_no_byte(chunks, cap):
    found = list(split(chunks, cap=cap))
    whole = b"".join(chunks)
    assert b"".join(piece for piece, _ in found) == whole
    if len(whole) <= cap:
        assert [piece for piece, _ in found] == re.findall(rb"[^\n]*\n|[^\n]+", whole)
    for piece, is_whole in found:
        assert not is_whole or (len(piece) <= cap and b"\n" not in piece[:-1])


def test_a_line_past_the_cap_goes_by_untouched():
    long = line(type="user", cwd=OLD, x="y" * 500)
    short = line(type="user", cwd=OLD)
    moving = Relocation(MOVE, cap=200)
    data = short + long + short
    out = b"".join(moving.lines(data[at : at + 64] for at in range(0, len(data), 64)))
    assert out == line(type="user", cwd=NEW) + long + line(type="user", cwd=NEW)
    assert moving.changed == 2


def test_what_was_changed_is_counted():
    moving = Relocation(MOVE)
    data = (
        line(cwd=OLD) + line(cwd="/tmp") + line(type="mode") + b"rubbish\n" + line(cwd=OLD + "/a")
    )
    list(moving.lines([data]))
    assert (moving.changed, moving.elsewhere) == (2, 1)


def test_the_project_is_the_directory_that_the_log_is_filed_under():
    log = [line(type="mode"), line(cwd="/tmp"), line(cwd=OLD + "/src"), line(cwd=OLD)]
    assert project_in(log, key_of(OLD)) == OLD
    assert project_in(log, hash_of(OLD)) == OLD
    assert project_in(log, "a-name-of-its-own") == "/tmp"
    assert project_in(log, None) == "/tmp"
    assert project_in([line(type="mode"), b"\xff\n"], "x") is None


def test_long_paths_are_found_by_their_cut_key():
    long = "/" + "/".join(["a" * 30] * 10)
    old_hash = key_of(long)[:200] + "-zzzz"
    assert project_in([line(cwd="/tmp"), line(cwd=long)], old_hash) == long
    assert len(key_of(long)) > 200


def test_the_shape_tells_records_and_threads_apart():
    def record(uuid, parent, **more):
        return line(type="user", uuid=uuid, parentUuid=parent, message={"content": uuid}, **more)

    log = record("a", None, cwd=OLD) + record("b", "a", cwd=OLD) + b"rubbish\n" + line(type="mode")
    shape = shape_of([log])
    assert shape_of(Relocation(MOVE).lines([log])) == shape
    assert shape_of([log[:50], log[50:]]) == shape
    for other in (
        log + line(type="mode"),
        log.replace(b"rubbish", b"rubbis"),
        log.replace(b'"parentUuid":"a"', b'"parentUuid":"x"'),
        record("b", "a") + record("a", None) + b"rubbish\n" + line(type="mode"),
        log[: len(record("a", None, cwd=OLD))],
    ):
        assert shape_of([other]) != shape


def test_paths_of_windows_are_told_by_their_beginning():
    assert all(map(is_windows, ["C:\\x", "c:/x", "C:", "\\\\nas\\x"]))
    assert not any(map(is_windows, ["/c/x", "C", "", "x:y", "~\\x"]))
