"""What is a secret in one line is one in all."""

import json

import pytest

from turnlog.redact import NO_RULES, Rules, gather_known, redact, redact_line

PASSWORD = "vT9-kQ2!mZ4x"


def lines(*texts):
    return [json.dumps({"text": text}).encode() for text in texts]


def test_a_value_that_had_a_name_once_is_masked_where_it_has_none():
    rules = gather_known(lines(f"DB_PASSWORD={PASSWORD}"), NO_RULES)
    assert redact(f"the key is {PASSWORD}.", rules) == "the key is [redacted password]."
    assert redact(f"DB_PASSWORD={PASSWORD}", rules) == "DB_PASSWORD=[redacted password]"
    (line,) = lines(f'it said "{PASSWORD}"')
    assert json.loads(redact_line(line, rules)) == {"text": 'it said "[redacted password]"'}


def test_a_value_is_known_however_it_was_escaped():
    value = 'q7"Lm\\2Zp9xW'
    inner = json.dumps({"password": value})
    rules = gather_known(lines(inner), NO_RULES)
    assert value not in redact(f"say {value}", rules)


@pytest.mark.parametrize("value", ["hunter", "sunflowers", "2026111700", "Tr0ub"])
def test_what_may_be_a_word_of_the_text_is_left_where_it_has_no_name(value):
    rules = gather_known(lines(f"password={value}"), NO_RULES)
    assert redact(f"we like {value} here", rules) == f"we like {value} here"


def test_what_is_allowed_stays_allowed():
    allowed = Rules(values=frozenset({PASSWORD}))
    rules = gather_known(lines(f"DB_PASSWORD={PASSWORD}"), allowed)
    assert redact(f"the key is {PASSWORD}", rules) == f"the key is {PASSWORD}"


def test_without_secrets_the_rules_are_what_they_were():
    assert gather_known(lines("nothing to see"), NO_RULES) == NO_RULES
