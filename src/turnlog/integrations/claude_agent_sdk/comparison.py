"""What one place holds of a log already, so that moving a session twice moves nothing twice.

A store that is somebody else's remembers no bookmark of ours, may have been emptied or written to
since, and tells what it holds in one way only: by being asked for it. So both directions compare
with what is there. A record with a uuid is there if its uuid is. One without is counted: real logs
repeat such records word for word, so the third of its kind is there only if three are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from hashlib import blake2b

from turnlog.errors import NotSerialisable
from turnlog.integrations.claude_agent_sdk.entries import Entry, uuid_of


class Difference(StrEnum):
    """How a record compares with what is held."""

    THERE = "there"
    MISSING = "missing"
    OTHER = "other"  # Its uuid is there, with other words.


class SeenRecords:
    """The records of one log or key, by their fingerprints: a large one is not held in memory."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.by_uuid: dict[str, list[bytes]] = {}
        self.counts: Counter[bytes] = Counter()
        self.compared: set[str] = set()
        for entry in entries:
            with suppress(NotSerialisable):  # Nothing that could be moved is like it.
                self.add(entry)

    def add(self, entry: Entry) -> None:
        uuid = uuid_of(entry)
        if uuid is None:
            self.counts[_fingerprint(entry)] += 1
        else:
            self.by_uuid.setdefault(uuid, []).append(_fingerprint(entry))

    def comparison(self) -> LogComparison:
        """Begin to compare one log, from its first record on."""
        return LogComparison(self)

    def strangers(self) -> int:
        """Return how many records with a uuid no comparison has asked for."""
        return len(self.by_uuid.keys() - self.compared)


class LogComparison:
    """One log, record by record in its order, beside what is held. What is missing is then held."""

    def __init__(self, held: SeenRecords) -> None:
        self._held = held
        self._seen: Counter[bytes] = Counter()

    def take(self, entry: Entry) -> Difference:
        """Return whether *entry* is there; raise NotSerialisable if no store could have it."""
        held = self._held
        uuid = uuid_of(entry)
        mark = _fingerprint(entry)
        if uuid is None:
            self._seen[mark] += 1
            is_there = self._seen[mark] <= held.counts[mark]
        else:
            held.compared.add(uuid)
            is_there = mark in held.by_uuid.get(uuid, ())
            if not is_there and uuid in held.by_uuid:
                return Difference.OTHER
        if is_there:
            return Difference.THERE
        held.add(entry)
        return Difference.MISSING


def _fingerprint(entry: Entry) -> bytes:
    try:
        # Sorted, as some stores keep no order of keys; in ASCII, for surrogates without a pair.
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise NotSerialisable(
            f"a record that JSON cannot hold: {why}", hint="leave it out, or mend it at its source"
        ) from None
    return blake2b(text.encode("ascii"), digest_size=16).digest()
