"""Authentication: a token in the URL is exchanged for a cookie.

The URL that is printed at the start contains the token. Opening it sets a cookie and leads to the
URL without the token, so that no link contains it. Scripts cannot read the cookie, and other sites
cannot make a browser send it. Where others can read a URL, as in the list of processes, it contains
a ticket for one visit instead.

Requests that change something (POST) also need an Origin and a header that a page of another site
cannot send without asking first, which is refused.
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
CHANGES: Final = b"x-turnlog"
"""The header of requests that change something."""
_METHODS: Final = ("GET", "HEAD")
# Nothing is fetched from elsewhere, and scripts can only insert HTML that they got from here.
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    b" img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
    b" require-trusted-types-for 'script'; trusted-types turnlog"
)
# Pages are private: not cached, framed or embedded, and no referrer is sent.
_GUARDED: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", _POLICY),
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
    """Passes requests with the right Host, Origin, method and token to the application."""

    def __init__(
        self, app: ASGIApp, *, token: str, place: ServerAddress, is_read_only: bool = False
    ) -> None:
        self._app, self._token, self._place = app, token, place
        self._is_read_only = is_read_only
        # Cookies ignore ports, so the name contains it.
        self._name = f"turnlog-{place.url.rpartition(':')[2]}"
        self._tickets: set[str] = set()

    def ticket(self) -> str:
        """Return a token that is valid once."""
        ticket = new_token()
        self._tickets.add(ticket)
        return ticket

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
            refusal = self._change_refusal(scope["method"], headers)
        if refusal is not None:
            await self._refuse(send, refusal)
        elif self._has_token(scope):
            await self._welcome(scope, send)
        elif not self._has_cookie(headers):
            await self._refuse(send, _STRANGER)
        else:
            await self._app(scope, receive, _guarded(send))

    def _change_refusal(self, method: str, headers: Headers) -> Refusal | None:
        """Return why a request may not change anything, or None."""
        if method != "POST" or self._is_read_only:
            return Refusal(405, "wrong_method", "nothing can be changed here")
        sites = values_of(headers, b"sec-fetch-site")
        if not values_of(headers, b"origin") or any(site != "same-origin" for site in sites):
            return Refusal(403, "wrong_origin", "only a page of this server may change something")
        if values_of(headers, CHANGES) != ["1"]:
            return Refusal(403, "no_header", "send the header X-Turnlog: 1")
        if values_of(headers, b"content-type") != ["application/json"]:
            return Refusal(415, "wrong_type", "send application/json")
        return None

    async def _refuse(self, send: Send, refusal: Refusal) -> None:
        headers = [(b"content-type", b"text/plain; charset=utf-8"), *_GUARDED]
        if refusal.status == 405:
            headers.append((b"allow", b"GET, HEAD" if self._is_read_only else b"GET, HEAD, POST"))
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": f"{refusal.message}\n".encode()})

    def _has_token(self, scope: Scope) -> bool:
        given = dict(_fields(scope)).get(TOKEN)
        if given is None:
            return False
        tickets = {each for each in self._tickets if is_token(given, each)}
        self._tickets -= tickets
        return bool(tickets) or is_token(given, self._token)

    def _has_cookie(self, headers: Headers) -> bool:
        # Other servers on this host may set invalid cookies, so each is parsed alone.
        cookies = (part for value in values_of(headers, b"cookie") for part in value.split(";"))
        pairs = (cookie.strip().partition("=") for cookie in cookies)
        return any(name == self._name and is_token(given, self._token) for name, _, given in pairs)

    async def _welcome(self, scope: Scope, send: Send) -> None:
        """Set the cookie and lead to the URL without the token.

        By a page, not a redirect: if a link of another site led here, a browser would not send the
        cookie after a redirect.
        """
        rest = urlencode([(name, value) for name, value in _fields(scope) if name != TOKEN])
        # To a browser, a path that begins with two slashes or backslashes is another host.
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
    query = scope.get("query_string", b"").decode("latin-1")
    return parse_qsl(query, keep_blank_values=True, max_num_fields=None)


def _guarded(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            # Style sheets and scripts may be cached: they have nothing private.
            given = message.get("headers", ())
            names = {name for name, _ in given}
            added = [each for each in _GUARDED if each[0] not in names]
            message = {**message, "headers": [*given, *added]}
        await send(message)

    return sending
