"""HTTP servers for this machine only: address checks, request checks and tokens.

A web page can reach a server on loopback, by its address or by a DNS name that resolves to it. So
before a request is read, its Host must be ours and its Origin ours or absent. Each server decides
how it uses tokens; they are compared in constant time.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import math
import os
import re
import secrets
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import anyio.to_thread
import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from turnlog.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

Headers = Iterable[tuple[bytes, bytes]]

_ADDRESS: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 32
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{24,512}")
_GOODBYE_SECONDS: Final = 2
HEADER_SECONDS = 10.0
"""How long a connection may take to send the headers of a request."""
_MOST_CONNECTIONS: Final = 100
_BACKLOG: Final = 32  # asyncio accepts this many at once, before any is refused.
_MOST_THREADS: Final = 16  # Each has memory of its own, and Python runs one at a time.
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    kind: str
    message: str


class ServerAddress:
    """Where a server listens: the valid Host and Origin of requests to it."""

    def __init__(self, host: str, port: int) -> None:
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{port}"
        names = {name, "localhost"}
        self._hosts = {f"{each}:{port}" for each in names} | (names if port == 80 else set())
        self._origins = {f"http://{each}" for each in self._hosts}

    @classmethod
    def of(cls, listener: socket.socket) -> ServerAddress:
        """Return the address of *listener*."""
        name: tuple[Any, ...] = listener.getsockname()
        return cls(name[0], name[1])

    def refusal(self, headers: Headers) -> Refusal | None:
        """Return why a request is refused, or None."""
        hosts = values_of(headers, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return Refusal(403, "wrong_host", "this server answers only to its own address")
        if any(each.lower() not in self._origins for each in values_of(headers, b"origin")):
            return Refusal(403, "wrong_origin", "no page of another origin may ask this server")
        return None


def values_of(headers: Headers, wanted: bytes) -> list[str]:
    """Return all values of one header."""
    return [value.decode("latin-1") for name, value in headers if name.lower() == wanted]


def is_token(given: str, token: str) -> bool:
    """Return whether *given* is the token, in constant time."""
    return hmac.compare_digest(given.encode("latin-1", "replace"), token.encode())


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def token_in(path: str | os.PathLike[str]) -> str:
    """Return the token in a private file; create the file with a new token if missing."""
    made = new_token()
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_token(path)
    except OSError as error:
        raise UsageError(
            f"the token cannot be written: {error.strerror}", hint="name a file in your own home"
        ) from None
    with os.fdopen(fd, "w") as file:
        file.write(made + "\n")
    return made


def _read_token(path: str | os.PathLike[str]) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise UsageError(
            f"the token cannot be read: {error.strerror}", hint=f"look at {os.fspath(path)}"
        ) from None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        token = file.read(4096).decode("latin-1").strip() if stat.S_ISREG(status.st_mode) else ""
    if os.name == "posix" and status.st_uid != os.geteuid():
        raise UsageError(
            "the file with the token belongs to another user, who knows it",
            hint="name a file of your own",
        )
    if os.name == "posix" and status.st_mode & 0o077:
        raise UsageError(
            "others can read the file with the token", hint=f"chmod 600 {os.fspath(path)}"
        )
    if _TOKEN.fullmatch(token) is None:
        raise UsageError(
            "there is no token in the file: 24 or more letters, digits and signs are one",
            hint="delete the file, and a new token is made",
        )
    return token


def listen(port: int) -> socket.socket:
    """Open the socket, for this machine only; raise UsageError if the port is in use."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_ADDRESS, port))
        listener.listen()  # Before the address is printed: its reader may connect at once.
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {_ADDRESS}:{port}: {reason}", hint="choose another with --port"
        ) from None
    return listener


class _Connection(H11Protocol):
    """A connection with a deadline for its request, one of a limited number.

    Idle connections would otherwise lock others out: a new connection replaces the one that has
    waited longest without a request.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            waiting = [each for each in self.connections if isinstance(each, _Connection)]
            idle = [each for each in waiting if each._deadline is not None]  # noqa: SLF001
            # Deadlines began in the order of their connections.
            min(idle, key=lambda each: each._ends_at, default=self).transport.abort()  # noqa: SLF001
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _ends_at(self) -> float:
        return self._deadline.when() if self._deadline else math.inf

    def _wait(self) -> None:
        """Set the deadline if a request is awaited; partial data does not move it."""
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def most_connections() -> int:
    """Return how many connections may be open: a share of the process's file limit."""
    try:
        import resource  # noqa: PLC0415 - Windows has none.
    except ImportError:
        return _MOST_CONNECTIONS
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(_MOST_CONNECTIONS, limit // 4) if limit > 0 else _MOST_CONNECTIONS


class _Announcing(uvicorn.Server):
    """A server that prints a message when it has started and knows if Ctrl-C ended it."""

    def __init__(
        self, config: uvicorn.Config, words: str, on_exit: Callable[[], None] | None
    ) -> None:
        super().__init__(config)
        self._on_exit = on_exit
        self.is_interrupted = False
        self._is_short = False
        self._words = words

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.is_interrupted |= sig == signal.SIGINT
        super().handle_exit(sig, frame)
        if self._on_exit is not None:
            self._on_exit()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._handle_exception)
        anyio.to_thread.current_default_thread_limiter().total_tokens = _MOST_THREADS
        await super().startup(sockets)
        sys.stderr.write(self._words)
        sys.stderr.flush()

    def _handle_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report once that connections cannot be accepted: asyncio reports every attempt."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _OUT_OF_RESOURCES:
            loop.default_exception_handler(context)
        elif not self._is_short:
            self._is_short = True
            sys.stderr.write(f"warning: cannot accept more connections: {error.strerror}\n")
            sys.stderr.flush()


def serve(
    app: ASGIApp,
    listener: socket.socket,
    words: str,
    *,
    on_exit: Callable[[], None] | None = None,
) -> None:
    """Serve until stopped; print *words* to stderr once it has started.

    *on_exit* is called on the signal to stop, to end answers that would go on forever.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        http=_Connection,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_GOODBYE_SECONDS,
    )
    server = _Announcing(config, words, on_exit)
    anyio.run(server.serve, [listener])
    if server.is_interrupted:  # It shut down in order, but was interrupted.
        raise KeyboardInterrupt
