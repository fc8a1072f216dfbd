"""Run the command line in a process of its own, without the price of starting Python.

A server imports turnlog once and forks for each command. The command has its own arguments,
environment, directory, standard streams and exit, like one that a shell started. Tests of start-up
itself (what is imported, closed streams, other encodings) start Python instead.
"""

from __future__ import annotations

import array
import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

_RARE = (
    "turnlog.integrations",
    "turnlog.cli.__main__",
    "turnlog.cli.live",
    "turnlog.mcp",
    "turnlog.web",
)
_lock = threading.Lock()
_server: socket.socket | None = None


def run(arguments, *, env, cwd=None, input=None, text=False, timeout=60):  # noqa: A002
    """Run turnlog with *arguments* as subprocess.run(…, capture_output=True) would."""
    words = [os.fsdecode(each) for each in arguments]
    asked = {"argv": words, "env": dict(env), "cwd": os.fsdecode(cwd or os.getcwd())}
    data = input.encode() if isinstance(input, str) else input or b""
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()
    ours_err, theirs_err = os.pipe()
    with ThreadPoolExecutor(3) as pool, _lock:
        server = _connected()
        line = json.dumps(asked).encode()
        streams = array.array("i", [theirs_in, theirs_out, theirs_err])
        header = len(line).to_bytes(4, "big")
        server.sendmsg([header], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        server.sendall(line)
        for fd in streams:
            os.close(fd)
        fed = pool.submit(_feed, ours_in, data)
        out, err = pool.submit(_drained, ours_out), pool.submit(_drained, ours_err)
        pid = int.from_bytes(_received(server, 4), "big")
        watchdog = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
        watchdog.start()
        code = int.from_bytes(_received(server, 4), "big", signed=True)
        watchdog.cancel()
        fed.result()
        done = subprocess.CompletedProcess(words, code, out.result(), err.result())
    if text:
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def _feed(fd, data):
    with open(fd, "wb", buffering=0) as pipe:
        try:
            while data:
                data = data[pipe.write(data) :]
        except BrokenPipeError:
            pass  # The command did not want it all.


def _drained(fd):
    with open(fd, "rb") as pipe:
        return pipe.read()


def _connected():
    global _server
    if _server is None:
        _server, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
        theirs.close()
        atexit.register(process.wait)
        atexit.register(_server.close)  # The server ends when nobody can ask any more.
    return _server


def _received(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


# -- the server -------------------------------------------------------------------------------


def _next_command(connection):
    """Fork for each request; return in the child, as the command."""
    while True:
        header, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_LEN(3 * 4))
        if not header:
            os._exit(0)
        asked = json.loads(_received(connection, int.from_bytes(header, "big")))
        streams = array.array("i")
        streams.frombytes(ancillary[0][2])
        pid = os.fork()
        if not pid:
            connection.close()
            _become(asked, streams)
            return
        for fd in streams:
            os.close(fd)
        connection.sendall(pid.to_bytes(4, "big"))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(code.to_bytes(4, "big", signed=True))


def _become(asked, streams):
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    sys.argv = ["turnlog", *asked["argv"]]
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])


def _import_most():
    """Import most of turnlog, and what it imports for many commands."""
    import turnlog

    ours = [found.name for found in walk_packages(turnlog.__path__, "turnlog.")]
    for name in (*ours, "genai_prices.data", "markdown_it.presets", "rich.table", "zoneinfo"):
        if not name.startswith(_RARE):
            import_module(name)
    # Prices are compiled once for every home of turnlog's own, and each test has another.
    table = import_module("turnlog.pricing.table")
    table.compile_table = cache(table.compile_table)
    table.compile_table()


if __name__ == "__main__":
    from turnlog.cli import main

    del sys.path[0]  # The directory of tests is none of the command's business.
    _import_most()
    gc.collect()
    gc.freeze()  # Commands do not look at what they share with the server.
    _next_command(socket.socket(fileno=int(sys.argv[1])))
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # To take a hundred modules apart takes longer than a command.
