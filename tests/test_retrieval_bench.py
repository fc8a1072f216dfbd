"""The measure of search quality: its questions, what it leaves out, and its scores."""

import json

import pytest
from bench import question_sets, retrieval

from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh

ORCHARD, HARBOUR, STUB = (f"{number}0000000-0000-4000-8000-000000000000" for number in (1, 2, 3))
SUBJECT = "Prune the apple trees before winter"
COMMIT = f"cd orchard && git commit -am \"$(cat <<'EOF'\n{SUBJECT}\n\nThey need it.\nEOF\n)\""
ANSWER = "Saws and ladders stand near walls.\n" + "The work goes on. " * 12
PROMPT = "please list seven ripening apples hanging above ladders"


@pytest.fixture
def home(tmp_path):
    log = retrieval.write_sessions(
        {"orchard": [PROMPT, ANSWER, "ladders and saws"], "harbour": ["ships tied up at the pier"]},
        str(tmp_path / "first"),
    )
    folder = tmp_path / "home" / "projects" / "-home-someone-project"
    folder.mkdir(parents=True)
    for name, session in (("orchard", ORCHARD), ("harbour", HARBOUR)):
        written = next((tmp_path / "first").rglob(f"{log[name]}.jsonl")).read_text()
        (folder / f"{session}.jsonl").write_text(written.replace(log[name], session))
    with (folder / f"{ORCHARD}.jsonl").open("a") as file:
        call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": COMMIT}}
        for number, content in enumerate(([call], f"I committed: {SUBJECT.upper()}")):
            message = {"id": f"msg_{number}", "role": "assistant", "type": "message"}
            record = {
                "type": "assistant",
                "uuid": f"{number}0000000-0000-4000-8000-00000000000a",
                "sessionId": ORCHARD,
                "timestamp": "2026-03-01T12:00:00.000Z",
                "message": message | {"content": content},
            }
            file.write(json.dumps(record) + "\n")
        for _ in range(2):
            title = {"type": "ai-title", "aiTitle": 'Apples "and" OR ladders', "sessionId": ORCHARD}
            file.write(json.dumps(title) + "\n")
    leaf = "00000000-0000-4000-8000-00000000000a"
    summary = {"type": "summary", "summary": "Winter pruning", "leafUuid": leaf}
    (folder / f"{STUB}.jsonl").write_text(json.dumps(summary) + "\n")
    return tmp_path / "home"


@pytest.fixture
def entries(home):
    with open_fresh(find_homes((str(home),))) as index:
        return question_sets.read_entries(index)


@pytest.fixture
def frequencies(entries):
    return retrieval.Floor(question_sets.said_texts(entries)).frequencies()


def test_a_summary_describes_the_session_of_its_leaf(entries, frequencies):
    found = question_sets.titles(entries, frequencies)
    assert found.questions == {"Apples and or ladders": {ORCHARD}, "Winter pruning": {ORCHARD}}
    assert len(found.left_out) == 3  # A title that is written again is a record, too.


def test_every_record_that_repeats_a_subject_is_left_out(entries, frequencies):
    found = question_sets.commits(entries, frequencies)
    assert found.questions == {SUBJECT: {ORCHARD}}
    assert [entry.record.uuid[0] for entry in found.left_out] == ["0", "1"]


@pytest.mark.parametrize(
    ("command", "subject"),
    [
        ('git commit -m "Fix the \\"old\\" pump" -m "body of it"', 'Fix the "old" pump'),
        ("git add . && git commit -qm 'Fix the pump'", "Fix the pump"),
        ("git -C /barn commit --message='Fix the pump'", "Fix the pump"),
        ("git commit -F - <<'EOF'\nFix the pump\n\nwhy\nEOF", "Fix the pump"),
        ('git commit -m "Short one"', None),
        ("git log -m 'Fix the pump'", None),
    ],
)
def test_subjects_are_read_from_commands(command, subject):
    assert list(question_sets.subjects(command)) == ([] if subject is None else [subject])


def test_prompts_lose_a_third_of_their_words(entries, frequencies):
    (question,) = (
        text
        for text, sessions in question_sets.prompts(entries, frequencies).questions.items()
        if sessions == {ORCHARD}
    )
    words = PROMPT.split()
    assert len(question.split()) == len(words) - len(words) // 3
    assert [word for word in words if word in question.split()] == question.split()


def test_stems_are_other_words_with_the_same_stem(entries, frequencies):
    ((question, sessions),) = question_sets.stems(entries, frequencies).questions.items()
    assert sessions == {ORCHARD}
    assert len(question.split()) == 5
    assert not set(question.split()) & set(PROMPT.split())
    stems = question_sets._stems({*question.split(), *PROMPT.split()})
    assert {stems[word] for word in question.split()} <= {stems[word] for word in PROMPT.split()}


def test_an_answer_is_asked_for_by_the_rarest_words_of_a_sentence(entries, frequencies):
    found = question_sets.answers(entries, frequencies)
    ((question, sessions),) = found.questions.items()
    assert sessions == {ORCHARD}
    assert len(question.split()) == 6
    assert set(question.split()) <= set(ANSWER.lower().replace(".", "").split())
    assert [text.text for entry in found.left_out for text in entry.texts] == [ANSWER]


def test_the_same_home_gives_the_same_questions(entries, frequencies):
    for build in question_sets.SETS:
        assert build(entries, frequencies) == build(entries, frequencies)


def test_a_copy_has_all_other_lines_byte_for_byte(home, entries, frequencies, tmp_path):
    left_out = question_sets.titles(entries, frequencies).left_out
    copy = tmp_path / "copy"
    retrieval.copy_without(str(home), str(copy), left_out)
    for log in home.rglob("*.jsonl"):
        lines = log.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if b"aiTitle" not in line and b"leafUuid" not in line]
        assert (copy / log.relative_to(home)).read_bytes() == b"".join(kept)


def test_questions_have_no_operators():
    typed = question_sets.as_typed(
        '(-a) --flag is:error Tool:Bash "x y" NOT z* | - fix(sem): e-mail'
    )
    assert typed == "(a) flag is error Tool Bash x y not z fix(sem): e-mail"


def test_scores():
    asked = [("a", {"1"}), ("b", {"1", "2"}), ("c", {"1"}), ("d", {"1"})]
    found = retrieval.score(asked, [["1"], ["3", "2", "1"], list("9876541"), []])
    assert found == (0.25, 0.5, pytest.approx((1 + 1 / 2 + 1 / 7) / 4), 0.25)


def test_the_floor_shows_one_page_of_sessions_in_the_order_of_their_best_text():
    floor = retrieval.Floor(
        [("long", "pear and many other words"), ("best", "pear"), ("no", "fig")]
    )
    assert floor.ask("pear?") == ["best", "long"]
    assert floor.ask("…") == []
    many = retrieval.Floor((str(number // 5), "pear") for number in range(100))
    assert len(many.ask("pear")) == 7


def test_every_set_gets_its_rows(home, tmp_path):
    rows = retrieval.rows_for(str(home), str(tmp_path / "copies"), "home")
    asked = [row.what.removesuffix(": R@1") for row in rows if row.what.endswith(": R@1")]
    assert [what.split()[1] for what in asked] == [build.__name__ for build in question_sets.SETS]
    assert len(rows) == 4 * len(asked)


def test_sessions_and_questions_of_a_file_are_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BENCH_MISSES", "1")
    given = {
        "sessions": {"one": ["Where is the pear?", "In the barn."], "two": ["Where is the fig?"]},
        "questions": [["the pear", ["one"]], ['"fig"', ["two"]], ["pear barn", ["two"]]],
    }
    (tmp_path / "fruit.json").write_text(json.dumps(given))
    rows = retrieval.rows_of_file(str(tmp_path / "fruit.json"), str(tmp_path / "home"))
    assert rows[0].what == "fruit (3): R@1"
    assert rows[0].ours == "66.7 %"
    assert "pear barn" in capsys.readouterr().out
