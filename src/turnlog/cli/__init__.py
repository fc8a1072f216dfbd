"""The command line.

``main`` answers ``--version``, ``statusline`` and a plain ``refresh`` before anything slow is
imported; commands are loaded when they are named.
Exit codes: 0 done, 1 something was found wrong or nothing was found, 2 the caller's mistake, 3 a
failure. What a script wants is on stdout; talk, progress, errors and hints are on stderr.
"""

import gc
import os
import sys
from io import TextIOWrapper

INTERRUPTED = 130
"""The exit code after Ctrl-C: what shells say of a process that SIGINT ended."""


def main() -> None:
    """Run the command line and exit."""
    _open_what_is_closed()
    if sys.argv[1:] in (["--version"], ["-V"]):
        from turnlog import __version__

        try:
            print(f"turnlog {__version__}", flush=True)  # noqa: T201
            return
        except BrokenPipeError:
            lead_nowhere(sys.stdout.fileno())
            return
        except OSError:
            pass  # Told below, as of any command.
    _end_when_interrupted()
    if sys.argv[1:2] == ["statusline"] and _is_status_shown(sys.argv[2:]):
        return
    if sys.argv[1:2] == ["refresh"]:
        _refresh(sys.argv[2:])
    gc.set_threshold(50_000, 20, 20)  # Imports create many objects, and nearly all of them stay.
    _speak_anyhow()
    from turnlog.cli.app import run

    try:
        code = run(sys.argv[1:])
        _end_when_interrupted()
    except KeyboardInterrupt:  # While it was told what went wrong.
        code = INTERRUPTED
    _exit(code)


def clean_up_when_interrupted() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt: there may be something to put in order."""
    import signal

    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def lead_nowhere(fd: int) -> None:
    """Drop what is still to be written to *fd*: its reader went away, which is its right.

    Python would complain at its end otherwise.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, fd)
    os.close(nowhere)


def _end_when_interrupted() -> None:
    """Let Ctrl-C end the process on the spot: KeyboardInterrupt in an import is a traceback."""
    import signal  # Not at the top: with enum it takes a third of --version.

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(_signal_number: int, _frame: object) -> None:
    _leave(INTERRUPTED)


def _open_what_is_closed() -> None:
    """Let stdin, stdout and stderr lead nowhere where whoever started us has closed them.

    The work is done whether or not anybody listens; and no file of ours may get their numbers.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:  # The lowest that is free.
        os.set_inheritable(fd, True)
    os.close(fd)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _speak_anyhow() -> None:
    """Let a terminal or pipe that has no sign for a character show another, and not fail."""
    out = sys.stdout
    if isinstance(out, TextIOWrapper) and out.encoding.lower() not in {"utf-8", "utf8"}:
        out.reconfigure(errors="replace")


def _exit(code: int) -> None:
    """Leave at once: taking everything apart first would take as long as many a command."""
    _end_when_interrupted()
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        sys.exit(code)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # It was told already; Python would try again, and give a code of its own.
    _leave(code)


def _leave(code: int) -> None:
    if unwritable := sys.modules.get("turnlog.index.fallback"):
        unwritable.tidy_up()
    os._exit(code)


def _is_status_shown(arguments: list[str]) -> bool:
    from turnlog.cli.statusline.answer import answer

    return answer(arguments)


def _refresh(arguments: list[str]) -> None:
    """Refresh and exit; come back if that is left to the command."""
    from turnlog.cli.advanced.quick_refresh import answer

    try:
        clean_up_when_interrupted()
        code = answer(arguments)
        _end_when_interrupted()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code is not None:
        _exit(code)
