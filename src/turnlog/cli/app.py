"""The command group, how errors are printed, and output into a pipe without a reader.

When the reader exits, as in ``turnlog … | head -1``, most commands have their result already: the
rest of the output is discarded and the exit code stays the same. Commands that print while they
read exit at once with code 0.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Final

import click

from turnlog import __version__
from turnlog.cli import INTERRUPTED, clean_up_when_interrupted, discard_output
from turnlog.cli.hints import hint_of
from turnlog.cli.options import home_arguments, home_option, json_option
from turnlog.errors import AmbiguousSession, LogError, NotALog, TurnlogError, UsageError
from turnlog.text import inert

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


GROUPS: Final = {
    "Browse": {
        "sessions": "List sessions, most recently active first.",
        "show": "Read a session: its prompts, answers and calls.",
        "search": "Search the text of all sessions.",
        "resume": "Resume a session in its agent.",
        "info": "Show a session's details.",
        "projects": "List projects with their sessions, prompts and tokens.",
        "files": "List the files a session touched; compare and restore their versions.",
        "todos": "List the todos and tasks of agents.",
        "plans": "List plans, their versions and their sessions.",
        "prompts": "List typed prompts, newest first.",
        "rename": "Set a session's title.",
        "tag": "Add tags to a session, or remove them.",
        "pin": "Protect a session from expiry.",
    },
    "Costs": {
        "cost": "Show usage and cost.",
        "prices": "Show model prices.",
        "statusline": "Print a status line for Claude Code.",
        "insights": "Show activity, errors and costs of a period.",
    },
    "Live": {
        "top": "Show running agents, live.",
        "watch": "Print records as they are written, and keep the index up to date.",
        "web": "Browse sessions, search, costs and insights in a browser.",
    },
    "Safety": {
        "keep": "Copy sessions so that they outlive the agents' own cleanup.",
        "verify": "Verify every kept copy and archive.",
        "restore": "Restore kept sessions for their agent.",
        "archive": "Compress finished sessions and hide them from lists.",
        "unarchive": "Restore archived sessions, byte for byte.",
        "delete": "Move sessions to the trash.",
        "trash": "List, restore or purge deleted sessions.",
        "prune": "Move inactive sessions to the trash.",
    },
    "Repair": {
        "check": "Check logs for damage.",
        "doctor": "Diagnose problems and suggest fixes.",
        "repair": "Repair a damaged log without losing a byte.",
        "recover": "Make crashed sessions resumable.",
    },
    "Share": {
        "export": "Export sessions as HTML, Markdown, JSON, CSV or Parquet; secrets masked.",
        "secrets": "Find keys, tokens and passwords in the logs.",
    },
    "Agents": {
        "mcp": "Give agents access to past sessions: an MCP server.",
        "hooks": "Set up kept copies, a status line and MCP in Claude Code.",
    },
    "Advanced": {
        "query": "Filter, group and count records, messages and calls.",
        "sql": "Query the index with SQL, read-only.",
        "errors": "List failed calls, grouped by error.",
        "convert": "Copy a session into another layout.",
        "fork": "Copy a session up to a record into a new session.",
        "compact": "Shrink the logs of a session without changing what they show.",
        "refresh": "Update the index from the logs.",
        "completion": "Print a shell completion script.",
    },
}
COMMANDS: Final = {name: about for group in GROUPS.values() for name, about in group.items()}

# What other programs call these commands.
OTHER_NAMES: Final = {
    "sessions": ("list", "ls", "log", "logs"),
    "search": ("find", "grep", "rg"),
    "show": ("cat", "view", "read", "open"),
    "prompts": ("history",),
    "resume": ("continue",),
    "delete": ("rm", "remove"),
    "restore": ("undo", "undelete"),
    "keep": ("backup", "save"),
    "prune": ("clean", "gc", "retain"),
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
_PACKAGES: Final = {
    "browse": "sessions projects search show info resume files todos plans prompts",
    "costs": "cost insights statusline prices",
    "live": "top watch",
    "safety": "keep archive unarchive restore verify prune trash delete",
    "repair": "check repair recover doctor compact",
    "share": "export secrets",
    "agents": "hooks",
    "advanced": "query errors sql fork convert refresh completion",
}
_MODULES: Final = {
    name: f"turnlog.cli.{package}.{name}"
    for package, names in _PACKAGES.items()
    for name in names.split()
} | {
    "rename": "turnlog.cli.browse.labels",
    "tag": "turnlog.cli.browse.labels",
    "pin": "turnlog.cli.browse.labels",
    "unarchive": "turnlog.cli.safety.archive",
    "mcp": "turnlog.mcp.command",
    "web": "turnlog.web.command",
}
"""Where each command is defined: as ``command``, or as ``NAME_command`` if there are several."""
_TYPED: Final = re.compile(r"^'(.*)' is not one of ", re.DOTALL)

_NO_PAGER: Final = "--no-pager"
_OLD_NAMES: Final = {"agents": "subagents"}
"""Former names of options and of their choices, still accepted."""
COMPLETING: Final = "_TURNLOG_COMPLETE"
"""Set by a shell that asks for completions."""


def with_completions(command: click.Command) -> click.Command:
    """Return *command*; if a shell asks, able to complete sessions, projects and so on."""
    if COMPLETING in os.environ:
        from turnlog.cli.advanced.completion import add_completions

        add_completions(command)
    return command


class CommandGroup(click.Group):
    """Commands that are imported when they are named."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(_MODULES[name])
        command: click.Command = getattr(module, f"{name}_command", None) or module.command
        return with_completions(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        is_name = bool(args) and not args[0].startswith("-")
        if is_name and args[0] not in COMMANDS and not ctx.resilient_parsing:
            raise UsageError(
                f"unknown command {args[0][:80]!r}",
                hint=f"{_similar_command(args[0])}see turnlog --help",
            )
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            # The command parses the options before its name, a group passes them on.
            homes, as_json = ctx.params.get("homes", ()), ctx.params.get("as_json", False)
            known = {name for option in command.params for name in option.opts}
            for option, is_given in (("--home", homes), ("--json", as_json)):
                if is_given and option not in known and not isinstance(command, click.Group):
                    hint = f"see turnlog {command.name} --help"
                    raise UsageError(f"{command.name} has no option {option}", hint=hint)
            moved = [*home_arguments(homes), *(("--json",) if as_json else ())]
            first = 1 if isinstance(command, click.Group) else 0
            rest = [*rest[:first], *moved, *rest[first:]]
        return name, command, rest

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["help"]:
            if args[1:] == ["all"]:
                click.echo(_all_commands(ctx), nl=False)
                ctx.exit()
            args = [*args[1:], "--help"]
        end = args.index("--") if "--" in args else len(args)
        if _NO_PAGER in args[:end]:  # Accepted anywhere.
            args = [_NO_PAGER, *(word for word in args[:end] if word != _NO_PAGER), *args[end:]]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)  # Commands first: they are what people look for.
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_dl([(group, ", ".join(names)) for group, names in GROUPS.items()])


def _all_commands(ctx: click.Context) -> str:
    """Return all commands with what they do, by group."""
    formatter = ctx.make_formatter()
    for group, commands in GROUPS.items():
        with formatter.section(group):
            formatter.write_dl(list(commands.items()), col_max=12)
    return formatter.getvalue().lstrip("\n")


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "token_normalize_func": lambda name: _OLD_NAMES.get(name, name),
    },
    epilog="turnlog help all describes every command, turnlog COMMAND --help one.",
)
@click.version_option(__version__, "-V", "--version", message="turnlog %(version)s")
@home_option
@json_option
@click.option(_NO_PAGER, is_flag=True, help="Do not use a pager; TURNLOG_PAGER sets one.")
@click.option("--or-sample", hidden=True, metavar="DIR", help="Use DIR if there are no sessions.")
@click.pass_context
def app(
    context: click.Context,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    no_pager: bool,
    or_sample: str | None,
) -> int | None:
    """Keep, search, price and repair the session logs of coding agents. Without a command: recent
    usage, the latest sessions, and what needs attention.
    """  # noqa: D205
    clean_up_when_interrupted()  # The command's module has been imported.
    if sys.stdout.isatty():
        from turnlog.cli.terminal.pager import paged

        context.with_resource(paged(context.invoked_subcommand, wanted=not no_pager))
    if context.invoked_subcommand is None:
        from turnlog.cli.browse.overview import show_overview

        return show_overview(homes, as_json=as_json, or_sample=or_sample)
    return None  # CommandGroup.resolve_command passes the options on to the command.


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    with discard_unread(arguments), _help_paged(arguments):
        try:
            code = app.main(list(arguments), prog_name="turnlog", standalone_mode=False)
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            return 0
        except click.NoSuchOption as error:
            similar = _similar(error.option_name, error.possibilities or ())
            path = error.ctx.command_path if error.ctx else "turnlog"
            return _print_error(
                f"unknown option {error.option_name!r}", f"{similar}see {path} --help", 2
            )
        except click.ClickException as error:
            return _print_error(_one_line(error.format_message()), _usage_hint(error, arguments), 2)
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED
        except click.exceptions.Exit as error:  # The reader of our output left at the very end.
            return error.exit_code
        except AmbiguousSession as error:
            return _print_choices(error)
        except TurnlogError as error:
            failed = isinstance(error, LogError) and not isinstance(error, NotALog)
            return _print_error(
                error.message, _home_hint(error) or hint_of(error), 3 if failed else 2
            )
        except OSError as error:
            return _print_error(*_system_error(error), 3)
        except Exception as error:
            if type(error).__module__ != "sqlite3":  # Only the index uses SQLite.
                raise
            return _print_error(f"index: {error}", "rebuild it with: turnlog refresh --rebuild", 3)


@contextmanager
def _help_paged(arguments: Sequence[str]) -> Iterator[None]:
    """Page help, which may be longer than the screen."""
    if sys.stdout.isatty() and (
        arguments[:1] == ["help"] or not {"-h", "--help"}.isdisjoint(arguments)
    ):
        from turnlog.cli.terminal.pager import paged

        with paged(None):
            yield
    else:
        yield


def _system_error(error: OSError) -> tuple[str, str]:
    """Return a message and a hint for an error of the operating system."""
    import errno

    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    why = (error.strerror or str(error)).lower()
    hints = {
        errno.EACCES: "ask its owner for access, or set TURNLOG_HOME to a directory of your own",
        errno.EROFS: _home_hint(error) or "it can be read only: change a copy of its home",
        errno.ENOSPC: "free some space and try again",
    }
    return f"{where}: {why}" if where else why, hints.get(error.errno or 0, "")


def _home_hint(error: Exception) -> str:
    """Return a hint if turnlog's own home is read-only, else an empty string."""
    import errno

    from turnlog.api.homes import is_within, turnlog_home

    path = getattr(error, "path", None) or getattr(error, "filename", None)
    if getattr(error, "errno", None) != errno.EROFS or not isinstance(path, str | bytes):
        return ""
    is_ours = is_within(os.fsdecode(path), os.fspath(turnlog_home()))
    return "set TURNLOG_HOME to another directory for turnlog's own files" if is_ours else ""


def _usage_hint(error: click.ClickException, arguments: Sequence[str]) -> str:
    """Return what to type instead."""
    context: click.Context | None = getattr(error, "ctx", None)
    named = next((f"turnlog {word}" for word in arguments if word in COMMANDS), "turnlog")
    usual = f"see {context.command_path if context else named} --help"
    parameter: click.Parameter | None = getattr(error, "param", None)
    if parameter is None or not context:
        return usual
    if isinstance(error, click.MissingParameter) and "SESSION" in parameter.make_metavar(context):
        return "give the start of a session id, or latest; turnlog sessions lists them"
    typed = _TYPED.search(error.message)
    if typed and isinstance(parameter.type, click.Choice):
        return _similar(typed[1], parameter.type.choices) + usual
    return usual


def _similar(typed: str, names: Iterable[str]) -> str:
    """Return "did you mean …? " if one of *names* is close to what was typed."""
    from difflib import get_close_matches

    near = get_close_matches(typed, list(names), n=2, cutoff=0.7)
    return f"did you mean {' or '.join(near)}? " if near else ""


def _similar_command(typed: str) -> str:
    """Return "did you mean …? " for a typo, or for a name that other programs use."""
    return next(
        (f"did you mean {name}? " for name, others in OTHER_NAMES.items() if typed in others),
        _similar(typed, COMMANDS),
    )


def _one_line(message: str) -> str:
    """Return a message of click's in the style of ours: one line, no capital, no full stop."""
    line = " ".join(message.split()).rstrip(".")
    return line[:1].lower() + line[1:]


def _print_choices(error: AmbiguousSession) -> int:
    """List the sessions that an ambiguous id may mean, with their titles."""
    if not error.choices:
        return _print_error(error.message, hint_of(error), 2)
    from turnlog.cli.terminal.choices import choice_lines

    count = len(error.choices)
    click.echo(f"error: {inert(repr(error.about))} begins the ids of {count:,} sessions", err=True)
    for line in choice_lines(error.choices):
        click.echo(line, err=True)
    click.echo(f"hint: {inert(hint_of(error))}", err=True)
    return 2


def _print_error(message: str, hint: str, code: int) -> int:
    click.echo(f"error: {inert(message)}", err=True)
    if hint:
        click.echo(f"hint: {inert(hint)}", err=True)
    return code


_STREAMING: Final = {"show": "", "export": "", "watch": "", "keep": "--watch"}
"""Commands that print while they read, and the option that makes one do so."""


@contextmanager
def discard_unread(arguments: Sequence[str]) -> Iterator[None]:
    """Discard what the command of *arguments* writes into pipes without a reader."""
    command = arguments[0] if arguments else ""
    if command == "mcp":  # It notices a closed connection itself.
        yield
        return
    option = _STREAMING.get(command)
    is_streaming = option is not None and (not option or option in arguments)
    before = sys.stdout, sys.stderr
    pipes = []
    for stream in before:
        with suppress(AttributeError, OSError, ValueError):  # None, or closed.
            mode = os.fstat(stream.fileno()).st_mode
            is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
            if is_pipe and isinstance(stream, TextIOWrapper):
                pipes.append(_Pipe(stream))
    for pipe in pipes:
        if pipe.stream is before[0]:
            sys.stdout, pipe.exits = pipe.text, is_streaming
        else:
            sys.stderr = pipe.text
    try:
        yield
    finally:
        for pipe in pipes:
            pipe.exits = False
            pipe.text.flush()
        sys.stdout, sys.stderr = before


class _Pipe(FileIO):
    """A pipe that discards what is written once its reader is gone."""

    exits = False
    """Exit the command then."""

    def __init__(self, stream: TextIOWrapper) -> None:
        super().__init__(stream.fileno(), "wb", closefd=False)
        self.stream = stream
        self.text = TextIOWrapper(
            BufferedWriter(self),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            discard_output(self.fileno())
        if self.exits:
            from click.exceptions import Exit

            raise Exit(0)
        return super().write(data)
