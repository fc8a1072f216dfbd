"""Claude Code's SessionEnd hook: install it in settings.json, remove it, read its input.

    {"hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": "…", "timeout": 60}]}]}}

Only our own entry is changed. It is recognized by its command, so an entry of an older turnlog, or
of another installation, is found and updated. Settings that are not strictly valid are left alone.

The hook's input is JSON on stdin, from any version of Claude Code. Input that cannot be understood
names no session, and then nothing is done.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.formats import Home, is_session_id
from turnlog.formats.claude_code.settings_text import (
    JsonMember,
    append_member,
    parts,
    read_object,
    replace,
    root,
    take,
)
from turnlog.formats.settings_changes import Deed, Kind, Remove, State, Step, Write, content
from turnlog.storage.atomic_files import Unreadable

EVENT: Final = "SessionEnd"
FILE_NAME: Final = "settings.json"
COPY_NAME: Final = "settings.json.before-turnlog"
# All hooks of this event share 1.5 s unless one asks for more, up to 60. Ours needs less than a
# second except for the largest sessions.
TIMEOUT_SECONDS: Final = 60

_ASSIGNMENT: Final = re.compile(r"[A-Z_]+=", re.ASCII)
_TAIL: Final = ["keep", "--hook", "||", "true"]


def hook_command(program: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the hook's command line. It cannot fail, even after turnlog is uninstalled."""
    return " ".join([assigned(program, environ), *_TAIL])


def assigned(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return *words* as a shell command line with the variables of *environ* before it."""
    assignments = [f"{name}={shlex.quote(value)}" for name, value in environ.items()]
    return " ".join([*assignments, shlex.join(words)])


def hook_step(home: Home, command: str) -> Step:
    """Return the step that runs *command* whenever a session of *home* ends."""
    path = home.path / FILE_NAME
    try:
        before, text = read_settings(path)
        commands = hooks_in(text)
        after = with_hook(text, command)
    except UsageError as error:
        return refused_step("claude", path, command, error)
    notes = _notes(text)
    if after == text:
        return settings_step("claude", path, "installed", command, notes=notes)
    if reason := locked_reason(path):
        return refused_step("claude", path, command, reason)
    shown = f"hooks.{EVENT}: {_quoted(command)}, at most {TIMEOUT_SECONDS} s"
    if commands:
        shown = f"hooks.{EVENT}: {_quoted(command)}, instead of {_quoted(commands[0])}"
    write = Write(
        path=path,
        before=before,
        data=after.encode(),
        shown=shown,
        copy_to=None if before is None or commands else home.path / COPY_NAME,
    )
    return settings_step(
        "claude", path, "outdated" if commands else "missing", command, deeds=(write,), notes=notes
    )


def unhook_step(home: Home) -> Step:
    """Return the step that removes our hook from the settings of *home*."""
    path, kept = home.path / FILE_NAME, home.path / COPY_NAME
    try:
        before, text = read_settings(path)
        commands = hooks_in(text)
    except UsageError as error:
        return refused_step("claude", path, "", error)
    if before is None or not commands:
        return settings_step("claude", path, "missing", "")
    if reason := locked_reason(path):
        return refused_step("claude", path, commands[0], reason)
    copy = content(kept)
    copy = copy if isinstance(copy, bytes) else None
    deeds: list[Deed] = []
    old = _as_it_was(text, copy, commands[0])
    if old is None:
        deeds.append(Remove(path=path, before=before))
    else:
        shown = f"hooks.{EVENT}: without {_quoted(commands[0])}"
        deeds.append(Write(path=path, before=before, data=old.encode(), shown=shown))
    if copy is not None and old is not None and copy == old.encode():
        deeds.append(Remove(path=kept, before=copy))
    return settings_step("claude", path, "installed", commands[0], deeds=tuple(deeds))


def hooks_in(text: str) -> list[str]:
    """Return our commands among the SessionEnd hooks of *text*, a settings.json."""
    return [command for _, _, _, command in _ours(text)] if text.strip() else []


def with_hook(text: str, command: str) -> str:
    """Return the settings with our hook, which runs *command*."""
    if not text.strip():
        text = "{}\n"
    ours = list(_ours(text))
    for _, _, handler, there in reversed(ours):  # From the end, so that positions stay valid.
        if there != command:
            text = replace(text, member_named(text, handler.value, "command"), command)
    if ours:
        return text
    group = {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_SECONDS}]}
    events = _only(text, root(text), "hooks", "{")
    if events is None:
        return append_member(text, root(text), {EVENT: [group]}, "hooks")
    groups = _only(text, events.value, EVENT, "[")
    if groups is None:
        return append_member(text, events.value, [group], EVENT)
    return append_member(text, groups.value, group)


def without_hook(text: str) -> str:
    """Return the settings without our hook, and without containers left empty by it."""
    while found := next(_ours(text), None):
        groups, group, handler, _ = found
        handlers = member_named(text, group.value, "hooks")
        if len(parts(text, handlers.value)) > 1:
            text = take(text, handlers.value, handler)
            continue
        if len(parts(text, groups.value)) > 1:
            text = take(text, groups.value, group)
            continue
        events = member_named(text, root(text), "hooks")
        if len(parts(text, events.value)) > 1:
            text = take(text, events.value, groups)
        else:
            text = take(text, root(text), events)
    return text


def _ours(text: str) -> Iterator[tuple[JsonMember, JsonMember, JsonMember, str]]:
    """Return our entries: the event's member, the group, the entry, and its command.

    Raises UsageError if the settings do not have Claude Code's structure.
    """
    events = _only(text, root(text), "hooks", "{")
    groups = _only(text, events.value, EVENT, "[") if events else None
    if groups is None:
        return
    for number, group in enumerate(parts(text, groups.value)):
        where = f"hooks.{EVENT}[{number}]"
        if text[group.value] != "{":
            raise _odd(f"{where} is not an object")
        handlers = _only(text, group.value, "hooks", "[", f"{where}.")
        if handlers is None:
            raise _odd(f"{where} has no hooks")
        for handler in parts(text, handlers.value):
            if text[handler.value] != "{":
                raise _odd(f"{where}.hooks contains something other than objects")
            member = _only(text, handler.value, "command", '"', f"{where}.hooks.")
            command = (
                read_object(f'{{"it":{text[member.value : member.end]}}}')["it"] if member else ""
            )
            if _is_our(command):
                yield groups, group, handler, command


def _is_our(command: str) -> bool:
    """Return whether a command line was written by this or an older turnlog."""
    return turnlog_words(command) in (_TAIL, _TAIL[:2])


def turnlog_words(command: str) -> list[str]:
    """Return what a command line passes to turnlog; nothing if it starts another program."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    while words and _ASSIGNMENT.match(words[0]):
        del words[0]
    if words[1:3] == ["-m", "turnlog.cli"]:
        return words[3:]
    return words[1:] if words and os.path.basename(words[0]) == "turnlog" else []


def _only(text: str, start: int, key: str, opening: str, where: str = "") -> JsonMember | None:
    """Return the only member with that name, or None."""
    found = [part for part in parts(text, start) if part.key == key]
    if not found:
        return None
    if len(found) > 1:
        raise _odd(f"{where}{key} occurs twice")
    if text[found[0].value] != opening:
        kind = {"{": "an object", "[": "a list", '"': "text"}[opening]
        raise _odd(f"{where}{key} is not {kind}")
    return found[0]


def member_named(text: str, start: int, key: str) -> JsonMember:
    """Return the member *key* of the object at *start*, which has one."""
    return next(part for part in parts(text, start) if part.key == key)


def read_settings(path: Path) -> tuple[bytes | None, str]:
    """Read the settings: as bytes, and as text that is known to be a JSON object."""
    found = content(path)
    if found is None:
        return None, ""
    if isinstance(found, Unreadable):
        reason = "a link to nowhere" if found.reason == "missing" else found.reason
        raise UsageError(f"it cannot be read: {reason}", hint="nothing was changed")
    try:
        text = found.decode()
        if text.strip():
            read_object(text)
    except ValueError as error:
        raise UsageError(
            f"it is not valid JSON: {error}",
            hint="Claude Code cannot read it either; fix it and run the same command again",
        ) from None
    return found, text


def _as_it_was(text: str, copy: bytes | None, command: str) -> str | None:
    """Return the settings from before our hook; None if there were none.

    If the backup plus our hook equals the current settings, that is the backup itself.
    """
    if copy is None:
        return None if text == with_hook("", command) else without_hook(text)
    try:
        old = copy.decode()
        if not hooks_in(old) and with_hook(old, command) == text:
            return old
    except (ValueError, IndexError, RecursionError):
        pass  # A user's own file of that name.
    return without_hook(text)


def locked_reason(path: Path) -> UsageError | None:
    """Return a reason if the settings are read-only: another tool may own them."""
    real = os.path.realpath(path)
    place = real if os.path.exists(real) else os.path.dirname(real)
    is_guarded = os.path.isfile(place) and not os.stat(place).st_mode & 0o222
    if not is_guarded and os.access(place, os.W_OK) and os.access(os.path.dirname(real), os.W_OK):
        return None
    return UsageError("it is read-only", hint="add the hook with the tool that writes this file")


def _notes(text: str) -> tuple[str, ...]:
    settings: dict[str, Any] = read_object(text) if text.strip() else {}
    if settings.get("disableAllHooks") is True:
        return ("disableAllHooks is set there, so no hook runs",)
    return ()


def _odd(message: str) -> UsageError:
    return UsageError(
        f"{message}, which Claude Code's settings do not allow",
        hint="fix it and run the same command again; /hooks in Claude Code shows what it reads",
    )


def refused_step(kind: Kind, path: Path, command: str, error: UsageError) -> Step:
    """Return a step for settings that cannot be read or changed."""
    return Step(
        kind=kind,
        place=str(path),
        state="refused",
        command=command,
        reason=error.message,
        hint=error.hint,
    )


def settings_step(
    kind: Kind,
    path: Path,
    state: State,
    command: str,
    *,
    deeds: tuple[Deed, ...] = (),
    notes: tuple[str, ...] = (),
) -> Step:
    """Return a step for the settings at *path*."""
    return Step(kind=kind, place=str(path), state=state, command=command, deeds=deeds, notes=notes)


def _quoted(command: str) -> str:
    return '"' + command.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _SessionEnd(Struct):
    session_id: str | None = None
    transcript_path: str | None = None


def ended_session(data: bytes) -> tuple[str, Home | None] | None:
    """Return the session that has ended, and its home if known; None if *data* names no session.

    The hook may run in another environment than the shell that installed it, so the log's path is
    more reliable than any setting.
    """
    try:
        event = msgspec.json.decode(data, type=_SessionEnd)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if event.session_id is None or not is_session_id(event.session_id):
        return None
    return event.session_id, _home_of(event.transcript_path or "", event.session_id)


def _home_of(log: str, session_id: str) -> Home | None:
    """Return the home of a log at Claude Code's usual path."""
    if "\0" in log or not os.path.isabs(os.path.expanduser(log)):
        return None
    path = Path(os.path.abspath(os.path.expanduser(log)))
    is_there = path.name == f"{session_id}.jsonl" and path.parent.parent.name == "projects"
    home = path.parent.parent.parent
    return Home(home) if is_there and home.is_dir() else None
