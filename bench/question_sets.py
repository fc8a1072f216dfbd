"""Questions about the sessions of a home, with the sessions that answer them; without a model.

Each set takes its questions from records that describe a session, and names the records to leave
out of the index while asking. Where several sessions contain the same evidence, such as a fork, any
of them is a right answer. The same home always gives the same questions.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from turnlog.index.connection import Index
from turnlog.index.texts import ANSWERED, Text, TextKind
from turnlog.records.meaning import typed_text
from turnlog.records.record import Assistant, CallBlock, Record, Summary
from turnlog.records.record_types import AiTitle, CustomTitle
from turnlog.search.language import Field

SEED = 53
_SHORTEST_PROMPT, _LONGEST_PROMPT = 6, 60
_SHORTEST_SUBJECT = 3
_LONG_ANSWER = 40
_STEMS, _RECALLED, _STILL_THERE = 5, 6, 2
_WORD = re.compile(r"[^\W\d_]{3,}")
_PLAIN_WORD = re.compile(r"(?<!['\u2019])\b[a-z]{4,}\b(?!['\u2019])")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_HEREDOC = r"<<-?\s*['\"\\]?\w+['\"]?[^\n]*\n\s*(?P<{}>[^\n]+)"
_COMMIT = re.compile(
    r"\bgit\b[^\n;|&]{0,80}?\scommit\b[^\n;|&]*?\s"
    rf"(?:(?:-F|--file)[ =]?-\s+{_HEREDOC.format('file')}"
    rf"|(?:-[a-z]*m|--message)[ =]?\s*(?:\"\$\(cat\s+{_HEREDOC.format('heredoc')}"
    r"|\"(?P<double>(?:\\.|[^\"\\])+)\"|'(?P<single>[^']+)'))"
)
_SHELL_ESCAPE = re.compile(r"\\([\"$`\\])")
_QUOTES = re.compile(r'["“”„]')
_FILTER = re.compile(rf"(?<![^\s(])-*({'|'.join((*get_args(Field), 'word'))}):", re.IGNORECASE)
_DASHES = re.compile(r"(?<![^\s(])-+")
_OPERATORS = {"OR": "or", "AND": "and", "NOT": "not", "|": ""}
_RECORDS = """
SELECT r.id, r.length, s.session, a.name
FROM records r
JOIN logs l ON l.id = r.id >> 40
JOIN sessions s ON s.id = r.session
JOIN names a ON a.id = r.author
ORDER BY l.path, r.id
"""


class Entry(NamedTuple):
    """A record of a home, with the place of its line."""

    path: str
    offset: int
    length: int
    session: str
    author: str
    record: Record | None
    texts: list[Text]

    def said(self, *kinds: TextKind) -> Iterator[str]:
        """Yield the texts of *kinds*; without kinds, all that are searched by default."""
        for text in self.texts:
            if text.kind in kinds if kinds else text.kind not in ANSWERED:
                yield text.text


class QuestionSet(NamedTuple):
    name: str
    questions: dict[str, set[str]]
    """The sessions that are right answers, by question."""
    left_out: list[Entry]


def read_entries(index: Index) -> list[Entry]:
    """Read all records of the sessions in *index*."""
    return [
        Entry(
            *index.place(key), length, *owner, index.record(key, length), index.texts(key, length)
        )
        for key, length, *owner in index.db.execute(_RECORDS).fetchall()
    ]


def said_texts(entries: Iterable[Entry]) -> Iterator[tuple[str, str]]:
    """Yield sessions and their texts; a title that is written again is yielded once."""
    titles = set()
    for entry in entries:
        for text in entry.said():
            if isinstance(entry.record, AiTitle | CustomTitle):
                if (entry.session, text) in titles:
                    continue
                titles.add((entry.session, text))
            yield entry.session, text


def as_typed(text: str) -> str:
    """Return *text* as a person would type it: without operators of the search language."""
    text = _DASHES.sub("", _FILTER.sub(r"\1 ", _QUOTES.sub("", text)))
    runs = (run.rstrip("*") for run in text.split())
    return " ".join(filter(None, (_OPERATORS.get(run, run) for run in runs)))


def titles(entries: Sequence[Entry], _frequencies: Mapping[str, int]) -> QuestionSet:
    """AI titles, custom titles and summaries, all of them left out."""
    homes = defaultdict(set)
    for entry in entries:
        if uuid := getattr(entry.record, "uuid", None):
            homes[uuid].add(entry.session)
    questions = defaultdict(set)
    left_out = []
    for entry in entries:
        match entry.record:
            case AiTitle(ai_title=str(title)) | CustomTitle(custom_title=str(title)):
                questions[as_typed(title)].add(entry.session)
            case Summary(leaf_uuid=leaf):  # It describes the session with that record.
                questions[as_typed(entry.record.text)] |= homes.get(leaf, set())
            case _:
                continue
        left_out.append(entry)
    return QuestionSet("titles", questions, left_out)


def commits(entries: Sequence[Entry], _frequencies: Mapping[str, int]) -> QuestionSet:
    """Subjects of commits; all records that contain one are left out."""
    sessions = defaultdict(set)
    for entry in entries:
        if isinstance(entry.record, Assistant):
            for block in entry.record.blocks:
                if isinstance(block, CallBlock) and block.name == "Bash":
                    for subject in subjects(str(block.input.get("command"))):
                        sessions[subject].add(entry.session)
    repeated = [subject.casefold() for subject in sessions]
    left_out = [
        entry
        for entry in entries
        if any(subject in text.text.casefold() for text in entry.texts for subject in repeated)
    ]
    questions = defaultdict(set)
    for subject, owners in sessions.items():
        questions[as_typed(subject)] |= owners
    return QuestionSet("commits", questions, left_out)


def subjects(command: str) -> Iterator[str]:
    """Yield the subjects of the commits that a shell *command* makes."""
    for found in _COMMIT.finditer(command):
        message = next(filter(None, found.groups()))
        if found["double"]:
            message = _SHELL_ESCAPE.sub(r"\1", message)
        subject = message.strip().partition("\n")[0].strip()
        if len(subject.split()) >= _SHORTEST_SUBJECT and "$(" not in subject:
            yield subject


def prompts(entries: Sequence[Entry], _frequencies: Mapping[str, int]) -> QuestionSet:
    """Typed prompts without a third of their words."""
    questions = defaultdict(set)
    for prompt, sessions in _prompts(entries).items():
        words = prompt.split()
        kept = _random(prompt).sample(range(len(words)), len(words) - len(words) // 3)
        questions[as_typed(" ".join(words[number] for number in sorted(kept)))] |= sessions
    return QuestionSet("prompts", questions, [])


def stems(entries: Sequence[Entry], frequencies: Mapping[str, int]) -> QuestionSet:
    """The rarest words of typed prompts, each in another inflection."""
    found = _prompts(entries)
    inflections = _inflections(
        {word for prompt in found for word in _PLAIN_WORD.findall(prompt.lower())}, frequencies
    )
    questions = defaultdict(set)
    for prompt, sessions in found.items():
        words = {word for word in _PLAIN_WORD.findall(prompt.lower()) if inflections[word]}
        if len(words) >= _STEMS:
            choose = _random(prompt).choice
            rarest = _rarest(words, frequencies)[:_STEMS]
            questions[" ".join(choose(inflections[word]) for word in rarest)] |= sessions
    return QuestionSet("stems", questions, [])


def answers(entries: Sequence[Entry], frequencies: Mapping[str, int]) -> QuestionSet:
    """The rarest words of the first sentence of each session's last long answer, left out."""
    last = {}
    copies = defaultdict(list)
    for entry in entries:
        for text in entry.said(TextKind.RESPONSE):
            if len(text.split()) >= _LONG_ANSWER:
                copies[text].append(entry)
                if entry.author == "assistant":
                    last[entry.session] = text
    left_out = {entry[:2]: entry for text in last.values() for entry in copies[text]}
    remaining = defaultdict(set)
    for entry in entries:
        if entry[:2] not in left_out:
            for text in entry.said():
                remaining[entry.session].update(_WORD.findall(text.lower()))
    questions = defaultdict(set)
    for session, text in last.items():
        words = _first_words(text, frequencies)
        # Without any of the words in the rest of the session, no search could find it.
        if len(remaining[session].intersection(words)) >= _STILL_THERE:
            _random(text).shuffle(words)
            questions[" ".join(words)] |= {entry.session for entry in copies[text]}
    return QuestionSet("answers", questions, list(left_out.values()))


SETS = (titles, commits, prompts, stems, answers)


def _prompts(entries: Iterable[Entry]) -> dict[str, set[str]]:
    """Return typed prompts that are neither short nor long, with their sessions."""
    found = defaultdict(set)
    for entry in entries:
        for text in entry.said(TextKind.PROMPT) if entry.author == "human" else ():
            prompt = typed_text(text).strip()
            is_command = prompt.startswith("<")
            if not is_command and _SHORTEST_PROMPT <= len(prompt.split()) <= _LONGEST_PROMPT:
                found[prompt].add(entry.session)
    return found


def _first_words(text: str, frequencies: Mapping[str, int]) -> list[str]:
    """Return the rarest words of the first sentence that has enough of them."""
    for sentence in _SENTENCE_END.split(text):
        words = set(_WORD.findall(sentence.lower()))
        if len(words) >= _RECALLED:
            return _rarest(words, frequencies)[:_RECALLED]
    return []


def _rarest(words: Iterable[str], frequencies: Mapping[str, int]) -> list[str]:
    return sorted(words, key=lambda word: (frequencies.get(word, 0), word))


def _inflections(words: Iterable[str], vocabulary: Iterable[str]) -> dict[str, list[str]]:
    """Return other words of the *vocabulary* with the same stem, else made ones."""
    made = {word: _made_inflections(word) for word in sorted(words)}
    known = {word for word in vocabulary if _PLAIN_WORD.fullmatch(word)}
    stem_of = _stems({*known, *made, *(each for several in made.values() for each in several)})
    by_stem = defaultdict(list)
    for word in sorted(known):
        by_stem[stem_of[word]].append(word)
    return {
        word: [each for each in by_stem[stem_of[word]] if each != word]
        or [each for each in several if stem_of[each] == stem_of[word]]
        for word, several in made.items()
    }


def _made_inflections(word: str) -> list[str]:
    for end in ("ing", "ed", "s"):
        if word.endswith(end):
            return [word.removesuffix(end)]
    return [f"{word}s", f"{word.removesuffix('e')}ed", f"{word.removesuffix('e')}ing"]


def _stems(words: Iterable[str]) -> dict[str, str]:
    """Return the Porter stem of each word, as SQLite has it."""
    numbered = dict(enumerate(sorted(words), 1))
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE words USING fts5(word, tokenize='porter unicode61')")
    db.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(words, instance)")
    db.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", numbered.items())
    return {numbered[number]: stem for stem, number in db.execute("SELECT term, doc FROM stems")}


def _random(text: str) -> random.Random:
    """Return a generator that depends on *text* only, whatever else is in the home."""
    return random.Random(f"{SEED} {text}")
