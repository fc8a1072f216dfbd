"""A store for programs on asyncio or trio: the same store, its work done in threads.

    async with turnlog.aopen("~/agent") as store:
        async with store.create(project=".") as session:
            await session.append(turnlog.build.user("Hello"))

What changes a log is finished before a cancelled caller goes on, so that it knows the outcome.
Questions are dropped when their caller is cancelled.
"""

from __future__ import annotations

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
from turnlog.api.threads import run_in_thread
from turnlog.records.record import Record
from turnlog.sessions.reading.follow import FollowedItem
from turnlog.sessions.writing.writer import SessionWriter

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_BATCH: Final = 256


class _Over(Generic[S]):
    """Stands before a synchronous object."""

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
    """Run *method* in a thread, and drop what it answers if the caller is cancelled."""

    @wraps(method)
    async def run(over: _Over[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await _asked(partial(method, over.sync, *args, **kwargs))

    return run


class AsyncSession(_Over[SessionWriter]):
    """A session that is written from an event loop; *sync* is its SessionWriter."""

    append = _change(SessionWriter.append)
    append_many = _change(SessionWriter.append_many)
    update = _change(SessionWriter.update)
    close = _change(SessionWriter.close)

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.sync.session_id

    async def subagent(self, agent_id: str | None = None) -> AsyncSession:
        """Begin a subagent, with a log of its own in the same session."""
        return AsyncSession(await run_in_thread(self.sync.subagent, agent_id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        with anyio.CancelScope(shield=True):
            await run_in_thread(self.sync.__exit__, kind, error, trace)


class Opening:
    """A session that is about to be opened: await it, or enter it with ``async with``."""

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
    """The sessions of some homes, for an event loop; *sync* is the Store behind it.

    ``turnlog.aopen`` gives one. What has no method here can be asked of *sync* in a thread.
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
        """Read the records of a session's whole thread, from the first to the last."""
        return _Items(lambda: (each for _, each in self.sync.session(text).records()), _BATCH)

    def follow(self, text: str, *, from_start: bool = False) -> AsyncIterator[FollowedItem]:
        """Return what is appended to a session and its subagents, as it happens, until cancelled.

        With *from_start*, what is there already comes first.
        """
        stop = threading.Event()
        begin = partial(self.sync.follow, text, from_start=from_start, stop=stop)
        return _Items(begin, 1, stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Nothing is held open between calls."""


def aopen(root: str | os.PathLike[str] | None = None) -> AsyncStore:
    """Open the sessions under *root* for a program on asyncio or trio, as ``turnlog.open`` does."""
    return AsyncStore(open_store(root))


class _Items(AsyncIterator[T]):
    """What an iterator gives, *at_once* so many, in a thread; *stop* ends its waiting.

    It is no asynchronous generator: those must be closed by whoever leaves them early.
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
            # A thread of its own: those that wait for records must not keep others from writing.
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
