"""How many secrets are found, and how many findings are false, on the labelled set of the tests.

The set is generated (tests/redact/labelled.py): secrets in many shapes and places, and innocent
texts that look like them. Several seeds are measured together.
"""

from __future__ import annotations

import sys
from pathlib import Path

from turnlog.redact import find_secrets

from .table import Row

PRECISION, RECALL = 99, 94
_SEEDS = range(5)
_TESTS = Path(__file__).parents[1] / "tests"


def bench() -> list[Row]:
    sys.path.append(str(_TESTS))
    from redact.labelled import labelled, measure

    texts = [each for seed in _SEEDS for each in labelled(seed)]
    result = measure(_found, texts)
    secrets = sum(each.secret is not None for each in texts)
    what = f"labelled texts: {secrets:,} with a secret, {len(texts) - secrets:,} without"
    found = f"{result.found:,} of {secrets:,} found"
    false = f"{len(result.false):,} false of {result.found + len(result.false):,}"
    return [
        _row(f"precision on {what}", false, 100 * result.precision, PRECISION),
        _row(f"recall on {what}", found, 100 * result.recall, RECALL),
        *(
            Row(f"  missed: {category}", f"{count:,}", "", "", "", True)
            for category, count in result.wrong()[0].most_common()
        ),
    ]


def _found(text: str) -> list[str]:
    return [text[each.start : each.end] for each in find_secrets(text)]


def _row(what: str, counted: str, percent: float, least: float) -> Row:
    return Row(what, counted, "", f"{percent:.1f} %", f">= {least} %", percent >= least)
