"""Recovery and its undo: generated sessions, injured in every way that a recovery repairs.

A session of prompts, answers, calls, notes, branches, compactions and last prompts loses records
and results, gets null parents and rings, torn, cut and glued lines. Then it is recovered, recovered
again, and the recovery is undone. Nothing may be lost, the main thread may not end earlier than
before (also for a program that chooses the leaf by its timestamp), and an undo gives the bytes
back. Some sessions are resumed with the real `claude` in three versions, before and after: after a
recovery as many messages arrive at the API as before, or more.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from turnlog.api.store import Store, open_store
from turnlog.errors import UnsafeRecovery
from turnlog.formats import key_of
from turnlog.records.dates import iso
from turnlog.sessions.reading.threads import main_thread, main_tip, visible
from turnlog.sessions.reading.tree import Node, Tree
from turnlog.sessions.session import tree_of

from .arena import Arena, plain_environment, say
from .tally import Tally

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from e2e.fake_api import FakeApi
from e2e.orchard import arrived
from e2e.program import PROGRAMS, Claude

ID = "66666666-ffff-4fff-8fff-666666666666"
Line = dict[str, Any]
_BEGAN = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def run(arena: Arena) -> list[Tally]:
    resumed = [_resumed_by(arena, version, program) for version, program in PROGRAMS.items()]
    return [_generated(arena), *resumed]


# -- sessions -----------------------------------------------------------------------------------


class Made:
    """A session as an agent would have written it; what it says follows from *rng*."""

    def __init__(self, rng: random.Random, *, branches: bool = True) -> None:
        self.rng = rng
        self.branches = branches
        self.lines: list[Line] = []
        self.tip: str | None = None
        self.clock = 0
        self.count = 0
        for _ in range(rng.randrange(2, 9)):
            self._turn()
        self._end()

    def _turn(self) -> None:
        rng = self.rng
        if self.tip is not None and rng.random() < 0.1:
            self._compact()
        elif self.branches and self.tip is not None and rng.random() < 0.15:
            said = [line["uuid"] for line in self.lines if line.get("type") == "assistant"]
            self.tip = rng.choice(said)  # A person goes back and asks again.
        self._say("user", {"role": "user", "content": self._words()})
        for _ in range(rng.randrange(3)):
            self._call(rng.choice((1, 1, 2, 3)))
        self._answer([{"type": "text", "text": self._words()}], f"msg_{self.count}")
        if rng.random() < 0.3:
            self._note("turn_duration")
        if rng.random() < 0.3:
            self._last_prompt()

    def _call(self, parallel: int) -> None:
        message_id, makers = f"msg_{self.count}", []
        for _ in range(parallel):
            self.count += 1
            call = {"type": "tool_use", "id": f"toolu_{self.count}", "name": "Bash"}
            self._answer([call | {"input": {"command": "true"}}], message_id)
            makers.append((call["id"], self.tip))
        for call_id, maker in makers:
            self.tip = maker
            block = {"type": "tool_result", "tool_use_id": call_id, "content": self._words()}
            self._say("user", {"role": "user", "content": [block]})

    def _compact(self) -> None:
        above, self.tip = self.tip, None
        self._note("compact_boundary", logicalParentUuid=above)
        self._say("user", {"role": "user", "content": self._words()}, isCompactSummary=True)

    def _end(self) -> None:
        """Sessions often end with local commands, which are meta."""
        for _ in range(self.rng.randrange(3)):
            self._say("user", {"role": "user", "content": self._words()}, isMeta=True)
        if self.rng.random() < 0.5:
            self._last_prompt()

    def _last_prompt(self) -> None:
        line = {"type": "last-prompt", "lastPrompt": "x", "leafUuid": self.tip, "sessionId": ID}
        self.lines.append(line)

    def _answer(self, blocks: list[Line], message_id: str) -> None:
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": message_id, "type": "message", "role": "assistant", "content": blocks}
        model = {"model": "claude-sonnet-4-5-20250929", "stop_reason": None, "usage": usage}
        self._say("assistant", message | model)

    def _note(self, subtype: str, **more: Any) -> None:
        said = {"subtype": subtype, "content": self._words(), "level": "info", **more}
        self._line("system", said)

    def _say(self, kind: str, message: Line, **more: Any) -> None:
        self._line(kind, {"message": message, **more})

    def _line(self, kind: str, said: Line) -> None:
        uuid = str(UUID(int=self.rng.getrandbits(128), version=4))
        # Clocks step back now and then, by less than a turn takes.
        self.clock += self.rng.choice((20, 20, 20, 20, 1, 0, -2))
        place = {
            "parentUuid": self.tip,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/",
            "sessionId": ID,
            "version": "2.1.300",
            "type": kind,
            "uuid": uuid,
            "timestamp": iso(_BEGAN + timedelta(seconds=self.clock)),
        }
        self.lines.append(place | said)
        self.tip = uuid

    def _words(self) -> str:
        self.count += 1
        return f"words {self.count}"


# -- injuries: each changes the lines, or returns other bytes ------------------------------------


def _inner(lines: list[Line], rng: random.Random) -> int:
    """Choose a record that is neither the first nor the last of the tree."""
    linked = [n for n, line in enumerate(lines) if line.get("uuid")]
    return rng.choice(linked[1:-1] or linked[-1:])


def lost_result(lines: list[Line], rng: random.Random) -> None:
    results = [n for n, line in enumerate(lines) if _is_result(line)]
    if results:
        del lines[rng.choice(results)]


def _is_result(line: Line) -> bool:
    content = line.get("message", {}).get("content")
    return isinstance(content, list) and content[0]["type"] == "tool_result"


def dangling_parent(lines: list[Line], rng: random.Random) -> None:
    del lines[_inner(lines, rng)]


def null_parent(lines: list[Line], rng: random.Random) -> None:
    lines[_inner(lines, rng)]["parentUuid"] = None


def ring(lines: list[Line], rng: random.Random) -> None:
    """Make a record of the main thread the child of one that comes after it there."""
    linked = {line["uuid"]: line for line in lines if line.get("uuid")}
    way = [list(linked)[-1]]
    while (above := linked[way[-1]]["parentUuid"]) in linked and above not in way:
        way.append(above)
    number = rng.randrange(len(way))
    linked[way[number]]["parentUuid"] = way[rng.randrange(number + 1)]


INJURIES = (lost_result, lost_result, dangling_parent, dangling_parent, null_parent, ring)


def torn(data: bytes, rng: random.Random) -> bytes:
    return data + data[: rng.randrange(1, 60)]


def unterminated(data: bytes, _rng: random.Random) -> bytes:
    return data[:-1]


def glued(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"}\n{", b"}{", rng.randrange(1, 4))


def cut_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(True)
    number = rng.randrange(len(lines))
    return b"".join([*lines[:number], lines[number][:40] + b"\n", *lines[number:]])


TEARS: tuple[Callable[[bytes, random.Random], bytes], ...] = (torn, unterminated, glued, cut_line)


def injured(rng: random.Random, *, branches: bool = True) -> bytes:
    """Make a session and injure it once or several times."""
    lines = Made(rng, branches=branches).lines
    for injury in rng.sample(INJURIES, rng.choice((1, 1, 1, 2, 3))):
        injury(lines, rng)
    data = encoded(lines)
    return rng.choice(TEARS)(data, rng) if rng.random() < 0.4 else data


def encoded(lines: list[Line]) -> bytes:
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


# -- without a program --------------------------------------------------------------------------


def _generated(arena: Arena) -> Tally:
    tally = Tally("recovery: recovered and undone")
    say(tally.fault)
    recovered = 0
    with arena.directory("recovery", memory=True) as directory:
        for number in range(arena.count(3000, 250)):
            rng = arena.rng(f"recovery/{number}")
            store, log = _store(directory / str(number), injured(rng))
            tally.runs += 1
            with tally.guarded(f"session {number}"):
                recovered += _Check(tally, f"session {number}", store, log).all()
    if 2 * recovered < tally.runs:
        tally.violate(f"only {recovered} sessions were recovered: this tested little")
    return tally


def _store(root: Path, data: bytes) -> tuple[Store, Path]:
    log = root / "projects" / "-faults" / f"{ID}.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(data)
    return open_store(root), log


class _Check:
    """What must hold of the session at *log*."""

    def __init__(self, tally: Tally, where: str, store: Store, log: Path) -> None:
        self.tally, self.where, self.store, self.log = tally, where, store, log
        self.before = log.read_bytes()
        self.tree = tree_of(log)

    def violate(self, what: str) -> None:
        self.tally.violate(f"{self.where}: {what}")

    def all(self) -> bool:
        """Recover and undo it; tell whether there was anything to recover."""
        try:
            found = self.store.recover(ID)
        except UnsafeRecovery as error:
            if self.log.read_bytes() != self.before:
                self.violate(f"refused, but written: {error}")
            return False
        if not found.written:
            if found.needed or self.log.read_bytes() != self.before:
                self.violate("not recovered, though there is need, or changed without need")
            return False
        self._nothing_lost()
        self._not_older()
        again = self.store.recover(ID)
        if again.needed:
            self.violate(f"recovered, yet there is more to do: {again}")
        undone = self.store.undo_recovery(ID)
        if not undone.written or self.log.read_bytes() != self.before:
            self.violate("an undo did not give the bytes back")
        return True

    def _nothing_lost(self) -> None:
        after = tree_of(self.log)
        self.tally.acknowledged += len(self.tree.by_uuid)
        if missing := self.tree.by_uuid.keys() - after.by_uuid.keys():
            self.tally.lose(f"{self.where}: {len(missing)} records", len(missing))
        said = Counter(_words_in(self.log))
        if gone := Counter(_words(self.before)) - said:
            self.tally.lose(f"{self.where}: {gone.total()} texts", gone.total())

    def _not_older(self) -> None:
        """The thread ends where it did or later, and holds what it held."""
        after = tree_of(self.log)
        old, new = main_tip(self.tree), main_tip(after)
        if old is None or new is None:
            self.violate("there is no thread")
            return
        same = self.tree.by_uuid.get(new.uuid)
        if same is None or same.position < old.position:
            self.violate(f"the main thread ends earlier: {old.uuid} became {new.uuid}")
        if same is old:
            held = {node.uuid for node in visible(main_thread(self.tree))}
            if gone := held - {node.uuid for node in visible(main_thread(after))}:
                self.violate(f"the main thread lost {len(gone)} records")
        was, now = _by_time(self.tree), _by_time(after)
        kept = [self.tree.by_uuid[node.uuid] for node in now if node.uuid in self.tree.by_uuid]
        is_older = not kept or kept[0].position < was[0].position
        if is_older and len(visible(now)) < len(visible(was)):
            self.violate(f"by timestamps, {len(was)} records were resumed and now {len(now)}")


def _words(data: bytes) -> list[bytes]:
    return [part.split(b'"')[0] for part in data.split(b'"words ')[1:] if b'"' in part]


def _words_in(log: Path) -> list[bytes]:
    return _words(log.read_bytes())


def _by_time(tree: Tree) -> list[Node]:
    """Return what claude 2.1.51 resumes: the leaf with the newest timestamp, up to a gap."""
    parents = {node.parent_uuid for node in tree.nodes}
    leaves = [node for node in tree.nodes if node.uuid not in parents] or tree.nodes
    node: Node | None = max(leaves, key=lambda node: node.timestamp)
    way: dict[str, Node] = {}
    while node is not None and node.uuid not in way:
        way[node.uuid] = node
        node = tree.by_uuid.get(node.parent_uuid or "")
    return list(way.values())


# -- with the real program ----------------------------------------------------------------------


@contextmanager
def claude_with(directory: Path, program: Path, data: bytes) -> Iterator[tuple[Claude, Any, Path]]:
    """Yield the program with a session that holds *data*, the API that it talks to, and the log."""
    with FakeApi() as api:
        claude = Claude(directory, api, program)
        claude.environ = plain_environment() | claude.environ
        log = claude.home / "projects" / key_of(str(claude.project)) / f"{ID}.jsonl"
        log.parent.mkdir(parents=True)
        log.write_bytes(data)
        yield claude, api, log


def _resumed_by(arena: Arena, version: str, program: Path) -> Tally:
    tally = Tally(f"recovery: resumed by claude {version}")
    if not program.exists():
        return tally.skip("the program is not here: `make claudes` fetches it")
    say(tally.fault)
    rng = arena.rng("recovery/resumed")  # The same sessions for every version.
    for number in range(arena.count(40, 3)):
        # Without branches: a newer leaf may well have less above it than an older one.
        data = injured(random.Random(rng.random()), branches=False)
        tally.runs += 1
        with (
            arena.directory("resumed", memory=True) as directory,
            claude_with(directory, program, data) as (claude, api, log),
            tally.guarded(f"session {number}"),
        ):
            _resume_twice(tally, f"session {number}", claude, api, log)
    return tally


def _resume_twice(tally: Tally, where: str, claude: Any, api: Any, log: Path) -> None:
    """Count what arrives before a recovery and after it."""
    data = log.read_bytes()
    before = arriving(claude, api)
    log.write_bytes(data)
    claude.store.recover(ID)
    recovered = log.read_bytes()
    after = arriving(claude, api)
    log.write_bytes(recovered)
    tally.acknowledged += before.total()
    if after.total() < before.total():
        tally.lose(f"{where}: {before.total()} messages, then {after.total()}")
    claude.store.undo_recovery(ID)
    if log.read_bytes() != data:
        tally.violate(f"{where}: an undo did not give the bytes back")


def arriving(claude: Any, api: Any) -> Counter[str]:
    """Resume the session; count what of it arrives at the API."""
    seen = len(api.requests)
    claude("--resume", ID, "-p", "And pears?")
    if len(api.requests) == seen:  # It found no conversation to resume.
        return Counter()
    # Calls without a result are left out, and a compaction's summary is one of the texts.
    said = [words for _, _, words in arrived(api.requests[-1])]
    return Counter(words for words in said if words.startswith("words "))
