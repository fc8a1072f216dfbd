"""Searching what people and models really wrote: the real sessions, eleven times, near 1 GB.

Generated logs are a soup of words that are all equally common. In real ones a few words are in most
texts and most words in few, texts are longer, and what tools answered is found by other words.
"""

from __future__ import annotations

import os
import shutil

from . import searching
from .data import BASE, real_home
from .index import Index
from .queries import queries_for
from .table import Row
from .trees import multiplied

_COPIES = 11
_WHAT = f"search in {_COPIES} times the real sessions"


def bench() -> list[Row]:
    original = real_home()
    if original is None:
        return [Row(_WHAT, "", "", "skipped: no TURNLOG_CORPUS")]
    place = os.path.join(BASE, "real-index")
    index = Index(multiplied(original, _COPIES), place)
    try:
        index.build()
        return searching.timed(index.home, index.environ, queries_for(index.home), _WHAT)
    finally:
        shutil.rmtree(place, ignore_errors=True)
