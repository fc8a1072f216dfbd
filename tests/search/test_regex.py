"""Patterns of users have Python's syntax, and slow ones end."""

import re
import threading

import pytest

from turnlog.search.regex import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"a{2}b{1,}c{,2}", "aabc"),
        (r"(?<=x)y(?!z)", "xy"),
        (r"(\w)\1", "boot"),
        (r"\N{BULLET}", "•"),
        ("(?i)ÄPFEL", "äpfel"),
        # To `regex` these would be about mistakes: `{i}` is any number of insertions.
        ('f"{i}', 'f"{i}'),
        ("a{e<=1}", "a{e<=1}"),
        ("x{}", "x{}"),
        (r"\{s}", "{s}"),
        ("[{]s}", "{s}"),
    ],
)
def test_a_pattern_has_the_syntax_of_re(pattern, text):
    found = compile_pattern(pattern)
    for each in (text, text.replace("{", ""), text[1:], "f" + text + text, ""):
        ours, theirs = found.search(each), re.search(pattern, each)
        assert (ours and ours.span()) == (theirs and theirs.span())


@pytest.mark.parametrize("pattern", ["(", "a**", r"\p{Lu}", "(?<name>a)", "x(?i)y", "a{3,2}"])
def test_what_re_refuses_is_refused(pattern):
    with pytest.raises(re.error) as theirs:
        re.compile(pattern)
    with pytest.raises(ValueError, match=re.escape(str(theirs.value))):
        compile_pattern(pattern)


def test_a_slow_match_ends_in_any_thread():
    raised = []

    def search():
        try:
            compile_pattern("(x|x)+y").search("x" * 50, timeout=0.1)
        except TimeoutError as error:
            raised.append(error)

    search()
    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert len(raised) == 2
