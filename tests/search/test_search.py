"""Search finds what a tree asks for, all of it and nothing else, and every hit opens."""

import json
import os
import random
import re
from datetime import UTC, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sampling import examples
from search.query_text import written
from search.search_world import (
    NOW,
    ONE,
    ORCHARD,
    START,
    THREE,
    TOOLS,
    TWO,
    World,
    holds,
    make_world,
)  # fmt: skip
from turnlog.errors import UsageError
from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh
from turnlog.index.texts import TextKind
from turnlog.search import scan as patterns
from turnlog.search import search as searching
from turnlog.search.language import All, Any, FieldFilter, Not, Phrase, Word, parse
from turnlog.search.regex import TimeBudget
from turnlog.search.search import search
from turnlog.storage.reader import read_log

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"
CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus" / "claude"
)
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")


def ask(index, text, **options):
    options = {"limit": 1000, "per_session": 0} | options
    return search(index, text, now=NOW, zone=UTC, **options)


def keys(found):
    return sorted((hit.uuid, hit.kind) for hit in found.hits)


def expected(world, tree, *, with_results=False):
    kinds = {"result", "context"} if not with_results else set()
    return sorted(
        (doc.uuid, doc.kind) for doc in world.docs if doc.kind not in kinds and holds(tree, doc)
    )


WORDS = ["retry", "loop", "backoff", "apples", "the", "juice", "x", "vector", "never", "nowhere"]
words = st.sampled_from(WORDS).map(Word)
prefixes = st.sampled_from(["re", "lo", "app", "ba", "v"]).map(lambda each: Word(each, True))
several = st.sampled_from(["std::vector", "retry.loop", "the-retry", "push_back"]).map(Word)
phrases = st.sampled_from(["retry loop", "the retry loop", "loop retry", "apples and"]).map(Phrase)
wordless = st.sampled_from(["::", "->", "✅", ":=", "→"]).map(Word)
instants = st.builds(
    lambda field, hours: FieldFilter(field, "x", START + timedelta(hours=hours)),
    st.sampled_from(["before", "after", "since"]),
    st.integers(0, 40),
)
filters = st.one_of(
    instants,
    st.sampled_from(
        [
            FieldFilter("project", "orchard"),
            FieldFilter("project", "/home/ada"),
            FieldFilter("project", TOOLS),
            FieldFilter("project", "/home/ada/too"),
            FieldFilter("session", "1111"),
            FieldFilter("session", TWO),
            FieldFilter("tool", "bash"),
            FieldFilter("tool", "*e*"),
            FieldFilter("file", "*.py"),
            FieldFilter("file", "src/loop"),
            FieldFilter("file", "*/src/*"),
            FieldFilter("model", "haiku"),
            FieldFilter("branch", "main"),
            FieldFilter("role", "human"),
            FieldFilter("role", "caller"),
            FieldFilter("type", "call"),
            FieldFilter("type", "user"),
            FieldFilter("type", "thinking"),
            FieldFilter("is", "error"),
            FieldFilter("is", "subagent"),
            FieldFilter("is", "prompt"),
            FieldFilter("is", "gone"),
        ]
    ),
)
leaves = st.one_of(words, words, prefixes, several, phrases, wordless, filters, filters)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda nodes: All(tuple(nodes))),
        st.lists(inner, min_size=2, max_size=3).map(lambda nodes: Any(tuple(nodes))),
        inner.map(Not),
    ),
    max_leaves=7,
)


def tree_search(index, tree, *, with_results):
    """Search for a tree itself: instants as these have no way to be written."""
    asked = searching._Search(index, NOW)
    wanted = searching.HitPage(newest=False, limit=1000)
    return asked.find(tree, wanted, searching._tables(with_results=with_results))


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(tree=trees, with_results=st.booleans())
def test_a_search_finds_what_the_tree_says_and_nothing_else(index, world, tree, with_results):
    found = tree_search(index, tree, with_results=with_results)
    assert keys(found) == expected(world, tree, with_results=with_results), written(tree)
    assert found.next is None


@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))
@given(tree=st.recursive(st.one_of(words, filters), lambda inner: st.builds(
    lambda one, other, flip: All((one, Not(Any((other, inner_of(one))))) if flip else (other, one)),
    inner, inner, st.booleans()), max_leaves=40))  # fmt: skip
def test_deep_trees_are_decided_too(index, world, tree):
    assert keys(tree_search(index, tree, with_results=True)) == expected(
        world, tree, with_results=True
    )


def inner_of(node):
    return node.nodes[0] if isinstance(node, All | Any) else node


def test_every_text_of_the_world_is_known_to_the_index(index, world):
    assert keys(ask(index, "", with_results=True)) == sorted((d.uuid, d.kind) for d in world.docs)


@pytest.mark.parametrize(
    "query",
    [
        "retry loop", '"retry loop"', "retry -loop", "retry OR apples", "retr*", "LOOP", "Retry",
        "std::vector", "v.push_back(x)", "tool:bash", "tool:B*", "file:*.py", "file:src/loop.rs",
        "is:subagent retry", "type:thinking", "role:user", "role:assistant -model:haiku",
        "branch:feat/café", "project:PRESS", f"project:{ORCHARD}", "session:2222 Köln",
        "after:2026-11-02 before:2026-11-03", "since:9d loop", "(retry OR apples) -is:subagent",
        "-tool:bash -role:human", "retry OR is:error", "-the", "✅", "->", ":= OR ✅",
        'loop -word:"->"',
    ],
)  # fmt: skip
def test_the_language_means_what_it_says(index, world, query):
    tree = parse(query, now=NOW, zone=UTC).tree
    plain = expected(world, tree)
    assert plain
    assert keys(ask(index, query, all_words=True)) == plain
    assert keys(ask(index, query, newest=True)) == plain
    found = ask(index, query, all_words=True, with_results=True)
    assert keys(found) == expected(world, tree, with_results=True)


@pytest.mark.parametrize("query", ["is:error", "role:tool", "tool:* is:error", "loop role:tool"])
def test_what_tools_tell_is_asked_for_by_what_only_they_can_tell(index, world, query):
    tree = parse(query, now=NOW, zone=UTC).tree
    found = expected(world, tree, with_results=True)
    assert any(kind == "result" for _, kind in found)
    assert keys(ask(index, query)) == keys(ask(index, query, newest=True)) == found


@pytest.mark.parametrize(
    "query", ["数据库", "连接失败", "重试", "日本語", "検索", "テキスト", "응답", "서버가"]
)
def test_chinese_japanese_and_korean_are_found_by_their_words(index, query):
    (hit,) = ask(index, query).hits
    assert [hit.snippet[begin:end] for begin, end in hit.highlights] == [query]


@pytest.mark.parametrize("query", ["grusse", "GRÜSSE", "koln", "café", "CAFE"])
def test_accents_and_case_do_not_matter(index, query):
    found = ask(index, query if query != "grusse" else "gruße")
    assert [hit.session for hit in found.hits] == ([TWO] if query != "GRÜSSE" else [])


def test_results_are_searched_only_if_asked_for(index):
    assert not ask(index, "running tests", all_words=True).hits
    for query in ("running tests is:result", "running type:result", "is:result tests"):
        (hit,) = ask(index, query).hits
        assert (hit.kind, hit.tool) == ("result", "Bash")
    assert not ask(index, "+running tool:Bash").hits
    assert not ask(index, "running -is:result").hits
    assert ask(index, "+running", with_results=True).hits


def test_options_narrow_like_filters(index, world):
    inside = [doc for doc in world.docs if doc.project == TOOLS]
    assert {hit.session for hit in ask(index, "loop", project=TOOLS).hits} == {THREE}
    assert len(ask(index, "", project=TOOLS).hits) == len(inside)
    late = START + timedelta(hours=15)
    assert {hit.at >= late for hit in ask(index, "loop", since=late).hits} == {True}
    assert {hit.at < late for hit in ask(index, "loop", until=late).hits} == {True}


def test_the_best_come_first_and_the_newest_when_asked(index):
    scores = [hit.score for hit in ask(index, "retry OR loop", flat=True).hits]
    assert scores == sorted(scores, reverse=True)
    times = [hit.at for hit in ask(index, "retry OR loop OR 数据库", newest=True).hits]
    assert times == sorted(times, reverse=True)
    times = [hit.at for hit in ask(index, "is:prompt").hits]
    assert times == sorted(times, reverse=True)
    kinds = [hit.kind for hit in ask(index, "twice OR juice").hits]
    assert kinds.index("thinking") > kinds.index("response")


@pytest.mark.parametrize("options", [{}, {"newest": True}, {"with_results": True}, {"exact": True}])
@pytest.mark.parametrize("query", ["retry", "o", "->", "is:prompt", '"retry loop" OR apples', "b*"])
@pytest.mark.parametrize("size", [1, 3])
def test_paging_gives_every_hit_once(index, monkeypatch, query, options, size):
    monkeypatch.setattr(searching, "RANKED_AT_ONCE", 4)
    whole = [(hit.uuid, hit.kind, hit.snippet) for hit in ask(index, query, **options).hits]
    pages, offset = [], 0
    while offset is not None:
        page = ask(index, query, limit=size, offset=offset, **options)
        assert len(page.hits) <= size
        pages += [(hit.uuid, hit.kind, hit.snippet) for hit in page.hits]
        offset = page.next
    assert pages == whole


def test_a_session_does_not_fill_the_page(index):
    few = ask(index, "retry OR loop", per_session=1)
    assert len({hit.session for hit in few.hits}) == len(few.hits) > 1
    whole = ask(index, "retry OR loop")
    for hit in few.hits:
        assert hit.more == sum(each.session == hit.session for each in whole.hits) - 1
    assert len(ask(index, "retry OR loop session:1111", per_session=None).hits) > 3


def test_how_many_more_there_are_is_told_only_where_all_were_weighed(index, monkeypatch):
    whole = len(ask(index, "retry OR loop").hits)
    for at_once, is_known in ((whole + 1, True), (whole - 1, False), (2, False)):
        monkeypatch.setattr(searching, "RANKED_AT_ONCE", at_once)
        few = ask(index, "retry OR loop", per_session=1)
        assert [hit.more is not None for hit in few.hits] == [is_known] * len(few.hits)


def test_every_hit_opens_at_its_record(index):
    for query in ("retry OR loop", "is:error", "", "✅", "type:call"):
        for hit in ask(index, query, with_results=True).hits:
            check_opens(hit)
    for hit in ask(index, "oop", exact=True, with_results=True).hits:
        check_opens(hit)


def check_opens(hit):
    with open(hit.log, "rb") as log:
        log.seek(hit.offset)
        data = log.read(hit.length)
    if hit.uuid is not None:
        assert json.loads(data)["uuid"] == hit.uuid
    if hit.log.endswith(".jsonl"):
        with read_log(hit.log, start=hit.offset) as reader:
            placed = next(reader)
        assert (placed.offset, placed.record.uuid) == (hit.offset, hit.uuid)


PIECES = [
    "retry",
    "oop",
    "LOOP",
    "Loop",
    "v.push_back(",
    "::",
    "✅",
    "é",
    "数据库",
    "a",
    "\n",
    '"',
    "no",
]
PATTERNS = [
    r"retry\w*", r"lo+p", r"L\w+P", r"^def ", r"(retry|loop)$", r"std::\w+<int>", r"\bthe retry\b",
    r"push_back\(x\)", r"\d+ tests?", r".", r"[✅→]", r"apples?: std", r"x := y", r"Found a.*, and",
    r"re{1,2}try", r"(?s)tests.*ok", r"(?i)LOOP", "fo{2}", "a{x", "loop loop", "backs|juice",
    r"(?:retry|never) ba", r"Loop|(?!x)apples: ", r"(?P<o>loop)|\bcafé\b", "数据|テキ", "|x",
]  # fmt: skip


@pytest.mark.parametrize("with_results", [False, True])
@pytest.mark.parametrize("piece", PIECES)
def test_a_piece_of_text_is_found_wherever_it_stands(index, world, piece, with_results):
    if not piece.strip():
        with pytest.raises(UsageError):
            ask(index, piece, exact=True)
        return
    fold = str if any(map(str.isupper, piece)) else str.lower
    kinds = () if with_results else ("result",)
    known = sorted(
        (d.uuid, d.kind) for d in world.docs if d.kind not in kinds and piece in fold(d.text)
    )
    found = ask(index, piece, exact=True, with_results=with_results)
    assert keys(found) == known
    for hit in found.hits:
        marks = {fold(hit.snippet[begin:end]) for begin, end in hit.highlights}
        assert marks == {piece}


@pytest.mark.parametrize("with_results", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_found_wherever_it_matches(index, world, pattern, with_results):
    bare = re.sub(r"\\.", "", pattern)
    flags = re.MULTILINE | (0 if any(map(str.isupper, bare)) else re.IGNORECASE)
    kinds = () if with_results else ("result",)
    known = sorted(
        (d.uuid, d.kind)
        for d in world.docs
        if d.kind not in kinds and re.search(pattern, d.text, flags)
    )
    assert keys(ask(index, pattern, regex=True, with_results=with_results)) == known


@given(st.text("ab.()[]{}*+?|\\^$ wdx-_1é", max_size=12))
def test_what_a_pattern_is_said_to_need_stands_in_what_it_matches(text):
    try:
        made = patterns.regex_pattern(text)
    except UsageError:
        return
    for sample in ("ab a.b (a) ab-ab a b ab", "1 b1 ab_ab é", "a" * 20, "xd wd ab\nb a", text):
        match = made.regex.search(sample)
        if match and made.regex.flags & re.VERBOSE == 0:
            said = match[0].lower()
            assert any(all(run.lower() in said for run in runs) for runs in made._ways), text


@pytest.mark.parametrize(
    ("text", "needles", "words"),
    [
        ("Retry|backoff", (b"Retry", b"backoff"), []),
        ("retry|backoff", (b"retry", b"backoff"), []),
        ("(flaky|slow) test", (b" test",), [Word("test", True)]),
        (r"(?:a|b) told (?=x)", (b" told ",), [Word("told")]),
        (r"x{(foo}bar)?", patterns.EVERY_RECORD, []),
        ("(?x)a b c", patterns.EVERY_RECORD, []),
        ("told|.*", patterns.EVERY_RECORD, []),
        ("日|told", ("日".encode(), rb"\u65e5", b"told"), []),
    ],
)  # fmt: skip
def test_of_a_pattern_is_looked_for_what_every_line_has_that_it_matches(text, needles, words):
    made = patterns.regex_pattern(text)
    assert (made.needles, made.words) == (needles, words)


@pytest.mark.parametrize("piece", ["0f" * 50_000, "日" * 50_000, "é->" * 30_000])
def test_a_piece_may_be_long(piece):
    needles = patterns.literal_pattern(piece).needles
    line = json.dumps(piece).encode().lower()
    assert any(needle in line for needle in needles)


def test_a_title_that_is_written_again_and_again_is_found_once_whatever_finds_it(tmp_path):
    world = World()
    for turn in range(3):
        world.prompt(f"turn {turn}")
        for title in ("Lanterns -> lamps", "Lanterns -> lamps" if turn else "Lamps"):
            record = {"type": "ai-title", "aiTitle": title, "sessionId": ONE}
            world.lines[next(iter(world.lines))].append(json.dumps(record))
    world.write(tmp_path)
    with open_fresh(find_homes([tmp_path])) as index:
        said = ask(index, "lanterns", newest=True)
        assert len(said.hits) == 2
        for how in ({"exact": True}, {"regex": True}):
            found = ask(index, "anterns", **how)
            assert [hit.offset for hit in found.hits] == [hit.offset for hit in said.hits]
        assert [hit.offset for hit in ask(index, "->").hits] == [hit.offset for hit in said.hits]


def test_a_bad_pattern_is_the_callers_mistake(index):
    with pytest.raises(UsageError) as caught:
        ask(index, "(", regex=True)
    assert caught.value.hint
    with pytest.raises(UsageError):
        ask(index, "a", regex=True, exact=True)


def test_a_scan_ends_when_patience_does(index, monkeypatch):
    monkeypatch.setattr(TimeBudget, "ends", patient_for(3))
    found = ask(index, "o", exact=True)
    assert any("stopped" in note for note in found.notes)


@pytest.mark.parametrize(
    ("pattern", "said", "hits"),
    [
        (r"(x|x)+y|lantern \d", "x" * 50, ["lantern 7"]),
        (r"a lantern (x|x)+y", "a lantern " + "x" * 50, []),
        (r"(x|x)+y|lantern \d", "xy " + "x" * 50, ["lantern 7", "xy " + "x" * 50]),
    ],
)
def test_a_pattern_that_takes_years_is_stopped_and_what_was_found_is_shown(
    tmp_path, monkeypatch, pattern, said, hits
):
    world = World()
    world.prompt(said)
    world.prompt("lantern 7")
    world.write(tmp_path)
    monkeypatch.setattr(searching, "TimeBudget", lambda: TimeBudget(0.5))
    with open_fresh(find_homes([tmp_path])) as index:
        found = ask(index, pattern, regex=True)
    assert [hit.snippet for hit in found.hits] == hits
    assert any("the pattern took too long" in note for note in found.notes)


def test_where_one_session_has_it_all_the_search_ends_when_patience_does(index, monkeypatch):
    monkeypatch.setattr(searching, "RANKED_AT_ONCE", 2)
    monkeypatch.setattr(TimeBudget, "ends", patient_for(1))
    found = ask(index, "orchard OR the OR a", per_session=1)
    assert found.hits
    assert any("stopped" in note for note in found.notes)


def patient_for(steps):
    left = [steps]

    def ends(self):
        left[0] -= 1
        self.is_over = left[0] < 0
        return self.is_over

    return ends


HOSTILE = [
    '"', "'", "*", "^", "(", ")", "{", "}", ":", "-", "+", "AND", "OR", "NOT", "NEAR", "NEAR/2",
    "said:", "rowid", "\x00", "\x01", "\x1b[31m", "\u202e", "🎉", "👩\u200d👧", "שלום", "\ud800",
    "é", "tool:", "is:", "file:[", "file:*a*b*c*", "since:", "before:9999", "session:%", "a" * 300,
    " ", "\n", "word:", "OR OR", "((((", "\\", "%", "_", ";", "--", "/*", "漢字", "\u0661\u0662",
]  # fmt: skip


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_any_text_is_a_query(index, count):
    rng = random.Random(count)
    for number in range(count):
        text = "".join(
            rng.choice(HOSTILE) + rng.choice(["", " "]) for _ in range(rng.randint(0, 9))
        )
        if number % 3 == 0:
            text = "".join(chr(rng.randrange(0x3000)) for _ in range(rng.randint(0, 12)))
        options = {"with_results": number % 2 == 0, "newest": number % 5 == 0, "limit": 2}
        options["exact"] = number % 7 == 0 and bool(text.strip())
        search(index, text, now=NOW, zone=UTC, **options)


@pytest.mark.parametrize(
    "query",
    [
        " ".join(f"w{number}" for number in range(2_000)),
        " OR ".join(f"w{number}" for number in range(500)),
        " ".join(f"-w{number}" for number in range(500)),
        "(a OR " * 60 + "retry" + ")" * 60,
        "(a OR (b " * 45 + "retry" + "))" * 45,
        "-(-(" * 49 + "retry" + "))" * 49,
        " ".join(f"type:t{number}" for number in range(500)),
        "x" * 100_000,
        '"' + "retry loop " * 5_000 + '"',
    ],
    ids=lambda query: query[:12],
)
def test_queries_may_be_absurd(index, query):
    ask(index, query)
    ask(index, query, with_results=True, newest=True)


def test_dead_texts_and_vanished_records_are_no_hits(tmp_path, monkeypatch):
    world = make_world()
    home = tmp_path / "home"
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    world.write(home)
    with open_fresh(find_homes((home,))):
        pass
    place = next(place for place in world.lines if place.endswith(f"{TWO}.jsonl"))
    changed = [line.replace("offen", "geschlossen") for line in world.lines[place]]
    log = home / "projects" / place
    log.write_text("\n".join(changed[:1]) + "\n", "utf-8")
    with open_fresh(find_homes((home,))) as index:
        assert not ask(index, "offen").hits
        assert not ask(index, "数据库").hits
        assert [hit.session for hit in ask(index, "geschlossen").hits] == [TWO]
        log.write_text("", "utf-8")
        found = ask(index, "geschlossen")
        assert not found.hits
        assert any("left out" in note for note in found.notes)
        os.remove(log)
        assert not ask(index, "geschlossen").hits


def test_a_prompt_is_shown_once_though_the_home_lists_it_too(tmp_path, monkeypatch):
    world = make_world()
    home = tmp_path / "home"
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    world.write(home)
    lines = [
        {"display": "fix the retry loop", "timestamp": 1_793_530_800_000, "sessionId": ONE},
        {"display": "the lost orchid", "timestamp": 1_793_530_800_000, "sessionId": "gone-1"},
    ]
    (home / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with open_fresh(find_homes((home,))) as index:
        assert "history" not in {hit.kind for hit in ask(index, "retry").hits}
        assert "history" not in {hit.kind for hit in ask(index, "etry", exact=True).hits}
        (hit,) = ask(index, "orchid is:prompt").hits
        assert (hit.kind, hit.session, hit.project) == ("history", "gone-1", None)
        assert [hit.kind for hit in ask(index, "rchi", exact=True).hits] == ["history"]


def test_a_prompt_is_shown_once_though_it_was_queued_before(tmp_path, monkeypatch):
    """Sessions of `claude -p` note every prompt in the queue before they take it."""
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    log = tmp_path / "home" / "projects" / "-srv" / f"{ONE}.jsonl"
    log.parent.mkdir(parents=True)
    common = {"sessionId": ONE, "timestamp": "2026-11-01T10:00:00.000Z"}
    queued = {"type": "queue-operation", "operation": "enqueue", "content": "mend the gutter"}
    taken = {"type": "queue-operation", "operation": "dequeue"}
    prompt = {"type": "user", "uuid": "u-1", "message": {"content": "mend the gutter"}}
    never = queued | {"content": "paint the gutter"}
    lines = [json.dumps(each | common) + "\n" for each in (queued, taken, prompt, never)]
    log.write_text("".join(lines))
    with open_fresh(find_homes((tmp_path / "home",))) as index:
        for words, options in (("mend", {}), ("end the gutt", {"exact": True})):
            assert [hit.kind for hit in ask(index, words, **options).hits] == ["prompt"]
        for words, options in (("paint", {}), ("aint the gutt", {"exact": True})):
            assert [hit.kind for hit in ask(index, words, **options).hits] == ["note"]


def test_hits_of_the_samples_open(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path))
    with open_fresh(find_homes((SAMPLES,))) as index:
        found = ask(index, "", with_results=True)
        assert found.hits
        for hit in found.hits:
            check_opens(hit)


@pytest.mark.slow
@needs_corpus
def test_words_of_prompts_of_the_corpus_find_their_prompts(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path))
    with open_fresh(find_homes((CORPUS,))) as index:
        prompts = index.db.execute(
            "SELECT record, part FROM texts WHERE kind = ? AND record IS NOT NULL",
            (TextKind.PROMPT,),
        ).fetchall()
        rng = random.Random(7)
        for record, part in rng.sample(prompts, min(40, len(prompts))):
            words = sorted(set(index.texts(record)[part].text.split()))
            for word in rng.sample(words, min(6, len(words))):
                check_found(index, record, word)


def check_found(index, record, word):
    """The *word* of a text finds its record, among those of its session."""
    (session,) = index.db.execute(
        "SELECT s.session FROM records r JOIN sessions s ON s.id = r.session WHERE r.id = ?",
        (record,),
    ).fetchone()
    query = written(All((Word(word), FieldFilter("session", session))))
    found = search(index, query, now=NOW, zone=UTC, limit=100_000)
    places = {(hit.log, hit.offset): hit for hit in found.hits}
    assert index.place(record) in places, (word, index.place(record))
    check_opens(places[index.place(record)])
