"""Errors from below name what happened; the command line says what to type instead."""

from __future__ import annotations

import re
from pathlib import Path

import turnlog
from turnlog.cli.hints import HINTS

SOURCE = Path(turnlog.__file__).parent
CODE = re.compile(r'hint ?=.{,160}?\bcode ?= ?"([a-z-]+)"', re.DOTALL)


def test_every_code_has_a_hint_and_every_hint_a_code():
    texts = [path.read_text() for path in SOURCE.rglob("*.py")]
    assert {code for text in texts for code in CODE.findall(text)} == set(HINTS)
