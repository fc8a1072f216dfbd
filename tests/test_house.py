"""Imports point one way, and public names are exported on purpose."""

import ast
import re
from pathlib import Path

import pytest

import turnlog
import turnlog.errors

SOURCE = Path(turnlog.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

# Each room may import from those on lines above its own, and from itself. Rooms that share a line
# are strangers to one another.
ROOMS = [
    {"errors"},
    {"config"},
    {"inert"},
    {"records"},
    {"prices"},
    {"redact"},
    {"log", "layout"},
    {"sessions"},
    {"keep"},
    {"index"},
    {"questions"},
    {"render"},
    {"store"},
    {"team"},
    {"adapters"},
    {"loopback"},
    {"cli", "mcp", "web"},
]
FLOOR = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
BANNED_NAMES = {"utils", "util", "helpers", "common", "misc", "manager", "base"}


def name_of(module):
    return str(module.relative_to(SOURCE.parent).with_suffix("")).replace("/", ".")


def room_of(module):
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(module):
    """Every name of ours that a module imports, at its top or hidden in a function."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1, f"{name_of(module)} imports relatively across rooms"
            if node.level == 0 and node.module == "turnlog":
                yield from (f"turnlog.{alias.name}" for alias in node.names)
            elif node.level == 0 and node.module:
                yield node.module


def test_imports_point_one_way():
    for module in MODULES:
        room = room_of(module)
        if room == "__init__":
            continue
        assert room in FLOOR, f"{room} is no room of this house; say so in docs/decisions.md first"
        for imported in imports_of(module):
            parts = imported.split(".")
            if parts[0] != "turnlog" or parts[-1] == "__version__" or parts[1] == room:
                continue
            assert FLOOR[parts[1]] < FLOOR[room], f"{name_of(module)} must not import {imported}"


def test_every_module_says_what_it_owns():
    for module in MODULES:
        assert module.stem not in BANNED_NAMES
        assert ast.get_docstring(ast.parse(module.read_text("utf-8"))), f"{module}: no docstring"


def test_public_names_are_exported_on_purpose():
    tree = ast.parse((SOURCE / "__init__.py").read_text("utf-8"))
    typed = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("turnlog.")
        for alias in node.names
    }
    assert typed == set(turnlog.__all__)
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

    heavy = ["msgspec", "click", "rich", "logging", "asyncio", "turnlog.log", "turnlog.records"]
    code = f"import sys, turnlog; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
