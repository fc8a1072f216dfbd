"""Every example in the documents and in the commands' help, found where it stands.

Command lines are those of blocks: fenced, indented, or below ``Examples`` in a command's help. What
stands beside one, two spaces away, explains it; in a block with prompts only lines behind one are
typed. Nothing is left out silently: a block in a language that nobody here knows is an error.
"""

import os
import re
import shlex
import textwrap
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import click
from markdown_it import MarkdownIt

from turnlog.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
_SHELL = {"", "console", "text"}
"""What blocks are called in which commands are typed, or shown with what they print."""
LANGUAGES = _SHELL | {"python", "sql", "toml", "json"}
_PROGRAMS = ("turnlog", "eval", "pip", "pipx", "uv", "make", "claude", "rm")
# A column of a line, which quotes hold together: what is two spaces away is no part of it.
_COLUMN = re.compile(r"""(?:'[^']*'|"(?:[^"\\]|\\.)*"|\S|\s(?!\s))+""")
_WITHIN = re.compile(r"\$\((turnlog [^()]*)\)")


@dataclass(frozen=True)
class Block:
    """A block of a page: its language, its text, and where it stands."""

    page: str
    line: int
    language: str
    text: str

    @property
    def where(self):
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Example:
    """A command line: its words, what it reads, what its output goes to."""

    where: str
    line: str
    words: tuple[str, ...]
    stdin: str | None = None
    pipe: tuple[str, ...] = ()

    @property
    def is_ours(self):
        return self.words[0] == "turnlog"

    def starts(self, words):
        """Tell whether it is *words*, or begins so: ``keep --watch``."""
        wanted = tuple(words.split())
        return self.words[1 : len(wanted) + 1] == wanted


@cache
def blocks(path):
    """Return every block of a page."""
    return [
        Block(path.name, token.map[0] + 1, token.info.strip(), token.content)
        for token in MarkdownIt("commonmark").parse(path.read_text("utf-8"))
        if token.type in ("fence", "code_block")
    ]


def spans(path):
    """Give what a page's prose quotes: `turnlog cost --compare`."""
    for token in MarkdownIt("commonmark").enable("table").parse(path.read_text("utf-8")):
        for child in token.children or ():
            if child.type == "code_inline":
                yield child.content


def typed(text, where):
    """Give the command lines of a block."""
    lines = text.splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        for column in map(str.strip, _COLUMN.findall(line)):
            program = re.match(r"[a-z]+(?= |$)", column)
            if program and program[0] in _PROGRAMS:
                yield example(column, where)
                break


def example(line, where="here"):
    """Read a command line as a shell does; of one around ours, take ours."""
    inner = _WITHIN.search(line)
    lexer = shlex.shlex(inner[1] if inner else line, posix=True, punctuation_chars="<>|;&")
    lexer.whitespace_split = True
    words = list(lexer)
    found = Example(where, line, tuple(words))
    if "|" in words:
        at = words.index("|")
        found, words = replace(found, pipe=tuple(words[at + 1 :])), words[:at]
    if "<" in words:
        at = words.index("<")
        found, words = replace(found, stdin=words[at + 1]), words[:at]
    if words[0] == "claude" and "--" in words:  # What it is to start is ours.
        words = words[words.index("--") + 1 :]
    return replace(found, words=tuple(words))


def commands():
    """Give every command and the commands below it, by what is typed."""
    context = click.Context(app)
    pending = [("turnlog", app)]
    while pending:
        name, command = pending.pop(0)
        yield name, command
        if isinstance(command, click.Group):
            below = command.list_commands(context)
            pending += [(f"{name} {each}", command.get_command(context, each)) for each in below]


def _parts(epilog):
    """Give the parts of an epilog: its heads, and the indented lines below each."""
    for part in re.finditer(r"^(\S.*:)\n((?:[ \t]+.*\n?)+)", epilog or "", re.MULTILINE):
        yield part[1], textwrap.dedent(part[2])


def in_help(head):
    """Give the part below *head* in the help of every command that has one, and whose it is."""
    for name, command in commands():
        for found, text in _parts(command.epilog):
            if found.startswith(head):
                yield f"{name} --help", text


def in_pages(language):
    """Give every block in *language* of every page."""
    return [each for page in PAGES for each in blocks(page) if each.language == language]


def of_page(path, *, without=()):
    """Give every command line in a page's blocks, but those in some languages."""
    for block in blocks(path):
        if block.language in _SHELL - set(without):
            yield from typed(block.text, block.where)


def of_help():
    """Give every example of every command's help."""
    for name, text in in_help("Examples"):
        yield from typed(text, name)


def at_home(words, home):
    """Expand ``~`` as a shell does."""
    return [re.sub(r"^~(?=/|$)", os.fspath(home), word) for word in words]
