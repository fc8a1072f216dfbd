"""Work of the synchronous core, done in a thread and waited for, on asyncio and trio alike."""

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
    """Do *work* in a thread; whoever is cancelled meanwhile learns of it when the work is done.

    What the thread does cannot be stopped. A caller who goes on too early would not know whether
    it was done, and would read what is about to change.
    """
    bound = partial(work, *args, **kwargs)
    if not _in_asyncio():
        return await anyio.to_thread.run_sync(bound)
    # A task's own cancel() knows no shields, so the work is another task's to wait for.
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
        task.exception()  # Heard, though nobody is left to be told.
    raise cancelled


def _in_asyncio() -> bool:
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False
