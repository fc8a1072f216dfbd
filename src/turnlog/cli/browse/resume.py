"""``turnlog resume``: choose a session and go on with it in Claude Code."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import unicodedata
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from msgspec import Struct

from turnlog.api.recent_sessions import RecentSession, RecentSessions, recent_sessions
from turnlog.cli.options import home_option, json_option, project_option, show_json
from turnlog.errors import NotFound, UsageError
from turnlog.records.record import Linked
from turnlog.sessions.metadata import read_head_tail
from turnlog.sessions.session import Session
from turnlog.text import inert

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.formats import Home
    from turnlog.records.session_summary import SessionSummary

PROGRAM = "claude"


class Hindrance(StrEnum):
    """Why Claude Code could not go on with a session as things are."""

    NO_DIRECTORY = "no_directory"  # No record says in which directory it worked.
    DIRECTORY_GONE = "directory_gone"
    ELSEWHERE = "elsewhere"  # The log is not where Claude Code looks for it.
    RUNNING = "running"  # A process has it open.
    SUBAGENTS = "subagents"  # The log is a subagent's alone, and no list tells of it.
    NO_PROGRAM = "no_program"  # Claude Code is not on the PATH.


class Obstacle(Struct, frozen=True, kw_only=True):
    """One thing that stands in the way, and the way round it."""

    kind: Hindrance
    message: str
    hint: str


class Resumption(Struct, frozen=True, kw_only=True):
    """How to go on with a session; nothing stands in the way if *obstacles* is empty."""

    id: str
    directory: str | None
    command: list[str]
    line: str
    """The same for a shell, with the way to the directory."""
    expected: str | None
    """Where Claude Code will look for the log."""
    path: str
    obstacles: list[Obstacle]


class ResumeDocument(Struct, kw_only=True):
    """What `turnlog resume --json` prints: the sessions to choose from, or how to go on."""

    sessions: list[RecentSession]
    next: int | None
    resumption: Resumption | None


@click.command(
    name="resume",
    epilog="""\b
Examples:
  turnlog resume                   choose among the ten most recent
  turnlog resume 5f0c              the command line that goes on with it
  turnlog resume 5f0c --run        go on at once, in the session's directory
  eval "$(turnlog resume latest)"  the same from a shell
Exit code: 0 done, 1 something stands in the way or nothing was found, 2 a mistake, 3 a failure.""",
)
@click.argument("name", metavar="[SESSION]", required=False)
@home_option
@json_option
@click.option("--run", is_flag=True, help="Start Claude Code instead of printing how.")
@project_option
def command(
    name: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    run: bool,
    project: str | None,
) -> int:
    """Go on with a session in Claude Code; without SESSION, choose one of the most recent.

    One that is archived, or gone and kept, is put back first.

    SESSION is the beginning of a session's id, or "latest".
    """
    if run and as_json:
        raise click.UsageError("--run and --json cannot be given together")
    from turnlog.formats import all_homes

    found_homes = all_homes(homes)
    if name is None:
        found = recent_sessions(found_homes, project=project)
        if as_json:
            show_json(ResumeDocument(sessions=found.sessions, next=found.next, resumption=None))
            return 0 if found.sessions else 1
        _show(found, homes, project)
        chosen = _ask(found.sessions)
        if chosen is None:
            return 0 if found.sessions else 1
        name = chosen.id
    plan = resumption(_brought_back(found_homes, name))
    if as_json:
        show_json(ResumeDocument(sessions=[], next=None, resumption=plan))
        return 1 if plan.obstacles else 0
    if run:
        _run(plan)
    click.echo(plan.line)
    for obstacle in plan.obstacles:
        click.echo(f"warning: {inert(obstacle.message)}", err=True)
        click.echo(f"hint: {inert(obstacle.hint)}", err=True)
    return 1 if plan.obstacles else 0


def _brought_back(homes: tuple[Home, ...], name: str) -> Session:
    """Find a session; put it back where its agent looks, if it is archived or gone."""
    from turnlog.api.session import KeptSession

    session = KeptSession.find(homes, name)
    is_claudes = bool(session.main_logs) and session.layout == "claude"
    if is_claudes and (session.is_archived or not session.is_at_home):
        done = session.unarchive()
        click.echo(f"put back: {inert(done.path)}", err=True)
    return session


def resumption(session: Session) -> Resumption:
    """Find out how to go on with *session*, and what stands in the way."""
    path = session.path
    found = session.summary if session.layout == "dated" else read_head_tail(path).summary
    directory = _directory(session, found.cwd)
    expected = _expected(session.id, directory) if directory else None
    command = [PROGRAM, "--resume", session.id]
    line = shlex.join(command)
    if directory is not None:
        line = f"cd {_quoted(directory)} && {line}"
    return Resumption(
        id=session.id,
        directory=_text(directory),
        command=command,
        line=line,
        expected=_text(expected),
        path=str(path),
        obstacles=[*_not_listed(session, found), *_obstacles(session, directory, expected)],
    )


def _directory(session: Session, first: str | None) -> str | None:
    """Return where the session belongs: of the directories it worked in, the one it is filed under.

    Claude Code files a session under the directory that it began in, and an agent may go elsewhere
    before it says a word.
    """
    from turnlog.formats import same_project_key

    log = session.main_logs[-1]
    if first is None or log.layout != "claude" or log.project_key is None:
        return first
    seen = {first}
    if same_project_key(_key(first), log.project_key):
        return first
    for item in session.items():
        cwd = item.record.cwd if isinstance(item.record, Linked) else None
        if cwd is not None and cwd not in seen:
            if same_project_key(_key(cwd), log.project_key):
                return cwd
            seen.add(cwd)
    return first


def _quoted(directory: str) -> str:
    """Quote a path for a shell; what a terminal would obey is written as an escape."""
    if directory.startswith("-"):
        directory = f"./{directory}"
    if directory.isprintable():
        return shlex.quote(directory)
    parts = []
    for character in directory:
        if character.isprintable():
            parts.append(f"\\{character}" if character in "\\'" else character)
        else:
            parts += (f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    return f"$'{''.join(parts)}'"


def _key(directory: str) -> str:
    from turnlog.formats import key_of

    return key_of(unicodedata.normalize("NFC", directory))


def _expected(session_id: str, directory: str) -> str | None:
    """Return where Claude Code, started in *directory*, looks for the session's log."""
    from turnlog.formats import claude_log

    try:
        return str(claude_log(_claude_home(), directory, session_id))
    except ValueError:  # An id that Claude Code would not take, or a path that cannot be.
        return None


def _claude_home() -> str:
    """Return which home Claude Code itself uses; it takes a list of homes for one name."""
    setting = os.environ.get("CLAUDE_CONFIG_DIR", "")
    return unicodedata.normalize("NFC", setting) if setting else os.path.expanduser("~/.claude")


def _not_listed(session: Session, found: SessionSummary) -> list[Obstacle]:
    if not found.is_sidechain:
        return []
    return [
        Obstacle(
            kind=Hindrance.SUBAGENTS,
            message=f"{session.id[:8]} is a subagent's log, not a session to resume",
            hint="turnlog resume lists the sessions to choose from",
        )
    ]


def _obstacles(session: Session, directory: str | None, expected: str | None) -> list[Obstacle]:
    found: list[Obstacle] = []
    short = session.id if len(session.id) < 9 else session.id[:8]
    if directory is None:
        found.append(
            Obstacle(
                kind=Hindrance.NO_DIRECTORY,
                message=f"no record of session {short} says in which directory it worked",
                hint=f"go to the directory yourself, then: {PROGRAM} --resume {session.id}",
            )
        )
    elif not os.path.isdir(directory):
        found.append(
            Obstacle(
                kind=Hindrance.DIRECTORY_GONE,
                message=f"the directory it worked in is gone: {_text(directory)}",
                hint="make it again, or clone the project there, and try once more",
            )
        )
    if expected is None or not _is_same(session.path, expected):
        found.append(
            Obstacle(
                kind=Hindrance.ELSEWHERE,
                message=f"Claude Code will not find it: its log is {session.path}",
                hint=f"a copy that it finds: {shlex.join(_copying(session))}",
            )
        )
    found += _running(session)
    if shutil.which(PROGRAM) is None:
        found.append(
            Obstacle(
                kind=Hindrance.NO_PROGRAM,
                message=f"{PROGRAM} is not on the PATH",
                hint="install Claude Code, or add its directory to the PATH",
            )
        )
    return found


def _copying(session: Session) -> list[str]:
    """Return the command that makes a copy of the session where Claude Code looks."""
    log = session.main_logs[-1]
    how = ["fork"] if log.layout == "claude" else ["convert", "--to", "claude"]
    return ["turnlog", *how, session.id, "--home", os.fspath(log.home), "--into", _claude_home()]


def _is_same(path: Path, expected: str) -> bool:
    """Return whether the log at *path* is the one that Claude Code would open as *expected*."""
    from turnlog.formats import same_project_key

    there = Path(expected)
    if os.path.realpath(path) == os.path.realpath(there):
        return True
    # Long keys end in a hash that builds make differently; Claude Code looks for both.
    return (
        path.name == there.name
        and os.path.realpath(path.parent.parent) == os.path.realpath(there.parent.parent)
        and same_project_key(path.parent.name, there.parent.name)
    )


def _running(session: Session) -> list[Obstacle]:
    from turnlog.sessions.state import agent_processes

    home = session.main_logs[-1].home
    return [
        Obstacle(
            kind=Hindrance.RUNNING,
            message=f"process {each.pid} has it open",
            hint="end that first: two programs in one session make two branches of it",
        )
        for each in agent_processes(home)
        if each.session_id == session.id and each.is_alive
    ]


def _run(plan: Resumption) -> NoReturn:
    """Become Claude Code, in the session's directory."""
    for obstacle in plan.obstacles:
        missing = obstacle.kind in (Hindrance.DIRECTORY_GONE, Hindrance.NO_PROGRAM)
        raise (NotFound if missing else UsageError)(obstacle.message, hint=obstacle.hint)
    sys.stdout.flush()
    os.chdir(plan.directory or ".")
    os.execvp(PROGRAM, plan.command)  # noqa: S606 - Arguments only: no shell sees them.


def _ask(choices: list[RecentSession]) -> RecentSession | None:
    """Ask for a number, where somebody can answer."""
    if not choices or not sys.stdin.isatty():
        return None
    while True:
        # On stderr, so that the answer may be for a shell: eval "$(turnlog resume)".
        answer = click.prompt("Which one?", default="", show_default=False, err=True).strip()
        chosen = next((each for each in choices if str(each.number) == answer), None)
        if chosen is not None or not answer:
            return chosen
        click.echo(f"Say a number up to {choices[-1].number}, or nothing.", err=True)


def _console() -> Console:
    """Return the terminal to choose at: stderr where stdout is for a shell to read."""
    from turnlog.cli.terminal.console import console

    if sys.stdout.isatty() or not sys.stdin.isatty():
        return console()
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False)


def _show(found: RecentSessions, homes: tuple[str, ...], project: str | None) -> None:
    from turnlog.cli.terminal.console import age, counted, safe, titled
    from turnlog.cli.terminal.empty_results import show_hint
    from turnlog.formats.projects import last_part

    out = _console()
    if not found.sessions:
        out.print("No sessions found.")
        show_hint(out, homes, {"project": project})
        return
    now = datetime.now(UTC)
    for row in found.sessions:
        project = last_part(row.project or "")
        parts = (
            f"[dim]{safe(row.id[:8])}[/]",
            age(now, row.last_active_at),
            counted(row.steps, "step") if row.steps is not None else "unreadable",
            f"[cyan]{safe(project or '?')}[/]",
            f"[dim]{safe(row.git_branch)}[/]" if row.git_branch else "",
        )
        title = f"[bold]{row.number:>3}  {titled(row.title)}[/]"
        for line in (title, "     " + " [dim]·[/] ".join(filter(None, parts))):
            out.print(line, overflow="ellipsis", no_wrap=True, soft_wrap=False)
    if found.next is not None:
        out.print(f"[dim]     … and {found.total - found.next:,} more: turnlog sessions[/]")


def _text(value: str | None) -> str | None:
    """Give text that a JSON document can hold; directories may be any bytes."""
    return value if value is None else value.encode("utf-8", "replace").decode()
