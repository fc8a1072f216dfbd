"""Tab: commands, options, sessions, projects and models complete, in real shells too."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[3] / "samples" / "claude"
HARVEST = "2d3f0bf3-504d-4d95-a72f-8dab7e41fade"


@pytest.fixture
def completed(turnlog, tmp_path):
    """Tell what the shell is told for a line; the words of the last one are begun."""

    def complete(*words, home=SAMPLES):
        code, out, err = turnlog(
            _TURNLOG_COMPLETE="bash_complete",
            COMP_WORDS=" ".join(("turnlog", *words)),
            COMP_CWORD=str(len(words)),
            CLAUDE_CONFIG_DIR=str(home),
            TURNLOG_HOME=str(tmp_path / "own"),
        )
        assert (code, err) == (0, "")
        return [line.partition(",")[2] for line in out.splitlines() if line]

    return complete


def test_commands_and_options(completed):
    assert {"cost", "compact", "convert"} <= set(completed("co"))
    assert "--since" in completed("cost", "--si")


def test_sessions_are_told_with_and_without_an_index(completed, turnlog, tmp_path):
    for _ in range(2):
        assert completed("show", "2d3") == [HARVEST]
        assert completed("show", "lat") == ["latest"]
        turnlog("refresh", CLAUDE_CONFIG_DIR=str(SAMPLES), TURNLOG_HOME=str(tmp_path / "own"))
    assert "/home/ada/orchard" in completed("cost", "--project", "/home/ada/o")
    assert "claude-sonnet-4-5-20250929" in completed("cost", "--model", "claude-s")
    assert completed("sessions", "--tool", "Ba") == ["Bash"]


def test_filters_are_completed(completed, turnlog, tmp_path):
    turnlog("refresh", CLAUDE_CONFIG_DIR=str(SAMPLES), TURNLOG_HOME=str(tmp_path / "own"))
    assert completed("query", "tools", "is_") == ["is_error="]
    assert "content_type=" in completed("query", "messages", "")
    assert "content_type=" not in completed("query", "tools", "")
    assert completed("query", "tools", "status=e") == ["status=error"]
    assert completed("query", "tools", "tool!=Ba") == ["tool!=Bash"]
    assert completed("query", "tools", "nothing=e") == []


def test_a_project_is_offered_by_its_name_too(completed, turnlog, tmp_path):
    turnlog("refresh", CLAUDE_CONFIG_DIR=str(SAMPLES), TURNLOG_HOME=str(tmp_path / "own"))
    assert "orchard" in completed("cost", "--project", "orch")


def test_whatever_is_wrong_tab_is_quiet(completed, tmp_path):
    assert "--help" in completed("sesions", "--")
    assert completed("cost", "--since", "someday", "--mod") == ["--model", "--mode"]
    assert completed("show", "2d3", home=tmp_path / "nowhere") == []
    (tmp_path / "own").write_text("a file")
    assert completed("cost", "--model", "claude-o") == []


def test_hostile_names_are_not_offered(completed, tmp_path):
    project = tmp_path / "home" / "projects" / "-x"
    project.mkdir(parents=True)
    (project / "a\x1b[31mb.jsonl").write_bytes(b"{}\n")
    assert completed("show", "a", home=tmp_path / "home") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(turnlog, shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    code, out, _ = turnlog("completion", shell)
    assert code == 0
    script = tmp_path / "script"
    script.write_text(out)
    subprocess.run([shell, "-n", str(script)], check=True)


def make_program(path):
    """Write a program that is turnlog."""
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.argv[0] = 'turnlog'\n"
        "from turnlog.cli import main\nmain()\n"
    )
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        ("show 2d3", HARVEST),
        ("sessions --project /home/ada/o", "/home/ada/orchard"),
        ("errors --tool Ba", "Bash"),
        ("query tools stat", "status="),
    ],
)
def test_bash_completes(turnlog, tmp_path, words, reply):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    script = turnlog("completion", "bash")[1]
    make_program(tmp_path / "turnlog")
    asked = (
        f"{script}\nPATH={tmp_path}:$PATH\nCOMP_WORDS=(turnlog {words})\n"
        f"COMP_CWORD={len(words.split())}\ncompopt() {{ :; }}\n"  # Which wants a real Tab.
        '_turnlog_completion turnlog\necho "${COMPREPLY[@]}"\n'
    )
    own = {"CLAUDE_CONFIG_DIR": str(SAMPLES), "TURNLOG_HOME": str(tmp_path / "own")}
    turnlog("refresh", **own)
    done = subprocess.run(
        [bash, "-c", asked],
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HOME": str(tmp_path),
            **own,
        },
    )
    assert done.stdout.strip() == reply


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("sessions --project ", "/home/ada/lighthouse"),
        ("sessions --project /home/ada/o", "/home/ada/orchard"),
        ("sessions --project orch", "orchard"),
        ("show 2d3", HARVEST),
    ],
)
def test_zsh_completes(turnlog, tmp_path, typed, completed):
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("no zsh here")
    own = {"CLAUDE_CONFIG_DIR": str(SAMPLES), "TURNLOG_HOME": str(tmp_path / "own")}
    turnlog("refresh", **own)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bin").mkdir()
    make_program(tmp_path / "bin" / "turnlog")
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb"}
    begin = "autoload -U compinit; compinit -u -D; setopt menu_complete"
    script = f'{begin}; eval "$(turnlog completion zsh)"; PS1=; print rea""dy\n'
    # What is typed behind Tab waits until it is completed. The line is printed, not run.
    keys = f"turnlog {typed}\t\x01print -r -- 'li''ne: '\n"
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [zsh, "-f", "-i"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=env | own, cwd=tmp_path / "empty",
        start_new_session=True,
    ) as shell:  # fmt: skip
        os.close(theirs)
        try:
            os.write(ours, script.encode())
            shown_until(ours, rb"\nready\r\n")
            os.write(ours, keys.encode())
            shown = shown_until(ours, rb"\nline: [^\r]*\r\n")
        finally:
            shell.kill()
            os.close(ours)
    assert shown.decode().split("line: ")[-1].split()[-1] == completed


def shown_until(terminal, pattern):
    """Read what a terminal shows until *pattern* is there; give what it matches."""
    shown = b""
    while (found := re.search(pattern, shown)) is None:
        readable, _, _ = select.select([terminal], [], [], 30)
        assert readable, shown
        shown += os.read(terminal, 65536)
    return found[0]
