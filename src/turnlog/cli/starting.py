"""What every command that does something starts with: imports that take less time.

Only for a process that is turnlog's own; a library leaves such things to the program around it.
"""

from __future__ import annotations

import gc
import sys


def start() -> None:
    """Import what all need, without what none does."""
    gc.set_threshold(50_000, 20, 20)  # Imports leave much behind that is no garbage.
    _import_msgspec()


def _import_msgspec() -> None:
    """Let msgspec take the types that Python has itself.

    It would take those of typing_extensions if that is installed, and importing that takes half as
    long as msgspec itself. Whoever asks for it later gets it.
    """
    if "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment] # "Not there".
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]
