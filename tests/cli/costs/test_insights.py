"""The insights command: its shapes, its edges, and its files."""

import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from redact.planted import plant
from turnlog.records.dates import calendar_period
from turnlog.records.session_summary import PROMPT_LENGTH
from turnlog.text import inert

SESSION = "33333333-cccc-4ccc-8ccc-333333333333"
PROJECT = "/srv/\x1b[31mpears"
BEGIN = datetime(2026, 7, 20, 9, tzinfo=UTC)
WINDOW = ("--since", "2026-07-01", "--until", "2026-08-01", "--timezone", "UTC")


def record(number, **fields):
    at = (BEGIN + timedelta(minutes=7 * number)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    common = {
        "uuid": f"u{number}",
        "sessionId": SESSION,
        "cwd": PROJECT,
        "timestamp": at,
    }
    return json.dumps(common | fields)


def response(number, *blocks):
    usage = {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 3000}
    message = {"role": "assistant", "id": f"m{number}", "model": "claude-opus-4-6", "usage": usage}
    return record(number, type="assistant", message=message | {"content": list(blocks)})


@pytest.fixture
def busy(tmp_path):
    """A home with a session of a few turns and one damaged line."""
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": "no pears", "is_error": True}
    lines = [
        record(0, type="user", message={"role": "user", "content": "prune \x1b[2J the pears"}),
        response(1, call),
        record(2, type="user", message={"role": "user", "content": [failed]}),
        '{"type":"assistant","message":{"usage":{"input_tokens":1,"output_tok',
        response(3, {"type": "text", "text": "done"}),
        record(400, type="user", message={"role": "user", "content": "again"}),
        response(401, {"type": "text", "text": "done"}),
    ]
    folder = tmp_path / "busy" / "projects" / "-srv-pears"
    folder.mkdir(parents=True)
    (folder / f"{SESSION}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "busy"


def test_the_report_shows_every_section_at_any_width(turnlog, busy):
    for columns in ("20", "80", "200"):
        code, out, err = turnlog("insights", "--home", busy, *WINDOW, COLUMNS=columns)
        assert (code, err) == (0, "")
        for word in ("cost", "sessions", "days", "hours", "models", "projects", "tools", "errors"):
            assert word in out
        assert "\x1b" not in out
        assert "Traceback" not in out
    assert "1 damaged or odd record skipped" in out
    assert "no pears" in out
    assert "prune" in out


def test_at_20_columns_no_row_of_a_table_is_wider(turnlog, busy):
    _, out, _ = turnlog("insights", "--home", busy, *WINDOW, COLUMNS="20")
    tables = out.partition("\nmodels\n")[2].partition("\nAn estimate")[0].splitlines()
    rows = [line for line in tables if "$" in line]
    assert rows
    assert max(map(len, rows)) <= 20


def test_json_is_one_document_and_agrees_with_cost(turnlog, busy):
    code, out, _ = turnlog("insights", "--home", busy, *WINDOW, "--json")
    told = json.loads(out)
    _, cost, _ = turnlog("cost", "--home", busy, *WINDOW, "--json")
    assert code == 0
    assert told["totals"] == json.loads(cost)["totals"]
    top = told["overview"]
    assert (top["sessions"], top["prompts"], top["messages"], top["calls"]) == (1, 2, 3, 1)
    assert (top["failed"], top["failure_rate"]) == (1, 1.0)
    assert [(row["day"], row["messages"]) for row in told["days"]] == [
        ("2026-07-20", 2),
        ("2026-07-22", 1),
    ]
    assert told["streaks"]["longest_days"] == 1
    assert told["turns"]["turns"] == 2
    assert told["errors"][0]["example"] == "no pears"


def test_a_figure_is_opened_with_log_and_offset(turnlog, busy):
    code, out, _ = turnlog("insights", "--home", busy, *WINDOW, "--explain", "failures:Bash")
    assert code == 0
    assert "Bash: failed" in out
    assert " at " in out
    code, out, _ = turnlog(
        "insights", "--home", busy, *WINDOW, "--explain", "messages", "--json", "--limit", 2
    )
    told = json.loads(out)
    assert (told["total"], told["next"], len(told["rows"])) == (3, 2, 2)
    with open(told["rows"][0]["log"], "rb") as log:
        log.seek(told["rows"][0]["offset"])
        assert json.loads(log.readline())["type"] == "assistant"
    code, out, _ = turnlog("insights", "--home", busy, *WINDOW, "--explain", "compactions")
    assert code == 1
    assert "No records in this period" in out


def test_nothing_happened_is_said_with_what_helps(turnlog, busy, tmp_path):
    code, out, err = turnlog("insights", "--home", busy, "--since", "2026-08-01")
    assert (code, err) == (1, "")
    assert "last response is from 2026-07-2" in out
    (tmp_path / "empty" / "projects").mkdir(parents=True)
    for columns in ("20", "80"):
        code, out, err = turnlog("insights", "--home", tmp_path / "empty", COLUMNS=columns)
        assert (code, err) == (1, "")
        assert "No sessions found." in out
    code, out, _ = turnlog("insights", "--home", tmp_path / "empty", "--json")
    assert code == 1
    assert json.loads(out)["overview"]["sessions"] == 0


def test_a_session_of_one_damaged_line_is_calm(turnlog, tmp_path):
    folder = tmp_path / "torn" / "projects" / "-srv-pears"
    folder.mkdir(parents=True)
    (folder / f"{SESSION}.jsonl").write_bytes(b'{"type":"assistant","mess')
    code, out, err = turnlog("insights", "--home", tmp_path / "torn")
    assert (code, err) == (1, "")
    assert "No sessions found." in out


def test_a_page_is_written_once_and_whole(turnlog, busy, tmp_path):
    page = tmp_path / "report.html"
    code, out, err = turnlog("insights", "--home", busy, *WINDOW, "--output", page)
    assert (code, out) == (0, "")
    assert "wrote" in err
    html = page.read_text()
    assert html.startswith("<!doctype html>")
    assert "Content-Security-Policy" in html
    page.write_text("mine")
    code, _, err = turnlog("insights", "--home", busy, *WINDOW, "--output", page)
    assert code == 2
    assert "--force" in err
    assert page.read_text() == "mine"
    code, _, _ = turnlog("insights", "--home", busy, *WINDOW, "--output", page, "--force")
    assert page.read_text() == html
    code, _, err = turnlog("insights", "--home", busy, *WINDOW, "--output", "/dev/full/x.html")
    assert code in (2, 3)
    assert err.startswith("error: ")
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


def test_a_page_shows_no_secret_of_a_text_that_is_cut(turnlog, tmp_path):
    """Wherever the cut falls, be it before the sign by which a password is known for one."""
    planted = plant(random.Random(5), "url password")
    lines = []
    for number, room in enumerate(range(len(planted.text))):
        # Errors are shown up to 199 characters, prompts up to PROMPT_LENGTH; each in its own words.
        word = f"{chr(97 + number // 26)}{chr(97 + number % 26)}"
        error = (word * 100)[: 198 - room] + " " + planted.text
        prompt = (word * 100)[: PROMPT_LENGTH - 1 - room] + " " + planted.text
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "ls"}}
        failed = {
            "type": "tool_result", "tool_use_id": f"t{number}", "content": error, "is_error": True,
        }  # fmt: skip
        lines += [
            record(4 * number, type="user", message={"role": "user", "content": prompt}),
            response(4 * number + 1, call),
            record(4 * number + 2, type="user", message={"role": "user", "content": [failed]}),
            response(4 * number + 3, {"type": "text", "text": "done"}),
        ]
    folder = tmp_path / "cut" / "projects" / "-srv-pears"
    folder.mkdir(parents=True)
    (folder / f"{SESSION}.jsonl").write_text("\n".join(lines) + "\n")
    asked = ("insights", "--home", tmp_path / "cut", *WINDOW, "--limit", "0")
    report = json.loads(turnlog(*asked, "--json")[1])
    shown = [row["example"] for row in report["errors"]]
    shown += [row["prompt"] for row in report["turns"]["longest"]]
    assert sum(each.endswith(f"{planted.secret}…") for each in shown) == 2, "no cut tempts"
    code, _, err = turnlog(*asked, "--output", tmp_path / "cut.html")
    assert code == 0, err
    html = (tmp_path / "cut.html").read_text()
    assert html.count("[redacted") + html.count("***") >= 2
    assert planted.secret[:6] not in html


def test_a_summary_has_a_name_of_its_own(turnlog, busy, tmp_path):
    code, _, err = turnlog("insights", "--home", busy, "2026-07", "-o", "july.html")
    assert code == 0, err
    html = (tmp_path / "july.html").read_text()
    assert "July 2026" in html
    assert "pears" not in html
    code, _, err = turnlog("insights", "--home", busy, "2026", "--output", "y.html", "--with-names")
    assert code == 0, err
    assert "pears" in (tmp_path / "y.html").read_text()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("models:opus-4-6", "models:claude-opus-4-6"),
        ("tools:bash", "tools:Bash"),
        ("failures:BASH", "failures:Bash"),
        (f"projects:{inert(PROJECT)}", f"projects:{inert(PROJECT)}"),
        ("subagents:Main", "subagents:main"),
    ],
)
def test_rows_are_opened_by_the_names_that_are_printed(turnlog, busy, name, meant):
    code, out, _ = turnlog("insights", "--home", busy, *WINDOW, "--explain", name)
    assert (code, out.split(" ")[0]) == (0, meant)


def test_a_row_that_nothing_is_called_is_told_with_the_nearest(turnlog, busy):
    code, _, err = turnlog("insights", "--home", busy, *WINDOW, "--explain", "tools:bahs")
    assert code == 2
    assert err == "error: no tool is called 'bahs'\nhint: did you mean 'Bash'?\n"
    early = ("--since", "2025-01-01", "--until", "2025-02-01")
    code, out, _ = turnlog("insights", "--home", busy, *early, "--explain", "tools:bash")
    assert (code, "No records in this period." in out) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("2026-13",),
        ("july",),
        ("20x6",),
        ("9999",),
        ("last", "fortnight"),
        ("2026-07", "--since", "7d"),
        ("--output", "x.pdf"),
        ("--output", "x.html", "--json"),
        ("--with-names",),
        ("--force",),
        ("--since", "2026-08-01", "--until", "2026-07-01"),
        ("--since", "soonish"),
        ("--timezone", "Mars/Olympus"),
        ("--explain", "love"),
        ("--explain", "sequences"),
        ("--limit", "-1"),
    ],
)
def test_mistakes_are_told_with_a_hint(turnlog, busy, arguments):
    code, out, err = turnlog("insights", "--home", busy, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "hint: " in err


def test_a_full_disk_leaves_no_half_page(busy, tmp_path):
    """With a limit on the size of files the write fails midway, as on a full disk."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "from turnlog.cli.app import run;"
        f"run(['insights', '--home', {str(busy)!r}, '--since', '2026-07-01', '--json']);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        f"sys.exit(run(['insights', '--home', {str(busy)!r}, '--no-refresh', '--since',"
        f" '2026-07-01', '--output', {str(tmp_path / 'out' / 'r.html')!r}]))"
    )
    (tmp_path / "out").mkdir()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done.stderr
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (("2026",), 3),
        (("2026-07",), 3),
        (("2026-07-20",), 2),
        (("2026-06",), 0),
        (("last", "month"), 0),
        (("last month",), 0),
        (("yesterday",), 0),
    ],
)
def test_a_period_is_named_as_people_say_it(turnlog, busy, words, messages):
    code, out, err = turnlog("insights", *words, "--home", busy, "--timezone", "UTC", "--json")
    assert (code, err) == (0 if messages else 1, "")
    assert json.loads(out)["overview"]["messages"] == messages


def test_a_summary_of_a_week_says_which(turnlog, busy, tmp_path):
    code, _, err = turnlog("insights", "this", "week", "--home", busy, "-o", "week.html")
    assert code == 1, err
    assert "week of 20" in (tmp_path / "week.html").read_text()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026", ("2026", "2026-01-01", "2027-01-01")),
        ("2026-12", ("2026-12", "2026-12-01", "2027-01-01")),
        ("2026-07-31", ("2026-07-31", "2026-07-31", "2026-08-01")),
        ("last week", ("2026-07-13", "2026-07-13", "2026-07-20")),
        ("This  Month", ("2026-07", "2026-07-01", "2026-08-01")),
        ("last year", ("2025", "2025-01-01", "2026-01-01")),
        ("today", ("2026-07-22", "2026-07-22", "2026-07-23")),
        ("monday", ("2026-07-20", "2026-07-20", "2026-07-21")),
        ("7d", None),
        ("july", None),
    ],
)
def test_periods_of_the_calendar(text, found):
    told = calendar_period(text, now=datetime(2026, 7, 22, 15, tzinfo=UTC), zone=UTC)
    assert (told and (told[0], *(f"{at:%Y-%m-%d}" for at in told[1:]))) == found
