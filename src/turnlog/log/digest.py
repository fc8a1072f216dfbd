"""The digests of what is short, without all of OpenSSL, which hashlib brings along.

That takes milliseconds at every start. Where much is digested, hashlib is several times as fast.
"""

from __future__ import annotations

import sys

__all__ = ["blake2b", "sha256"]

try:
    from _blake2 import blake2b

    if sys.version_info >= (3, 12):
        from _sha2 import sha256
    else:
        from _sha256 import sha256  # type: ignore[import-not-found]
except ImportError:  # A Python that is put together differently.
    from hashlib import blake2b, sha256
