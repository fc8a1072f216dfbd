"""What a table prints names its row, and so does what comes near to nothing else."""

import pytest

from turnlog.catalog.names import (
    nearest,
    resolve_key,
    resolve_row,
    short_model,
    shown_name,
    whole_name,
)
from turnlog.errors import UsageError

MODELS = [("claude-fable-5",), ("claude-opus-4-5-20251101",), ("claude-opus-4-6",), ("gpt-9",)]
BRANCHES = [
    ("/home/ada/orchard", "main"),
    ("/home/ada/lighthouse", "main"),
    ("/home/ada/lighthouse", "fix/lamp"),
    ("/home/ada/lighthouse", None),
]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("claude-fable-5", "claude-fable-5"),
        ("fable-5", "claude-fable-5"),
        ("FABLE-5", "claude-fable-5"),
        ("fab", "claude-fable-5"),
        ("opus-4-5", "claude-opus-4-5-20251101"),
        ("claude-opus-4-5…", "claude-opus-4-5-20251101"),
        ("gpt-9", "gpt-9"),
    ],
)
def test_a_model_is_named_as_tables_print_it(typed, meant):
    assert resolve_key(typed, ("model",), MODELS) == (meant,)


@pytest.mark.parametrize(
    "unit", ["model", "project", "session", "subagent", "tool", "branch", "day"]
)
@pytest.mark.parametrize("name", [None, "claude-x", "/home/ada/orchard", "0123456789ab"])
def test_whatever_is_shown_is_taken(unit, name):
    assert resolve_key(shown_name(unit, name), (unit,), [(name,), ("another",)]) == (name,)
    assert resolve_key(whole_name((unit,), (name,)), (unit,), [(name,), ("another",)]) == (name,)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("/home/ada/orchard,main", BRANCHES[0]),
        ("orchard,main", BRANCHES[0]),
        ("orchard", BRANCHES[0]),
        ("fix/lamp", BRANCHES[2]),
        ("lamp", BRANCHES[2]),
        ("lighthouse,not known", BRANCHES[3]),
        ("not known", BRANCHES[3]),
    ],
)
def test_one_name_of_several_is_enough_where_it_tells_rows_apart(typed, meant):
    assert resolve_key(typed, ("project", "branch"), BRANCHES) == meant


def test_several_rows_are_told_in_names_that_are_taken():
    with pytest.raises(UsageError) as told:
        resolve_key("main", ("project", "branch"), BRANCHES)
    assert str(told.value) == "'main' matches 2 rows"
    assert told.value.hint == "name one: '/home/ada/lighthouse,main', '/home/ada/orchard,main'"


def test_capitals_tell_apart_where_they_have_to():
    ways = {"Bash": ("Bash",), "bash": ("bash",), "BASH2": ("BASH2",)}
    assert resolve_row("bash", ways) == "bash"
    assert resolve_row("bash2", ways) == "BASH2"
    with pytest.raises(UsageError, match="'BASH' matches 2 tools"):
        resolve_row("BASH", ways, what="tool")


def test_the_end_of_a_path_that_was_cut_names_it():
    paths = {path: (path,) for path in ("/home/ada/orchard/pear.py", "/home/ada/lamp/pear.py")}
    assert resolve_row("…rchard/pear.py", paths) == "/home/ada/orchard/pear.py"
    assert resolve_row("lamp/pear.py", paths) == "/home/ada/lamp/pear.py"


def test_who_names_no_row_is_told_of_the_nearest_not_of_the_first():
    with pytest.raises(UsageError) as told:
        resolve_key("fabel-5", ("model",), MODELS)
    assert told.value.hint == "did you mean 'claude-fable-5'?"
    with pytest.raises(UsageError) as told:
        resolve_key("zzz", ("model",), [(f"m{number}",) for number in range(7)])
    assert told.value.hint == "there are 'm0', 'm1', 'm2', 'm3', 'm4' and 2 more"
    with pytest.raises(UsageError) as told:
        resolve_key("zzz", ("model",), [])
    assert told.value.hint == "there are none"


def test_what_holds_the_word_comes_before_what_is_only_alike():
    names = {name: (name,) for name in ("Bath", "KillBash", "Grep", "Bash")}
    assert nearest("bash", names) == ["Bash", "KillBash", "Bath"]
    assert nearest("", names) == []


def test_a_short_model_is_of_no_day():
    assert short_model("claude-opus-4-5-20251101") == "opus-4-5"
