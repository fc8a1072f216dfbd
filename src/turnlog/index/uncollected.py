"""No search for garbage while much is made and little thrown away: that takes up to a tenth.

Only where nothing else runs meanwhile: in a process that is turnlog's own, or that has one thread.
Otherwise a library leaves such things to the program around it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Do not look for garbage meanwhile."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()
