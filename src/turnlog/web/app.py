"""The application: which page has which path, and the pages for errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from turnlog.errors import NotFound, TurnlogError, UsageError
from turnlog.export.html.page import element
from turnlog.web.context import PageContext, Params
from turnlog.web.events import Events
from turnlog.web.json_api import api_routes
from turnlog.web.layout import framed
from turnlog.web.pages.compare import ROUTES as COMPARE
from turnlog.web.pages.costs import costs_csv, costs_page
from turnlog.web.pages.files import ROUTES as FILES
from turnlog.web.pages.health import ROUTES as HEALTH
from turnlog.web.pages.insights import insights_page_for
from turnlog.web.pages.now import now_page
from turnlog.web.pages.palette import palette
from turnlog.web.pages.search import search_page
from turnlog.web.pages.session import session_routes
from turnlog.web.pages.sessions import sessions_page
from turnlog.web.static_files import STATIC_ROUTES

Drawn = Callable[[Params], str | Response]

_PAGES: Final[dict[str, Drawn]] = {
    "/": sessions_page,
    "/now": now_page,
    "/search": search_page,
    "/costs": costs_page,
    "/costs.csv": costs_csv,
    "/insights": insights_page_for,
    **COMPARE,
    **FILES,
    **HEALTH,
}


def make_app(ctx: PageContext) -> Starlette:
    """Return the application; `WebAuth` decides who may use it."""
    routes = [Route(path, _page(ctx, drawn)) for path, drawn in _PAGES.items()]
    routes += [
        *session_routes(ctx),
        Route("/palette", lambda request: palette(_asked(request, ctx))),
        Route("/favicon.ico", _no_icon),
    ]
    events = Events(ctx)
    routes += [Route("/events", events.answer), *api_routes(ctx), *STATIC_ROUTES]
    app = Starlette(
        routes=routes,
        exception_handlers={TurnlogError: _error, HTTPException: _refused, Exception: _failure},
    )
    app.state.close = events.close
    return app


def _asked(request: Request, ctx: PageContext) -> Params:
    asked = request.query_params
    return Params(dict(asked), ctx, asked.multi_items())


def _page(ctx: PageContext, drawn: Drawn) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        page = drawn(_asked(request, ctx))
        return page if isinstance(page, Response) else HTMLResponse(page)

    return answer


def _no_icon(_request: Request) -> Response:
    return Response(status_code=204)


def _error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, TurnlogError)
    status = 404 if isinstance(error, NotFound) else 400 if isinstance(error, UsageError) else 500
    return _problem(status, str(error), error.hint or "")


_STATUS: Final = {
    404: ("there is no such page", "use the links above"),
    405: ("nothing can be changed here", ""),
    408: ("the request took too long", "try again"),
    413: ("the request is too large", ""),
}


def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _problem(error.status_code, *_STATUS[error.status_code])


def _failure(_request: Request, _error: Exception) -> Response:
    return _problem(500, "this page could not be made", "the terminal of turnlog web says why")


def _problem(status: int, words: str, hint: str) -> Response:
    title = words[:1].upper() + words[1:]
    body = [element("h1", title), element("p", hint, class_="note") if hint else None]
    return HTMLResponse(framed(title, "", *body), status)
