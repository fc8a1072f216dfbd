"""Files that a command was asked to write: whole or not at all, and never over another unasked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from turnlog.errors import TurnlogError, UsageError
from turnlog.storage.atomic_files import failure, put


def write_file(
    path: Path, pieces: Iterable[bytes], *, force: bool, root: Path | None = None
) -> int:
    """Write *pieces* to *path* and give its size; directories are made below *root* only.

    Raises UsageError if it exists, unless *force* says that it may be replaced.
    """
    path = path.absolute()
    root = root.absolute() if root else path.parent
    try:
        return put(root, path.relative_to(root).parts, pieces, overwrite=force)
    except FileExistsError:
        raise UsageError(f"{path} exists", hint="--force replaces it") from None
    except TurnlogError:
        raise
    except OSError as error:
        raise failure(error, path) from None
