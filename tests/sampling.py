"""Cases and examples of which `make test` tries some, and `make test-slow` all."""

import pytest
from hypothesis import settings


def examples(count):
    """Return how many examples of a property to try in this run, *count* being all of them."""
    return max(1, count * settings.default.max_examples // 100)


def sampled(cases, stride):
    """Return *cases* as parameters; all but every *stride*-th are slow."""
    return [
        case if number % stride == 0 else _slow(case) for number, case in enumerate(list(cases))
    ]


def _slow(case):
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.slow])
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
