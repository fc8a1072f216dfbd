"""Tab: commands, options, sessions, projects and models complete, in real shells too."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"
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


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        ("show 2d3", HARVEST),
        ("sessions --project /home/ada/o", "/home/ada/orchard"),
        ("query tools --tool Ba", "Bash"),
    ],
)
def test_bash_completes(turnlog, tmp_path, words, reply):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    script = turnlog("completion", "bash")[1]
    program = tmp_path / "turnlog"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.argv[0] = 'turnlog'\n"
        "from turnlog.cli import main\nmain()\n"
    )
    program.chmod(0o755)
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
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **own},
    )
    assert done.stdout.strip() == reply
