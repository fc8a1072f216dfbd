"""Mask secrets, and names if wanted, in everything that an export outputs.

Every text goes through here, once and whole, before it is cut, highlighted or compared. Secrets are
masked unless the caller disabled it, and lone surrogates, which have no UTF-8 form, are replaced.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import json

from turnlog.export.record_blocks import Unmasked
from turnlog.redact import (
    NO_RULES,
    Pseudonyms,
    Rules,
    Secret,
    find_secrets,
    redact,
    redact_line,
    redact_named,
)

# Images: their base64 may look like a secret, and must not change.
_BYTES: Final = re.compile(r"[A-Za-z0-9+/]{256,}={0,2}")
_DEEPEST: Final = 200
_MOST_NAMES: Final = 10_000


class Masking(Unmasked):
    """Masks texts for output; *masked* has the digests of the secrets that were masked.

    If *is_redacted* is false, secrets are not masked but collected in *left*. With *pseudonyms*,
    names of users and hosts are replaced.
    """

    def __init__(
        self,
        *,
        is_redacted: bool = True,
        rules: Rules = NO_RULES,
        pseudonyms: Pseudonyms | None = None,
    ) -> None:
        self.is_redacted = is_redacted
        self.pseudonyms = pseudonyms
        self.masked: set[str] = set()
        self.left: dict[str, Secret] = {}
        self._names: dict[str, str] = {}
        self._rules = rules

    def text(self, text: str) -> str:
        """Return *text*, safe to output."""
        safe = self._masked(text)
        return self.pseudonyms.text(safe) if self.pseudonyms else safe

    def name(self, name: str) -> str:
        """Return a short, often repeated text, safe to output."""
        known = self._names.get(name)
        if known is None:
            if len(self._names) >= _MOST_NAMES:  # Record ids repeat only within a short distance.
                self._names.clear()
            known = self._names[name] = self.text(name)
        return known

    def value(self, value: Any) -> Any:
        """Return plain JSON, safe to output; names of fields help to recognize secrets."""
        safe = self._masked_value(value)
        return self.pseudonyms.value(safe) if self.pseudonyms else safe

    def line(self, raw: bytes) -> bytes:
        """Return a line of a log, unchanged except for the secrets and names in it."""
        safe = raw
        if self.is_redacted:
            safe = redact_line(raw, self._rules)
            if safe != raw:
                self._count(raw)
        else:
            self._collect(raw)
        return self.pseudonyms.line(safe) if self.pseudonyms else safe

    def _masked(self, text: str) -> str:
        text = super().text(text)
        if not self.is_redacted:
            self._collect(text)
        if not text or not self.is_redacted:
            return text
        safe = redact(text, self._rules)
        if safe != text:
            self._count(text)
        return safe

    def _masked_value(self, value: Any) -> Any:
        if isinstance(value, dict | list) and self.is_redacted:
            # Most values have nothing to mask, which one search over the whole shows.
            try:
                written = json.encode(value)
            except (TypeError, ValueError, OverflowError, RecursionError):
                return self._walked(value, 0)
            safe = redact_line(written, self._rules)
            if safe == written:
                return value
            self._count(written)
            value = json.decode(safe)
        return self._walked(value, 0)

    def _walked(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._masked(value)
        if isinstance(value, dict | list | tuple) and depth > _DEEPEST:
            return self._masked(str(value))
        if isinstance(value, dict):
            is_bytes = value.get("type") == "base64"
            return {
                self._masked(str(key)): item
                if is_bytes and key == "data" and _is_bytes(item)
                else self._named(str(key), item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._walked(item, depth + 1) for item in value]
        return value

    def _named(self, name: str, value: Any, depth: int) -> Any:
        if not isinstance(value, str):
            return self._walked(value, depth)
        text = super().text(value)
        written = json.encode({super().text(name): text})
        if not self.is_redacted:
            self._collect(written)
        if not text or not self.is_redacted:
            return text
        safe = redact_named(name, text, self._rules)
        if safe != text:
            self._count(written)
        return safe

    def _count(self, text: str | bytes) -> None:
        self.masked.update(secret.digest for secret in find_secrets(text, self._rules))

    def _collect(self, text: str | bytes) -> None:
        for secret in find_secrets(text, self._rules):
            self.left[secret.digest] = secret


def _is_bytes(value: Any) -> bool:
    return isinstance(value, str) and _BYTES.fullmatch(value) is not None
