"""Make text from a log safe to display.

Logs contain whatever a tool printed: escape sequences that rewrite a terminal, bidi overrides that
hide text, NULs. All output for people goes through here first.
"""

from __future__ import annotations

import re
import unicodedata

TYPE_CHECKING = False  # The status line does not wait for typing to be imported.
if TYPE_CHECKING:
    from typing import Any

# C1 controls, DEL, bidi controls and isolates, zero-width and line separators, surrogates.
_BEYOND_C0 = (
    "\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff"
)
# Compiled when they are first used: most texts are printable.
_ACTIVE = f"[\x00-\x1f{_BEYOND_C0}]"
# Without tabs and newlines, which most texts have and mostly keep.
_ACTIVE_IN_LINES = f"[\x00-\x08\x0b-\x1f{_BEYOND_C0}]"
# JSON escapes the others itself in strings; outside strings they are white space.
_ACTIVE_IN_JSON = f"[{_BEYOND_C0}]"
_PLAIN_LINES = bytes(range(0x20, 0x7F)) + b"\n\t"
# Persian and Indic scripts need joiners, and many emoji consist of several joined. They hide
# something only where there is nothing to join: next to ASCII, blanks or one another.
_JOINERS = "\u200c\u200d"
_UNJOINED = f"[\x00-\x7f\u00a0\u2000-\u206f\u3000]|{_ACTIVE}"


def inert(text: str, *, keep: str = "") -> str:
    """Make every active character of *text* visible, except those in *keep*."""
    if text.isprintable():  # Printable text has no active characters.
        return text
    has_lines = "\t" in keep and "\n" in keep
    if has_lines and text.isascii() and not text.encode().translate(None, _PLAIN_LINES):
        return text  # The usual case; bytes are checked in a fraction of the time.
    active = _ACTIVE_IN_LINES if has_lines else _ACTIVE
    return re.sub(active, lambda m: m[0] if m[0] in keep or _joins(m) else _visible(m[0]), text)


def inert_line(text: str) -> str:
    """Return *text* on one harmless line."""
    return inert(" ".join(text.split()))


def inert_json(data: bytes) -> bytes:
    """Escape every active character of JSON *data* without changing its meaning."""
    if data.isascii():
        return data.replace(b"\x7f", b"\\u007f")
    return re.sub(_ACTIVE_IN_JSON, lambda m: f"\\u{ord(m[0]):04x}", data.decode()).encode()


def inert_bytes(data: bytes, limit: int = 100) -> str:
    """Return the first *limit* bytes of *data* on one harmless line."""
    return inert(data[:limit].decode("utf-8", "replace"))


def utf8_safe(value: Any) -> Any:
    """Return plain data with lone surrogates, which UTF-8 cannot hold, replaced."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {utf8_safe(key): utf8_safe(item) for key, item in value.items()}
    return [utf8_safe(item) for item in value] if isinstance(value, list | tuple) else value


def _joins(found: re.Match[str]) -> bool:
    """Return whether *found* is a joiner between two characters that can be joined."""
    if found[0] not in _JOINERS:
        return False
    text, before, after = found.string, found.start() - 1, found.end()
    if before < 0 or after >= len(text):
        return False
    return not any(re.match(_UNJOINED, each) for each in (text[before], text[after]))


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # In the Control Pictures block.
    if code == 0x7F:
        return "\u2421"
    name = unicodedata.name(character, "")
    return f"<{name.lower()}>" if name else f"<{code:04x}>"


def one_line(text: str, most: int = 200) -> str:
    """Return *text* on one line of at most *most* characters."""
    line = " ".join(text[: most * 8].split())
    return line if len(line) <= most else line[: most - 1] + "…"
