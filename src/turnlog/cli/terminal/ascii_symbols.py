"""Symbols as ASCII, for terminals and encodings that may not show them.

The stream gets an encoding that replaces turnlog's symbols and box drawing, each by one character,
so that tables stay aligned. Other text is encoded as before, with ? for what the encoding lacks.
"""

from __future__ import annotations

import codecs
import re
import sys
from io import TextIOWrapper
from typing import Final

_PREFIX: Final = "turnlog_"
# ruff: noqa: RUF001 - The symbols look like what replaces them.
_SYMBOLS: Final = str.maketrans({
    "✓": "+", "✗": "x", "·": "-", "•": "*", "●": "*", "○": "o", "◆": "*", "★": "*", "↺": "<",
    "→": ">", "←": "<", "↑": "^", "↓": "v", "↳": ">", "▸": ">", "▾": "v", "▶": ">", "►": ">",
    "—": "-", "–": "-", "─": "-", "━": "-", "│": "|", "┃": "|", "▌": "|", "├": "+", "└": "+",
    "╰": "+", "╭": "+", "×": "x", "“": '"', "”": '"', "‘": "'", "’": "'", "…": "~",
    "█": "#", "▓": "#", "▒": "=", "░": ".", "▏": "#", "▎": "#", "▍": "#", "▋": "#", "▊": "#",
    "▉": "#", "▁": "_", "▂": "_", "▃": "-", "▄": "-", "▅": "=", "▆": "=", "▇": "#",
})  # fmt: skip
_ELLIPSIS: Final = re.compile(r"(?<!\S)…(?=\s|$)")
"""Not at the end of a word that was cut."""


def use_ascii(stream: TextIOWrapper) -> None:
    """Replace the symbols in what is written to *stream* from now on."""
    codecs.register(_find)
    name = codecs.lookup(stream.encoding).name.replace("-", "_")
    stream.reconfigure(encoding=f"{_PREFIX}{name}", errors="replace")


def is_ascii() -> bool:
    """Return whether symbols are replaced on stdout."""
    return (getattr(sys.stdout, "encoding", None) or "").startswith(_PREFIX)


def ascii_symbols(text: str) -> str:
    """Return *text* with ASCII characters in place of symbols."""
    return text if text.isascii() else _ELLIPSIS.sub("...", text).translate(_SYMBOLS)


def _find(name: str) -> codecs.CodecInfo | None:
    if not name.startswith(_PREFIX):
        return None
    plain = codecs.lookup(name.removeprefix(_PREFIX))

    def encode(text: str, errors: str = "strict") -> tuple[bytes, int]:
        return plain.encode(ascii_symbols(text), errors)[0], len(text)

    class Encoder(codecs.IncrementalEncoder):
        def encode(self, text: str, final: bool = False) -> bytes:  # noqa: ARG002, FBT001, FBT002
            return encode(text, self.errors)[0]

    return codecs.CodecInfo(
        name=name,
        encode=encode,
        decode=plain.decode,
        incrementalencoder=Encoder,
        incrementaldecoder=plain.incrementaldecoder,
    )
