"""A damaged session, killed while it is recovered.

Before: two records on one line, a run of NULs, a cut line, a missing parent, a lost result, a torn
tail, and a writer that died. After every kill all the records that stood there are there still,
each once; if the log was rewritten, what it was stands beside it. Recovering it again mends it for
good, leaves every stand-in once, and finds nothing more to do.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnlog.api.store import open_store

from .child import run_child
from .made import read
from .session_steps import Played, Step, new_store, play, session_id, work
from .tally import Tally

_STEPS: tuple[Step, ...] = (("recover", "one"),)
_BEFORE: tuple[Step, ...] = (("create", "one", "claude"), ("append", "one", *range(12)))
_LOST = "one#4"
_CALL = "one#9.1"


def damaged(log: Path) -> list[bytes]:
    """Hurt a session of twelve records; give the lines that are still there."""
    lines = log.read_bytes().splitlines()
    said = [line for line in lines if b'"uuid"' in line]
    half = json.loads(said[10])
    del half["message"]["content"][1]
    said[10] = json.dumps(half, separators=(",", ":"), ensure_ascii=False).encode()
    whole = [*said[:4], *said[5:]]
    hurt = [*lines[:2], said[0], said[1] + said[2], b"\0" * 600 + said[3], said[6][:50], *said[5:]]
    log.write_bytes(b"\n".join(hurt) + b"\n" + said[11][:60])
    return whole


def once(tally: Tally, directory: Path, where: str, *inject: str) -> Played:
    """Hurt a session, recover it, kill or no kill, and check what is left."""
    with new_store(directory) as root:
        # In a child, so that the writer is gone when it is recovered.
        run_child(work(root, _BEFORE))
        (log,) = root.rglob("*.jsonl")
        whole = damaged(log)
        before = log.read_bytes()
        played = play(root, _STEPS, *inject)
        if failed := [word for word in played.told if word[0] == "failed"]:
            tally.violate(f"{where}: {failed[0]}")
        if inject:
            tally.acknowledged += len(whole)
        with tally.guarded(where):
            _Check(tally, where, log, whole).all(before, played.told)
        return played


class _Check:
    """What must hold of the session at *log*, of which the lines *whole* stood there."""

    def __init__(self, tally: Tally, where: str, log: Path, whole: list[bytes]) -> None:
        self.log = log
        self.whole = whole
        self.store = open_store(log.parents[2])
        self._lose: Callable[[str, int], None] = lambda what, count: tally.lose(
            f"{where}: {what}", count
        )
        self._violate: Callable[[str], None] = lambda what: tally.violate(f"{where}: {what}")

    def all(self, before: bytes, told: list[Any]) -> None:
        done = ["done", 0] in told
        now = self.log.read_bytes()
        originals = [path.read_bytes() for path in self.log.parent.glob("*.original-*")]
        if not now.startswith(before) and before not in originals:
            self._violate("the log was rewritten, and what it was is gone")
        self._still_there()
        found = self.store.examine(session_id("one"))
        if done and found.needed:
            self._violate(f"recovered, yet there is more to do: {found}")
        if found.crashed != (session_id("one") in {row.id for row in self.store.crashed()}):
            self._violate("the store and the session disagree on whether it crashed")
        again = self.store.recover(session_id("one"))
        if again.written != found.needed:
            self._violate("recovered again without need, or not in spite of it")
        self._mended()
        self._quiet()

    def _still_there(self) -> None:
        found = Counter(read(self.log).records)
        if missing := Counter(self.whole) - found:
            self._lose(f"{missing.total()} records", missing.total())
        if twice := [line for line, count in found.items() if count > 1 and b'"uuid"' in line]:
            self._violate(f"stands twice: {twice[0][:60]!r}")

    def _mended(self) -> None:
        """It is whole: for us, and for a program that takes every line for a record."""
        self._still_there()
        seen = read(self.log)
        if seen.glued or seen.pending:
            self._violate(f"recovered, yet {len(seen.glued)} glued, {seen.pending} bytes pending")
        objects = [json.loads(line) for line in seen.records]
        uuids = Counter(each["uuid"] for each in objects if "uuid" in each)
        if uuids[_LOST] != 1:
            self._violate(f"the missing parent stands there {uuids[_LOST]} times")
        answers = Counter(
            block["tool_use_id"]
            for each in objects
            if isinstance(content := each.get("message", {}).get("content"), list)
            for block in content
            if block["type"] == "tool_result"
        )
        if answers[_CALL] != 1 or max(answers.values()) > 1:
            self._violate(f"calls are answered {answers}")
        if not any(each.get("event") == "recovered" for each in objects):
            self._violate("what was done was not written down")
        session = self.store.session(session_id("one"))
        if session.tree.gaps:
            self._violate(f"recovered, yet {len(session.tree.gaps)} gaps")
        in_thread = {node.uuid for node in session.whole_thread}
        if missing := {json.loads(line)["uuid"] for line in self.whole} - in_thread:
            self._violate(f"recovered, yet {missing} are not in the thread")

    def _quiet(self) -> None:
        """There is nothing more to do, and nothing is done."""
        before = self.log.read_bytes()
        found = self.store.recover(session_id("one"))
        if found.needed or found.written or self.log.read_bytes() != before:
            self._violate(f"recovering again found more to do: {found}")
        if self.store.crashed():
            self._violate("recovered, yet crashed")
