"""Terminal output as HTML: color escapes become classes.

Only the escapes of colors and styles are interpreted; all others are shown like any other active
character. A text with very many of them is shown without colors.
"""

from __future__ import annotations

import re
from typing import Final

from turnlog.export.html.page import Fragment, escaped

_COLORS: Final = re.compile(r"\x1b\[([0-9;]*)m")
_MOST: Final = 2_000
_STYLES: Final = {1: "bold", 2: "dim", 3: "italic", 4: "under"}
_RESETS: Final = {22: ("bold", "dim"), 23: ("italic",), 24: ("under",)}
_EXTENDED: Final = {5: 2, 2: 4}
"""How many numbers follow 38 or 48, by the one after it."""


def terminal(text: str) -> Fragment:
    """Return *text* with its colors."""
    if "\x1b[" not in text:
        return escaped(text)
    pieces = _COLORS.split(text)
    if len(pieces) > 2 * _MOST:
        return escaped("".join(pieces[::2]))
    drawn = [escaped(pieces[0])]
    color, styles = "", set[str]()
    for codes, said in zip(pieces[1::2], pieces[2::2], strict=True):
        color = _applied(codes, color, styles)
        names = [*([color] if color else []), *sorted(styles)]
        if said:
            drawn.append(
                Fragment(f'<span class="{" ".join(names)}">{escaped(said)}</span>')
                if names
                else escaped(said)
            )
    return Fragment("".join(drawn))


def _applied(codes: str, color: str, styles: set[str]) -> str:
    """Apply the numbers of one escape to *styles*; return the color after it."""
    numbers = [int(each[:4] or 0) for each in codes.split(";")] if codes else [0]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            color = ""
            styles.clear()
        elif code in _STYLES:
            styles.add(_STYLES[code])
        elif code in _RESETS:
            styles.difference_update(_RESETS[code])
        elif 30 <= code <= 37 or 90 <= code <= 97:
            color = f"fg{code % 10}"
        elif code == 39:
            color = ""
        elif code in (38, 48) and numbers:
            follow = numbers[: _EXTENDED.get(numbers[0], 1)]
            del numbers[: len(follow)]
            if code == 38 and len(follow) == 2 and follow[1] < 16:
                color = f"fg{follow[1] % 8}"
    return color
