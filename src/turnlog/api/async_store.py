"""A store for programs on asyncio or trio, which works in threads.

    async with turnlog.aopen("~/agent") as store:
        async with store.create(project=".") as session:
            await session.append(turnlog.build.user("Hello"))

A cancelled caller waits until a change of a log is finished, so that it knows the outcome; queries
are abandoned.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from functools import partial, wraps
from itertools import islice
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

import anyio
import anyio.to_thread

from turnlog.api.store import Store, open_store
from turnlog.records.record import Record
from turnlog.sessions.reading.follow import FollowedItem
from turnlog.sessions.writing.writer import SessionWriter

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_BATCH: Final = 256


class _Over(Generic[S]):
    """Wraps a synchronous object."""

    def __init__(self, sync: S) -> None:
        self.sync = sync


def _change(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[_Over[S], P], Coroutine[Any, Any, T]]:
    """Run *method* in a thread, to its end even if the caller is cancelled."""

    @wraps(method)
    async def run(over: _Over[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run_in_thread(method, over.sync, *args, **kwargs)

    return run


def _question(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[_Over[S], P], Coroutine[Any, Any, T]]:
    """Run *method* in a thread, and abandon it if the caller is cancelled."""

    @wraps(method)
    async def run(over: _Over[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await _asked(partial(method, over.sync, *args, **kwargs))

    return run


class AsyncSession(_Over[SessionWriter]):
    """An asynchronous session for writing; *sync* is its SessionWriter."""

    append = _change(SessionWriter.append)
    append_many = _change(SessionWriter.append_many)
    update = _change(SessionWriter.update)
    close = _change(SessionWriter.close)

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.sync.session_id

    async def subagent(self, agent_id: str | None = None) -> AsyncSession:
        """Create a subagent of the session, with its own log."""
        return AsyncSession(await run_in_thread(self.sync.subagent, agent_id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        with anyio.CancelScope(shield=True):
            await run_in_thread(self.sync.__exit__, kind, error, trace)


class Opening:
    """A session to be opened: await it, or use ``async with``."""

    def __init__(self, begin: Callable[[], SessionWriter]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, AsyncSession]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncSession:
        self._session = await self._open()
        return self._session

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self._session.__aexit__(kind, error, trace)

    async def _open(self) -> AsyncSession:
        return AsyncSession(await run_in_thread(self._begin))


def _opening(
    method: Callable[Concatenate[Store, P], SessionWriter],
) -> Callable[Concatenate[_Over[Store], P], Opening]:
    @wraps(method)
    def begin(over: _Over[Store], /, *args: P.args, **kwargs: P.kwargs) -> Opening:
        return Opening(partial(method, over.sync, *args, **kwargs))

    return begin


class AsyncStore(_Over[Store]):
    """An asynchronous store; *sync* is its Store.

    ``turnlog.aopen`` returns one. Call other methods of *sync* in a thread.
    """

    create = _opening(Store.create)
    resume = _opening(Store.resume)
    go_on = _opening(Store.go_on)
    sessions = _question(Store.sessions)
    session = _question(Store.session)
    search = _question(Store.search)
    query = _question(Store.query)
    cost = _question(Store.cost)
    keep = _change(Store.keep)
    archive = _change(Store.archive)
    delete = _change(Store.delete)

    def read(self, text: str) -> AsyncIterator[Record]:
        """Iterate over the records of a session's whole thread."""
        return _Items(lambda: (record for _, record in self.sync.session(text).records()), _BATCH)

    def follow(self, text: str, *, from_start: bool = False) -> AsyncIterator[FollowedItem]:
        """Iterate over what is appended to a session and its subagents, live, until cancelled.

        *from_start* begins with the existing records.
        """
        stop = threading.Event()
        begin = partial(self.sync.follow, text, from_start=from_start, stop=stop)
        return _Items(begin, 1, stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Do nothing: a store holds nothing open between calls."""


def aopen(root: str | os.PathLike[str] | None = None) -> AsyncStore:
    """Open the sessions under *root* for a program on asyncio or trio, as ``turnlog.open`` does."""
    return AsyncStore(open_store(root))


class _Items(AsyncIterator[T]):
    """Iterates in a thread, *at_once* items at a time; *stop* ends its waiting.

    Not an asynchronous generator: those have to be closed by a caller who leaves early.
    """

    def __init__(
        self, begin: Callable[[], Iterator[T]], at_once: int, stop: threading.Event | None = None
    ) -> None:
        self._begin = begin
        self._at_once = at_once
        self._stop = stop or threading.Event()
        self._items: Iterator[T] | None = None
        self._here: deque[T] = deque()

    async def __anext__(self) -> T:
        if not self._here:
            # A limiter of its own: waiting for records must not block writers.
            apart = anyio.CapacityLimiter(1)
            try:
                self._here.extend(await _asked(self._next, apart))
            except BaseException:
                self._stop.set()
                raise
        if not self._here:
            raise StopAsyncIteration
        return self._here.popleft()

    def _next(self) -> list[T]:
        if self._items is None:
            self._items = self._begin()
        return list(islice(self._items, self._at_once))


async def _asked(question: Callable[[], T], limiter: anyio.CapacityLimiter | None = None) -> T:
    return await anyio.to_thread.run_sync(question, abandon_on_cancel=True, limiter=limiter)


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run *work* in a thread; a cancelled caller waits until it is done.

    A thread cannot be stopped, and the caller has to know the outcome.
    """
    bound = partial(work, *args, **kwargs)
    if not _in_asyncio():
        return await anyio.to_thread.run_sync(bound)
    # Task.cancel() ignores shields, so another task waits for the work.
    task = asyncio.ensure_future(anyio.to_thread.run_sync(bound))
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = cancelled or error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # Retrieved, or asyncio would log it.
    raise cancelled


def _in_asyncio() -> bool:
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False
