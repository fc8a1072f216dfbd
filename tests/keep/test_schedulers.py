"""What runs every hour: written so that its reader reads it as it was meant, and taken away again.

The programs that would act on it (systemctl, crontab, launchctl) are played by small ones that note
how they were called; what is written for them is read by the real systemd, shell and plist reader.
"""

import configparser
import os
import plistlib
import shutil
import subprocess

import pytest

from turnlog.errors import UsageError, WriteFailed
from turnlog.formats.settings_changes import carry_out
from turnlog.keep.schedule import (
    Cron,
    Launchd,
    Systemd,
    agent_plist,
    available_schedule,
    cron_line,
    service_unit,
    timer_unit,
)

WORDS = ("/opt/turnlog/bin/turnlog", "keep", "--quiet")
ODD = ["plain", "a b", "it's", 'say "x"', "$HOME", "100%", "%h", "a;b", "`id`", "é\\n", "x=y", "#"]

SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$NOTES/systemctl"
case "$2" in
  is-enabled) test -e "$NOTES/enabled" ;;
  enable) touch "$NOTES/enabled" ;;
  disable) rm "$NOTES/enabled" ;;
  show-environment) test ! -e "$NOTES/no-bus" ;;
esac
"""
CRONTAB = """#!/bin/sh
echo "$@" >> "$NOTES/crontab"
case "$1" in
  -l) test ! -e "$NOTES/refuses" || { echo "cannot open: Permission denied" >&2; exit 1; }
      cat "$NOTES/table" 2>/dev/null || { echo "no crontab for ada" >&2; exit 1; } ;;
  -r) rm "$NOTES/table" ;;
  -) cat > "$NOTES/table" ;;
esac
"""
LAUNCHCTL = """#!/bin/sh
echo "$@" >> "$NOTES/launchctl"
"""


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """A directory for what the programs note; none of them is on the PATH yet."""
    for name in ("notes", "bin", "user"):
        (tmp_path / name).mkdir()
    for name in ("sh", "cat", "rm", "touch", "test"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path / "notes"


def there_is(notes, name, script):
    program = notes.parent / "bin" / name
    program.write_text(script)
    program.chmod(0o755)


def calls(notes, name):
    path = notes / name
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def test_the_first_that_works_is_used_and_then_the_one_in_use(notes):
    assert available_schedule() is None
    there_is(notes, "crontab", CRONTAB)
    assert available_schedule().kind == "cron"
    there_is(notes, "systemctl", SYSTEMCTL)
    assert available_schedule().kind == "systemd"
    (notes / "no-bus").touch()  # As in a container.
    assert available_schedule().kind == "cron"
    carry_out(Cron().install(WORDS, {}))
    (notes / "no-bus").unlink()
    assert available_schedule().kind == "cron"
    (notes / "refuses").touch()
    assert available_schedule().kind == "systemd"


def test_a_timer_comes_and_goes(notes):
    there_is(notes, "systemctl", SYSTEMCTL)
    units = notes.parent / "user" / ".config" / "systemd" / "user"
    step = Systemd().install(WORDS, {"TURNLOG_HOME": "/data"})
    assert step.state == "missing"
    assert not units.exists()  # Nothing is done by saying it.
    carry_out(step)
    assert sorted(os.listdir(units)) == ["turnlog-keep.service", "turnlog-keep.timer"]
    assert [line for line in calls(notes, "systemctl") if "show" not in line] == [
        "--user daemon-reload",
        "--user enable --now turnlog-keep.timer",
    ]

    again = Systemd().install(WORDS, {"TURNLOG_HOME": "/data"})
    assert (again.state, again.deeds) == ("installed", ())
    moved = Systemd().install(("/new/turnlog", *WORDS[1:]), {"TURNLOG_HOME": "/data"})
    assert moved.state == "outdated"
    calls(notes, "systemctl")
    carry_out(moved)
    assert calls(notes, "systemctl")[-1] == "--user restart turnlog-keep.timer"
    assert "/new/turnlog" in (units / "turnlog-keep.service").read_text()

    (units / "mine.timer").write_text("[Timer]\n")
    carry_out(Systemd().uninstall())
    assert os.listdir(units) == ["mine.timer"]
    assert "--user disable --now turnlog-keep.timer" in calls(notes, "systemctl")
    assert Systemd().uninstall().state == "missing"
    assert not Systemd().uninstall().deeds


def test_a_timer_that_somebody_stopped_is_not_called_installed(notes):
    there_is(notes, "systemctl", SYSTEMCTL)
    carry_out(Systemd().install(WORDS, {}))
    (notes / "enabled").unlink()
    step = Systemd().install(WORDS, {})
    assert step.state == "missing"
    carry_out(step)
    assert (notes / "enabled").exists()


def test_a_timer_is_taken_away_where_systemd_is_no_more(notes):
    there_is(notes, "systemctl", SYSTEMCTL)
    carry_out(Systemd().install(WORDS, {}))
    (notes.parent / "bin" / "systemctl").unlink()
    carry_out(Systemd().uninstall())
    assert Systemd().uninstall().state == "missing"


def test_a_command_that_fails_says_so_and_what_helps(notes):
    there_is(notes, "systemctl", "#!/bin/sh\necho 'no medium found' >&2; exit 1\n")
    with pytest.raises(WriteFailed, match="no medium found") as caught:
        carry_out(Systemd().install(WORDS, {}))
    assert "turnlog hooks remove" in caught.value.hint


def test_a_unit_that_cannot_be_read_is_not_replaced(notes):
    units = notes.parent / "user" / ".config" / "systemd" / "user"
    (units / "turnlog-keep.service").mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot be read"):
        Systemd().install(WORDS, {})


@pytest.fixture
def verify(tmp_path):
    """Have the real systemd read the units; it looks for the program too."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("no systemd here")
    (tmp_path / "run").mkdir(mode=0o700)

    def read(**units):
        for ending, text in units.items():
            (tmp_path / f"turnlog-keep.{ending}").write_text(text)
        paths = [str(tmp_path / f"turnlog-keep.{ending}") for ending in units]
        done = subprocess.run(
            [tool, "verify", "--user", "--man=no", *paths],
            env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path / "run")},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stderr

    return read


def program_at(place):
    place.mkdir(parents=True, exist_ok=True)
    program = place / "turnlog"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("odd", ODD)
def test_systemd_reads_the_units(tmp_path, verify, odd):
    program = program_at(tmp_path / odd)
    words = (program, "keep", "--quiet", "--home", f"/home/{odd}")
    service = service_unit(words, {"TURNLOG_HOME": f"/data/{odd}", "CLAUDE_CONFIG_DIR": odd})
    assert verify(service=service, timer=timer_unit()) == (0, "")


def test_the_real_systemd_would_notice(tmp_path, verify):
    code, said = verify(service=service_unit((str(tmp_path / "nowhere"), "keep"), {}))
    assert code != 0
    assert "nowhere" in said


@pytest.mark.parametrize("odd", ODD)
def test_units_say_what_was_meant(odd):
    """As systemd reads it: quotes, then specifiers, then variables."""
    words = (f"/opt/{odd}/turnlog", "keep", "--home", f"/home/{odd}")
    unit = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    unit.optionxform = str
    unit.read_string(service_unit(words, {"TURNLOG_HOME": f"/data/{odd}"}))
    program, *rest = unquoted(unit["Service"]["ExecStart"])
    rest = [word.replace("$$", "\0").replace("\0", "$") for word in rest]
    if program == "/bin/sh":
        assert rest[:2] == ["-c", 'exec "$0" "$@"']
        program, *rest = rest[2:]
    assert (program, *rest) == words
    assert unquoted(unit["Service"]["Environment"]) == [f"TURNLOG_HOME=/data/{odd}"]
    condition = unit["Unit"]["ConditionFileIsExecutable"].replace("%%", "%")
    assert condition == words[0]
    assert unit["Service"]["Type"] == "oneshot"


def unquoted(line):
    """Split a line as systemd does."""
    words, word, at, quoted = [], None, 0, False
    while at < len(line):
        each = line[at]
        if each == "\\":
            at += 1
            word = (word or "") + line[at]
        elif each == '"':
            quoted, word = not quoted, word or ""
        elif each == " " and not quoted:
            words, word = [*words, word], None
        elif each == "%":
            at += 1
            assert line[at] == "%", "a specifier"
            word = (word or "") + "%"
        else:
            word = (word or "") + each
        at += 1
    assert not quoted
    return [*words, word]


@pytest.mark.parametrize("odd", ODD)
def test_cron_and_its_shell_read_the_line(tmp_path, odd):
    place = tmp_path / odd
    place.mkdir()
    program = place / "turnlog"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$CLAUDE_CONFIG_DIR" "$@" > "$0.said"\n')
    program.chmod(0o755)
    words = (str(program), "keep", "--home", f"/home/{odd}")
    line = cron_line(words, {"CLAUDE_CONFIG_DIR": odd})
    assert line.endswith("\n")
    assert line.count("\n") == 1
    minute, hour, *_, command = line.split(" ", 5)
    assert (int(minute) < 60, hour) == (True, "*")
    # What cron does to a command: an escaped % loses its backslash, a bare one ends the command.
    assert "%" not in command.replace(r"\%", "")
    subprocess.run(["/bin/sh", "-c", command.replace(r"\%", "%")], check=True)
    assert (place / "turnlog.said").read_text() == f"{odd}\nkeep\n--home\n/home/{odd}\n"


@pytest.mark.parametrize(
    "table",
    [
        None,
        b"",
        b"0 5 * * * backup\n",
        b"# turnlog keep\nMAILTO=ada\n@daily x",
        b"\xff\xfe\n0 1 * * * a\x0cb \xe2\x80\xa8c\n",
        b"# 17 * * * * turnlog keep # turnlog keep\n",
    ],
    ids=["none", "empty", "a line", "no last newline", "any bytes", "commented out"],
)
def test_a_cron_line_comes_and_goes(notes, table):
    there_is(notes, "crontab", CRONTAB)
    if table is not None:
        (notes / "table").write_bytes(table)
    carry_out(Cron().install(WORDS, {"TURNLOG_HOME": "/data"}))
    found = (notes / "table").read_bytes()
    assert found.startswith(table or b"")
    assert found.count(b"TURNLOG_HOME=/data /opt/turnlog/bin/turnlog keep --quiet") == 1

    again = Cron().install(WORDS, {"TURNLOG_HOME": "/data"})
    assert (again.state, again.deeds) == ("installed", ())
    moved = Cron().install(("/new/turnlog", "keep"), {})
    assert moved.state == "outdated"
    carry_out(moved)
    found = (notes / "table").read_bytes()
    assert found.count(b"/new/turnlog") == 1
    assert b"/opt/turnlog" not in found

    carry_out(Cron().uninstall())
    left = (notes / "table").read_bytes() if (notes / "table").exists() else b""
    assert left.rstrip(b"\n") == (table or b"").rstrip(b"\n")
    assert Cron().uninstall().state == "missing"


def test_a_crontab_that_cannot_be_read_is_never_replaced(notes):
    there_is(notes, "crontab", CRONTAB)
    (notes / "table").write_text("0 5 * * * backup\n")
    (notes / "refuses").touch()
    for step in (Cron().install(WORDS, {}), Cron().uninstall()):
        assert (step.state, step.deeds) == ("refused", ())
        assert step.reason
    assert not Cron().is_usable()
    assert set(calls(notes, "crontab")) == {"-l"}


def test_an_agent_of_launchd_comes_and_goes(notes):
    there_is(notes, "launchctl", LAUNCHCTL)
    agents = notes.parent / "user" / "Library" / "LaunchAgents"
    assert Launchd().is_usable()
    carry_out(Launchd().install(WORDS, {"TURNLOG_HOME": "/data"}))
    assert os.listdir(agents) == ["turnlog.keep.plist"]
    (load,) = calls(notes, "launchctl")
    assert load == f"bootstrap gui/{os.getuid()} {agents / 'turnlog.keep.plist'}"
    assert Launchd().install(WORDS, {"TURNLOG_HOME": "/data"}).state == "installed"
    carry_out(Launchd().install(("/new/turnlog", "keep"), {}))
    assert [line.split()[0] for line in calls(notes, "launchctl")] == ["bootout", "bootstrap"]
    carry_out(Launchd().uninstall())
    assert os.listdir(agents) == []
    assert calls(notes, "launchctl") == [f"bootout gui/{os.getuid()}/turnlog.keep"]
    assert Launchd().uninstall().state == "missing"


@pytest.mark.parametrize("odd", [*ODD, "<&>"])
def test_launchd_reads_the_agent(odd):
    words = [f"/opt/{odd}/turnlog", "keep", "--home", odd]
    agent = plistlib.loads(agent_plist(words, {"TURNLOG_HOME": odd}).encode())
    assert agent["ProgramArguments"] == words
    assert agent["EnvironmentVariables"] == {"TURNLOG_HOME": odd}
    assert agent["StartInterval"] == 3600


@pytest.mark.parametrize("write", [cron_line, service_unit])
@pytest.mark.parametrize("odd", ["\n", "\r", "\x00", "\x85", "\u2028", "\x1b"])
def test_what_would_begin_another_line_is_refused(write, odd):
    place = f"/home/ada{odd}* * * * * id"
    for words, environ in ((WORDS, {"TURNLOG_HOME": place}), ((*WORDS, "--home", place), {})):
        with pytest.raises(UsageError, match="that a command line in settings cannot have"):
            write(words, environ)
