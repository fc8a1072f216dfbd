"""The group of commands: which there are, and how their failures are told."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Final

import click

from turnlog import __version__
from turnlog.cli import INTERRUPTED, clean_up_when_interrupted
from turnlog.cli.options import home_option, json_option, naming
from turnlog.cli.terminal.broken_pipe import dropped
from turnlog.errors import LogError, NotALog, TurnlogError, UsageError
from turnlog.text import inert

COMMANDS: Final = {
    "sessions": "List sessions, the one that was active last first.",
    "projects": "List projects: sessions, prompts, tokens.",
    "search": "Find what was said, in every session.",
    "query": "Ask about records, messages and calls; group and count them.",
    "errors": "Show which calls failed, and what they have in common.",
    "sql": "Ask the index in SQL, read only.",
    "show": "Show a session: prompts, answers, one line for each call.",
    "info": "Show what is known of a session.",
    "export": "Write sessions as pages, Markdown, JSON, CSV or Parquet; secrets masked.",
    "resume": "Go on with a session in Claude Code.",
    "rename": "Give a session a title.",
    "tag": "Give a session a tag.",
    "pin": "Never let a session expire.",
    "delete": "Move sessions to the trash.",
    "fork": "Copy a session up to a record into a new one.",
    "convert": "Copy a session into another layout.",
    "files": "Show which files a session touched; compare and restore their versions.",
    "todos": "Show what agents meant to do.",
    "plans": "List plans, their versions and their sessions.",
    "prompts": "List what was typed, newest first.",
    "cost": "Show what was used and what it cost.",
    "insights": "Show what was done, how it went, and what it cost.",
    "statusline": "Print a status line for Claude Code.",
    "prices": "Show what models cost.",
    "secrets": "Find keys, tokens and passwords in the logs.",
    "refresh": "Bring the index up to date with the logs.",
    "top": "See what agents are doing now, live.",
    "web": "See sessions, search, costs and insights in a browser.",
    "watch": "Keep the index fresh, and show what happens as it happens.",
    "doctor": "Show how everything is, and what mends what is wrong.",
    "keep": "Keep copies of what agents did, past the agents' own cleanup.",
    "archive": "Put sessions away: compressed, proved, out of plain lists.",
    "unarchive": "Bring archived sessions back, byte for byte.",
    "restore": "Put kept sessions back to where their agent finds them.",
    "verify": "Read every kept copy and archive again, and compare.",
    "retain": "Let go of sessions that nobody has used for long.",
    "trash": "List what was deleted; put it back, or remove it for good.",
    "recover": "Mend a session after a crash.",
    "check": "Check logs for damage; without arguments, all of yours.",
    "repair": "Mend a damaged log without throwing a byte away.",
    "compact": "Make the logs of a session smaller, with every view as it was.",
    "mcp": "Let agents look up what was done before: an MCP server.",
    "completion": "Let a shell complete commands, sessions and projects.",
}

# What other programs, and shells, call what is here.
OTHER_NAMES: Final = {
    "sessions": ("list", "ls", "log", "logs"),
    "search": ("find", "grep", "rg"),
    "show": ("cat", "view", "read", "open"),
    "prompts": ("history",),
    "resume": ("continue",),
    "delete": ("rm", "remove"),
    "trash restore": ("undo", "undelete"),
    "keep": ("backup", "save"),
    "cost": ("usage", "costs", "spend"),
    "cost daily": ("daily",),
    "cost weekly": ("weekly",),
    "cost monthly": ("monthly",),
    "cost blocks": ("blocks",),
    "cost budgets": ("budget", "budgets"),
    "insights": ("stats", "statistics", "report", "wrapped"),
    "check": ("validate", "lint", "fsck"),
    "web": ("serve", "ui", "browse", "gui"),
    "completion": ("completions",),
}
# Which folder holds the module of each command.
_FOLDERS: Final = {
    "browse": (
        "sessions",
        "projects",
        "search",
        "show",
        "info",
        "resume",
        "rename",
        "tag",
        "files",
        "todos",
        "plans",
        "prompts",
    ),
    "costs": ("cost", "insights", "statusline", "prices"),
    "live": ("top", "watch"),
    "safety": (
        "keep",
        "archive",
        "unarchive",
        "restore",
        "verify",
        "retain",
        "trash",
        "delete",
        "pin",
    ),
    "repair": ("check", "repair", "recover", "doctor", "compact"),
    "share": ("export", "secrets"),
    "advanced": ("query", "errors", "sql", "fork", "convert", "refresh", "completion"),
}
_MODULE_OF: Final = {
    name: f"turnlog.cli.{folder}.{name}" for folder, names in _FOLDERS.items() for name in names
} | {"mcp": "turnlog.mcp.command", "web": "turnlog.web.command"}
_TYPED: Final = re.compile(r"^'(.*)' is not one of ", re.DOTALL)

_NO_PAGER: Final = "--no-pager"
_OLD_NAMES: Final = {"agent": "subagent", "agents": "subagents", "with-agents": "with-subagents"}
"""Former names of options and of their choices, still accepted."""
COMPLETING: Final = "_TURNLOG_COMPLETE"
"""Set by a shell that wants to know how a line may go on."""


def equipped(command: click.Command) -> click.Command:
    """Return *command*; if a shell asks, it knows what its sessions, projects and so on may be."""
    if COMPLETING in os.environ:
        from turnlog.cli.completions import equip

        equip(command)
    return command


class CommandGroup(click.Group):
    """Commands that are imported when they are named, one module each."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(_MODULE_OF[name]).command
        return equipped(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        is_name = bool(args) and not args[0].startswith("-")
        if is_name and args[0] not in COMMANDS and not ctx.resilient_parsing:
            raise UsageError(
                f"there is no command {args[0][:80]!r}",
                hint=f"{_meant(args[0])}turnlog --help lists them all",
            )
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            # Of commands that are several, the one that is named next takes options.
            first = 1 if isinstance(command, click.Group) else 0
            rest = [*rest[:first], *_moved(ctx, command), *rest[first:]]
        return name, command, rest

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["help"]:  # As other programs have it.
            args = [*args[1:], "--help"]
        end = args.index("--") if "--" in args else len(args)
        if _NO_PAGER in args[:end]:  # Of every command, wherever it stands.
            args = [_NO_PAGER, *(each for each in args[:end] if each != _NO_PAGER), *args[end:]]
        return super().parse_args(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):  # From the table, so that help imports no command.
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "token_normalize_func": lambda name: _OLD_NAMES.get(name, name),
    },
    epilog="turnlog COMMAND --help tells more, with examples and settings. Settings stand in"
    " config.toml in turnlog's own home: $TURNLOG_HOME, else the system's place for data, such as"
    " ~/.local/share/turnlog.",
)
@click.version_option(__version__, "-V", "--version", message="turnlog %(version)s")
@home_option
@json_option
@click.option(_NO_PAGER, is_flag=True, help="Print long output whole; TURNLOG_PAGER= does too.")
@click.option(
    "--or-sample", hidden=True, metavar="DIR", help="Look at DIR if you have no sessions."
)
@click.pass_context
def app(
    context: click.Context,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    no_pager: bool,
    or_sample: str | None,
) -> int | None:
    """Keep, search, price and mend the session logs of coding agents.

    Without a command: what was used lately, the latest sessions, and what needs attention.
    """
    clean_up_when_interrupted()  # The command's module is imported by now.
    if sys.stdout.isatty():
        from turnlog.cli.terminal.pager import paged

        context.with_resource(paged(context.invoked_subcommand, wanted=not no_pager))
    if context.invoked_subcommand is None:
        from turnlog.cli.browse.overview import show_overview

        return show_overview(homes, as_json=as_json, or_sample=or_sample)
    return None  # What stood before a command is its own: see Commands.resolve_command.


def _moved(context: click.Context, command: click.Command) -> list[str]:
    """Return the options that stood before a command as it takes them itself."""
    homes, as_json = context.params.get("homes", ()), context.params.get("as_json", False)
    taken = {name for option in command.params for name in option.opts}
    for option, is_given in (("--home", homes), ("--json", as_json)):
        if is_given and option not in taken and not isinstance(command, click.Group):
            raise UsageError(
                f"{command.name} takes no {option}",
                hint=f"turnlog {command.name} --help shows what it takes",
            )
    return [*naming(homes), *(("--json",) if as_json else ())]


def run(arguments: Sequence[str]) -> int:
    """Run one command line; give its exit code."""
    with dropped(arguments):
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        code = app.main(list(arguments), prog_name="turnlog", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.NoSuchOption as error:
        where = error.ctx.command_path if error.ctx else "turnlog"
        meant = _nearly(error.option_name, error.possibilities or ())
        hint = f"{meant}{where} --help shows what it takes"
        return _tell(f"there is no option {error.option_name!r}", hint, 2)
    except click.ClickException as error:
        return _tell(_words(error.format_message()), _way_out(error), 2)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.Exit as left:  # In the last moment, by the reader of our output.
        return left.exit_code
    except TurnlogError as error:
        failed = isinstance(error, LogError) and not isinstance(error, NotALog)
        from turnlog.cli.hints import HINTS

        hint = _own_place(error) or HINTS.get(error.code) or error.cli_hint or error.hint
        return _tell(error.message, hint, 3 if failed else 2)
    except OSError as error:
        return _tell(*_failure(error), 3)
    except Exception as error:
        # Whatever is wrong with the index, it can be made anew; nothing else uses SQLite.
        if type(error).__module__ != "sqlite3":
            raise
        return _tell(f"the index: {error}", "make it anew with: turnlog refresh --rebuild", 3)


def _failure(error: OSError) -> tuple[str, str]:
    """Say what the system refused, and what may help; what expects a failure says it better."""
    import errno

    from turnlog.storage.sources import READ_ONLY

    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    why = (error.strerror or str(error)).lower()
    hints = {
        errno.EACCES: "its owner must grant access; TURNLOG_HOME names a place of your own",
        errno.EROFS: _own_place(error) or READ_ONLY,
        errno.ENOSPC: "make room and try again",
    }
    return f"{where}: {why}" if where else why, hints.get(error.errno or 0, "")


def _own_place(error: Exception) -> str:
    """Return what helps if it is turnlog's own place that cannot be written; else nothing."""
    import errno

    from turnlog.formats.homes import turnlog_home
    from turnlog.formats.projects import is_within

    path = getattr(error, "path", None) or getattr(error, "filename", None)
    if getattr(error, "errno", None) != errno.EROFS or not isinstance(path, str | bytes):
        return ""
    is_ours = is_within(os.fsdecode(path), os.fspath(turnlog_home()))
    return "TURNLOG_HOME names another place for what turnlog keeps itself" if is_ours else ""


def _way_out(error: click.ClickException) -> str:
    """Return what to type instead, as far as that can be guessed."""
    context: click.Context | None = getattr(error, "ctx", None)
    where = context.command_path if context else "turnlog"
    usual = f"{where} --help shows what it takes"
    parameter: click.Parameter | None = getattr(error, "param", None)
    if parameter is None or not context:
        return usual
    if isinstance(error, click.MissingParameter) and "SESSION" in parameter.make_metavar(context):
        return "give the beginning of its id, or latest; turnlog sessions lists them"
    typed = _TYPED.search(error.message)
    if typed and typed[1] == "cost" and (where, parameter.name) == ("turnlog sessions", "sort"):
        return "turnlog cost session sorts by cost"
    if typed and isinstance(parameter.type, click.Choice):
        return _nearly(typed[1], parameter.type.choices) + usual
    return usual


def _nearly(typed: str, names: Iterable[str]) -> str:
    """Ask for what was nearly typed, if there is such a thing."""
    from difflib import get_close_matches

    near = get_close_matches(typed, list(names), n=2, cutoff=0.7)
    return f"did you mean {' or '.join(near)}? " if near else ""


def _meant(typed: str) -> str:
    """Ask for the command that was nearly typed, or that other programs call so."""
    return next(
        (f"did you mean {name}? " for name, others in OTHER_NAMES.items() if typed in others),
        _nearly(typed, COMMANDS),
    )


def _words(message: str) -> str:
    """Write what click says the way we say things: on one line, as part of a sentence."""
    line = " ".join(message.split()).rstrip(".")
    return line[:1].lower() + line[1:]


def _tell(message: str, hint: str, code: int) -> int:
    click.echo(f"error: {inert(message)}", err=True)
    if hint:
        click.echo(f"hint: {inert(hint)}", err=True)
    return code
