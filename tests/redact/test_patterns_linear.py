"""No pattern of ours takes more than twice the steps for twice the text.

Python's matcher runs in C and tells nobody how often it tried. So this is a small matcher of its
own that reads the same parsed patterns, goes back as Python's does, and counts every character it
looks at. Each pattern is tried on texts that are made of what it looks for, again and again.
"""

import ast
import importlib
import pkgutil
import re
import sys
from itertools import chain
from pathlib import Path

import pytest

import turnlog

parser = re._parser
N = 12
MOST_STEPS = 50_000
_SMALL = 6  # {0,200} is a bound; to count no further than {0,6} shows the same.
_SEARCHING = {"search", "sub", "subn", "finditer", "findall", "split"}
# Patterns that see short texts only.
BOUNDED = {
    "turnlog.redact.names._LEFT": "searches the few bytes before a name",
    "turnlog.redact.credentials._PROGRAM": "searches the 200 bytes before an option",
    "turnlog.records.call_lines._NUMBERED": "searches the first 400 characters of a result",
    "turnlog.query.sql._VIEW": "reads our own views.sql",
    "turnlog.query.sql._COLUMN": "reads our own views.sql",
}


class TooManySteps(Exception):
    pass


class Counting:
    """Matches a pattern and counts the characters that it looks at."""

    def __init__(self, pattern):
        source = pattern.pattern
        if isinstance(source, bytes):
            source = source.decode("latin-1")
        self.flags = pattern.flags
        self.tree = list(parser.parse(source, pattern.flags & ~re.UNICODE & ~re.ASCII))
        self.steps = 0

    def search(self, text):
        """Find every match from left to right, as finditer does."""
        start = 0
        while start <= len(text):
            end = self.match(text, start)
            start = start + 1 if end is None or end == start else end

    def match(self, text, start=0):
        self.text, self.groups = text, {}
        return next(self._run(self.tree, 0, start), None)

    def _run(self, items, at, place):
        if at == len(items):
            yield place
            return
        op, arg = items[at]
        name = str(op)
        if name in {"LITERAL", "NOT_LITERAL", "ANY", "IN", "RANGE", "CATEGORY"}:
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise TooManySteps
            if place < len(self.text) and self._is_one(name, arg, self.text[place]):
                yield from self._run(items, at + 1, place + 1)
            return
        if name == "AT":
            ends = (place,) if self._stands(str(arg), place) else ()
        elif name in {"ASSERT", "ASSERT_NOT"}:
            ends = (place,) if self._looks(*arg, place) == (name == "ASSERT") else ()
        elif name == "BRANCH":
            ends = chain.from_iterable(self._run(each, 0, place) for each in arg[1])
        elif name == "SUBPATTERN":
            ends = self._group(arg[0], arg[3], place)
        elif name == "ATOMIC_GROUP":
            ends = _first(self._run(arg, 0, place))
        elif name == "GROUPREF":
            found = self.groups.get(arg, "")
            ends = (place + len(found),) if self.text.startswith(found, place) else ()
        elif name == "POSSESSIVE_REPEAT":
            ends = _first(self._repeat(*arg, place, is_greedy=True))
        else:
            ends = self._repeat(*arg, place, is_greedy=name == "MAX_REPEAT")
        for end in ends:
            yield from self._run(items, at + 1, end)

    def _group(self, number, items, place):
        for end in self._run(items, 0, place):
            self.groups[number] = self.text[place:end]
            yield end

    def _repeat(self, least, most, items, place, *, is_greedy, done=0):
        least, most = min(least, _SMALL), most if most is parser.MAXREPEAT else min(most, _SMALL)
        if done >= least and not is_greedy:
            yield place
        if done < most:
            for end in self._run(items, 0, place):
                if end > place or done < least:
                    yield from self._repeat(
                        least, most, items, end, is_greedy=is_greedy, done=done + 1
                    )
        if done >= least and is_greedy:
            yield place

    def _looks(self, direction, items, place):
        if direction > 0:
            return next(self._run(items, 0, place), None) is not None
        widest = items.getwidth()[1]
        starts = range(max(0, place - widest), place + 1)
        return any(place in self._run(items, 0, start) for start in starts)

    def _stands(self, where, place):
        text = self.text
        if where in {"AT_BEGINNING", "AT_BEGINNING_STRING"}:
            is_line = self.flags & re.MULTILINE and where == "AT_BEGINNING"
            return place == 0 or bool(is_line and text[place - 1] == "\n")
        if where in {"AT_END", "AT_END_STRING"}:
            is_line = self.flags & re.MULTILINE and where == "AT_END"
            return place == len(text) or bool(is_line and text[place] == "\n")
        around = [0 <= each < len(text) and _is_word(text[each]) for each in (place - 1, place)]
        return (around[0] != around[1]) == (where == "AT_BOUNDARY")

    def _is_one(self, name, arg, char):
        if name == "ANY":
            return char != "\n" or bool(self.flags & re.DOTALL)
        if name == "IN":
            negated = str(arg[0][0]) == "NEGATE"
            found = any(self._is_one(str(op), each, char) for op, each in arg[negated:])
            return found != negated
        forms = {char, char.lower(), char.upper()} if self.flags & re.IGNORECASE else {char}
        if name == "RANGE":
            return any(arg[0] <= ord(form) <= arg[1] for form in forms if len(form) == 1)
        if name == "CATEGORY":
            kind = str(arg).removeprefix("CATEGORY_")
            tests = {"DIGIT": str.isdecimal, "SPACE": str.isspace, "WORD": _is_word}
            return tests[kind.removeprefix("NOT_")](char) != kind.startswith("NOT_")
        return (chr(arg) in forms) == (name == "LITERAL")


def _is_word(char):
    return char.isalnum() or char == "_"


def _first(ends):
    return [end for end in (next(ends, None),) if end is not None]


def _literals(items):
    """Give the characters that a pattern names, wherever in it."""
    for op, arg in items:
        if str(op) in {"LITERAL", "NOT_LITERAL"}:
            yield chr(arg)
        elif str(op) == "RANGE":
            yield chr(arg[0])
        elif isinstance(arg, tuple | list) or hasattr(arg, "data"):
            yield from _inner(arg)


def _inner(arg):
    for each in arg if isinstance(arg, tuple | list) else [arg]:
        if hasattr(each, "data"):
            yield from _literals(each.data)
        elif isinstance(each, list):
            yield from _inner(each)
        elif isinstance(each, tuple) and len(each) == 2:
            yield from _literals([each])


def _openings(items):
    """Give what a match may begin with: the literals up to the first thing that varies."""
    told = ""
    for op, arg in items:
        if str(op) == "LITERAL":
            told += chr(arg)
        elif str(op) == "SUBPATTERN":
            return [told + each for each in _openings(arg[3])]
        elif str(op) == "BRANCH":
            return [told + each for branch in arg[1] for each in _openings(branch)][:4]
        elif str(op) != "AT":
            break
    return [told]


def texts(counting, times):
    """Make texts that are long in one way, and do not end as the pattern wants it."""
    openings = [each for each in _openings(counting.tree) if each]
    closed = [f"{each}>" for each in openings]
    units = dict.fromkeys([*" \na1A", *openings, *closed, *_literals(counting.tree)])
    for unit in [*units][:16]:
        for opening in ("", *openings[:1]):
            yield f"{opening}{unit * times}\x01"
    yield "\n ".join(["x"] * times)


def _patterns():
    for info in pkgutil.walk_packages(turnlog.__path__, "turnlog."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        found = {name: each for name, each in vars(module).items() if isinstance(each, re.Pattern)}
        if not found:
            continue
        source = Path(module.__file__).read_text("utf-8")
        searched = {
            node.func.value.id
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.attr in _SEARCHING
        }
        for name, pattern in found.items():
            if f"\n{name}: Final" in source or f"\n{name} = " in source:
                yield pytest.param(pattern, name in searched, id=f"{info.name}.{name}")


@pytest.mark.parametrize(("pattern", "is_searched"), [*_patterns()])
def test_twice_the_text_takes_twice_the_steps(pattern, is_searched, request):
    if request.node.callspec.id in BOUNDED:
        return
    worst = steep(pattern, is_searched=is_searched)
    assert worst is None, f"{pattern.pattern!r} on {worst!r}"


def steep(pattern, *, is_searched):
    """Give a text for which the steps grow faster than the text; None if there is none."""
    sys.setrecursionlimit(20_000)
    counting = Counting(pattern)
    for sizes in zip(*(texts(counting, N * times) for times in (1, 2, 4)), strict=True):
        steps = []
        for text in sizes:
            counting.steps = 0
            try:
                (counting.search if is_searched else counting.match)(text)
            except TooManySteps:
                return sizes[0]
            steps.append(counting.steps)
        if steps[2] - steps[1] > 2.6 * (steps[1] - steps[0]) + steps[0] / 2:
            return sizes[0]
    return None


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        (r" +$", re.MULTILINE),
        (r"[#]|^\s*(?:[-+=:]|\d+[.)])", re.MULTILINE),
        (r"^([\s>*+\-\d.)]*)\[(?=[^\]]*\]:)", re.MULTILINE),
        (r"<(one|two)>(.*?)</\1>", re.DOTALL),
        (r"\[Request interrupted by user[^\]]*\]", 0),
        (r"<bash-input>(.*?)</bash-input>", re.DOTALL),
    ],
)
def test_patterns_that_took_minutes_are_found(source, flags):
    assert steep(re.compile(source, flags), is_searched=True) is not None


def test_going_back_within_one_match_is_found():
    command = r"\s*(?=<command-).*?<command-name>\s*(\S[^<]*?)\s*</command-name>"
    assert Counting(re.compile(command, re.DOTALL)).match("<command-name>x</command-name>")
    assert steep(re.compile(r"a([^<]*?)\s*<"), is_searched=False) is not None
