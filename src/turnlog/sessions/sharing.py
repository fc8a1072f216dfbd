"""What one thread at a time does of an object that several share."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])

_all: weakref.WeakSet[Shared] = weakref.WeakSet()


class Shared:
    """May be used by several threads: those of its methods that are ``alone`` take turns."""

    def __init__(self) -> None:
        self.turn = threading.RLock()
        _all.add(self)


def alone(method: Method) -> Method:
    """Let one thread at a time run *method*, or any other that is so marked."""

    @wraps(method)
    def in_turn(shared: Shared, /, *args: Any, **more: Any) -> Any:
        with shared.turn:
            return method(shared, *args, **more)

    return cast(Method, in_turn)


def _after_fork_in_child() -> None:
    for shared in list(_all):
        shared.turn = threading.RLock()  # Whoever had it did not come along.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
