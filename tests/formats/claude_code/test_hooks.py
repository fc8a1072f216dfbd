"""Somebody's settings.json with our hook in it, and without: nothing else is ever different."""

import json
import os
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampling import examples
from turnlog.errors import WriteFailed
from turnlog.formats import Home
from turnlog.formats.claude_code.hooks import (
    COPY_NAME,
    hook_command,
    hook_step,
    hooks_in,
    unhook_step,
    with_hook,
    without_hook,
)
from turnlog.formats.claude_code.settings_text import read_object
from turnlog.formats.settings_changes import carry_out

COMMAND = "/opt/turnlog/bin/turnlog keep --hook || true"
OURS = {"type": "command", "command": COMMAND, "timeout": 60}
THEIRS = {"type": "command", "command": "notify-send 'it ended'"}

keys = st.text(max_size=6).filter(lambda key: key != "hooks")
scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=12)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
handlers = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("command"), "command": st.text(max_size=12)},
        optional={"timeout": st.integers(1, 60)},
    ),
    max_size=3,
)
groups = st.fixed_dictionaries({"hooks": handlers}, optional={"matcher": st.text(max_size=4)})
events = st.dictionaries(st.sampled_from(["Stop", "SessionEnd", "PreToolUse"]), st.lists(groups))
styles = st.sampled_from([None, 0, 1, 2, 4, "\t"])


@st.composite
def settings_texts(draw):
    document = draw(st.dictionaries(keys, values, max_size=4))
    if draw(st.booleans()):
        document["hooks"] = draw(events)
        if draw(st.booleans()):  # Not always the last.
            document = dict(sorted(document.items()))
    style, ascii_only = draw(styles), draw(st.booleans())
    dense = (",", ":") if draw(st.booleans()) else None
    text = json.dumps(document, indent=style, ensure_ascii=ascii_only, separators=dense)
    text += draw(st.sampled_from(["", "\n", "\n\n"]))
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def has_empty_container(text):
    """What holds nothing at all is the one thing that leaves with us."""
    hooks = json.loads(text).get("hooks")
    return hooks is not None and (not hooks or hooks.get("SessionEnd") == [])


@given(settings_texts())
@settings(max_examples=examples(150))
def test_the_hook_is_put_and_taken_and_nothing_else_changes(text):
    after = with_hook(text, COMMAND)
    assert hooks_in(after) == [COMMAND]
    assert with_hook(after, COMMAND) == after

    expected = json.loads(text)
    at_end = expected.setdefault("hooks", {}).setdefault("SessionEnd", [])
    at_end.append({"hooks": [OURS]})
    found = json.loads(after)
    assert found == expected
    assert list(found) == list(expected)  # In the same order.
    assert ("\r\n" in after) == ("\r\n" in text)

    if not has_empty_container(text):
        assert without_hook(after) == text
    else:
        left = json.loads(without_hook(after))
        assert left.get("hooks", {}) == {
            event: each
            for event, each in json.loads(text)["hooks"].items()
            if each or event != "SessionEnd"
        }


@given(settings_texts())
def test_every_byte_of_before_is_there_in_its_order(text):
    after = with_hook(text, COMMAND)
    pieces = zip(text, after, strict=False)
    start = next((at for at, (old, new) in enumerate(pieces) if old != new), len(text))
    assert after.rstrip().endswith(text[start:].strip())


@given(settings_texts(), st.text(min_size=1, max_size=20))
def test_another_command_of_ours_is_brought_up_to_date(text, odd):
    old = hook_command([f"/old {odd}/turnlog"], {"TURNLOG_HOME": f"/data {odd}"})
    found = with_hook(with_hook(text, old), COMMAND)
    assert found == with_hook(text, COMMAND)


def test_it_is_written_as_the_file_is():
    text = '{\n\t"model": "opus",\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n'
    assert with_hook(text, "turnlog keep --hook") == (
        '{\n\t"model": "opus",\n\t"hooks": {\n\t\t"Stop": [],\n\t\t"SessionEnd": [\n\t\t\t{\n'
        '\t\t\t\t"hooks": [\n\t\t\t\t\t{\n\t\t\t\t\t\t"type": "command",\n'
        '\t\t\t\t\t\t"command": "turnlog keep --hook",\n\t\t\t\t\t\t"timeout": 60\n'
        "\t\t\t\t\t}\n\t\t\t\t]\n\t\t\t}\n\t\t]\n\t}\n}\n"
    )
    dense = with_hook('{"model":"opus"}', "turnlog keep --hook")
    assert dense == (
        '{"model":"opus","hooks":{"SessionEnd":[{"hooks":[{"type":"command",'
        '"command":"turnlog keep --hook","timeout":60}]}]}}'
    )


def test_somebodys_own_timeout_and_matcher_stay():
    old = {"type": "command", "command": "/old/turnlog keep --hook", "timeout": 5, "async": True}
    text = json.dumps({"hooks": {"SessionEnd": [{"matcher": "clear", "hooks": [THEIRS, old]}]}})
    found = json.loads(with_hook(text, COMMAND))
    changed = old | {"command": COMMAND}
    assert found["hooks"]["SessionEnd"] == [{"matcher": "clear", "hooks": [THEIRS, changed]}]
    left = json.loads(without_hook(json.dumps(found)))
    assert left["hooks"]["SessionEnd"] == [{"matcher": "clear", "hooks": [THEIRS]}]


@pytest.mark.parametrize(
    "command",
    [
        "nice turnlog keep --hook",
        "turnlog keep --hook && reboot",
        "turnlog keep",
        "mykeep keep --hook",
        "turnlog keep --hook 'unclosed",
        "python -m turnlog.cli keep --hook; true",
    ],
)
def test_what_we_did_not_write_is_not_ours(command):
    text = json.dumps({"hooks": {"SessionEnd": [{"hooks": [THEIRS | {"command": command}]}]}})
    assert hooks_in(text) == []
    assert without_hook(text) == text


@pytest.fixture
def home(tmp_path):
    path = tmp_path / "home"
    path.mkdir()
    return Home(path)


def settings_of(home):
    return home.path / "settings.json"


def install(home, command=COMMAND):
    step = hook_step(home, command)
    carry_out(step)
    return step


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b" \n",
        b"{}",
        b'{"hooks": {}}\n',
        b'{"hooks": {"SessionEnd": [ ]}}',
        b'\xef\xbb\xbf{\r\n  "model": "opus"\r\n}\r\n',
        b'{"a": 1, "a": 2, "env": {"KEY": "\\u00e9\\ud800"}}',
        b'{"n": ' + b"9" * 5000 + b"}",
        json.dumps({"text": "x" * 2_000_000}).encode(),
    ],
    ids=[
        "none",
        "empty",
        "blank",
        "{}",
        "no event",
        "no hook",
        "BOM, CRLF",
        "twice",
        "long",
        "big",
    ],
)
def test_uninstalling_gives_the_bytes_of_before(home, data):
    path = settings_of(home)
    if data is not None:
        path.write_bytes(data)
        path.chmod(0o644)
    assert install(home).state == "missing"
    assert hook_step(home, COMMAND).state == "installed"
    assert not hook_step(home, COMMAND).deeds
    if data is not None:
        assert (home.path / COPY_NAME).read_bytes() == data
        assert path.stat().st_mode & 0o777 == 0o644
    carry_out(unhook_step(home))
    assert os.listdir(home) == ([] if data is None else ["settings.json"])
    if data is not None:
        assert path.read_bytes() == data
    assert unhook_step(home).state == "missing"


def test_what_others_wrote_in_between_stays(home):
    settings_of(home).write_text('{"hooks": {}}')
    install(home)
    found = json.loads(settings_of(home).read_text()) | {"model": "opus"}
    settings_of(home).write_text(json.dumps(found, indent=2))
    carry_out(unhook_step(home))
    assert json.loads(settings_of(home).read_text()) == {"model": "opus"}
    # It is not what stands there now, so it is not thrown away.
    assert (home.path / COPY_NAME).read_text() == '{"hooks": {}}'


def test_a_copy_that_is_not_ours_misleads_nobody(home):
    settings_of(home).write_text('{"model": "opus"}')
    install(home)
    for odd in (b"\xff\xfe", b"[", b"", b'{"hooks": 7}', settings_of(home).read_bytes()):
        (home.path / COPY_NAME).write_bytes(odd)
        step = unhook_step(home)
        assert json.loads(step.deeds[0].data) == {"model": "opus"}
        assert len(step.deeds) == 1


def test_a_link_stays_a_link(home, tmp_path):
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "claude.json").write_text("{}\n")
    settings_of(home).symlink_to("../dotfiles/claude.json")
    install(home)
    assert settings_of(home).is_symlink()
    assert hooks_in((dotfiles / "claude.json").read_text()) == [COMMAND]
    assert os.listdir(dotfiles) == ["claude.json"]  # Nothing else in somebody's repository.
    carry_out(unhook_step(home))
    assert settings_of(home).is_symlink()
    assert (dotfiles / "claude.json").read_text() == "{}\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"// mine\n{}", "not valid JSON"),
        (b'{"a": 1,}', "not valid JSON"),
        (b'{"a": NaN}', "not valid JSON"),
        (b"{}{}", "not valid JSON"),
        (b"[]", "not an object"),
        (b'"hooks"', "not an object"),
        ("{}".encode("utf-16"), "not valid JSON"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deep"),
        (b'{"hooks": [], "hooks": {}}', "hooks occurs twice"),
        (b'{"hooks": {"SessionEnd": [], "SessionEnd": []}}', "SessionEnd occurs twice"),
        (b'{"hooks": []}', "hooks is not an object"),
        (b'{"hooks": null}', "hooks is not an object"),
        (b'{"hooks": {"SessionEnd": {}}}', "SessionEnd is not a list"),
        (b'{"hooks": {"SessionEnd": "x"}}', "SessionEnd is not a list"),
        (b'{"hooks": {"SessionEnd": ["x"]}}', "hooks.SessionEnd[0] is not an object"),
        (b'{"hooks": {"SessionEnd": [{"type": "command"}]}}', "hooks.SessionEnd[0] has no hooks"),
        (b'{"hooks": {"SessionEnd": [{"hooks": {}}]}}', "hooks.SessionEnd[0].hooks is not a list"),
        (b'{"hooks": {"SessionEnd": [{"hooks": [1]}]}}', "something other than objects"),
        (b'{"hooks": {"SessionEnd": [{"hooks": [{"command": 1}]}]}}', "command is not text"),
        (b" " * (17 * 1024 * 1024), "larger than"),
    ],
)
def test_settings_that_are_not_as_they_should_be_are_left_alone(home, data, words):
    settings_of(home).write_bytes(data)
    for step in (hook_step(home, COMMAND), unhook_step(home)):
        assert step.state == "refused"
        assert words in step.reason
        assert step.hint
        assert not step.deeds
    assert settings_of(home).read_bytes() == data


def test_odd_files_are_refused(home, tmp_path):
    path = settings_of(home)
    os.mkfifo(path)
    assert "not a regular file" in hook_step(home, COMMAND).reason
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    assert "link to nowhere" in hook_step(home, COMMAND).reason
    path.unlink()
    path.mkdir()
    assert hook_step(home, COMMAND).state == "refused"


def test_read_only_settings_belong_to_another_tool(home):
    settings_of(home).write_text("{}")
    settings_of(home).chmod(0o444)
    step = hook_step(home, COMMAND)
    assert (step.state, step.deeds) == ("refused", ())
    assert "read-only" in step.reason
    assert step.command == COMMAND  # It is still told what to put there.


def test_settings_that_changed_since_they_were_shown_are_not_written(home):
    settings_of(home).write_text("{}")
    step = hook_step(home, COMMAND)
    settings_of(home).write_text('{"model": "opus"}')
    with pytest.raises(WriteFailed, match="meantime"):
        carry_out(step)
    assert settings_of(home).read_text() == '{"model": "opus"}'
    settings_of(home).unlink()
    fresh = hook_step(home, COMMAND)
    settings_of(home).write_text('{"model": "opus"}')
    with pytest.raises(WriteFailed, match="meantime"):
        carry_out(fresh)
    assert settings_of(home).read_text() == '{"model": "opus"}'


def test_hooks_that_are_turned_off_are_noted(home):
    settings_of(home).write_text('{"disableAllHooks": true}')
    assert "disableAllHooks" in hook_step(home, COMMAND).notes[0]


@pytest.mark.parametrize("odd", ["a b", "it's", 'say "x"', "$HOME", "100%", "a;b", "`id`", "é\\n"])
def test_a_shell_reads_the_command_as_it_was_meant(tmp_path, odd):
    place = tmp_path / odd
    place.mkdir()
    program = place / "turnlog"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$TURNLOG_HOME" "$@" > "$0.said"; exit 7\n')
    program.chmod(0o755)
    command = hook_command([str(program)], {"TURNLOG_HOME": f"/data/{odd}"})
    assert hooks_in(with_hook("", command)) == [command]
    assert read_object(with_hook("", command))
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True)
    assert done.returncode == 0
    said = (place / "turnlog.said").read_text()
    assert said == f"/data/{odd}\nkeep\n--hook\n"


def test_a_program_that_is_gone_fails_nobody():
    command = hook_command(["/nowhere/turnlog"], {})
    assert subprocess.run(["/bin/sh", "-c", command], capture_output=True).returncode == 0
    assert shlex.split(command)[0] == "/nowhere/turnlog"
