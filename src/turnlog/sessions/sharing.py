"""What one thread at a time does with an object that several share."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from turnlog.storage.thread_lock import interrupted, is_owned, refuse_if_abandoned

Method = TypeVar("Method", bound=Callable[..., Any])

_all: weakref.WeakSet[Shared] = weakref.WeakSet()


class Shared:
    """May be used by several threads: those of its methods that are ``alone`` take turns."""

    path: Path

    def __init__(self) -> None:
        self.turn = threading.RLock()
        _all.add(self)

    def after_fork_in_child(self) -> None:
        """Free what threads of the parent held: they did not come along."""
        self.turn = threading.RLock()


def alone(method: Method) -> Method:
    """Let one thread at a time run *method*, and never in the middle of another such method.

    A signal handler or a destructor interrupts its thread anywhere, also between the writing of a
    record and the moment it becomes the next one's parent. What it calls then is refused. So a
    method that is ``alone`` calls no other one.
    """

    @wraps(method)
    def in_turn(shared: Shared, /, *args: Any, **more: Any) -> Any:
        if is_owned(shared.turn):
            raise interrupted(shared.path)
        refuse_if_abandoned(shared.turn, shared.path)
        with shared.turn:
            return method(shared, *args, **more)

    return cast(Method, in_turn)


def _after_fork_in_child() -> None:
    for shared in list(_all):
        shared.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
