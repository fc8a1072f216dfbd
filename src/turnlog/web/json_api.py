"""The data of the pages as JSON, under /api, described by /api/openapi.json.

Every answer is a document of ``turnlog.api``, the same that a command prints with ``--json``. It
has an ETag: a client that sends it back gets 304 if nothing has changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import anyio
import msgspec
from anyio import to_thread
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from turnlog.api.costs import Ledger
from turnlog.api.files import FileEdits, list_edits
from turnlog.api.insights import Insights, Overview, overview
from turnlog.api.live import LiveDocument
from turnlog.api.search import SearchDocument
from turnlog.api.sessions.compare import SessionComparison, compare_sessions
from turnlog.api.sessions.lists import (
    ProjectCatalog,
    SessionCatalog,
    SessionCosts,
    SessionSort,
    costs_by,
    list_indexed,
    list_projects,
)
from turnlog.api.sessions.reading import Session, SessionDocument, describe_session
from turnlog.api.sessions.writing import LabelsDocument, set_labels
from turnlog.errors import NotFound, TurnlogError, UsageError
from turnlog.export.conversation import ConversationDocument, ConversationOptions, document_of
from turnlog.export.conversation_builder import read_conversation
from turnlog.text import utf8_safe
from turnlog.web.context import PageContext, Params

_MOST_BODY_BYTES: Final = 64 * 1024
_BODY_SECONDS: Final = 10.0
_MOST_ROWS: Final = 1_000


class Labels(Struct, kw_only=True, forbid_unknown_fields=True):
    """What to change; null leaves it as it is, an empty title clears it."""

    title: str | None = None
    tags: list[str] | None = None
    pinned: bool | None = None


class Problem(Struct, kw_only=True):
    """Why a request failed, and what to do."""

    error: str
    hint: str = ""


class _Field(NamedTuple):
    words: str
    kind: str = "string"


class _Endpoint(NamedTuple):
    path: str
    words: str
    returns: type
    answer: Callable[[Params, Mapping[str, str]], Any]
    fields: Mapping[str, _Field] = {}


_SINCE: Final = _Field("From this time on: 7d, yesterday, 2026-11-01")
_UNTIL: Final = _Field("Before this time")
_PROJECT: Final = _Field("Path or name of a project")
_REQUIRED: Final = ("q", "a", "b")
_LIMIT: Final = _Field(f"At most this many, up to {_MOST_ROWS:,}", "integer")
_OFFSET: Final = _Field("Skip this many: `next` of the page before", "integer")
_PERIOD: Final = {"since": _SINCE, "until": _UNTIL, "project": _PROJECT}


def _limit(params: Params, default: int) -> int:
    return min(params.number("limit", default), _MOST_ROWS) or default


def _sessions(params: Params, _: Mapping[str, str]) -> SessionCatalog:
    ctx = params.ctx
    with ctx.store.index() as index:
        return list_indexed(
            index,
            project=params.project,
            text_in_title=params.text("title") or None,
            words=params.text("words").split(),
            model=params.text("model") or None,
            branch=params.text("branch") or None,
            tool=params.text("tool") or None,
            tag=params.text("tag") or None,
            agent=params.text("agent") or None,
            has_errors=params.is_on("errors") or None,
            pinned=params.is_on("pinned") or None,
            kept=params.is_on("kept") or None,
            gone=params.is_on("gone") or None,
            since=params.moment("since"),
            until=params.moment("until"),
            sort=cast("SessionSort", params.text("sort", "active")),
            limit=_limit(params, 100),
            offset=params.offset,
            costs=SessionCosts(index, ctx.prices),
            now=ctx.now(),
        )


def _session(params: Params, path: Mapping[str, str]) -> SessionDocument:
    return describe_session(params.ctx.store.homes, path["id"])


def _conversation(params: Params, path: Mapping[str, str]) -> ConversationDocument:
    first, last = params.number("from", 1), params.number("to", 0)
    session = Session.find(params.ctx.store.homes, path["id"])
    choice = ConversationOptions(turns=(max(1, first), last or max(1, first) + 19))
    return document_of(read_conversation(session, choice, params.ctx.outgoing(session)))


def _projects(params: Params, _: Mapping[str, str]) -> ProjectCatalog:
    with params.ctx.store.index() as index:
        return list_projects(index, costs=costs_by("project", index, params.ctx.prices))


def _search(params: Params, _: Mapping[str, str]) -> SearchDocument:
    query = params.text("q")
    if not query:
        raise UsageError("q is missing", hint="give what to search for: /api/search?q=words")
    return params.ctx.store.search(
        query,
        since=params.text("since") or None,
        until=params.text("until") or None,
        project=params.project,
        newest=params.is_on("newest"),
        limit=_limit(params, 20),
        offset=params.offset,
    )


def _files(params: Params, _: Mapping[str, str]) -> FileEdits:
    project = params.project
    with params.ctx.store.index() as index:
        return list_edits(
            index,
            file=params.text("path") or None,
            words=params.text("words").split(),
            projects=[project] if project else None,
            since=params.moment("since"),
            until=params.moment("until"),
            limit=_limit(params, 50),
            offset=params.offset,
        )


def _compare(params: Params, _: Mapping[str, str]) -> SessionComparison:
    ctx, a, b = params.ctx, params.text("a"), params.text("b")
    if not a or not b:
        raise UsageError("a or b is missing", hint="give two sessions: /api/compare?a=ID&b=ID")
    with ctx.store.index() as index:
        costs = SessionCosts(index, ctx.prices)
        return compare_sessions(index, a, b, costs=costs, now=ctx.now())


def _costs(params: Params, _: Mapping[str, str]) -> Ledger:
    return params.ctx.store.cost(
        by=params.text("by", "day"),
        since=params.text("since") or None,
        until=params.text("until") or None,
        project=params.project,
        timezone=params.ctx.zone,
    )


def _insights(params: Params, _: Mapping[str, str]) -> Insights:
    return params.ctx.store.insights(
        since=params.text("since", "30d"), project=params.project, timezone=params.ctx.zone
    )


def _overview(params: Params, _: Mapping[str, str]) -> Overview:
    ctx = params.ctx
    with ctx.store.index() as index:
        return overview(index, ctx.store.homes, ctx.prices, now=ctx.now(), zone=ctx.zone)


def _now(params: Params, _: Mapping[str, str]) -> LiveDocument:
    params.ctx.live.ask()
    return params.ctx.live.look()


_ENDPOINTS: Final = (
    _Endpoint(
        "/api/sessions",
        "List sessions, the last active one first.",
        SessionCatalog,
        _sessions,
        {
            "title": _Field("Words in the title"),
            "words": _Field("Words in the title or the first prompt"),
            "model": _Field("Part of the name of a model"),
            "branch": _Field("A branch"),
            "tool": _Field("A tool that was called"),
            "tag": _Field("A tag; several are separated by commas"),
            "agent": _Field("An agent, such as Claude Code"),
            "errors": _Field("1 for sessions with calls that failed"),
            "pinned": _Field("1 for pinned sessions"),
            "kept": _Field("1 for kept sessions"),
            "gone": _Field("1 for sessions that are gone at their source"),
            **_PERIOD,
            "sort": _Field("Sort by this column"),
            "limit": _LIMIT,
            "offset": _OFFSET,
        },
    ),
    _Endpoint("/api/sessions/{id}", "Describe a session.", SessionDocument, _session),
    _Endpoint(
        "/api/sessions/{id}/conversation",
        "Read turns of a session, by default the first twenty.",
        ConversationDocument,
        _conversation,
        {"from": _Field("The first turn", "integer"), "to": _Field("The last turn", "integer")},
    ),
    _Endpoint("/api/projects", "List projects.", ProjectCatalog, _projects),
    _Endpoint(
        "/api/search",
        "Search everything that was said.",
        SearchDocument,
        _search,
        {
            "q": _Field("The query"),
            **_PERIOD,
            "newest": _Field("1 for the newest hits first"),
            "limit": _LIMIT,
            "offset": _OFFSET,
        },
    ),
    _Endpoint(
        "/api/files",
        "List edits of files, the latest first.",
        FileEdits,
        _files,
        {
            "path": _Field("A path, or the end of one"),
            "words": _Field("Words in the path"),
            **_PERIOD,
            "limit": _LIMIT,
            "offset": _OFFSET,
        },
    ),
    _Endpoint(
        "/api/compare",
        "Compare two sessions.",
        SessionComparison,
        _compare,
        {"a": _Field("A session"), "b": _Field("Another one")},
    ),
    _Endpoint(
        "/api/costs",
        "Report usage and its cost at API prices.",
        Ledger,
        _costs,
        {"by": _Field("Units, separated by commas: day, model, project"), **_PERIOD},
    ),
    _Endpoint(
        "/api/insights",
        "Report how the work went.",
        Insights,
        _insights,
        {"since": _SINCE, "project": _PROJECT},
    ),
    _Endpoint("/api/overview", "Recent costs, and what needs attention.", Overview, _overview),
    _Endpoint("/api/now", "What agents are doing now.", LiveDocument, _now),
)
_LABELS: Final = "/api/sessions/{id}/labels"


def api_routes(ctx: PageContext) -> list[Route]:
    """Return the routes below /api."""
    routes = [Route(each.path, _reader(ctx, each)) for each in _ENDPOINTS]
    routes.append(Route("/api/openapi.json", _describe))
    if not ctx.is_read_only:
        routes.append(Route(_LABELS, _labeler(ctx), methods=["POST"]))
    return routes


def _reader(ctx: PageContext, endpoint: _Endpoint) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        params = Params(dict(request.query_params), ctx)
        try:
            document = endpoint.answer(params, request.path_params)
        except TurnlogError as error:
            return _problem(error)
        return _json(request, _masked(document, ctx))

    return answer


def _labeler(ctx: PageContext) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        try:
            wanted = msgspec.json.decode(await _body(request), type=Labels)
        except msgspec.DecodeError as error:
            return _problem(UsageError(f"invalid labels: {error}", hint="see /api/openapi.json"))
        name = request.path_params["id"]
        try:
            done: LabelsDocument = await to_thread.run_sync(
                lambda: set_labels(
                    ctx.store, name, title=wanted.title, tags=wanted.tags, pinned=wanted.pinned
                )
            )
        except TurnlogError as error:
            return _problem(error)
        return _json(request, _masked(done, ctx))

    return answer


async def _body(request: Request) -> bytes:
    """Return the body of a request that is neither large nor slow."""
    body = b""
    with anyio.move_on_after(_BODY_SECONDS) as deadline:
        async for piece in request.stream():
            body += piece
            if len(body) > _MOST_BODY_BYTES:
                raise HTTPException(413)
    if deadline.cancelled_caught:
        raise HTTPException(408)
    return body


def _masked(document: Any, ctx: PageContext) -> Any:
    """Return a document with its secrets masked, if they are to be."""
    if ctx.mask is None:
        return document

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return ctx.clean(value)
        if isinstance(value, dict):
            return {name: clean(each) for name, each in value.items()}
        return [clean(each) for each in value] if isinstance(value, list) else value

    return clean(msgspec.to_builtins(document, enc_hook=str))


def _json(request: Request, document: Any) -> Response:
    try:
        body = msgspec.json.encode(document, enc_hook=str)
    except UnicodeEncodeError:  # A lone surrogate, as in a title.
        body = msgspec.json.encode(utf8_safe(msgspec.to_builtins(document, enc_hook=str)))
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    if tag in re.split(r",\s*", request.headers.get("if-none-match", "")):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def _problem(error: TurnlogError) -> Response:
    status = 404 if isinstance(error, NotFound) else 400 if isinstance(error, UsageError) else 500
    body = msgspec.json.encode(Problem(error=error.message, hint=error.hint or ""))
    return Response(body, status, media_type="application/json")


def _describe(request: Request) -> Response:
    return _json(request, openapi())


@cache
def openapi() -> dict[str, Any]:
    """Return the description of everything under /api, as OpenAPI 3.1."""
    kinds = [*(each.returns for each in _ENDPOINTS), LabelsDocument, Labels, Problem]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}", schema_hook=_schema_of_path
    )
    by_kind = dict(zip(kinds, schemas, strict=True))

    def answers(kind: type) -> dict[str, Any]:
        def body(of: type, words: str) -> dict[str, Any]:
            return {
                "description": words,
                "content": {"application/json": {"schema": by_kind[of]}},
            }

        return {
            "200": body(kind, "The document"),
            "400": body(Problem, "An invalid parameter"),
            "404": body(Problem, "There is no such session"),
        }

    refusals = {
        "401": {"description": "The cookie is missing"},
        "403": {"description": "Not a request of a page of this server"},
        "405": {"description": "No such method, or nothing may be changed"},
        "413": {"description": "The body is too large"},
        "415": {"description": "The body is not JSON"},
    }

    unchanged = {"304": {"description": "Unchanged since the given ETag"}}
    paths: dict[str, Any] = {}
    for each in _ENDPOINTS:
        fields = [
            {
                "name": name,
                "in": "query",
                "description": words,
                "required": name in _REQUIRED,
                "schema": {"type": kind} | ({"minimum": 0} if kind == "integer" else {}),
            }
            for name, (words, kind) in each.fields.items()
        ]
        described = {
            "summary": each.words,
            "parameters": [*_path_fields(each.path), *fields],
            "responses": answers(each.returns) | unchanged | {"401": refusals["401"]},
        }
        paths[each.path] = {"get": described}
    paths[_LABELS] = {
        "post": {
            "summary": "Change the title, the tags or the pin of a session.",
            "parameters": [
                *_path_fields(_LABELS),
                {"name": "X-Turnlog", "in": "header", "required": True, "schema": {"const": "1"}},
            ],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": by_kind[Labels]}},
            },
            "responses": answers(LabelsDocument) | refusals,
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "turnlog", "version": "1"},
        "paths": paths,
        "components": {"schemas": components},
    }


def _path_fields(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _schema_of_path(kind: type) -> dict[str, str]:
    if issubclass(kind, Path):
        return {"type": "string"}
    raise NotImplementedError(kind)
