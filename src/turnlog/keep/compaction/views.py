"""Digests of every view of a log, which must be equal before and after a compaction.

Views are the tree and its records, the main and the whole thread, turns, the agent's context, API
messages, title, times and prompts, state and writers, subagents and their calls, files, plans,
usage. Each is computed by the code that shows it, and hashed piece by piece, so that comparing
needs no memory.

Offsets and the number of lines are not part of a view: the count of records, in total and by model,
shrinks by what was removed. That is checked, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct, field

from turnlog.formats import LogFile
from turnlog.keep.compaction.rules import SAID_BY, Read
from turnlog.records.record import Linked, Record
from turnlog.records.responses import RunningTotals
from turnlog.sessions.metadata import MetadataFold
from turnlog.sessions.reading.context import Digest, context_of, digests_of
from turnlog.sessions.reading.ranges import replay
from turnlog.sessions.reading.subagents import Traces
from turnlog.sessions.reading.threads import main_thread, whole_thread
from turnlog.sessions.reading.tree import Node, Tree
from turnlog.sessions.session import records_of, turns_of
from turnlog.sessions.side_files.file_changes import FileTraces
from turnlog.sessions.side_files.plans import traces_of
from turnlog.storage.reader import Placed


class Views(Struct):
    """The views of one log, by name."""

    digests: dict[str, bytes] = field(default_factory=dict)
    plans: list[str] = field(default_factory=list)
    records: int = 0


def views_of(
    log: LogFile,
    path: Path,
    read: Read,
    *,
    without: frozenset[str],
    elsewhere: Callable[[], Iterable[Record]] | None,
    now: datetime,
) -> Views:
    """Compute the views of *log*, whose bytes are at *path* and come from *read*.

    Nodes *without* are left out of the tree. *elsewhere* yields the records of the session's other
    logs, if the usage of all of them together is to be compared.
    """
    folds = _Folds(log.agent_id)
    with closing(read()) as reader:
        tree = Tree(folds.taken(item for item in reader if isinstance(item, Placed)))
    for record in elsewhere() if elsewhere else ():
        folds.totals.take(record)
    names = _names(tree, without)
    views = Views(records=folds.facts.summary.records)
    views.plans = [repr(trace) for trace in traces_of(path, log.session_id)]
    parts = {**_of_tree(tree, names, folds.raws), **_of_threads(tree, names, path)}
    for name, pieces in {**parts, **folds.views(now, without)}.items():
        digest = blake2b(digest_size=16)
        for piece in pieces:
            digest.update(repr(piece).encode(errors="surrogatepass") + b"\n")
        views.digests[name] = digest.digest()
    return views


def differences(before: Views, after: Views, dropped: int) -> list[str]:
    """Return the views that are not equal after *dropped* records were removed."""
    found = [name for name, seen in before.digests.items() if after.digests.get(name) != seen]
    # A program that does not lock may have added plans while these were read.
    if before.plans[: len(after.plans)] != after.plans or len(before.plans) < len(after.plans):
        found.append("plans")
    if before.records - dropped != after.records:
        found.append("records")
    return found


class _Folds:
    """Everything that is folded over the records of a log, in one pass."""

    def __init__(self, agent_id: str | None) -> None:
        self.facts = MetadataFold()
        self.traces = Traces(caller=agent_id)
        self.files = FileTraces()
        self.totals = RunningTotals()
        self.raws: dict[int, bytes] = {}
        self._agent_id = agent_id
        self._loose = blake2b(digest_size=16)
        self._states: dict[tuple[str, str | None, bool], bytes] = {}

    def taken(self, items: Iterable[Placed]) -> Iterator[Placed]:
        """Process every item, and yield it."""
        for item in items:
            self._take(item)
            yield item

    def _take(self, item: Placed) -> None:
        record = item.record
        self.facts.take(record)
        self.traces.see(item)
        self.files.see(record, self._agent_id)
        self.totals.take(record)
        if isinstance(record, Linked):
            self.raws[item.offset] = blake2b(record.raw, digest_size=16).digest()
        elif type(record) in SAID_BY:
            says = bool(getattr(record, SAID_BY[type(record)]))
            for key in {says, False}:
                self._states[record.type, record.session_id, key] = record.raw
        else:
            self._loose.update(record.raw + b"\n")

    def views(self, now: datetime, without: frozenset[str]) -> dict[str, Iterable[object]]:
        summary, life, files = self.facts.summary, self.facts.life, self.files
        parents = {key: each for key, each in files.parents.items() if key not in without}
        counted = {"records", "models"}
        return {
            "summary": [
                (name, getattr(summary, name))
                for name in summary.__struct_fields__
                if name not in counted
            ]
            + [sorted(summary.models), self.facts.git_commit],
            "life": [
                (life.state(now), life.last_active_at, life.goodbye_at, life.opened),
                (life.writers, life.forgiven, bool(life.records), bool(life.records_since_opened)),
            ],
            "subagents": [
                list(self.traces.spawns.items()),
                sorted(self.traces.call_of_subagent.items()),
                sorted(self.traces.progress_of_subagent.items()),
                self.traces.first_prompt,
                (list(self.traces.sidechains.items()), self.traces.has_main),
                sorted(each for each in self.traces.sidechain_of.items() if each[0] not in without),
            ],
            "files": [
                (files.project, files.odd),
                *files.snapshots.items(),
                *files.edits,
                *sorted(parents.items()),
                *sorted((key, repr(files.times[key])) for key in parents),
            ],
            "usage": sorted(map(repr, self.totals.responses)),
            "states": sorted(self._states.items(), key=repr),
            "loose": [self._loose.digest()],
        }


def _names(tree: Tree, without: frozenset[str]) -> dict[int, str]:
    """Return names of the nodes: their uuids, or their position if they have none."""
    seen = [node for node in tree.nodes if node.uuid not in without]
    return {
        node.position: f"@{number}" if node.uuid == f"@{node.log}:{node.offset}" else node.uuid
        for number, node in enumerate(seen)
    }


def _of_tree(
    tree: Tree, names: dict[int, str], raws: dict[int, bytes]
) -> dict[str, Iterable[object]]:
    def nodes() -> Iterator[object]:
        for node in tree.nodes:
            if node.position in names:
                # A record without a uuid is named by its position where it is a parent, too.
                named = None if node.is_chained else node.parent_uuid
                above = _name(names, node.parent)
                yield names[node.position], above, named, raws[node.offset]

    def gaps() -> Iterator[object]:
        for gap in tree.gaps:
            yield _name(names, gap.node), gap.named, gap.reason, _name(names, gap.bridged_to)

    return {"tree": nodes(), "gaps": gaps()}


def _of_threads(tree: Tree, names: dict[int, str], path: Path) -> dict[str, Iterable[object]]:
    read = partial(records_of, path)
    main, whole = main_thread(tree), whole_thread(tree)
    context = context_of(tree, read)
    return {
        "main thread": [_name(names, node) for node in main],
        "whole thread": [_name(names, node) for node in whole],
        "turns": (
            (_name(names, turn.prompt), [_name(names, node) for node in turn.nodes])
            for turn in turns_of(whole)
        ),
        "context": (
            _digest(context.digest, names),
            [_name(names, node) for node in context.nodes],
            context.summarised,
        ),
        "digests": (_digest(digest, names) for digest in digests_of(tree, read)),
        "replay": replay(record for _, record in read(main)),
    }


def _digest(digest: Digest | None, names: dict[int, str]) -> object:
    if digest is None:
        return None
    kept = [_name(names, node) for node in digest.kept]
    return (
        (digest.kind, digest.text, digest.at, digest.named, digest.messages),
        [_name(names, node) for node in (digest.node, digest.boundary, digest.until)],
        (kept, digest.lost, digest.kept_come_first),
    )


def _name(names: dict[int, str], node: Node | None) -> str | None:
    return None if node is None else names.get(node.position, "(left out)")
