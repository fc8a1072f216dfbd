"""An answer of `search_history` has what an agent needs next, and ten hits cost 1,500 tokens."""

import os
import random
from itertools import product
from pathlib import Path

import pytest

from index.homes import own_index
from mcp_contexts import ONE, ORCHARD, PRESS, TWO, Log, asked_on, desk_of, text_of
from mcp_world import ask, hits_of
from sampling import sampled
from turnlog.formats import find_homes
from turnlog.mcp.tools import TOOLS

CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus" / "claude"
)
TOKENS = 1_500
BYTES_PER_TOKEN = 3.2  # Of such text; most tokenizers need fewer tokens.
(SEARCH,) = (tool for tool in TOOLS if tool.name == "search_history")
PROMPT = "Why is the frost alert late? " * 20


def session(number):
    return f"{number:08x}-aaaa-4aaa-8aaa-{number:012x}"


@pytest.fixture
def home(tmp_path):
    with own_index(tmp_path / "own"):
        yield tmp_path / "home"


def tokens(text):
    return len(text.encode()) / BYTES_PER_TOKEN


def written(log, rng, size, letters="abcdefghij"):
    """Write a session in which everything is long."""

    def long(start):
        words = ("".join(rng.choices(letters, k=rng.randint(1, 30))) for _ in range(size))
        return f"{start} {' '.join(words)} quinces {' '.join(words)}"

    log.prompt(long("Prune"))
    log.call("Bash", long("done"), is_error=True, command=long("prune"))
    for number in range(4):
        name = f"{log.project}/{'deep/' * 20}{letters[:3] * 20}{number}.py"
        log.call("Edit", "ok", file_path=name, old_string="a", new_string=long("b"))
    log.call(f"mcp__{'orchard' * 12}__prune", long("ok"), trees=long("all"))
    log.answer({"type": "text", "text": long("I pruned the")})
    log.add(type="ai-title", aiTitle=long("Quinces"))
    return log.save()


@pytest.mark.parametrize("size", [5, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("scope", "letters"),
    sampled(
        product(
            [ORCHARD, None], ["abcdefghij", "äöü", "🍎🍐", "梨林檎", "\x1b\u202e", '"\\\n', "ab"]
        ),
        2,
    ),
)
def test_ten_hits_take_at_most_1500_tokens(home, letters, size, scope):
    rng = random.Random(size)
    for number in range(1, 13):
        project = f"{ORCHARD}/{'terrace/' * 10}{number % 4}"
        written(Log(home, session(number), project, hostile=""), rng, size, letters)
    ctx = desk_of(find_homes((home,)), scope=scope)
    for query in ("quinces", "quinces is:error", "quinces tool:Edit", "type:title"):
        for more in ({}, {"results": True}, {"newest": True}, {"session": session(3)}):
            assert tokens(text_of(ctx, SEARCH, query=query, **more)) <= TOKENS
    found = ask(ctx, "search_history", query="quinces")
    is_costly = letters in ("🍎🍐", "\x1b\u202e")  # Four bytes each, or escaped as whole words.
    assert len(hits_of(found)) == 10 or is_costly
    # No hit is lost where fewer fit.
    every = [hit for each in asked_on(ctx, SEARCH, query="quinces") for hit in hits_of(each)]
    names = [(hit["session"], hit["record"], hit["kind"]) for hit in every]
    assert len(names) == len(set(names)) == 36
    assert all("quinces" in hit["text"].lower() for hit in every if "text" in hit)


def questions(rng, texts):
    """Words, pairs, and whole questions, taken from the texts themselves."""
    words = sorted({word for text in texts for word in text.split() if word.isalnum()})
    yield from rng.sample(words, 60)
    yield from (" ".join(rng.sample(words, 2)) for _ in range(20))
    yield from (f"how did we fix the {word}?" for word in rng.sample(words, 20))
    yield from ("tool:Bash", "tool:Edit", "is:error", "is:prompt", "type:title", "the", "error")


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="there is no corpus")
def test_ten_hits_of_real_sessions_take_at_most_1500_tokens(tmp_path):
    with own_index(tmp_path / "own"):
        ctx = desk_of(find_homes((CORPUS,)), scope=None)
        with ctx.index() as index:
            records = index.db.execute("SELECT id FROM records WHERE id % 97 = 0 LIMIT 400")
            texts = [each.text[:2_000] for (record,) in records for each in index.texts(record)]
        count = 0
        for query in questions(random.Random(7), texts):
            for more in ({}, {"results": True}, {"newest": True}):
                text = text_of(ctx, SEARCH, query=query, **more)
                assert tokens(text) <= TOKENS, query
                count += "Read on: " in text
        assert count > 50


def test_a_passage_has_the_prompt_of_its_turn_and_the_files_changed_in_it(home):
    log = Log(home, ONE, ORCHARD, hostile="").prompt("Plant the quinces")
    log.call("Write", "ok", file_path=f"{ORCHARD}/early.py", content="x")
    log.prompt(PROMPT)
    log.call("Edit", "ok", file_path=f"{ORCHARD}/src/frost.py", old_string="a", new_string="b")
    log.call("Read", "x", file_path=f"{ORCHARD}/read.py")
    log.call("Write", "no", is_error=True, file_path=f"{ORCHARD}/failed.py", content="x")
    log.call("Write", "ok", file_path="/etc/orchard/alerts/frost.toml", content="x")
    log.call("Bash", "Error: medlars", is_error=True, command="sow medlars")
    log.answer({"type": "text", "text": "The medlars are sown."})
    log.prompt("And the plums?")
    log.call("Write", "ok", file_path=f"{ORCHARD}/late.py", content="x")
    log.add(type="ai-title", aiTitle="Fruit trees").save()
    ctx = desk_of(find_homes((home,)))
    found = ask(ctx, "search_history", query="medlars")
    (row,) = found["sessions"]
    assert row.pop("at").startswith("2026-11-01T10:")
    answer, call = row.pop("hits")
    assert row == {"session": ONE[:8], "title": "Fruit trees"}
    assert answer == {
        "record": answer["record"],
        "kind": "response",
        "text": "The medlars are sown.",
        "prompt": PROMPT[:99].rstrip() + "…",
        "files": ["…/orchard/alerts/frost.toml", "src/frost.py"],
    }
    assert call == {
        "record": call["record"],
        "kind": "call",
        "tool": "Bash",
        "is_error": True,
        "text": "sow medlars",
    }
    first = ask(ctx, "session_turns", session=row["session"], record=call["record"])["steps"][0]
    assert first["call"] == "Bash"
    assert first["record"].startswith(call["record"])
    whole = ask(ctx, "session_overview", session=row["session"], record=answer["record"])
    assert whole["pieces"][0]["text"] == "The medlars are sown."


def test_nothing_is_said_twice(home):
    for session_id in (ONE, TWO):
        log = Log(home, session_id, PRESS, hostile="").prompt("Press the medlars, please")
        log.answer({"type": "text", "text": "The medlars are pressed."}).save()
    found = ask(desk_of(find_homes((home,))), "search_history", query="medlars")
    assert found["project"] == "press"  # Relative to the server's.
    for row in found["sessions"]:
        assert sorted(row) == ["at", "hits", "session"]  # The prompt is the title.
        assert [hit.get("prompt") for hit in row["hits"]] == [None, None]
    found = ask(desk_of(find_homes((home,)), scope=PRESS), "search_history", query="medlars")
    assert "project" not in str(found)


def test_ids_are_short_only_where_that_is_unique(home):
    twins = [f"0198aaaa-{each * 4}-7aaa-8aaa-{each * 12}" for each in "12"]
    for each in (*twins, TWO):
        log = Log(home, each, ORCHARD, hostile="").prompt("sow medlars").prompt("more medlars")
        log.lines[1] = log.lines[1].replace("00000002-", "00000001-", 1)
        log.save()
    ctx = desk_of(find_homes((home,)))
    hits = hits_of(ask(ctx, "search_history", query="medlars"))
    assert {hit["session"] for hit in hits} == {*twins, TWO[:8]}
    assert len(hits) == 6
    for hit in hits:
        assert len(hit["record"]) == 36
        names = {name: hit[name] for name in ("session", "record")}
        (piece,) = ask(ctx, "session_overview", **names)["pieces"]
        assert piece["text"] == hit["text"]


def test_a_hit_that_is_too_large_alone_is_shortened_and_the_next_is_reached(home):
    for number in (1, 2, 3):
        log = Log(home, session(number), ORCHARD, hostile="")
        log.project = f"{ORCHARD}/{'terrace/' * 600}{number}"
        log.prompt("sow medlars").save()
    ctx = desk_of(find_homes((home,)), scope=None)
    pages = list(asked_on(ctx, SEARCH, query="medlars"))
    assert len(pages) == 3
    assert {hit["session"] for each in pages for hit in hits_of(each)} == {
        session(number)[:8] for number in (1, 2, 3)
    }
    assert tokens(text_of(ctx, SEARCH, query="medlars")) <= TOKENS
