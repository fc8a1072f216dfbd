"""What may happen to times between a kill and the next try: files touched, the clock set."""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime, timedelta, tzinfo
from types import SimpleNamespace
from typing import Any, NamedTuple

from turnlog.keep.copies import copy_file

from .safekeeping_world import World


class Between(NamedTuple):
    """Something that happens in between. Files are as old as *touched* says, the clock is off."""

    name: str
    touched: int | None = None
    clock: timedelta = timedelta(0)

    def happen(self, world: World) -> None:
        """Touch every file of the home."""
        if self.touched is not None:
            for directory, _, files in os.walk(world.home):
                for each in files:
                    os.utime(os.path.join(directory, each), (self.touched, self.touched))

    def set_clock(self) -> None:
        """Set the clock that turnlog asks, in this process, for good."""
        if self.clock:
            _set_clock(self.clock)


NOTHING = Between("at once")
TIMES = (
    NOTHING,
    Between("touched, as in 1970", touched=0),
    NOTHING,
    Between("clock set back", clock=timedelta(days=-10)),
    Between("touched, as in 2100", touched=4_102_444_800),
    Between("clock set forward", clock=timedelta(days=10)),
)


def two_hours_later() -> None:
    """Let what was half made look as if nobody had touched it for long, in this process."""
    copy_file.time = SimpleNamespace(time=lambda: time.time() + 7200)


def _set_clock(by: timedelta) -> None:
    real = datetime

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real)

    class Shifted(real, metaclass=Kind):
        def __new__(cls, *arguments: Any, **more: Any) -> datetime:
            return real(*arguments, **more)

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return real.now(tz) + by

    for name, module in list(sys.modules.items()):
        if name.startswith("turnlog") and getattr(module, "datetime", None) is real:
            module.datetime = Shifted
