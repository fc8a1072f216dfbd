"""The paths of a session's page and of its parts."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from turnlog.errors import NotFound
from turnlog.export.conversation import Picture
from turnlog.export.html.blocks import image_data
from turnlog.export.html.page import Child, element
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import fragment, framed
from turnlog.web.pages.session.about import about
from turnlog.web.pages.session.find import places
from turnlog.web.pages.session.outline import group_size, outline_rows
from turnlog.web.pages.session.page import session_export, session_page
from turnlog.web.pages.session.panel import file_diff, panel
from turnlog.web.pages.session.turns import ServedBlocks, subagent_window, window_parts
from turnlog.web.pages.session.view import SessionView, number_in, view_of

Part = Callable[[SessionView], Child]


def session_routes(ctx: PageContext) -> list[Route]:
    """Return the routes; ids of sessions may have slashes."""
    parts: dict[str, Part] = {
        "turns": _turns,
        "block": _block,
        "agent": _agent,
        "outline": _outline,
        "next": _next,
        "find": lambda view: places(view, view.params.text("q")),
        "about": about,
        "side": panel,
        "file": lambda view: file_diff(view, view.params.text("id")),
    }
    return [
        Route("/session/{name:path}/export.{shape}", _export(ctx)),
        *(
            Route(f"/session/{{name:path}}/{part}", _part(ctx, drawn))
            for part, drawn in parts.items()
        ),
        Route("/session/{name:path}/image", _image(ctx)),
        Route("/session/{name:path}", _page(ctx)),
    ]


def _view(request: Request, ctx: PageContext) -> SessionView:
    return view_of(request.path_params["name"], Params(dict(request.query_params), ctx))


def _page(ctx: PageContext) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        return HTMLResponse(session_page(_view(request, ctx)))

    return answer


def _part(ctx: PageContext, drawn: Part) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        view = _view(request, ctx)
        tag = f'"{view.tag}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        body = drawn(view)
        if request.headers.get("sec-fetch-dest") == "document":  # A link was followed.
            title = view.thread.head.title or f"Session {view.id[:8]}"
            back = element("p", element("a", "← the session", href=view.url()))
            page = element("div", element("h1", title), back, body, class_="alone")
            return HTMLResponse(framed(title, "Sessions", page, styles=("blocks", "reader")))
        found = fragment(body)
        found.headers["etag"] = tag
        return found

    return answer


def _export(ctx: PageContext) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        params = Params(dict(request.query_params), ctx)
        name, shape = request.path_params["name"], request.path_params["shape"]
        text, media, file = session_export(name, shape, params)
        disposition = {"content-disposition": f'attachment; filename="{file}"'}
        return Response(text, media_type=media, headers=disposition)

    return answer


def _image(ctx: PageContext) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        view = _view(request, ctx)
        block = view.thread.block(view.params.text("id"))
        data = image_data(block) if isinstance(block, Picture) else ""
        if not isinstance(block, Picture) or not data:
            raise NotFound("there is no such image", hint="reload the session")
        try:
            content = b64decode(data)
        except ValueError as error:
            raise NotFound("the image is damaged", hint="export the session as JSON") from error
        return Response(content, media_type=block.media_type)  # One of a few that cannot run.

    return answer


def _turns(view: SessionView) -> Child:
    """Return a window; *side* says which neighbour is wanted: before, after or both."""
    side = view.params.text("side")
    return window_parts(view, view.window, before=side != "after", after=side != "before")


def _block(view: SessionView) -> Child:
    block = view.thread.block(view.params.text("id"))
    return element("div", ServedBlocks(view).inside(block), class_="inside")


def _agent(view: SessionView) -> Child:
    window = number_in(view.params, "window") or 0
    return subagent_window(view, view.params.text("id"), window)


def _next(view: SessionView) -> Child:
    """Return a link to the next prompt, error or call."""
    kind = view.params.text("kind", "prompt")
    step = -1 if view.params.text("step") == "-1" else 1
    place = view.thread.neighbour(kind, view.params.text("from"), step)
    if place is None:
        return element("p", "There is none.")
    return element("p", element("a", "Go there", href=view.place(place), data_place=place))


def _outline(view: SessionView) -> Child:
    turns = view.thread.outline.turns
    first = view.params.text("first", "0")
    if not first.isascii() or not first.isdecimal() or int(first[:9]) > len(turns):
        raise NotFound("there are no such turns", hint="reload the session")
    return element("ol", outline_rows(view, int(first[:9]), group_size(len(turns))))
