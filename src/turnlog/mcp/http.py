"""Streamable HTTP, on loopback only and protected by a token.

Requests must send the token in a header, which pages of other origins cannot do. Each refusal
has its own error type.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from turnlog.loopback import (
    Headers,
    Refusal,
    ServerAddress,
    is_token,
    listen,
    new_token,
    serve,
    token_in,
    values_of,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from turnlog.mcp.server import TurnlogServer

PATH: Final = "/mcp"
PORT: Final = 7433


class McpAuth:
    """Accepts requests with a valid Host, Origin and token; refuses all others."""

    def __init__(self, app: ASGIApp, *, token: str, place: ServerAddress) -> None:
        self._app, self._token, self._place = app, token, place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif (refusal := self._refusal(scope["headers"])) is not None:
            await _refuse(send, refusal)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> Refusal | None:
        """Return why a request is refused, or None."""
        refusal = self._place.refusal(headers)
        if refusal is not None:
            return refusal
        values = values_of(headers, b"authorization")
        kind, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        if kind.lower() != "bearer" or not is_token(token.strip(), self._token):
            words = "send the token that was shown when the server started"
            return Refusal(401, "wrong_token", words)
        return None


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = {"error": {"type": refusal.kind, "message": refusal.message}}
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


def serve_http(server: TurnlogServer, *, port: int, token_file: str | None = None) -> None:
    """Serve until interrupted; print the address and the token on stderr."""
    token = token_in(token_file) if token_file else new_token()
    listener = listen(port)
    place = ServerAddress.of(listener)
    name = listener.getsockname()[0]
    app = server.streamable_http_app(streamable_http_path=PATH, host=name)
    where = f"as in {token_file}" if token_file else token
    words = f"listening on {place.url}{PATH}\ntoken: {where}\n"
    serve(McpAuth(app, token=token, place=place), listener, words)
