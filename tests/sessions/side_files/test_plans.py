"""Plans: titles, versions, and the sessions they seem to belong to."""

import os
from hashlib import sha256

import pytest

from sessions.homes import edit, kept, log, make_home, prompt, snapshot, write
from turnlog.formats import Home
from turnlog.sessions.side_files.plans import (
    LIMIT,
    Hint,
    PlanSource,
    find_plans,
    title_of,
    with_kept_versions,
)

ID = "44444444-dddd-4ddd-8ddd-444444444444"
OTHER = "55555555-eeee-4eee-8eee-555555555555"
TEXT = "Intro\n# Prune the orchard\n\nCut the dead wood first.\n"


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path)


def attachment(path, **more):
    fields = {
        "type": "attachment",
        "uuid": "t",
        "parentUuid": "q",
        "timestamp": "2026-11-01T10:00Z",
    }
    return fields | {"attachment": {"type": "plan_mode", "planFilePath": path} | more}


def links(plan):
    return {link.session_id: link.hint for link in plan.sessions}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (TEXT, "Prune the orchard"),
        ("## Not this\n#nor this\n#  Spaced  \n", "Spaced"),
        ("```\n# a comment\n```\n# Title", "Title"),
        ("no heading", None),
        ("# \n", None),
        ("", None),
    ],
)
def test_the_title_is_the_first_heading(text, title):
    assert title_of(text) == title


def test_a_plan_knows_its_text_and_hash(home):
    write(home, "plans/calm-river.md", TEXT, at=1_793_527_200)
    (plan,) = find_plans((home,))
    assert (plan.name, plan.title, plan.text) == ("calm-river", "Prune the orchard", TEXT)
    assert plan.versions[0].sha256 == sha256(TEXT.encode()).hexdigest()
    assert plan.changed_at.isoformat() == "2026-11-01T10:00:00+00:00"
    assert plan.sessions == ()


def test_sessions_are_linked_by_hints_and_the_strongest_is_told(home):
    write(home, "plans/calm-river.md", TEXT)
    write(home, "plans/other.md", "# Other")
    log(home, ID, prompt("q", slug="calm-river"), attachment("C:\\claude\\plans\\calm-river.md"))
    log(home, OTHER, prompt("q", slug="calm-river"), prompt("r", slug="other"))
    plans = {plan.name: plan for plan in find_plans((home,))}
    assert links(plans["calm-river"]) == {ID: Hint.PATH, OTHER: Hint.SLUG}
    assert links(plans["other"]) == {OTHER: Hint.SLUG}


def test_a_record_that_carries_the_text_is_a_link(home):
    write(home, "plans/calm-river.md", TEXT)
    log(home, ID, prompt("q", planContent=TEXT, slug="something-else"))
    (plan,) = find_plans((home,))
    assert links(plan) == {ID: Hint.CONTENT}
    assert len(plan.versions) == 1


def test_a_path_in_a_result_without_a_plan_says_nothing(home):
    write(home, "plans/calm-river.md", TEXT)
    log(home, ID, prompt("q"), *edit("e", "q", "/x/calm-river.md"), prompt("z", plan="x"))
    (plan,) = find_plans((home,))
    assert plan.sessions == ()


def test_versions_are_told_apart_by_their_hash(home):
    write(home, "plans/calm-river.md", TEXT)
    told = {"plan": "# Draft 2", "filePath": "/home/ada/.claude/plans/calm-river.md"}
    log(
        home,
        ID,
        prompt("q", slug="calm-river", planContent="# Draft 1", timestamp="2025-01-01T10:00Z"),
        prompt("r", slug="calm-river", planContent="# Draft 1", timestamp="2025-01-03T10:00Z"),
        prompt("s", toolUseResult=told, timestamp="2025-01-02T10:00Z"),
    )
    (plan,) = find_plans((home,))
    assert [each.title for each in plan.versions] == ["Draft 1", "Draft 2", "Prune the orchard"]
    assert [each.origin for each in plan.versions] == [
        PlanSource.RECORD,
        PlanSource.RECORD,
        PlanSource.FILE,
    ]
    assert plan.versions[0].at.day == 1
    assert plan.title == "Prune the orchard"


def test_a_plan_whose_file_is_gone_is_still_known(home):
    log(home, ID, prompt("q", slug="calm-river", planContent=TEXT))
    log(home, OTHER, prompt("q", planContent="no title, no slug"))
    plans = find_plans((home,))
    assert {(plan.name, plan.title, plan.path) for plan in plans} == {
        ("calm-river", "Prune the orchard", None),
        (None, None, None),
    }


def test_the_file_history_knows_more_versions(home):
    write(home, "plans/calm-river.md", TEXT)
    path = "/home/ada/.claude/plans/calm-river.md"
    files = {path: kept("ab@v1"), "docs/plans/other.md": kept("cd@v1")}
    log(home, ID, snapshot("q", files), prompt("q", slug="calm-river"))
    write(home, f"file-history/{ID}/ab@v1", "# First thought")
    write(home, f"file-history/{ID}/ab@v2", TEXT)
    write(home, f"file-history/{ID}/cd@v1", "# Another plan")
    (plan,) = find_plans((home,))
    more = with_kept_versions(plan, (home,))
    assert {each.title: each.origin for each in more.versions} == {
        "First thought": PlanSource.FILE_HISTORY,
        "Prune the orchard": PlanSource.FILE,
    }
    assert with_kept_versions(plan, ()).versions == plan.versions


def test_files_that_cannot_be_read_are_problems(home):
    with open(write(home, "plans/huge.md"), "r+b") as file:
        file.truncate(LIMIT + 1)
    write(home, "plans/bytes.md", b"# \xff\xfe\n")
    os.symlink("nowhere", home.path / "plans" / "broken.md")
    found = {plan.name: plan for plan in find_plans((home,))}
    assert found["huge"].problem.startswith("larger than")
    assert found["bytes"].title == "\ufffd\ufffd"
    assert "broken" not in found


def test_one_name_in_two_homes_is_two_plans(home, tmp_path):
    other = Home(tmp_path / "other")
    write(home, "plans/calm-river.md", TEXT)
    write(other, "plans/calm-river.md", "# Elsewhere")
    assert {plan.title for plan in find_plans((home, other))} == {"Prune the orchard", "Elsewhere"}


def test_damage_and_odd_shapes_in_a_log_tell_nothing(home):
    write(home, "plans/calm-river.md", TEXT)
    records = [
        attachment(7),
        attachment("", planContent=[1]),
        prompt("a", slug=5, planContent={"x": 1}),
        prompt("b", toolUseResult={"plan": None, "filePath": 3}),
        {"type": "attachment", "attachment": "planFilePath"},
    ]
    path = log(home, ID, *records)
    path.write_bytes(path.read_bytes() + b'\n{"slug":"calm-river"\0\n{"slug":"calm-river","x":')
    (plan,) = find_plans((home,))
    assert plan.sessions == ()


def test_the_last_line_counts_without_its_newline(home):
    write(home, "plans/calm-river.md", TEXT)
    path = log(home, ID, prompt("q", slug="calm-river"))
    path.write_bytes(path.read_bytes().rstrip())
    assert links(find_plans((home,))[0]) == {ID: Hint.SLUG}
