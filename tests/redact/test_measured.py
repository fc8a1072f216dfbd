"""Precision and recall on a labelled set, with detect-secrets as a second opinion."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest
from detect_secrets import SecretsCollection
from detect_secrets.settings import default_settings

from redact.labelled import labelled, measure
from turnlog.redact import find_secrets, redact_line

CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or Path(__file__).parents[3] / "shared/corpus/claude"
)
PRECISION, RECALL = 0.99, 0.94
# What is missed on purpose: a word next to "password" is too often a word about passwords.
MISSED = {"word in a file"}


def ours(text):
    return [text[each.start : each.end] for each in find_secrets(text)]


def in_json(text):
    line = json.dumps({"content": [{"text": f"before\n{text}\nafter"}]})
    return [json.loads(f'"{line[each.start : each.end]}"') for each in find_secrets(line)]


@pytest.mark.parametrize("find", [ours, in_json])
@pytest.mark.parametrize("seed", [1318, 7, 2026])
def test_precision_and_recall_on_the_labelled_set(find, seed):
    texts = labelled(seed)
    assert sum(each.secret is not None for each in texts) > 500
    assert sum(each.secret is None for each in texts) > 700
    result = measure(find, texts)
    assert result.precision >= PRECISION, result.false[:10]
    assert result.recall >= RECALL, [each for each in result.missed if each.category not in MISSED]


def test_every_category_is_found_or_left_alone():
    missed, false = measure(ours, labelled()).wrong()
    assert max(false.values(), default=0) <= 1
    assert {name for name, count in missed.items() if count > 3} == MISSED


def test_masking_the_labelled_set_leaves_json_whole():
    for each in labelled(seed=3):
        line = json.dumps({"text": each.text}).encode()
        assert list(json.loads(redact_line(line))) == ["text"]


def theirs(texts, place):
    """What detect-secrets finds in each text, as kind and value."""
    lines, owners = [], []
    for number, text in enumerate(texts):
        for line in text.split("\n"):
            lines.append(line)
            owners.append(number)
    (place / "lines.txt").write_text("\n".join(lines), "utf-8")
    collection = SecretsCollection(root=os.fspath(place))
    with default_settings():
        collection.scan_file("lines.txt")
    found = [[] for _ in texts]
    for _, secret in collection:
        found[owners[secret.line_number - 1]].append((secret.type, secret.secret_value))
    return found


# Why detect-secrets finds something that turnlog does not, by the category of the text.
ONLY_THEIRS = {
    "validation rule": "rules for a password are no password",
    "translation": "the label of an input field in another language",
    "address": "the throw-away password of a server on this machine",
    "artifact": "the version of a package whose name ends in password",
    "public key": "a public key is public",
    "identifier": "checksums and cache keys are random, and no secrets",
    "placeholder": "a value that says that it is fake",
    "program text": "a name in code",
    "word in a file": "a word next to a name is mostly no password",
    "private key": "they report the line BEGIN, turnlog the key behind it",
    "openssh key": "they report the line BEGIN, turnlog the key behind it",
    "numbered key": "they report the line BEGIN, turnlog the key behind it",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Every labelled text, with what turnlog finds in it and what detect-secrets does."""
    texts = labelled()
    opinions = theirs([each.text for each in texts], tmp_path_factory.mktemp("second"))
    return [(each, ours(each.text), their) for each, their in zip(texts, opinions, strict=True)]


def test_detect_secrets_finds_nothing_more_that_is_not_explained(both):
    more = {
        each.category
        for each, mine, their in both
        for _, value in their
        if not any(value in one or one in value for one in mine)
    }
    assert more <= set(ONLY_THEIRS), more - set(ONLY_THEIRS)
    # It does find things: most of what it reports is a secret that both find.
    assert sum(bool(mine and their) for each, mine, their in both if each.secret) > 100


def test_what_only_turnlog_finds_is_labelled_as_a_secret(both):
    assert [each for each, mine, their in both if mine and not their and not each.secret] == []


# What detect-secrets calls a secret in real logs, and what it is.
REAL = (
    ("uuid", re.compile(r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")),
    ("digest, commit or other hexadecimal id", re.compile(r"(?i)(?:sha\d+[:-])?[0-9a-f]{6,128}")),
    ("id of a message, call or request", re.compile(r"(?:msg|toolu|req|srvtoolu|call)_\w{8,}")),
    ("signature or image in base64", re.compile(r"[A-Za-z0-9+/]{100,}={0,2}")),
    ("path", re.compile(r"(?:[\w.@~-]*/)+[\w.@ -]*")),
    ("words joined", re.compile(r"[A-Za-z]+(?:[-_.][A-Za-z0-9]+)*")),
    ("masked before it was published", re.compile(r".*(?i:redacted).*")),
)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_what_detect_secrets_finds_in_real_logs_is_explained(tmp_path):
    rng = random.Random(4)
    paths = sorted(CORPUS.rglob("*.jsonl"))
    lines = []
    for path in rng.sample(paths, min(40, len(paths))):
        short = [each for each in path.read_bytes().split(b"\n") if len(each) < 3000]
        lines += rng.sample(short, min(20, len(short)))
    texts = [line.decode("utf-8", "replace") for line in lines]
    unexplained = [
        (kind, value)
        for text, opinion in zip(texts, theirs(texts, tmp_path), strict=True)
        for kind, value in opinion
        if not any(pattern.fullmatch(value) for _, pattern in REAL) and value not in ours(text)
    ]
    assert unexplained == []
    assert [ours(text) for text in texts if ours(text)] == []
