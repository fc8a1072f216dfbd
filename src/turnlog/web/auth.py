"""Who may look: whoever was told the token, on this machine, with a browser that we sent there.

The address that is shown when the server starts carries the token. Whoever opens it gets a cookie
in exchange and is sent on to the plain address, so that the token stands in no link. The cookie is
of no use to scripts, and other sites cannot make a browser send it. Where others can read an
address, as in the list of processes, a ticket does instead: it is good for one visit. Pages are
only ever asked for: nothing can be changed here, so any other method is refused.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from turnlog.export.html.page import OwnUrl, element, escaped
from turnlog.loopback import Headers, Refusal, ServerAddress, is_token, new_token, values_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN: Final = "token"  # noqa: S105 - What the field is called.
_METHODS: Final = ("GET", "HEAD")
# What is shown is private, is nobody else's to frame or to embed, and tells nobody of itself.
_GUARDED: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_WELCOME: Final = '<!doctype html><meta http-equiv="refresh" content="{}"><title>turnlog</title>{}'
_STRANGER: Final = Refusal(
    401, "wrong_token", "open the address that was shown when turnlog web started"
)


class WebAuth:
    """Lets a request in if its Host, its Origin, its method and its token are right."""

    def __init__(self, app: ASGIApp, *, token: str, place: ServerAddress) -> None:
        self._app, self._token, self._place = app, token, place
        # Cookies do not know ports: two servers must not take each other's.
        self._name = f"turnlog-{place.url.rpartition(':')[2]}"
        self._tickets: set[str] = set()

    def ticket(self) -> str:
        """Return what lets one visitor in, once, in place of the token."""
        made = new_token()
        self._tickets.add(made)
        return made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = scope["headers"]
        refusal = self._place.refusal(headers)
        if refusal is None and scope["method"] not in _METHODS:
            refusal = Refusal(405, "wrong_method", "nothing can be changed here")
        if refusal is not None:
            await _refuse(send, refusal)
        elif self._has_token(scope):
            await self._welcome(scope, send)
        elif not self._has_cookie(headers):
            await _refuse(send, _STRANGER)
        else:
            await self._app(scope, receive, _guarded(send))

    def _has_token(self, scope: Scope) -> bool:
        given = dict(_fields(scope)).get(TOKEN)
        if given is None:
            return False
        tickets = {each for each in self._tickets if is_token(given, each)}
        self._tickets -= tickets
        return bool(tickets) or is_token(given, self._token)

    def _has_cookie(self, headers: Headers) -> bool:
        # Of other servers on this host there are cookies of any shape: each is looked at alone.
        said = (each for value in values_of(headers, b"cookie") for each in value.split(";"))
        pairs = (each.strip().partition("=") for each in said)
        return any(name == self._name and is_token(given, self._token) for name, _, given in pairs)

    async def _welcome(self, scope: Scope, send: Send) -> None:
        """Give a cookie for the token, and send to the address without it.

        A page of ours sends there, not a redirection: if a link elsewhere led here, a browser would
        count the redirection as that site's, and keep the cookie back.
        """
        rest = urlencode([(name, value) for name, value in _fields(scope) if name != TOKEN])
        # To a browser a path that begins with two slashes, of either kind, is another host.
        raw: bytes = scope["raw_path"]
        path = "/" + raw.decode("latin-1").partition("?")[0].lstrip("/\\")
        address = path + (f"?{rest}" if rest else "")
        cookie = f"{self._name}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"set-cookie", cookie.encode("latin-1")),
            *_GUARDED,
        ]
        body = _WELCOME.format(
            escaped(f"0; url={address}"), element("a", "turnlog", href=OwnUrl(address))
        )
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body.encode()})


def _fields(scope: Scope) -> list[tuple[str, str]]:
    said = scope.get("query_string", b"").decode("latin-1")
    return parse_qsl(said, keep_blank_values=True, max_num_fields=None)


def _guarded(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_GUARDED]}
        await send(message)

    return sending


async def _refuse(send: Send, refusal: Refusal) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_GUARDED]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{refusal.message}\n".encode()})
