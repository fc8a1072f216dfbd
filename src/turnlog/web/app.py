"""The application: which page has which path, and the pages for errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from turnlog.errors import NotFound, TurnlogError, UsageError
from turnlog.export.html.page import element
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import framed
from turnlog.web.pages.costs import costs_page
from turnlog.web.pages.insights import insights_page_for
from turnlog.web.pages.now import now_page
from turnlog.web.pages.search import search_page
from turnlog.web.pages.session import session_export, session_pieces
from turnlog.web.pages.sessions import sessions_page

Drawn = Callable[[Params], str]

_PAGES: Final[dict[str, Drawn]] = {
    "/": sessions_page,
    "/now": now_page,
    "/search": search_page,
    "/costs": costs_page,
    "/insights": insights_page_for,
}


def make_app(ctx: PageContext) -> Starlette:
    """Return the application; `WebAuth` decides who may use it."""
    routes = [Route(path, _page(ctx, drawn)) for path, drawn in _PAGES.items()]
    routes += [
        Route("/session/{name:path}/export.{shape}", _export(ctx)),
        Route("/session/{name:path}", _session(ctx)),  # Some ids have slashes.
        Route("/favicon.ico", _no_icon),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={TurnlogError: _error, HTTPException: _missing, Exception: _failure},
    )


def _asked(request: Request, ctx: PageContext) -> Params:
    return Params(dict(request.query_params), ctx)


def _page(ctx: PageContext, drawn: Drawn) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        return HTMLResponse(drawn(_asked(request, ctx)))

    return answer


def _session(ctx: PageContext) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        pieces = session_pieces(request.path_params["name"], _asked(request, ctx))
        return StreamingResponse(pieces, media_type="text/html")

    return answer


def _export(ctx: PageContext) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        params = _asked(request, ctx)
        name, shape = request.path_params["name"], request.path_params["shape"]
        text, media, file = session_export(name, shape, params)
        disposition = {"content-disposition": f'attachment; filename="{file}"'}
        return Response(text, media_type=media, headers=disposition)

    return answer


def _no_icon(_request: Request) -> Response:
    return Response(status_code=204)


def _error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, TurnlogError)
    status = 404 if isinstance(error, NotFound) else 400 if isinstance(error, UsageError) else 500
    return _problem(status, str(error), error.hint or "")


def _missing(_request: Request, _error: Exception) -> Response:
    return _problem(404, "there is no such page", "use the links above")


def _failure(_request: Request, _error: Exception) -> Response:
    return _problem(500, "this page could not be made", "the terminal of turnlog web says why")


def _problem(status: int, words: str, hint: str) -> Response:
    title = words[:1].upper() + words[1:]
    body = [element("h1", title), element("p", hint, class_="note") if hint else None]
    return HTMLResponse(framed(title, "", *body), status)
