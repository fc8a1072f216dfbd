"""Run synchronous functions in a thread, on asyncio and trio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

P = ParamSpec("P")
T = TypeVar("T")


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
