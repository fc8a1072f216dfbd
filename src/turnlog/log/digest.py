"""The digest that short marks are made of, without all of OpenSSL, which hashlib brings along."""

from __future__ import annotations

__all__ = ["blake2b"]

try:
    from _blake2 import blake2b
except ImportError:  # A Python that is put together differently.
    from hashlib import blake2b
