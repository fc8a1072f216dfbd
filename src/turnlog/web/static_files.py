"""Style sheets and scripts, under a path that contains a hash of all of them.

A browser may keep them forever: when one changes, the path changes. One hash for all of them lets
scripts import each other by relative paths.
"""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from turnlog.export import html
from turnlog.export.html.page import OwnUrl

_FOLDERS: Final = (
    Path(html.__file__).with_name("assets"),  # Shared with exported pages.
    Path(__file__).with_name("static"),
)
_MEDIA: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_FOREVER: Final = "private, max-age=31536000, immutable"


@cache
def _files() -> dict[str, bytes]:
    """Return the content of each file by its name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for folder in _FOLDERS
        for path in sorted(folder.rglob("*"))
        if path.suffix in _MEDIA
    }


@cache
def _version() -> str:
    digest = sha256()
    for name, content in _files().items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


@cache
def _compressed(name: str) -> bytes:
    return gzip.compress(_files()[name], mtime=0)


def static_url(name: str) -> OwnUrl:
    """Return the URL of a file such as ``layout.css``; raise KeyError if there is none."""
    _files()[name]
    return OwnUrl(f"/static/{_version()}/{name}")


async def _answer(request: Request) -> Response:  # No thread is needed: nothing is read twice.
    name = request.path_params["name"]
    if request.path_params["version"] != _version() or name not in _files():
        raise HTTPException(404)
    headers = {"cache-control": _FOREVER, "vary": "accept-encoding"}
    content = _files()[name]
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["content-encoding"] = _compressed(name), "gzip"
    return Response(content, media_type=_MEDIA[Path(name).suffix], headers=headers)


STATIC_ROUTES: Final = [Route("/static/{version}/{name:path}", _answer)]
