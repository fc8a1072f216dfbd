"""``turnlog statusline``, run as Claude Code runs it: one line, no failure, whatever comes."""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forked
from records.answers import SESSION, answer, log_of
from sampling import examples, sampled
from turnlog.cli.statusline import NOTHING, context_percent, line_of

TURNLOG = [sys.executable, "-P", "-c", "from turnlog.cli import main; main()"]
UPDATE = [sys.executable, "-P", "-m", "turnlog.api.statusline"]
COLOURS = re.compile(r"\x1b\[\d+m")
USED = {"input_tokens": 15_000, "output_tokens": 2_150, "cache_creation_input_tokens": 8_000}
TOLD = {
    "session_id": SESSION,
    "model": {"id": "claude-opus-4-6", "display_name": "Opus 4.6"},
    "workspace": {"current_dir": "/home/ada/kites/src", "project_dir": "/home/ada/kites"},
    "cost": {"total_cost_usd": 1.255, "total_lines_added": 3},
    "version": "2.1.200",
}


class Prompt:
    """Somebody's Claude Code: a home, a log that grows, and a status line."""

    def __init__(self, directory):
        self.home = directory / "home"
        self.own = directory / "own"
        self.log = self.home / "projects" / "-srv-kites" / f"{SESSION}.jsonl"
        self.log.parent.mkdir(parents=True)
        self.log.write_bytes(b"")
        self.told = TOLD | {"transcript_path": os.fspath(self.log)}
        self.cwd = directory
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": os.fspath(directory),
            "CLAUDE_CONFIG_DIR": os.fspath(self.home),
            "TURNLOG_HOME": os.fspath(self.own),
            "NO_COLOR": "1",
        }

    def run(self, *arguments, told=None, **environ):
        told = json.dumps(self.told if told is None else told).encode()
        return run(["statusline", *arguments], told, self.environ | environ, self.cwd)

    def json(self, *arguments):
        done = forked.run([*arguments, "--json"], env=self.environ, cwd=self.cwd)
        return json.loads(done.stdout)

    def append(self, *records):
        with self.log.open("ab") as log:
            log.write(log_of(*records))

    def update(self):
        done = subprocess.run(
            [*UPDATE, SESSION], env=self.environ, cwd=self.cwd, capture_output=True, check=True
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    @property
    def figures_files(self):
        return sorted((self.own / "statusline").glob("*.json"))

    def figures(self):
        (file,) = self.figures_files
        return json.loads(file.read_text())

    def wait_for_update(self):
        """Wait until a background update has come and gone."""
        deadline = time.monotonic() + 180
        while not self.figures_files:
            assert time.monotonic() < deadline, "no update came"
            time.sleep(0.02)
        (lock,) = (self.own / "statusline").glob("*.lock")
        with lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)


def run(arguments, data, environ, cwd):
    done = forked.run(arguments, input=data, env=environ, cwd=cwd)
    assert done.returncode == 0
    return one_line(done.stdout), done.stderr.decode()


def one_line(out):
    text = out.decode("utf-8")
    assert text.endswith("\n")
    assert_inert(text[:-1])
    return text[:-1]


def assert_inert(line):
    assert line.strip()
    for each in COLOURS.sub("", line):
        assert unicodedata.category(each) not in ("Cc", "Zl", "Zp", "Cs"), repr(line)


@pytest.fixture
def prompt(tmp_path):
    return Prompt(tmp_path)


@pytest.fixture
def spent(prompt):
    """A session with two responses of the last hour and one of the day before."""
    now = datetime.now(UTC)
    ages = (timedelta(days=1, hours=3), timedelta(minutes=50), timedelta(minutes=1))
    for number, age in enumerate(ages):
        at = (now - age).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        prompt.append(answer(f"msg_{number}", f"req_{number}", said=USED, timestamp=at))
    return prompt


# -- hostile input --------------------------------------------------------------------------

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)
strange = st.fixed_dictionaries(
    {},
    optional={
        "session_id": st.just(SESSION) | anything,
        "transcript_path": st.sampled_from(["/dev/zero", "/", "\0", "/proc/self/mem", "/\ud800"])
        | anything,
        "cwd": anything,
        "model": anything
        | st.fixed_dictionaries({}, optional={"id": anything, "display_name": anything}),
        "workspace": anything
        | st.fixed_dictionaries({}, optional={"project_dir": anything, "current_dir": anything}),
        "cost": anything | st.fixed_dictionaries({"total_cost_usd": anything}),
        "exceeds_200k_tokens": anything,
        "context_window": anything
        | st.fixed_dictionaries(
            {},
            optional={
                "used_percentage": anything,
                "context_window_size": anything,
                "current_usage": anything | st.fixed_dictionaries({"input_tokens": anything}),
            },
        ),
    },
)
figure = anything | st.fixed_dictionaries({"shown": anything, "cost_usd": anything})
times = st.floats(0, 2e9) | anything
noted = st.fixed_dictionaries(
    {},
    optional={
        "day": anything | st.just(time.strftime("%Y-%m-%d")),
        "today": figure,
        "noted_at": times,
        "sessions": anything | st.fixed_dictionaries({SESSION: figure}),
        "block": figure
        | st.fixed_dictionaries(
            {
                "shown": anything,
                "cost_usd": anything,
                "start_at": st.just(0) | times,
                "end_at": st.just(4e9) | times,
                "first_at": times,
                "last_at": times,
            }
        ),
    },
)
templates = st.text(max_size=30) | st.sampled_from(
    ["", "{model} {block}{x} {age}\n\x1b[31m{today}"]
)


@settings(max_examples=examples(150))
@given(told=strange, figures=noted, template=templates)
def test_any_fields_give_one_inert_line(told, figures, template):
    assert_inert(line_of(told, figures, template, time.time()))


@settings(max_examples=examples(100))
@given(data=st.binary(max_size=200) | strange.map(json.dumps).map(str.encode))
def test_any_bytes_on_stdin_give_one_inert_line(data):
    environ = {"PATH": os.environ["PATH"], "HOME": "/nobody", "TURNLOG_HOME": "/dev/null/own"}
    run(["statusline"], data, environ, "/")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[" * 200_000,
        b'{"model":' * 50_000,
        b"\xff\xfe\x00",
        b'{"cost": {"total_cost_usd": ' + b"9" * 5_000 + b"}}",
        b'{"model": {"display_name": "' + b"x" * 10_000_000 + b'"}}',
        b"}" * 10_000_000,
    ],
    ids=["empty", "null", "deep", "open", "no-text", "long-number", "10-MB", "10-MB-braces"],
)
def test_odd_input(prompt, data):
    environ = prompt.environ | {"TURNLOG_HOME": "/dev/null/own"}
    line, err = run(["statusline"], data, environ, prompt.cwd)
    assert (line, err) == (NOTHING, "")


def test_stdin_that_never_ends_is_not_waited_for(prompt):
    environ = prompt.environ | {"TURNLOG_HOME": "/dev/null/own"}
    for said, wanted in ((b"", NOTHING), (b'{"model":"M"}', "M"), (b'{"model":', NOTHING)):
        with subprocess.Popen(
            [*TURNLOG, "statusline"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
        ) as process:
            process.stdin.write(said)
            process.stdin.flush()
            assert process.stdout.read() == f"{wanted}\n".encode()  # While stdin is open still.
            assert process.wait(10) == 0


def test_a_terminal_and_nothing_at_all_as_stdin(prompt):
    environ = prompt.environ | {"TURNLOG_HOME": "/dev/null/own"}
    leader, terminal = pty.openpty()
    done = subprocess.run(
        [*TURNLOG, "statusline"], stdin=terminal, env=environ, capture_output=True, timeout=30
    )
    os.close(leader)
    os.close(terminal)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{NOTHING}\n".encode(), b"")
    shut = [*TURNLOG[:-1], f"import os; os.close(0); {TURNLOG[-1]}", "statusline"]
    done = subprocess.run(shut, env=environ, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{NOTHING}\n".encode(), b"")


def test_a_reader_that_went_away_is_no_failure(prompt):
    end, start = os.pipe()
    os.close(end)
    done = subprocess.run(
        [*TURNLOG, "statusline"],
        input=b"{}",
        stdout=start,
        stderr=subprocess.PIPE,
        env=prompt.environ,
    )
    os.close(start)
    assert (done.returncode, done.stderr) == (0, b"")


# -- figures --------------------------------------------------------------------------------


def test_the_first_line_says_what_stdin_says_and_the_next_what_the_ledger_says(spent):
    line, err = spent.run()
    assert (line, err) == ("Opus 4.6 · $1.25 session · 12% context", "")
    spent.wait_for_update()
    line, _ = spent.run()
    assert line.startswith("Opus 4.6 · $0.32 session · ")
    assert re.search(
        r" · \$\d\.\d\d today · \$\d\.\d\d block, \dh \d\dm left, \$\d\.\d\d/h · ", line
    )
    assert line.endswith(" · 12% context")


def test_figures_are_those_of_turnlog_cost(spent):
    spent.update()
    figures = spent.figures()
    days = {row["day"]: row["cost_usd"] for row in spent.json("cost")["rows"]}
    assert figures["today"]["cost_usd"] == days.get(figures["day"], "0")
    (session,) = spent.json("cost", "session")["rows"]
    assert figures["sessions"][SESSION]["cost_usd"] == session["cost_usd"] == "0.32175"
    (block,) = [row for row in spent.json("cost", "blocks")["rows"] if row["is_active"]]
    assert figures["block"]["cost_usd"] == block["cost_usd"]
    assert datetime.fromtimestamp(figures["block"]["end_at"], UTC) == datetime.fromisoformat(
        block["end_at"]
    )
    line, _ = spent.run("--template", "{burn}|{left}|{block}")
    burn, left, _ = line.split("|")
    assert float(burn.strip("$/h")) == pytest.approx(float(block["usd_per_hour"]), abs=0.05)
    hours, minutes = re.fullmatch(r"(\d)h (\d\d)m", left).groups()
    assert abs(60 * int(hours) + int(minutes) - block["left_min"]) <= 1


def test_the_samples_too(prompt):
    prompt.environ["CLAUDE_CONFIG_DIR"] = os.fspath(Path(__file__).parents[3] / "samples/claude")
    sessions = {row["session"]: row["cost_usd"] for row in prompt.json("cost", "session")["rows"]}
    assert sessions
    for session, cost in sessions.items():
        command = [*UPDATE, session]
        subprocess.run(command, env=prompt.environ, check=True)
        assert prompt.figures()["sessions"][session]["cost_usd"] == cost


def test_a_log_that_grew_is_looked_at_again(spent):
    spent.run()
    spent.wait_for_update()
    before = spent.figures()["sessions"][SESSION]["cost_usd"]
    time.sleep(1.1)
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    spent.append(answer("msg_9", "req_9", said=USED, timestamp=at))
    spent.run()
    deadline = time.monotonic() + 180
    while spent.figures()["sessions"][SESSION]["cost_usd"] == before:
        assert time.monotonic() < deadline, "no update came"
        time.sleep(0.05)
    assert spent.figures()["sessions"][SESSION]["cost_usd"] == "0.429"


def test_updates_are_not_started_more_often_than_needed(spent):
    spent.run()
    spent.wait_for_update()
    (file,) = spent.figures_files
    file.unlink()
    os.utime(spent.log, (0, 0))
    (lock,) = (spent.own / "statusline").glob("*.lock")
    os.utime(lock)
    spent.run(told=spent.told | {"session_id": None})
    time.sleep(1)
    assert spent.figures_files == [], "the last one was started a moment ago"


def test_many_at_once_share_one_update(spent):
    said = spent.cwd / "said.json"
    said.write_text(json.dumps(spent.told))
    running = []
    for _ in range(5):
        with said.open("rb") as stdin:
            running.append(
                subprocess.Popen(
                    [*TURNLOG, "statusline"],
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=spent.environ,
                    cwd=spent.cwd,
                )
            )
    answers = [(*each.communicate(), each.returncode) for each in running]
    for out, err, code in answers:
        assert (code, err) == (0, b"")
        assert one_line(out).startswith("Opus 4.6 · $")
    spent.wait_for_update()
    assert spent.figures()["sessions"][SESSION]["cost_usd"] == "0.32175"
    assert [each.suffix for each in sorted((spent.own / "statusline").iterdir())] == [
        ".json",
        ".lock",
    ]


def test_a_killed_update_is_made_up_for(spent):
    for wait in (0.05, 0.2):
        command = [*UPDATE, SESSION]
        with subprocess.Popen(command, env=spent.environ, cwd=spent.cwd) as process:
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)
        assert spent.run()[0].startswith("Opus 4.6")
    spent.wait_for_update()
    spent.update()
    assert spent.figures()["sessions"][SESSION]["cost_usd"] == "0.32175"


@pytest.mark.parametrize(
    "data",
    sampled(
        [b"", b"{", b"\0" * 100, b"[]", b'{"version": 0}', b'{"version": 1, "homes": ["/else"]}'],
        5,
    ),
)
def test_a_cache_that_is_not_ours_counts_as_nothing_and_is_replaced(spent, data):
    spent.update()
    (file,) = spent.figures_files
    file.write_bytes(data)
    assert spent.run()[0] == "Opus 4.6 · $1.25 session · 12% context"
    deadline = time.monotonic() + 180
    while file.read_bytes() == data:
        assert time.monotonic() < deadline, "no update came"
        time.sleep(0.05)
    assert spent.run()[0].startswith("Opus 4.6 · $0.32 session")


def test_a_home_that_cannot_be_written_or_does_not_exist(spent):
    in_the_way = spent.cwd / "file"
    in_the_way.write_text("")
    wanted = "Opus 4.6 · $1.25 session · 12% context"
    assert spent.run(TURNLOG_HOME=os.fspath(in_the_way)) == (wanted, "")
    assert spent.run(TURNLOG_HOME=os.fspath(in_the_way / "own")) == (wanted, "")
    read_only = spent.cwd / "read-only"
    read_only.mkdir(mode=0o500)
    assert spent.run(TURNLOG_HOME=os.fspath(read_only)) == (wanted, "")
    assert spent.run("--home", "/srv/nowhere") == (wanted, "")
    assert spent.run(CLAUDE_CONFIG_DIR="/srv/nowhere")[0] == wanted


def test_what_lies_in_the_working_directory_is_not_imported(spent):
    spent.cwd = spent.cwd / "hostile"
    spent.cwd.mkdir()
    for name in ("turnlog", "msgspec", "click", "sqlite3", "platformdirs"):
        (spent.cwd / f"{name}.py").write_text(f"open({os.fspath(spent.cwd / 'ran')!r}, 'w')")
    spent.run()
    spent.wait_for_update()
    assert not (spent.cwd / "ran").exists()
    assert spent.figures()["sessions"][SESSION]["cost_usd"] == "0.32175"


def test_old_figures_say_so(spent, monkeypatch):
    for name in ("COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    spent.update()
    noted = spent.figures()
    assert "old" not in spent.run()[0]
    for seconds, age in ((59, None), (61, "1 min old"), (7300, "2 h old"), (3e5, "3 d old")):
        older = noted | {"noted_at": noted["noted_at"] - seconds}
        line = line_of(spent.told, older, "", noted["noted_at"])
        assert ("old" not in line) if age is None else line.endswith(f"{age}\x1b[0m")


# -- how it looks ---------------------------------------------------------------------------

NOW = 1_700_000_000.0
FIGURES = {
    "day": time.strftime("%Y-%m-%d", time.localtime(NOW)),
    "noted_at": NOW - 200,
    "today": {"shown": "$45.60"},
    "block": {
        "start_at": NOW - 7000,
        "end_at": NOW + 11_000,
        "first_at": NOW - 7200,
        "last_at": NOW - 60,
        "shown": "$12.30",
        "cost_usd": "12.3",
    },
    "sessions": {SESSION: {"shown": "$6.49", "context_tokens": 84_000}},
}


def test_the_whole_line(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    assert line_of(TOLD, FIGURES, "", NOW) == (
        "Opus 4.6 · $6.49 session · $45.60 today · $12.30 block, 3h 03m left, $6.15/h"
        " · 42% context · 3 min old"
    )
    template = "{model}|{session}|{today}|{block}|{left}|{burn}|{context}|{project}|{age}|{x}|{}"
    assert line_of(TOLD, FIGURES, template, NOW) == (
        "Opus 4.6|$6.49|$45.60|$12.30 (3h 03m left)|3h 03m|$6.15/h|42%|kites|3 min|{x}|{}"
    )
    assert line_of({}, {}, "{model} {today}", NOW) == "- -"
    assert line_of({}, {}, "a\nb\x1b[31m", NOW) == "a b␛[31m"


@pytest.mark.parametrize(
    "name", ["Opus 4.6", "模型" * 30, "\u200f\x1b]0;x\x07" * 9, "e\u0301" * 50]
)
@pytest.mark.parametrize("template", ["", "{project} {model} {x} {burn} {context} 模型"])
def test_it_is_never_wider_than_the_terminal(monkeypatch, name, template):
    told = TOLD | {"model": {"display_name": name}}
    for columns in (1, 2, 3, 10, 20, 40, 60, 80, 90, 100, 500):
        monkeypatch.setenv("COLUMNS", str(columns))
        line = COLOURS.sub("", line_of(told, FIGURES, template, NOW))
        wide = [2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in line]
        assert sum(wide) <= columns
    monkeypatch.setenv("COLUMNS", "40")
    assert "context" in line_of(TOLD, FIGURES, "", NOW)


@pytest.mark.parametrize("columns", ["", "0", "-1", "wide", "9" * 50, "²"])
def test_a_width_that_is_none_is_ignored(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert "3 min old" in line_of(TOLD, FIGURES, "", NOW)


def test_colours_are_ours_and_can_be_refused(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    line = line_of(TOLD, FIGURES, "", NOW)
    assert set(COLOURS.findall(line)) == {"\x1b[0m", "\x1b[2m", "\x1b[32m", "\x1b[36m"}
    monkeypatch.setenv("NO_COLOR", "")
    assert line_of(TOLD, FIGURES, "", NOW) == line
    monkeypatch.setenv("NO_COLOR", "1")
    assert line_of(TOLD, FIGURES, "", NOW) == COLOURS.sub("", line)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert line_of(TOLD, FIGURES, "", NOW) == COLOURS.sub("", line)


def test_a_block_that_is_over_and_a_day_that_is_past_are_not_told():
    line = line_of(TOLD, FIGURES, "", NOW + 11_000)
    assert "block" not in line
    assert "left" not in line
    assert "today" not in line_of(TOLD, FIGURES, "", NOW + 90_000)


def test_the_context_is_what_claude_code_says_or_what_the_log_says(prompt):
    window = {"used_percentage": 33.3, "context_window_size": 400_000}
    said = TOLD | {"context_window": window, "transcript_path": os.fspath(prompt.log)}
    assert context_percent(said, 1) == 33.3
    window |= {"used_percentage": None, "current_usage": {"input_tokens": 40_000}}
    assert context_percent(said, 1) == 10
    window["current_usage"] = None
    assert context_percent(said, 100_000) == 25
    usage = {"input_tokens": 5, "cache_read_input_tokens": 99_995, "output_tokens": 7}
    prompt.append(answer(said=usage), answer("msg_2", said=USED, isSidechain=True))
    assert context_percent(said, 1) == 25
    del said["context_window"]
    assert context_percent(said, 1) == 50
    assert context_percent(said | {"model": {"id": "claude-sonnet-4-5[1m]"}}, 1) == 10
    assert context_percent(said | {"exceeds_200k_tokens": True}, 1) == 10
    prompt.append({"type": "user", "message": {"content": "x" * 200_000}})
    assert context_percent(said, 20_000) == 10, "too far from the end: what was noted"
    assert context_percent(TOLD, 300_000) == 30
    assert context_percent(TOLD, None) is None


# -- the command ----------------------------------------------------------------------------


def test_unknown_options_do_not_cost_the_line(prompt):
    environ = {"TURNLOG_HOME": "/dev/null/own"}
    line, err = prompt.run("--tempalte", "{model}", "--template={model}!", **environ)
    assert line == "Opus 4.6!"
    assert err == "warning: statusline: unknown argument --tempalte {model}\n"
    assert prompt.run("--template", **environ)[0] == "Opus 4.6 · $1.25 session"


def test_nothing_slow_is_imported(prompt):
    prompt.update()
    heavy = [
        "click",
        "msgspec",
        "sqlite3",
        "decimal",
        "datetime",
        "subprocess",
        "typing",
        "pathlib",
    ]
    code = (
        "import sys; before = set(sys.modules); from turnlog.cli import main; main();"
        f"print([m for m in {heavy} if m in set(sys.modules) - before], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "statusline"],
        input=json.dumps(prompt.told).encode(),
        env=prompt.environ,
        capture_output=True,
    )
    assert done.stderr == b"[]\n"
