"""Claude Code's status line: set it in settings.json, and remove it.

    {"statusLine": {"type": "command", "command": "turnlog statusline"}}

Only our own status line is changed: it is recognized by its command. Its options are the user's and
stay. Another program's status line is left alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from turnlog.errors import UsageError
from turnlog.formats import Home
from turnlog.formats.claude_code.hooks import (
    COPY_NAME,
    FILE_NAME,
    assigned,
    hooks_in,
    locked_reason,
    member_named,
    read_settings,
    refused_step,
    settings_step,
    turnlog_words,
)
from turnlog.formats.claude_code.settings_text import (
    append_member,
    parts,
    read_object,
    replace,
    root,
    take,
)
from turnlog.formats.settings_changes import Deed, Remove, State, Step, Write, content

KEY: Final = "statusLine"


def status_line_step(home: Home, program: Sequence[str], environ: Mapping[str, str]) -> Step:
    """Return the step that makes *program* print the status line of *home*."""
    path = home.path / FILE_NAME
    command = assigned([*program, "statusline"], environ)
    try:
        before, text = read_settings(path)
        there = _command_in(text)
        command = _with_options(command, there)
        if there == command:
            return settings_step("statusline", path, "installed", command)
        after = _with_line(text, command, is_there=there is not None)
        reason = locked_reason(path)
    except UsageError as error:
        return refused_step("statusline", path, command, error)
    if reason:
        return refused_step("statusline", path, command, reason)
    copy = home.path / COPY_NAME
    is_ours = before is None or there is not None or bool(hooks_in(text))
    write = Write(
        path=path,
        before=before,
        data=after.encode(),
        shown=f'{KEY}: "{command}"' + ("" if there is None else f', instead of "{there}"'),
        copy_to=None if is_ours or content(copy) is not None else copy,
    )
    state: State = "missing" if there is None else "outdated"
    return settings_step("statusline", path, state, command, deeds=(write,))


def remove_status_line_step(home: Home) -> Step:
    """Return the step that removes our status line from the settings of *home*."""
    path, copy = home.path / FILE_NAME, home.path / COPY_NAME
    try:
        before, text = read_settings(path)
        there = _command_in(text)
    except UsageError as error:
        return refused_step("statusline", path, "", error)
    if before is None or there is None:
        return settings_step("statusline", path, "missing", "")
    if reason := locked_reason(path):
        return refused_step("statusline", path, there, reason)
    after = take(text, root(text), member_named(text, root(text), KEY))
    deeds: list[Deed] = []
    if text == _with_line("", there, is_there=False):  # There was no such file before.
        deeds.append(Remove(path=path, before=before))
    else:
        shown = f'{KEY}: without "{there}"'
        deeds.append(Write(path=path, before=before, data=after.encode(), shown=shown))
    if content(copy) == after.encode():
        deeds.append(Remove(path=copy, before=after.encode()))
    return settings_step("statusline", path, "installed", there, deeds=tuple(deeds))


def _command_in(text: str) -> str | None:
    """Return the command of our status line; None if there is none, raise if it is another's."""
    settings: dict[str, Any] = read_object(text) if text.strip() else {}
    found = settings.get(KEY)
    if found is None:
        return None
    command = found.get("command") if isinstance(found, dict) else None
    if not isinstance(command, str) or turnlog_words(command)[:1] != ["statusline"]:
        raise UsageError(
            "another program's status line is set there",
            hint=f"remove {KEY} from it first; turnlog statusline --help shows what ours prints",
        )
    return command


def _with_options(command: str, there: str | None) -> str:
    """Return *command* with the options of the status line that is *there*."""
    options = [] if there is None else turnlog_words(there)[1:]
    return " ".join([command, *([shlex.join(options)] if options else [])])


def _with_line(text: str, command: str, *, is_there: bool) -> str:
    """Return the settings with our status line, which runs *command*."""
    if not text.strip():
        text = "{}\n"
    if not is_there:
        return append_member(text, root(text), {"type": "command", "command": command}, KEY)
    line = next(part for part in parts(text, root(text)) if part.key == KEY)
    return replace(text, member_named(text, line.value, "command"), command)
