"""Text that SQLite can hold: UTF-8. JSON can spell others, and files can be named by others."""

from __future__ import annotations

from typing import Any


def is_sound_text(text: str) -> bool:
    """Tell whether UTF-8 can hold a text: JSON can spell others, and files be named by others."""
    return bool(sound(text) == text)


def sound(value: Any) -> Any:
    """Give plain data with every text such that UTF-8 can hold it."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {sound(key): sound(each) for key, each in value.items()}
    return [sound(each) for each in value] if isinstance(value, list | tuple) else value


def sound_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give a row such that UTF-8 can hold it; nearly every one is so already."""
    for value in row:
        if isinstance(value, str) and not value.isascii():
            return tuple(sound(list(row)))
    return row
