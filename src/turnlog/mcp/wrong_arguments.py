"""Arguments that do not fit: which, why, and what may be said instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from turnlog.errors import UsageError

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_SOME: Final = 3
_LONGEST: Final = 80


def unknown_argument(given: Iterable[str], known: Collection[str]) -> None:
    """Raise if an argument has a name that the tool does not know: it would do nothing."""
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, 1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"there is no argument {name[:_LONGEST]!r}",
                hint=f"{meant}there are {', '.join(known) or 'none'}",
            )


def wrong_arguments(error: ValidationError, schema: Mapping[str, Any]) -> UsageError:
    """Give the mistake in the caller's words: the arguments' names and what each may be."""
    found = error.errors(include_url=False)
    # A value that may be several things fits none of them in several ways: one is enough.
    firsts = {str(each["loc"][0]) if each["loc"] else "": each for each in reversed(found)}
    names = list(firsts)[::-1][:_SOME]
    wrong = [_wrong(firsts[name]) for name in names]
    if len(firsts) > _SOME:
        wrong.append(f"and {len(firsts) - _SOME} more")
    means = [f"{name}: {schema[name]['description']}" for name in names if name in schema]
    return UsageError(
        "; ".join(wrong), hint=" ".join(means) or "the tool's schema says what it takes"
    )


def _wrong(detail: ErrorDetails) -> str:
    name = ".".join(str(part)[:_LONGEST] for part in detail["loc"]) or "the arguments"
    if detail["type"] == "missing":
        return f"{name} is missing"
    limits = detail.get("ctx", {})
    given = _shown(detail["input"])
    for key, words in (
        ("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"),
        ("min_length", "at least this long:"), ("max_length", "at most this long:"),
    ):  # fmt: skip
        if key in limits:
            return f"{name} must be {words} {limits[key]}, not {given}"
    if "expected" in limits:
        return f"{name} must be {limits['expected']}, not {given}"
    said = detail["msg"].removeprefix("Input should be ")
    return f"{name} must be {said}, not {given}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
