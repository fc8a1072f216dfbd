"""Public names are exported on purpose, and every module has a docstring.

``lint-imports`` checks which package may import which.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import turnlog
import turnlog.errors

SOURCE = Path(turnlog.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

BANNED_NAMES = {"utils", "util", "helpers", "common", "misc", "manager", "base"}


@cache
def tree_of(module):
    return ast.parse(module.read_text("utf-8"))


def name_of(module):
    return str(module.relative_to(SOURCE.parent).with_suffix("")).replace("/", ".")


def test_every_module_says_what_it_owns():
    for module in MODULES:
        assert module.stem not in BANNED_NAMES
        assert ast.get_docstring(tree_of(module)), f"{module}: no docstring"


def test_nothing_connects_to_the_network():
    clients = {"aiohttp", "ftplib", "http", "httpx", "requests", "smtplib", "socket", "urllib3"}
    for module in MODULES:
        tree = tree_of(module)
        found = {
            name.partition(".")[0] if name != "urllib.request" else "requests"
            for node in ast.walk(tree)
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
        }
        # Servers listen on loopback addresses, and in that module only.
        assert found & clients <= ({"socket"} if module.name == "loopback.py" else set()), module


def test_public_names_are_exported_on_purpose():
    tree = ast.parse((SOURCE / "__init__.py").read_text("utf-8"))
    typed = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("turnlog.")
        for alias in node.names
    }
    assert typed == {*turnlog.__all__, "__version__"}
    for name in turnlog.__all__:
        assert getattr(turnlog, name) is not None
    assert set(turnlog.__all__) <= set(dir(turnlog))


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'conversation'"):
        _ = turnlog.conversation


def test_the_error_tree_in_the_docstring_is_the_tree():
    drawn = set(re.findall(r"[├└]── (\w+)", turnlog.errors.__doc__))
    classes = {
        name
        for name, kind in vars(turnlog.errors).items()
        if isinstance(kind, type) and issubclass(kind, turnlog.TurnlogError)
    }
    assert drawn == classes - {"TurnlogError"}
    assert classes <= set(turnlog.__all__)


def test_importing_turnlog_imports_nothing_heavy():
    import subprocess
    import sys

    heavy = ["msgspec", "click", "rich", "logging", "asyncio", "turnlog.storage", "turnlog.records"]
    code = f"import sys, turnlog; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
