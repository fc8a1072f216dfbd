"""Which words a text is found by.

SQLite's tokenizer parts text at spaces and punctuation. Chinese, Japanese and Korean do not put
spaces where a person would look for a word, so each of their characters becomes a word of its own,
and a word that somebody types becomes a phrase of such. Index and query go through the same
function, or nothing would be found. Punctuation, symbols and emoji are no words: who looks for
those looks for a piece of text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_ALONE: Final = (
    "(["
    "\u1100-\u11ff"  # Hangul, by letters
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u303c"
    "\u3040-\u30ff\u31f0-\u31ff"  # Kana
    "\u3100-\u318f\u31a0-\u31bf"  # Bopomofo, more Hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\ua960-\ua97f\uac00-\ud7ff"  # Hangul, by syllables
    "\uff66-\uff9f\uffa0-\uffdc"  # Half-width kana and Hangul
    "\U0001aff0-\U0001b16f"  # More kana
    "\U00020000-\U0003ffff"  # More Han
    "])"
)

# In UTF-8 each of these begins with one of few bytes. Looking for those is ten times as fast.
_LEAD_OF_FOUR: Final = 0xF0  # All others lead three bytes.
_LEADS: Final = {0xE1, *range(0xE3, 0xEE), 0xEF, _LEAD_OF_FOUR}
_NO_LEADS: Final = bytes(set(range(256)) - _LEADS)


def as_words(text: str) -> str:
    """Give *text* with spaces wherever a word begins; as the full-text tables take it."""
    return text if text.isascii() else as_indexed(text).decode()


def as_indexed(text: str) -> bytes:
    """Give *text* as words, in UTF-8: what SQLite would make of it again and again."""
    if text.isascii():
        return text.encode()
    data = text.encode(errors="replace")
    leads = data.translate(None, _NO_LEADS)
    if not leads:
        return data
    # Mostly it is a word or two, or an emoji, amid much else, which need not be looked at.
    begin = data.find(leads[0])
    end = data.rfind(leads[-1]) + (4 if leads[-1] == _LEAD_OF_FOUR else 3)
    parted = " ".join(_alone().split(data[begin:end].decode()))
    return data[:begin] + parted.encode() + data[end:]


@cache
def _alone() -> re.Pattern[str]:
    return re.compile(_ALONE)
