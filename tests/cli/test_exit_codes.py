"""An unknown session is the caller's mistake, in every command that takes one."""

import click
import pytest

from turnlog.cli.app import COMMANDS, app

UNKNOWN = "deadbeef"
# What a command needs besides the session.
MORE = {
    "rename": ["A title"],
    "tag": ["a-tag"],
    "convert": ["--layout", "flat", "--to", "elsewhere"],
    "fork": ["--to", "elsewhere"],
}
WITHOUT = {
    "statusline": "Claude Code names the session; the line never fails",
    "watch": "waits for a session that may begin later",
    "secrets": "takes what to do first",
    "trash": "takes what to do first",
    "query": "a group",
}


def commands():
    """Give the words with which a session is named, for every command that takes one."""

    def walk(words, command):
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                yield from walk([*words, name], command.get_command(context, name))
        for parameter in command.params:
            if isinstance(parameter, click.Argument) and "SESSION" in (parameter.metavar or ""):
                yield [*words, UNKNOWN, *MORE.get(words[0], [])]
            elif "--session" in parameter.opts and not parameter.hidden:
                needed = ["frost"] if words == ["search"] else []
                yield [*words, *needed, "--session", UNKNOWN]

    context = click.Context(app)
    for name in COMMANDS:
        if name not in WITHOUT or name == "query":
            yield from walk([name], app.get_command(context, name))
    yield ["trash", "restore", UNKNOWN]
    yield ["cost", "session", "--session", UNKNOWN]


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_an_unknown_session_is_a_mistake(turnlog, home, words):
    code, out, err = turnlog(*words, "--home", home)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "\nhint: " in err
