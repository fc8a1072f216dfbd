"""Which page answers to which address, and what is said when none can."""

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
from turnlog.web.context import PageContext
from turnlog.web.layout import framed
from turnlog.web.pages.costs import costs_page
from turnlog.web.pages.insights import insights_page_for
from turnlog.web.pages.now import now_page
from turnlog.web.pages.search import search_page
from turnlog.web.pages.session import session_export, session_pieces
from turnlog.web.pages.sessions import sessions_page
from turnlog.web.params import Params

Drawn = Callable[[Params], str]

_PAGES: Final[dict[str, Drawn]] = {
    "/": sessions_page,
    "/now": now_page,
    "/search": search_page,
    "/costs": costs_page,
    "/insights": insights_page_for,
}


def make_app(desk: PageContext) -> Starlette:
    """Return the application that answers from *desk*; who may ask, its door decides."""
    routes = [Route(path, _page(desk, drawn)) for path, drawn in _PAGES.items()]
    routes += [
        Route("/session/{name:path}/export.{shape}", _export(desk)),
        Route("/session/{name:path}", _session(desk)),  # Some ids have slashes.
        Route("/favicon.ico", _no_picture),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={TurnlogError: _told, HTTPException: _not_there, Exception: _failed},
    )


def _asked(request: Request, desk: PageContext) -> Params:
    return Params(dict(request.query_params), desk)


def _page(desk: PageContext, drawn: Drawn) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        return HTMLResponse(drawn(_asked(request, desk)))

    return answer


def _session(desk: PageContext) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        pieces = session_pieces(request.path_params["name"], _asked(request, desk))
        return StreamingResponse(pieces, media_type="text/html")

    return answer


def _export(desk: PageContext) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        asked = _asked(request, desk)
        name, shape = request.path_params["name"], request.path_params["shape"]
        text, media, file = session_export(name, shape, asked)
        disposition = {"content-disposition": f'attachment; filename="{file}"'}
        return Response(text, media_type=media, headers=disposition)

    return answer


def _no_picture(_request: Request) -> Response:
    return Response(status_code=204)


def _told(_request: Request, error: Exception) -> Response:
    """Say what was wrong, and the way out, as the command line would."""
    assert isinstance(error, TurnlogError)
    status = 404 if isinstance(error, NotFound) else 400 if isinstance(error, UsageError) else 500
    return _problem(status, str(error), error.hint or "")


def _not_there(_request: Request, _error: Exception) -> Response:
    return _problem(404, "there is no such page", "the bar above leads to those there are")


def _failed(_request: Request, _error: Exception) -> Response:
    """Say that it is our fault; what happened is told where the server runs."""
    return _problem(500, "this page could not be made", "the terminal of turnlog web says why")


def _problem(status: int, words: str, hint: str) -> Response:
    title = words[:1].upper() + words[1:]
    body = [element("h1", title), element("p", hint, class_="note") if hint else None]
    return HTMLResponse(framed(title, "", *body), status)
