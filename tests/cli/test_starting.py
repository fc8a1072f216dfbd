"""A command starts with less, and whoever wants more later gets it."""

from __future__ import annotations

import subprocess
import sys


def said(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_msgspec_takes_the_types_that_python_has():
    names = said(
        "import sys; from turnlog.cli.starting import start; start()\n"
        "print(*(name for name in ('msgspec', 'typing_extensions') if name in sys.modules))"
    )
    assert names == ["msgspec"]


def test_others_still_get_typing_extensions():
    code = (
        "from turnlog.cli.starting import start; start()\n"
        "import typing_extensions; print(typing_extensions.__name__)"
    )
    assert said(code) == ["typing_extensions"]


def test_what_was_imported_before_stays():
    code = (
        "import sys, typing_extensions; from turnlog.cli.starting import start; start()\n"
        "print(sys.modules['typing_extensions'] is typing_extensions)"
    )
    assert said(code) == ["True"]
