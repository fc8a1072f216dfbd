"""Sequences, files, series and errors are those of a plain look at the logs."""

import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.homes import lines, log_path, made_home
from search.query_trees import BEGIN, PROJECTS, SESSIONS, TOOLS, built, events, opened
from turnlog.errors import NotFound, UsageError
from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh
from turnlog.query.errors import API, error_context, error_patterns
from turnlog.query.patterns import METRICS, file_access, time_series, tool_sequences
from turnlog.text import one_line

SINCE = BEGIN + timedelta(minutes=2)
periods = st.sampled_from([{}, {"since": SINCE}, {"until": SINCE}, {"project": PROJECTS[0]}])


def is_within(row, period):
    """Look plainly at whether a row lies in a period and a project."""
    at = row["at"]
    if "since" in period and (at is None or at < period["since"]):
        return False
    if "until" in period and (at is None or at >= period["until"]):
        return False
    project = period.get("project")
    return project is None or (f"{row['project']}/").startswith(f"{project}/")


def runs(tree, home, period):
    """Give every run of two to five calls of each log, with its first call."""
    logs = {}
    for row in tree.tools(home):
        if is_within(row, period):
            logs.setdefault(row["log"], []).append(row)
    for rows in logs.values():
        for length in range(2, 6):
            for start in range(len(rows) - length + 1):
                run = rows[start : start + length]
                yield tuple(row["tool_name"] for row in run), run[0]


@given(events, st.integers(1, 3), periods)
def test_sequences_are_counted_wherever_they_begin(plan, least, period):
    with tempfile.TemporaryDirectory() as tmp:
        tree, home = built(Path(tmp), plan)
        with opened(home) as index:
            found = tool_sequences(index, min_occurrences=least, limit=None, **period)
            single = {
                each.sequence: tool_sequences(
                    index, min_occurrences=1, pattern=each.sequence, **period
                )
                for each in found.sequences[:3]
            }
        expected = list(runs(tree, home, period))
    counts = Counter(tools for tools, _ in expected)
    assert {tuple(each.tools): each.count for each in found.sequences} == {
        tools: count for tools, count in counts.items() if count >= least
    }
    for each in found.sequences:
        rows = [row for tools, row in expected if tools == tuple(each.tools)]
        assert each.sessions == len({row["session_id"] for row in rows})
        times = [row["at"] for row in rows if row["at"] is not None]
        assert (each.first_at, each.last_at) == (min(times, default=None), max(times, default=None))
        if each.sequence in single:
            assert single[each.sequence].sequences == [each]
    assert [each.count for each in found.sequences] == sorted(
        (each.count for each in found.sequences), reverse=True
    )


@given(events, periods)
def test_files_have_their_reads_and_edits(plan, period):
    with tempfile.TemporaryDirectory() as tmp:
        tree, home = built(Path(tmp), plan)
        with opened(home) as index:
            found = file_access(index, limit=None, **period)
            one = file_access(index, "1.py", **period)
            exact = file_access(index, "/barn/1.py", **period)
        rows = [row for row in tree.tools(home) if row["file"] and is_within(row, period)]
    touched = Counter((row["file"], row["tool_name"]) for row in rows)
    assert {each.file: (each.reads, each.edits) for each in found.files} == {
        file: (touched[file, "Read"], touched[file, "Edit"])
        for file in {row["file"] for row in rows}
    }
    for each in found.files:
        assert each.total == each.reads + each.edits
        assert (each.writes, each.searches) == (0, 0)
        own = [row for row in rows if row["file"] == each.file]
        assert each.sessions == len({row["session_id"] for row in own})
    assert one.files == exact.files == [each for each in found.files if each.file == "/barn/1.py"]


def test_the_end_of_a_path_is_whole_names(tmp_path):
    _, home = built(tmp_path, [(0, "call", 0, None, "Read", "", 1)])
    with opened(home) as index:
        assert file_access(index, "barn/1.py").files
        assert file_access(index, ".py").files == []
        assert file_access(index, "arn/1.py").files == []


def last_of(message):
    times = [part["at"] for _, part in message["parts"] if part["at"] is not None]
    return max(times, default=None)


def plain_series(tree, home, metric, period):
    """Give the instants of what is counted, with how much, and out of how much."""
    if metric in ("messages", "tokens"):
        rows = [row for row in tree.messages(home) if row["input"] is not None]
        # The ledger dates a response by its last record.
        rows = [row | {"at": last_of(row)} for row in rows]
        rows = [row for row in rows if is_within(row, period)]
        if metric == "messages":
            return [(row["at"], 1, 0) for row in rows]
        return [(row["at"], row["input"] + row["output"], 0) for row in rows]
    if metric == "prompts":
        rows = [row for row in tree.entries(home) if row["role"] == "user"]
        return [(row["at"], 1, 0) for row in rows if is_within(row, period)]
    rows = [row for row in tree.tools(home) if is_within(row, period)]
    if metric == "calls":
        return [(row["at"], 1, 0) for row in rows]
    answered = [row for row in rows if row["is_error"] is not None or metric == "errors"]
    return [(row["at"], int(bool(row["is_error"])), 1) for row in answered]


@given(events, st.sampled_from(METRICS), st.sampled_from(["hour", "day", "week"]), periods)
def test_series_add_up_to_what_happened(plan, metric, interval, period):
    with tempfile.TemporaryDirectory() as tmp:
        tree, home = built(Path(tmp), plan)
        with opened(home) as index:
            found = time_series(index, interval, metric, zone=ZoneInfo("Asia/Kolkata"), **period)
        rows = [row for row in plain_series(tree, home, metric, period) if row[0] is not None]
    total = sum(row[1] for row in rows)
    if metric == "error_rate":
        (value,) = [each.value for each in found.points] or [None]
        assert value == (pytest.approx(total / len(rows)) if rows else None)
        return
    assert sum(each.value for each in found.points) == total
    assert len(found.points) <= 1  # All of it happens within five minutes.


def spread(tmp_path, times):
    """Make a home with one call at each of *times*."""
    _, home = built(tmp_path, [(0, "call", 0, None, "Read", "", 1)] * len(times))
    (log,) = (home / "projects").rglob("*.jsonl")
    lines = log.read_text().splitlines()
    old = BEGIN.strftime("%Y-%m-%dT%H:%M:%S")
    log.write_text(
        "".join(line.replace(old, at) + "\n" for line, at in zip(lines, times, strict=True))
    )
    return home


def test_days_are_those_of_the_zone_and_empty_ones_are_there(tmp_path):
    times = ["2026-10-23T22:30:00", "2026-10-25T23:30:00", "2026-10-26T00:30:00"]
    home = spread(tmp_path, times)
    berlin = ZoneInfo("Europe/Berlin")  # Clocks are set back on the 25th, a day of 25 hours.
    with opened(home) as index:
        points = time_series(index, "day", "calls", zone=berlin).points
        weeks = time_series(index, "week", "calls", zone=berlin).points
        rates = time_series(index, "day", "error_rate", zone=berlin).points
    assert [(each.at.astimezone(berlin).day, each.value) for each in points] == [
        (24, 1), (25, 0), (26, 2),
    ]  # fmt: skip
    assert all(each.at.astimezone(berlin).hour == 0 for each in points)
    assert [(each.at.astimezone(berlin).day, each.value) for each in weeks] == [(19, 1), (26, 2)]
    assert [each.value for each in rates] == [None, None, None]


def test_hours_go_on_through_a_change_of_clocks(tmp_path):
    times = [f"2026-10-25T0{hour}:10:00" for hour in (0, 1, 3)]
    home = spread(tmp_path, times)
    with opened(home) as index:
        for zone in ("Europe/Berlin", "Asia/Kathmandu", "UTC"):
            points = time_series(index, "hour", "calls", zone=ZoneInfo(zone)).points
            assert [each.value for each in points] == [1, 1, 0, 1]


def test_absurd_dates_make_no_endless_series(tmp_path):
    home = spread(tmp_path, ["0001-01-01T00:00:10", "1969-12-31T23:59:59", "9999-12-31T23:59:59"])
    with opened(home) as index:
        for zone in ("UTC", "Pacific/Kiritimati", "America/Los_Angeles"):
            for interval in ("hour", "day", "week"):
                found = time_series(index, interval, "calls", zone=ZoneInfo(zone))
                assert [each.value for each in found.points] == [1, 1, 1]
                assert "too many" in found.notes[0]


@pytest.mark.parametrize(
    "ask",
    [
        lambda index: tool_sequences(index, shortest=1),
        lambda index: tool_sequences(index, shortest=4, longest=3),
        lambda index: tool_sequences(index, longest=9),
        lambda index: tool_sequences(index, pattern="Read"),
        lambda index: tool_sequences(index, pattern="Read -> "),
        lambda index: time_series(index, "year"),
        lambda index: time_series(index, "day", "love"),
        lambda index: error_context(index, "not hex"),
        lambda index: error_context(index, ""),
        lambda index: error_patterns(index, tool="("),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, ask):
    _, home = built(tmp_path, [(0, "prompt", 0, None, "Read", "frost", 0)])
    with opened(home) as index, pytest.raises(UsageError) as error:
        ask(index)
    assert error.value.hint


@given(events, periods, st.sampled_from([None, "Read|Edit", "API", "."]), st.integers(1, 3))
def test_errors_are_grouped_by_how_they_begin(plan, period, tool, least):
    with tempfile.TemporaryDirectory() as tmp:
        tree, home = built(Path(tmp), plan)
        with opened(home) as index:
            found = error_patterns(index, limit=None, tool=tool, minimum=least, **period)
            pages, offset = [], 0
            while offset is not None:
                page = error_patterns(
                    index, limit=1, offset=offset, tool=tool, minimum=least, **period
                )
                pages, offset = pages + page.errors, page.next
        groups = {}
        for row, record in zip(tree.entries(home), tree.records, strict=True):
            name = next((c["tool"] for c in tree.calls if c["answer"] is record), API)
            asked = {"Read|Edit": ("Read", "Edit"), "API": (API,)}.get(tool, (*TOOLS, API))
            if name in asked and row["is_error"] and is_within(row, period):
                groups.setdefault((name, one_line(row["content"])), []).append(row)
    expected = {
        key: (
            len(rows),
            len({row["session_id"] for row in rows}),
            max((row["at"] for row in rows if row["at"]), default=None),
        )
        for key, rows in groups.items()
        if len(rows) >= least
    }
    assert {
        (each.tool, each.example): (each.count, each.sessions, each.last_at)
        for each in found.errors
    } == expected
    assert found.total == len(found.errors) == len(expected)
    assert pages == found.errors


@pytest.fixture
def failing(tmp_path):
    """A home in which a barn cannot be opened twice, once with other figures."""
    plan = [
        (0, "prompt", 0, "main", "Bash", "open the barn", 0),
        (0, "call", 1, "main", "Bash", "open", 0),
        (0, "error", 1, "main", "Bash", "Exit code 1: no barn at 12:30 and more", 0),
        (0, "meta", 1, "main", "Bash", "a reminder", 0),
        (0, "text", 2, "main", "Bash", "I try again", 1),
        (0, "call", 3, "main", "Bash", "open again", 1),
        (0, "error", 3, "main", "Bash", "exit  code 127: no barn at 9:05\nand more", 0),
        (2, "api_error", 4, "main", "Bash", "API Error: 529 overloaded", 0),
        (2, "api_error", 4, "main", "Bash", "API Error: 500 overloaded", 0),
    ]
    _, home = built(tmp_path, plan)
    with opened(home) as index:
        yield index


def test_errors_that_differ_in_figures_are_alike(failing):
    bash, api = sorted(error_patterns(failing).errors, key=lambda each: each.tool == API)
    assert (bash.tool, bash.count, bash.sessions) == ("Bash", 2, 1)
    assert bash.example == "exit code 127: no barn at 9:05 and more"
    assert (api.tool, api.count) == (API, 2)
    assert error_patterns(failing, minimum=3).errors == []
    raw = Path(bash.log).read_bytes()[bash.offset :]
    assert b"exit  code 127" in raw.split(b"\n")[0]


def test_the_context_shows_who_said_what_around_an_error(failing):
    (bash,) = [each for each in error_patterns(failing).errors if each.tool == "Bash"]
    found = error_context(failing, bash.signature[:6].upper(), window=1)
    assert found.signatures == [bash.signature]
    assert (found.total, found.next) == (2, None)
    latest, first = found.occurrences
    assert [(each.author, each.text, each.is_error) for each in first.records] == [
        ("assistant", "Bash: open", False),
        ("tool", "Exit code 1: no barn at 12:30 and more", True),
        ("assistant", "I try again", False),
    ]
    assert [each.is_error for each in latest.records] == [False, True]
    assert latest.session == SESSIONS[0]
    one = error_context(failing, bash.signature, limit=1, window=0)
    assert (len(one.occurrences), one.next) == (1, 1)
    rest = error_context(failing, bash.signature, limit=1, offset=1, window=0)
    assert [each.at for each in rest.occurrences] == [first.at]
    wide = error_context(failing, bash.signature, window=99).occurrences[0].records
    assert wide[0].text == "open the barn"
    assert "a reminder" not in [each.text for each in wide]


def test_an_error_of_the_api_has_a_context_too(failing):
    (api,) = [each for each in error_patterns(failing).errors if each.tool == API]
    found = error_context(failing, api.signature)
    assert [len(each.records) for each in found.occurrences] == [2, 2]
    assert found.occurrences[0].records[1].is_error


def test_a_signature_that_nobody_has_is_not_found(failing):
    with pytest.raises(NotFound):
        error_context(failing, "0123456789abcdef")


def test_an_example_of_a_log_that_is_gone_is_null(failing):
    (bash,) = error_patterns(failing, tool="Bash").errors
    Path(bash.log).unlink()
    homes = find_homes([Path(bash.log).parents[2]])
    with open_fresh(homes, is_stale_allowed=True) as index:
        (bash,) = error_patterns(index, tool="Bash").errors
        assert (bash.count, bash.example) == (2, None)
        (occurrence, *_) = error_context(index, bash.signature).occurrences
        assert {each.text for each in occurrence.records} == {"(not there any more)"}


@given(st.text(), st.integers(2, 40))
def test_one_line_is_one_line_of_bounded_length(text, most):
    line = one_line(text, most)
    assert len(line) <= most
    assert line.split() == line.strip().split(" ") or not line


def test_dates_before_1970_have_their_bucket(tmp_path):
    home = spread(tmp_path, ["1969-12-31T23:50:00"])
    with opened(home) as index:
        (point,) = time_series(index, "day", "calls").points
    assert point.at == datetime(1969, 12, 31, tzinfo=UTC)


HEADERS = {"cf-ray": "9a1b2c3d4e5f-FRA", "content-type": "application/json", "server": "cloudflare"}


@pytest.mark.parametrize(
    ("error", "example"),
    [
        (
            {
                "status": 529,
                "headers": HEADERS,
                "requestID": "req_1",
                "error": {
                    "type": "error",
                    "error": {"type": "overloaded_error", "message": "Overloaded"},
                    "request_id": "req_1",
                },
            },
            "529 overloaded_error: Overloaded",
        ),
        ({"status": 429, "headers": HEADERS, "message": "429 slow down"}, "429 slow down"),
        ({"status": 502, "headers": HEADERS, "body": "bad gateway"}, "502 bad gateway"),
        ({"status": 529, "headers": HEADERS}, "529"),
        ({"headers": HEADERS, "cause": {"code": "ECONNRESET"}}, "ECONNRESET"),
        ("it broke", "it broke"),
    ],
)
def test_an_error_of_the_api_is_shown_by_what_it_says_and_not_by_its_headers(
    tmp_path, error, example
):
    homes = made_home(tmp_path / "home")
    failed = {
        "type": "system",
        "subtype": "api_error",
        "level": "error",
        "uuid": "e-1",
        "sessionId": SESSIONS[0],
        "timestamp": "2026-03-04T05:06:07.089Z",
        "error": error,
    }
    log_path(homes, SESSIONS[0]).write_bytes(lines(failed))
    with opened(homes[0].path) as index:
        (found,) = error_patterns(index).errors
        assert (found.tool, found.example) == (API, example)
        (seen,) = error_context(index, found.signature).occurrences[0].records
        assert seen.text == example
