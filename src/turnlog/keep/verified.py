"""What verifying tells: what is wrong, and how copies stand to the files they are of."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from turnlog.formats import Problem


class Kind(StrEnum):
    """What is wrong with a copy or an archive."""

    MISSING = "missing"
    ALTERED = "altered"
    EXTRA = "extra"
    STALE = "stale"  # Its file holds something else, though size and time are those that were kept.


class Parity(StrEnum):
    """How a copy stands to the file it is of."""

    SAME = "same"
    BEHIND = "behind"  # The file has grown since.
    DIFFERS = "differs"  # The file was rewritten since; the next keeping begins a new generation.
    GONE = "gone"
    UNREADABLE = "unreadable"


class Range(Struct, frozen=True, kw_only=True):
    """Bytes of a file that its copy does not give back; to the end, if there is no length."""

    offset: int
    length: int | None


class Finding(Struct, frozen=True, kw_only=True):
    """Something that is wrong."""

    kind: Kind
    home: str
    name: str
    """The file it is a copy of, relative to its home."""
    path: str
    """The copy, or the archive."""
    generation: int | None = None
    session: str | None = None
    detail: str = ""
    ranges: list[Range] = []


class ParityRow(Struct, frozen=True, kw_only=True):
    """A file that is not as its copy."""

    name: str
    parity: Parity
    session: str | None
    behind_bytes: int = 0


class HomeVerified(Struct, kw_only=True):
    """What was read of one home's copies and archives."""

    home: str
    is_there: bool
    copies: int = 0
    generations: int = 0
    """Copies of what files held before they were rewritten."""
    archives: int = 0
    """Archives in the home itself."""
    size_bytes: int = 0
    packed_bytes: int = 0
    same: int = 0
    behind: int = 0
    behind_bytes: int = 0
    differs: int = 0
    gone: int = 0
    unkept: int = 0
    """Files of the home of which there is no copy yet."""
    unkept_bytes: int = 0
    unlike: list[ParityRow] = field(default_factory=list)
    """Files that have grown, were rewritten or cannot be read since they were kept."""


class Verified(Struct, kw_only=True):
    """All that was read, and what was wrong with it."""

    homes: list[HomeVerified] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """What could not be looked at."""
