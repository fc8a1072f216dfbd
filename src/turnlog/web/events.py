"""Server-sent events: a message whenever a log has grown, with the sessions that wait for a person.

One thread watches the homes, from the first listener on. What has changed is not sent: a page asks
again for what it shows, with an ETag, so a listener that was away has missed nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread
from msgspec import Struct, json
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from turnlog.api.live import Doing, file_changes
from turnlog.web.context import PageContext

_KEEP_ALIVE_SECONDS = 15.0


class News(Struct):
    """The message: *number* counts the changes since the server started."""

    number: int
    waiting: int
    names: list[str]
    """Titles of the sessions that wait for a person."""


class Events:
    """The listeners of one server."""

    def __init__(self, ctx: PageContext) -> None:
        self._ctx = ctx
        self._number = 0
        self._changed = asyncio.Event()
        self._stop = threading.Event()
        self._watcher: threading.Thread | None = None
        self._lock = anyio.Lock()
        self._news = News(-1, 0, [])

    async def answer(self, _request: Request) -> Response:
        """Answer a listener."""
        self._start()
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._messages(), media_type="text/event-stream", headers=headers)

    def close(self) -> None:
        """End all streams."""
        self._stop.set()
        if self._watcher is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _start(self) -> None:
        if self._watcher is None:
            self._loop = asyncio.get_running_loop()
            self._watcher = threading.Thread(target=self._watch, name="turnlog-web", daemon=True)
            self._watcher.start()

    def _watch(self) -> None:
        for has_changed in file_changes(self._ctx.store.homes, stop=self._stop):
            if has_changed or self._ctx.live.has_moved():
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._number += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def _messages(self) -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        while not self._stop.is_set():
            changed = self._changed
            news = await self._current()
            yield f"id: {news.number}\ndata: {json.encode(news).decode()}\n\n"
            while not changed.is_set():
                with anyio.move_on_after(_KEEP_ALIVE_SECONDS):
                    await changed.wait()
                    break
                yield ": still here\n\n"

    async def _current(self) -> News:
        """Return the news, looked up once for all listeners."""
        async with self._lock:
            number = self._number
            if self._news.number != number:
                self._news = await anyio.to_thread.run_sync(self._look, number)
            return self._news

    def _look(self, number: int) -> News:
        waiting = [each for each in self._ctx.live.look().sessions if each.doing is Doing.WAITING]
        clean = self._ctx.clean
        names = [clean(each.title or each.prompt) or each.id[:8] for each in waiting]
        return News(number, len(waiting), names)
