"""SQL conditions on records and calls that several questions share.

They expect the aliases ``r`` for records and ``c`` for calls.
"""

from __future__ import annotations

from typing import Final

# ruff: noqa: S608 - Only names of our own are written into SQL.


def named(name: str) -> str:
    """Return the expression for the number that *name* has in the index."""
    return f"(SELECT id FROM names WHERE name = '{name}')"


_BY_PERSON: Final = f"r.author IN ({named('human')}, {named('caller')})"
IS_PROMPT: Final = f"(r.type = {named('user')} AND {_BY_PERSON})"
"""True for records that are prompts."""
IS_BESIDE: Final = "(r.id >> 40) IN (SELECT id FROM logs WHERE layout = 'beside')"
"""True for records that are read from side files instead of logs."""
IS_FIRST: Final = "r.id NOT IN (SELECT record FROM repeats)"
"""True for records that are not copies made by a fork or a resume."""
IS_CALL: Final = f"""(r.type IS NOT {named("file-history")} AND {IS_FIRST} AND NOT EXISTS (
    SELECT 1 FROM calls AS other JOIN records AS its ON its.id = other.record
    WHERE other.call_id = c.call_id AND (other.record, other.block) < (c.record, c.block)
    AND other.record NOT IN (SELECT record FROM repeats)
    AND ((other.record >> 40 = c.record >> 40 AND its.session IS r.session)
         OR (its.message = r.message AND other.digest = c.digest))))"""
"""True for calls that count: each call counts once, however often it is written.

A call is identified by its id within its session and log. Copies made by a fork or a resume are not
counted again, even with new uuids: they belong to the same response and have the same input. A note
that a file changed names a file but is not a call.
"""
