"""Streamable HTTP, on loopback only and behind a token.

A page in a browser can reach a server on loopback, by its address or by a name that it lets point
there. So before anything is read of a request, its Host must be ours, its Origin ours or none, and
its token the one that the owner was told; tokens are compared in constant time. Each refusal says
which it was.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import re
import secrets
import signal
import socket
import stat
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import anyio
import uvicorn

from turnlog.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from turnlog.mcp.server import TurnlogServer

PATH: Final = "/mcp"
PORT: Final = 7433
_TOKEN_BYTES: Final = 32
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{24,512}")
_GOODBYE_SECONDS: Final = 2


class Door:
    """Lets a request in if its Host, its Origin and its token are right."""

    def __init__(self, app: ASGIApp, *, token: str, host: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        names = {host, "localhost"} if ":" not in host else {f"[{host}]", "localhost"}
        self._hosts = {f"{name}:{port}" for name in names} | (names if port == 80 else set())
        self._origins = {f"http://{each}" for each in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif (refusal := self._refusal(scope["headers"])) is not None:
            await _refuse(send, *refusal)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: list[tuple[bytes, bytes]]) -> tuple[int, str, str] | None:
        """Say why a request is refused; None if it is not."""
        hosts, origins, told = (
            [value.decode("latin-1") for name, value in headers if name.lower() == wanted]
            for wanted in (b"host", b"origin", b"authorization")
        )
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "wrong_host", "this server answers only to its own address"
        if any(each.lower() not in self._origins for each in origins):
            return 403, "wrong_origin", "no page of another origin may ask this server"
        kind, _, token = told[0].partition(" ") if len(told) == 1 else ("", "", "")
        given = token.strip().encode("latin-1", "replace")
        if kind.lower() != "bearer" or not hmac.compare_digest(given, self._token):
            return 401, "wrong_token", "send the token that was shown when the server started"
        return None


async def _refuse(send: Send, status: int, kind: str, message: str) -> None:
    body = json.dumps({"error": {"type": kind, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def check_loopback(host: str) -> str:
    """Give the address to listen on; UsageError if another machine could reach it."""
    address = "127.0.0.1" if host.lower() == "localhost" else host.strip("[]")
    try:
        if ipaddress.ip_address(address).is_loopback:
            return address
    except ValueError:
        pass
    raise UsageError(
        f"{host!r} is no loopback address, and what the logs hold is for this machine only",
        hint="listen on 127.0.0.1, and reach it from elsewhere through ssh -L",
    )


def token_in(path: str | os.PathLike[str]) -> str:
    """Read the token in a file that only its owner can read; made with a new one if need be."""
    made = secrets.token_urlsafe(_TOKEN_BYTES)
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
        mode = os.fstat(fd).st_mode
        said = file.read(4096).decode("latin-1").strip() if stat.S_ISREG(mode) else ""
    if os.name == "posix" and mode & 0o077:
        raise UsageError(
            "others can read the file with the token", hint=f"chmod 600 {os.fspath(path)}"
        )
    if _TOKEN.fullmatch(said) is None:
        raise UsageError(
            "there is no token in the file: 24 or more letters, digits and signs are one",
            hint="delete the file, and a new token is made",
        )
    return said


def listen(host: str, port: int) -> socket.socket:
    """Open the socket; UsageError if somebody else has the port."""
    address = check_loopback(host)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()  # Before anybody is told where: whoever reads that may ask at once.
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {address}:{port}: {reason}", hint="choose another with --port"
        ) from None
    return listener


class _Told(uvicorn.Server):
    """A server that says something once it has begun, and tells whether a Ctrl-C ended it."""

    def __init__(self, config: uvicorn.Config, words: str) -> None:
        super().__init__(config)
        self.is_interrupted = False
        self._words = words

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.is_interrupted |= sig == signal.SIGINT
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        sys.stderr.write(self._words)
        sys.stderr.flush()


def serve_http(
    server: TurnlogServer, *, host: str, port: int, token_file: str | None = None
) -> None:
    """Serve until told to stop; the address and the token are told on stderr."""
    token = token_in(token_file) if token_file else secrets.token_urlsafe(_TOKEN_BYTES)
    listener = listen(host, port)
    name: tuple[Any, ...] = listener.getsockname()
    shown = f"[{name[0]}]" if ":" in name[0] else name[0]
    app = Door(
        server.streamable_http_app(streamable_http_path=PATH, host=name[0]),
        token=token,
        host=name[0],
        port=name[1],
    )
    where = f"as in {token_file}" if token_file else token
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=_GOODBYE_SECONDS,
    )
    words = f"listening on http://{shown}:{name[1]}{PATH}\ntoken: {where}\n"
    told = _Told(config, words)
    anyio.run(told.serve, [listener])
    if told.is_interrupted:  # It ended in good order, but not of its own accord.
        raise KeyboardInterrupt
