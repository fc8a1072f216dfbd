"""What must hold in a store of sessions after its writer was killed, looked at from outside.

Everything acknowledged is there, in order and once; what was not is whole, absent or a fragment
that reading reports. Nothing raises. The list, the titles, the todos, the pins and the caches are
the old ones or the new ones. What crashed says so, and only that. The caches can be rebuilt. And
life goes on: a session can be resumed, what was tried can be tried again and stands there once, in
one thread.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from turnlog.api.store import open_store
from turnlog.errors import NotFound
from turnlog.formats import Home, flat_directory, flat_index, flat_meta
from turnlog.records.dates import instant, iso
from turnlog.records.tags import join_tags
from turnlog.sessions.session import Session
from turnlog.sessions.side_files.todos import todos_of

from .made import read
from .session_steps import Actor, session_id
from .session_story import Part, Story, Tale, first_prompt, part_of
from .tally import Tally

Bytes = dict[Path, bytes]

# Records that are no part of the conversation and that our steps may leave.
_BESIDE = {"turnlog", "custom-title", "tag", "system_init"}
_MESSAGES = {"user", "assistant", "tool_use", "tool_result"}


def logs_in(root: Path) -> Bytes:
    """Give the bytes of every log in *root*."""
    return {path: path.read_bytes() for path in sorted(root.rglob("*.jsonl"))}


class Check:
    """The checks of one store after one kill; what is found wrong goes to *tally*."""

    def __init__(self, tally: Tally, where: str, root: Path, story: Story) -> None:
        self.tally = tally
        self.where = where
        self.root = root
        self.story = story
        self.store = open_store(root)

    def all(self, before: Bytes) -> None:
        """Check everything, and go on with every session; *before* is what the logs were."""
        found = logs_in(self.root)
        self.prefixes(before, found)
        self.lines(found)
        self.private()
        with self._guarded("the list"):
            self.listed()
        for name, tale in self.story.tales.items():
            with self._guarded(name):
                self.session(name, tale)
        with self._guarded("the caches"):
            self.caches()
        with self._guarded("the rebuilt caches"):
            self.rebuilt()
        for name in sorted(self.story.touched):
            with self._guarded(f"{name}, resumed"):
                self.resumed(name, self.story.tales[name])
        self.prefixes(found, logs_in(self.root))
        with self._guarded("the rebuilt caches, at the end"):
            self.rebuilt()

    def _guarded(self, what: str) -> Any:
        return self.tally.guarded(f"{self.where}: {what}")

    def _violate(self, what: str) -> None:
        self.tally.violate(f"{self.where}: {what}")

    # -- bytes ----------------------------------------------------------------------------------

    def prefixes(self, before: Bytes, after: Bytes) -> None:
        """What stood in a log stands there still (P2)."""
        for path, old in before.items():
            if not after.get(path, b"").startswith(old):
                self._violate(f"what stood in {path.name} has changed")

    def lines(self, found: Bytes) -> None:
        """At most one fragment in all; no two things on one line."""
        fragments = 0
        for path in found:
            with self._guarded(path.name):
                seen = read(path)
                fragments += len(seen.damage) + (1 if seen.pending else 0)
                if seen.glued:
                    self.tally.merge(f"{self.where}: two things on one line of {path.name}")
        if fragments > 1 + self.story.fragments:
            self._violate(f"{fragments} fragments")
        self.story.fragments = fragments

    def private(self) -> None:
        for path in self.root.rglob("*"):
            if path.name != "project" and path.stat().st_mode & 0o077:
                self._violate(f"{path.name} is readable by others")

    # -- sessions -------------------------------------------------------------------------------

    def listed(self) -> None:
        """The list names each session once, newest first, and says what the logs say."""
        rows = self.store.sessions()
        names = {session_id(name): name for name in self.story.tales}
        counted = Counter(row.id for row in rows)
        if odd := [each for each, count in counted.items() if each not in names or count > 1]:
            self._violate(f"listed twice, or made by nobody: {odd}")
        for name, tale in self.story.tales.items():
            if tale.there and session_id(name) not in counted:
                self.tally.lose(f"{self.where}: {name} is not listed")
        times = [row.last_active_at for row in rows]
        if None in times or times != sorted(times, reverse=True):
            self._violate(f"not newest first: {times}")
        for row in rows:
            tale, session = self.story.tales[names[row.id]], self.store.session(row.id)
            found = session.summary
            if row.layout != tale.layout:
                self._violate(f"{names[row.id]} is listed as {row.layout}")
            listed = (row.title, row.tags, row.project, row.records, row.started_at)
            whole = (found.title, session.metadata.tags, session.metadata.project, found.records)
            whole += (found.started_at,)
            if listed != whole:
                self._violate(f"{names[row.id]} is listed as {listed}, but is {whole}")
        crashed = {row.id for row in self.store.crashed()}
        marked = {row.id for row in rows if self._was_left(names[row.id])}
        if crashed != marked:
            self._violate(f"crashed are {crashed}, by their marks {marked}")

    def session(self, name: str, tale: Tale) -> None:
        session = self._find(name)
        if session is None:
            if tale.there:
                self.tally.lose(f"{self.where}: {name} is gone", 1 + len(tale.parts))
            tale.titles = tale.titles[-1:]
            return
        tale.there = True
        self._conversation(name, tale, session)
        self._life(name, tale, session)
        self._values(name, tale, session)

    def _find(self, name: str) -> Session | None:
        try:
            return self.store.session(session_id(name))
        except NotFound:
            return None

    def _conversation(self, name: str, tale: Tale, session: Session) -> None:
        """What was acknowledged, then as much of what was tried as there is; nothing else."""
        found = self._parts(name, session)
        expected = tale.parts + tale.tried
        if found[: len(tale.parts)] != tale.parts:
            missing = Counter(tale.parts) - Counter(found)
            if missing:
                self.tally.lose(f"{self.where}: {name} lacks {missing}", missing.total())
            else:
                self._violate(f"{name}: out of order")
        elif found != expected[: len(found)]:
            self.tally.merge(f"{self.where}: {name} holds what nobody said: {found[-1]}")
        tale.parts, tale.tried = found, expected[len(found) :]
        self._thread(name, session)

    def _parts(self, name: str, session: Session) -> list[Part]:
        found = []
        for item in session.items():
            part = part_of(item.record)
            if part is not None:
                found.append(part)
            elif item.record.type not in _BESIDE:
                self.tally.merge(f"{self.where}: {name} holds a record of {item.record.type}")
        return found

    def _thread(self, name: str, session: Session) -> None:
        """One thread, from the first record to the last, and it can be read back."""
        tree = session.tree
        spoken = [node for node in tree.nodes if node.type != "system_init"]
        if tree.gaps or tree.replaced or tree.branchings or len(tree.tips) > 1:
            self._violate(f"{name}: {len(tree.tips)} tips, {len(tree.gaps)} gaps")
        told = [part_of(record) for _, record in session.records(spoken)]
        if [part for part in told if part] != self._parts(name, session):
            self._violate(f"{name}: its records do not read back as they stand")
        in_thread = [node for node in session.thread if node.type != "system_init"]
        # What nobody has answered yet hangs below the thread.
        rest = spoken[len(in_thread) :]
        if in_thread + rest != spoken or any(node.is_spoken for node in rest):
            self._violate(f"{name}: {len(in_thread)} of {len(spoken)} records in its thread")

    def _life(self, name: str, tale: Tale, session: Session) -> None:
        life = session.facts.life
        left = self._was_left(name)
        if tale.crashed is not None and tale.crashed != left:
            self._violate(f"{name}: its writer was {tale.writer}, but its marks say {left}")
        if life.crashed != left or life.is_running:
            self._violate(f"{name}: crashed {life.crashed}, running {life.is_running}")
        if session.metadata.crashed != left:
            self._violate(f"{name}: its metadata says crashed {session.metadata.crashed}")
        if left and life.ended_at is not None:
            self._violate(f"{name}: crashed and ended")

    def _was_left(self, name: str) -> bool:
        """Tell from the bare lines whether the last writer that said hello said no goodbye."""
        last, mine = "ended", session_id(name).encode()
        for path in sorted(self.root.rglob("*.jsonl")):
            for line in path.read_bytes().split(b"\n"):
                if b'"event"' in line and mine in line:
                    event = _object(line).get("event")
                    last = event if event in ("opened", "ended") else last
        return last == "opened"

    def _values(self, name: str, tale: Tale, session: Session) -> None:
        """Title, tag, pin and todos: the old or the new."""
        found = session.metadata
        is_pinned = session.id in self.store.pins()
        tag = join_tags(found.tags) or None
        titles = [title or first_prompt(tale) for title in tale.titles]
        lists = todos_of(Home(self.root), session.id)
        todos = [todo.content for todo in lists[0].todos] if lists else None
        if len(lists) > 1 or any(each.problem for each in lists):
            self._violate(f"{name}: its todos are {lists}")
        for what, value, may in (
            ("title", found.title, titles),
            ("tag", tag, tale.tags),
            ("pin", is_pinned, tale.pins),
            ("todos", todos, tale.todos),
        ):
            if value not in may:
                self._violate(
                    f"{name}: its {what} is {str(value)[:60]}, not one of {str(may)[:90]}"
                )
        tale.titles = [tale.titles[titles.index(found.title)]] if found.title in titles else [None]
        tale.tags, tale.pins, tale.todos = [tag], [is_pinned], [todos]

    # -- the caches of the flat layout ----------------------------------------------------------

    def caches(self) -> None:
        """The registry is whole, sorted and names only what is there; so is what was saved."""
        directory = flat_directory(self.root)
        registry = self._registry()
        flat = {session_id(n): t for n, t in self.story.tales.items() if t.layout == "flat"}
        for each in registry:
            if not (directory / f"{each}.jsonl").exists():
                self._violate(f"the registry names {each}, which is not there")
        for each, tale in flat.items():
            if tale.saved and each not in registry:
                self._violate(f"the registry lacks {each}, which was saved")
            if tale.saved:
                self._compare(each, registry)

    def rebuilt(self) -> None:
        """After reindexing, both caches say what the logs say, and again do so."""
        if not flat_directory(self.root).is_dir():
            return
        self.store.reindex()
        index = flat_index(flat_directory(self.root)).read_bytes()
        registry = self._registry()
        logs = {path.stem for path in flat_directory(self.root).glob("*.jsonl")}
        if set(registry) != logs:
            self._violate(
                f"the rebuilt registry has {sorted(registry)}, the logs are {sorted(logs)}"
            )
        for each in logs:
            self._compare(each, registry)
        self.store.reindex()
        if flat_index(flat_directory(self.root)).read_bytes() != index:
            self._violate("reindexing twice gives another registry")

    def _registry(self) -> dict[str, dict[str, Any]]:
        """Read the registry as any program would."""
        path = flat_index(flat_directory(self.root))
        if not path.exists():
            return {}
        rows = json.loads(path.read_bytes())["sessions"]
        times = [row["lastActiveAt"] or "" for row in rows]
        if times != sorted(times, reverse=True):
            self._violate(f"the registry is not sorted: {times}")
        if len({row["id"] for row in rows}) < len(rows):
            self._violate("the registry names a session twice")
        return {row["id"]: row for row in rows}

    def _compare(self, each: str, registry: dict[str, dict[str, Any]]) -> None:
        """Hold both caches of a session against the bare lines of its log."""
        directory = flat_directory(self.root)
        meta = json.loads(flat_meta(directory, each).read_bytes())
        expected = _told_by(directory / f"{each}.jsonl")
        for cache, where in ((meta, "its meta.json"), (registry.get(each, {}), "the registry")):
            told = {key: cache.get(key) for key in expected if key in cache}
            if told != {key: expected[key] for key in told}:
                self._violate(f"{where} says {told} of {each}, its log {expected}")
        if meta["sessionId"] != each or not {"messageCount", "lastActiveAt"} <= meta.keys():
            self._violate(f"meta.json of {each} is {meta}")

    # -- going on -------------------------------------------------------------------------------

    def resumed(self, name: str, tale: Tale) -> None:
        """Resume the session, try again what was tried, say one thing more, and end it."""
        actor = Actor(self.root)
        actor.take(("resume", name) if tale.there else ("create", name, tale.layout))
        again, rest = tale.again, tale.tried
        tale.writer, tale.tried = "quiet", []
        if again:
            # Twice, as one would whose first try again was interrupted as well.
            for _ in range(2):
                actor.take(("append", name, *again))
            self.story.take(("append", name, *again), done=False)
            tale.tried = rest
            self.story.take(("append", name, *again))
        for step in (("append", name, tale.next), ("close", name)):
            self.story.take(step, done=False)
            actor.take(step)
            self.story.take(step)
        session = self.store.session(session_id(name))
        found = self._parts(name, session)
        if found != tale.parts:
            twice = Counter(found) - Counter(tale.parts)
            missing = Counter(tale.parts) - Counter(found)
            if missing:
                self.tally.lose(f"{self.where}: {name}, resumed, lacks {missing}", missing.total())
            self._violate(f"{name}, resumed: not as it was said; twice or odd: {twice}")
        self._thread(name, session)
        self._life(name, tale, session)
        self._values(name, tale, session)


def _object(line: bytes) -> dict[str, Any]:
    """Read a line of a log without turnlog; empty if it is not a whole object."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _told_by(path: Path) -> dict[str, Any]:
    """Count what the caches of a flat session must say, from the bare lines of its log."""
    lines = [_object(line) for line in path.read_bytes().split(b"\n")]
    spoken = [line for line in lines if line.get("type") in _MESSAGES]
    timed = [line for line in lines if "timestamp" in line and line["type"] != "turnlog"]
    times = [line["timestamp"] for line in timed]
    prompts = [line["content"][0]["text"] for line in spoken if line["type"] == "user"]
    titles = [line["customTitle"] for line in lines if line.get("type") == "custom-title"]
    titles = titles or [" ".join(text.split()) for text in prompts[:1]]
    usages = [line.get("usage", {}) for line in lines if line.get("type") == "assistant"]
    found: dict[str, Any] = {
        "messageCount": len(spoken),
        "tokenUsage": {
            "input": sum(usage.get("input_tokens", 0) for usage in usages),
            "output": sum(usage.get("output_tokens", 0) for usage in usages),
        },
    }
    if times:  # Else the file's own time has to do.
        found |= {"createdAt": _iso(min(times)), "lastActiveAt": _iso(max(times))}
    return found | ({"title": titles[-1]} if titles else {})


def _iso(milliseconds: int) -> str | None:
    at = instant(milliseconds)
    return iso(at) if at else None
