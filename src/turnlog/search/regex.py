"""Regular expressions that users write, for texts that anybody wrote.

Some expressions take years on some texts, and Python's own ``re`` cannot be stopped. The ``regex``
library takes a ``timeout``, in seconds of the processor, and lets other threads run while it
matches. It is imported only when a pattern is compiled: importing it takes 10 ms.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, Final

# A brace that begins no repetition is itself in Python's syntax, but `regex` would match about so
# many mistakes: `{e<=1}`. `\N{BULLET}` and other escapes stay as they are.
_BRACE: Final = re.compile(
    r"\\N\{[^{}\\]{0,100}\}|\\.|\{(?!\d{1,10}\}|\d{0,10},\d{0,10}\})", re.DOTALL
)


def check_pattern(text: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return *text* as a pattern of ``re``, for short texts; raise ValueError if it is none."""
    try:
        with warnings.catch_warnings():  # About what a later Python may read otherwise.
            warnings.simplefilter("ignore")
            return re.compile(text, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


def compile_pattern(text: str, flags: re.RegexFlag = re.NOFLAG) -> Any:
    """Return *text* as a pattern of ``regex``, whose methods take ``timeout=seconds``.

    Raise ValueError if ``re`` would refuse it: the syntax is Python's own.
    """
    import regex  # noqa: PLC0415

    check_pattern(text, flags)
    escaped = _BRACE.sub(lambda found: r"\{" if found[0] == "{" else found[0], text)
    try:
        return regex.compile(escaped, int(flags))
    except (regex.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None
