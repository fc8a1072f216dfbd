"""The one door through which the words of a log leave in an export.

Every text goes through it, once and whole, before it is cut, coloured or compared: secrets are
masked unless the caller asked for them, and what has no UTF-8 form (lone surrogates) is replaced.
Whoever renders gets only what came through here.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import json

from turnlog.export.record_blocks import Unmasked
from turnlog.redact import (
    NO_RULES,
    Rules,
    Secret,
    find_secrets,
    redact,
    redact_line,
    redact_named,
)

# A picture is no text: its bytes may look like a secret and must come out as they are.
_BYTES: Final = re.compile(r"[A-Za-z0-9+/]{256,}={0,2}")
_DEEPEST: Final = 200
_MOST_NAMES: Final = 10_000


class Masking(Unmasked):
    """Takes texts on their way out; *masked* counts those that held a secret.

    Secrets that leave as they are, because that was asked for, are gathered in *left*.
    """

    def __init__(self, *, is_redacted: bool = True, rules: Rules = NO_RULES) -> None:
        self.is_redacted = is_redacted
        self.masked = 0
        self.left: dict[str, Secret] = {}
        self._names: dict[str, str] = {}
        self._rules = rules

    def text(self, text: str) -> str:
        """Return *text* as it may leave."""
        text = super().text(text)
        if not self.is_redacted:
            self._leave(text)
        if not text or not self.is_redacted:
            return text
        safe = redact(text, self._rules)
        self.masked += safe != text
        return safe

    def name(self, name: str) -> str:
        """Return a short text that comes again and again as it may leave."""
        known = self._names.get(name)
        if known is None:
            if len(self._names) >= _MOST_NAMES:  # Ids of records come once or twice, and soon.
                self._names.clear()
            known = self._names[name] = self.text(name)
        return known

    def value(self, value: Any) -> Any:
        """Return plain JSON as it may leave; a text is judged together with the name before it."""
        if isinstance(value, dict | list) and self.is_redacted:
            # In most there is nothing to mask, and one look at all of it tells.
            try:
                written = json.encode(value)
            except (TypeError, ValueError, OverflowError, RecursionError):
                return self._walked(value, 0)
            safe = redact_line(written, self._rules)
            if safe == written:
                return value
            self.masked += 1
            value = json.decode(safe)
        return self._walked(value, 0)

    def _walked(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict | list | tuple) and depth > _DEEPEST:
            return self.text(str(value))
        if isinstance(value, dict):
            is_bytes = value.get("type") == "base64"
            return {
                self.text(str(key)): each
                if is_bytes and key == "data" and _is_bytes(each)
                else self._named(str(key), each, depth + 1)
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._walked(each, depth + 1) for each in value]
        return value

    def line(self, raw: bytes) -> bytes:
        """Return a line of a log as it may leave: its own bytes, but for the secrets in it."""
        if not self.is_redacted:
            self._leave(raw)
            return raw
        safe = redact_line(raw, self._rules)
        self.masked += safe != raw
        return safe

    def _named(self, name: str, value: Any, depth: int) -> Any:
        if not isinstance(value, str):
            return self._walked(value, depth)
        text = super().text(value)
        if not self.is_redacted:
            self._leave(json.encode({super().text(name): text}))
        if not text or not self.is_redacted:
            return text
        safe = redact_named(name, text, self._rules)
        self.masked += safe != text
        return safe

    def _leave(self, text: str | bytes) -> None:
        for secret in find_secrets(text, self._rules):
            self.left[secret.digest] = secret


def _is_bytes(value: Any) -> bool:
    return isinstance(value, str) and _BYTES.fullmatch(value) is not None
