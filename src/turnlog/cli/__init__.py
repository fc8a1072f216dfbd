"""The command line.

``main`` answers ``--version``, ``statusline`` and a plain ``refresh`` before anything slow is
imported; other commands are imported when they are named.

Exit codes: 0 success, 1 problems found or nothing found, 2 usage error, 3 failure. Results go to
stdout; progress, notices, errors and hints go to stderr.
"""

import gc
import os
import sys
from io import TextIOWrapper

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells report it."""


def main() -> None:
    """Run the command line and exit."""
    _replace_closed_streams()
    if sys.argv[1:] in (["--version"], ["-V"]):
        from turnlog import __version__

        try:
            print(f"turnlog {__version__}", flush=True)  # noqa: T201
            return
        except BrokenPipeError:
            discard_output(sys.stdout.fileno())
            return
        except OSError:
            pass  # Reported below, as for any command.
    _exit_when_interrupted()
    if sys.argv[1:2] == ["statusline"]:
        from turnlog.cli.statusline import answer

        if answer(sys.argv[2:]):
            return
    if sys.argv[1:2] == ["refresh"]:
        _refresh(sys.argv[2:])
    gc.set_threshold(50_000, 20, 20)  # Imports create many objects, and nearly all of them stay.
    _avoid_symbols()
    from turnlog.cli.app import run

    try:
        code = run(sys.argv[1:])
        _exit_when_interrupted()
    except KeyboardInterrupt:  # While an error was printed.
        code = INTERRUPTED
    _exit(code)


def _avoid_symbols() -> None:
    """Print ASCII instead of symbols in other encodings than UTF-8, and on dumb terminals."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and (
            stream.encoding.lower() not in {"utf-8", "utf8"}
            or (os.environ.get("TERM") == "dumb" and stream.isatty())
        ):
            from turnlog.cli.terminal.ascii_symbols import use_ascii

            use_ascii(stream)


def clean_up_when_interrupted() -> None:
    """Raise KeyboardInterrupt on Ctrl-C from now on, so that commands can clean up."""
    import signal

    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def discard_output(fd: int) -> None:
    """Redirect *fd* to the null device, because its reader is gone.

    Otherwise Python would print an error at exit.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, fd)
    os.close(null)


def _exit_when_interrupted() -> None:
    """Exit at once on Ctrl-C: a KeyboardInterrupt during an import would print a traceback."""
    import signal  # Not at the top: with enum it takes a third of --version.

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(_signal_number: int, _frame: object) -> None:
    _leave(INTERRUPTED)


def _replace_closed_streams() -> None:
    """Open the null device in place of a closed stdin, stdout or stderr.

    No other file may get their numbers.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:  # The lowest free number.
        os.set_inheritable(fd, True)
    os.close(fd)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _exit(code: int) -> None:
    """Exit without tearing down the interpreter, which would take as long as many commands."""
    _exit_when_interrupted()
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        sys.exit(code)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # Reported already; Python would try again and change the exit code.
    _leave(code)


def _leave(code: int) -> None:
    if fallback := sys.modules.get("turnlog.index.fallback"):
        fallback.delete_temporary_indexes()
    os._exit(code)


def _refresh(arguments: list[str]) -> None:
    """Refresh and exit; return if the arguments need the full command."""
    from turnlog.cli.advanced.quick_refresh import answer

    try:
        clean_up_when_interrupted()
        code = answer(arguments)
        _exit_when_interrupted()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code is not None:
        _exit(code)
