"""Parameters of which `make test` tries some, and `make test-slow` the rest."""

import pytest


def sampled(cases, stride):
    """Return *cases* as parameters; all but every *stride*-th are slow."""
    return [
        case if number % stride == 0 else _slow(case) for number, case in enumerate(list(cases))
    ]


def _slow(case):
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.slow])
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
