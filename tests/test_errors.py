"""Errors, which workers raise as well: they cross to another process as they are."""

import copy
import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest

import turnlog
from turnlog import errors

KINDS = [
    each
    for each in vars(errors).values()
    if inspect.isclass(each) and issubclass(each, errors.TurnlogError)
]


def made(kind):
    if issubclass(kind, errors.LogError):
        more = {"holder": 7} if kind is errors.LogLocked else {"errno": 5}
        return kind("it broke", path="/a/log.jsonl", hint="mend it", **more)
    return kind("it broke", hint="mend it")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_is_the_same_on_the_other_side(kind, again):
    error = made(kind)
    error.add_note("in the orchard")
    other = again(error)
    assert type(other) is kind
    assert (str(other), other.hint, other.args) == ("it broke", "mend it", error.args)
    assert other.__notes__ == ["in the orchard"]
    for name in ("path", "errno", "holder"):
        assert getattr(other, name, None) == getattr(error, name, None)


def test_a_worker_that_fails_says_why(tmp_path):
    with ProcessPoolExecutor(1) as pool:
        found = pool.submit(turnlog.read_last, tmp_path, 1).exception(timeout=60)
    assert isinstance(found, turnlog.NotALog)
    assert found.path == str(tmp_path)
