"""The hook that turnlog sets up is called by the real `claude`, and keeps what it wrote."""

import json
import os
import subprocess
import sys
import time

from e2e.orchard import ID
from turnlog.formats import claude_log
from turnlog.formats.claude_code.hooks import hooks_in
from turnlog.formats.kept_copies import kept_copy, kept_place
from turnlog.formats.settings_changes import carry_out
from turnlog.keep.schedule import install_steps
from turnlog.storage.compressed import unpack


def test_a_session_is_kept_when_it_ends(claude, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own place"))
    (claude.home / "projects").mkdir(parents=True)
    settings = claude.home / "settings.json"
    settings.write_text('{\n  "cleanupPeriodDays": 99\n}\n')
    hook, *_ = install_steps((claude.home,))
    carry_out(hook)
    assert json.loads(settings.read_text())["cleanupPeriodDays"] == 99

    done = claude("-p", "How many apples?", "--session-id", ID)
    assert done.returncode == 0, done.stderr
    assert "hook" not in done.stderr.lower()

    log = claude_log(claude.home, claude.project, ID)
    copy = kept_copy(kept_place(claude.home), log.relative_to(claude.home).as_posix())
    end = time.monotonic() + 180
    while not copy.exists():  # It goes on by itself if the program did not wait for it.
        assert time.monotonic() < end, "the hook was not called"
        time.sleep(0.05)
    kept = b"".join(unpack(copy))
    assert log.read_bytes().startswith(kept)
    assert b"fake answer" in kept
    assert hooks_in(settings.read_text())  # The program still has it in its settings.


def test_claude_reads_the_settings_with_our_hook_beside_others(claude, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    (claude.home / "projects").mkdir(parents=True)
    theirs = {"type": "command", "command": f"touch {tmp_path / 'theirs'}"}
    settings = claude.home / "settings.json"
    settings.write_text(json.dumps({"hooks": {"SessionEnd": [{"hooks": [theirs]}]}}))
    hook, *_ = install_steps((claude.home,))
    carry_out(hook)
    assert claude("-p", "How many apples?", "--session-id", ID).returncode == 0
    end = time.monotonic() + 180
    mirror = kept_place(claude.home)
    while not (mirror.exists() and (tmp_path / "theirs").exists()):
        assert time.monotonic() < end
        time.sleep(0.05)
    code = "from turnlog.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "keep", "--home", str(claude.home), "--quiet"],
        capture_output=True,
        env=dict(os.environ),
    )
    assert (done.returncode, done.stderr) == (0, b"")
