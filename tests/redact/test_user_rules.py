"""What people add to the rules: own patterns and what is allowed; broken ones change nothing."""

from __future__ import annotations

import json
import random
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redact.planted import KINDS, SHAPES, plant
from turnlog.redact import (
    NO_RULES,
    Rules,
    find_secrets,
    redact,
    redact_line,
    redact_value,
    rules_from,
)


def rules(**settings_):
    made, problems = rules_from(settings_)
    assert problems == ()
    return made


def test_nothing_set_is_nothing_added():
    assert rules_from({}) == (NO_RULES, ())


def test_a_pattern_of_ones_own_is_masked_by_its_name():
    own = rules(patterns=["ORCH-[0-9]{8}", {"name": "badge", "pattern": "badge=([a-z]+)"}])
    assert redact("x ORCH-12345678 y", own) == "x [redacted pattern] y"
    assert redact("badge=heron; badge=", own) == "badge=[redacted badge]; badge="
    assert redact("ORCH-1234", own) == "ORCH-1234"
    kinds = [(each.kind, each.start, each.end) for each in find_secrets("é ORCH-12345678", own)]
    assert kinds == [("pattern", 2, 15)]
    data = "é ORCH-12345678".encode()
    assert [(each.start, each.end) for each in find_secrets(data, own)] == [(3, 16)]


@pytest.mark.parametrize(
    "pattern", ["[a-z]+", "[^a]+", ".+", "e", "[\\[\\] ]", "redacted", "pattern", "\\w"]
)
@settings(max_examples=15)
@given(text=st.text(alphabet='abe [](){}\n"\\é', max_size=60))
def test_a_greedy_pattern_is_masked_once_and_leaves_lines_json(pattern, text):
    own = rules(patterns=[pattern])
    masked = redact(text, own)
    assert redact(masked, own) == masked
    line = json.dumps({"b": text, "c": [text, 3]}).encode()
    told = json.loads(redact_line(line, own))
    assert [type(each) for each in told.values()] == [str, list]
    assert redact_value({"n": 3}, own) == {"n": 3}


def test_a_pattern_does_not_hide_other_secrets():
    own = rules(patterns=["ada"])
    for number, kind in enumerate(KINDS):
        planted = plant(random.Random(number), kind)
        assert planted.secret not in redact(f"ada {planted.text} ada", own)


def test_what_is_allowed_is_left_alone():
    secret = SHAPES["github"](random.Random(1))
    other = SHAPES["github"](random.Random(2))
    text = f"{secret} and {other}"
    for entry in (
        secret,
        "sha256:" + sha256(secret.encode()).hexdigest()[:16],
        f"re:^{secret[:12]}",
    ):
        masked = redact(text, rules(allow=[entry]))
        assert secret in masked
        assert other not in masked
    assert redact_value({"password": "hunter2!"}, rules(allow=["hunter2!"])) == {
        "password": "hunter2!"
    }


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"patterns": ["("]}, "redact.patterns[0]"),
        ({"patterns": "ORCH"}, "redact.patterns"),
        ({"patterns": [3]}, "redact.patterns[0]"),
        ({"patterns": ["a*"]}, "redact.patterns[0]"),
        ({"patterns": [""]}, "redact.patterns[0]"),
        ({"patterns": ["x" * 2000]}, "redact.patterns[0]"),
        ({"patterns": [{"name": "]\x1b[2J", "pattern": "x"}]}, "redact.patterns[0]"),
        ({"patterns": [{"name": "x"}]}, "redact.patterns[0]"),
        ({"patterns": ["(" * 5000]}, "redact.patterns[0]"),
        ({"allow": [3]}, "redact.allow[0]"),
        ({"allow": [""]}, "redact.allow[0]"),
        ({"allow": ["sha256:12"]}, "redact.allow[0]"),
        ({"allow": ["sha256:" + "z" * 64]}, "redact.allow[0]"),
        ({"allow": ["re:["]}, "redact.allow[0]"),
        ({"allow": {"a": 1}}, "redact.allow"),
        ({"colour": 1}, "redact.colour"),
    ],
)
def test_what_cannot_be_read_is_told_and_the_others_hold(table, where):
    good = (
        {"patterns": [*table["patterns"], "ORCH-[0-9]+"]}
        if isinstance(table.get("patterns"), list)
        else table
    )
    made, problems = rules_from(good)
    assert [each.where for each in problems] == [where]
    assert problems[0].reason
    if good is not table:
        assert redact("ORCH-77", made) == "[redacted pattern]"
    assert redact("password=hunter2!", made) == "password=[redacted password]"


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)+$", "(\\w+\\s?)+x", "(x+x+)+y", "a*a*a*a*a*a*a*b", "([a-z]+)*\\d"]
)
def test_a_pattern_that_takes_for_ever_is_refused_at_once(pattern):
    made, problems = rules_from({"patterns": [pattern]})
    assert made == Rules()
    assert "for ever" in problems[0].reason or "empty" in problems[0].reason


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8), st.lists, max_leaves=5
    )
)
def test_any_table_gives_rules(value):
    for name in ("patterns", "allow"):
        made, _ = rules_from({name: value})
        assert isinstance(made, Rules)
        made, _ = rules_from({name: [value]})
        assert isinstance(made, Rules)
