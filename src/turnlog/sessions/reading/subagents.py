"""Link subagents to the calls that started them.

A subagent's log names its session but not its call. The call is found, from the most to the least
reliable source, by its result (``toolUseResult.agentId``), by ``agent-ID.meta.json``, by the
agent's progress records, and, as a marked guess, by a call whose prompt is the subagent's first.
Agents call subagents: the
call may be in another subagent's log. A subagent without a known call is an
orphan.

Claude Code 1.x wrote a subagent's records into the main log as a sidechain, a thread of records
with ``isSidechain``. It belongs to the call with the same
prompt, or else to a call that was waiting for
its result when the sidechain began.

Claude Code's own tools that start subagents are known by name; any other tool counts if its result
names a subagent. Slugs repeat and never identify an agent.
"""

# No string annotations here: msgspec would have to evaluate them at every start.

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from turnlog.formats.log_file import subagent_meta
from turnlog.records.meaning import Author, author_of
from turnlog.records.record import Assistant, Linked, Progress, Spoken, User
from turnlog.storage.reader import Placed

SUBAGENT_TOOLS = frozenset({"Task", "Agent"})
"""Claude Code's own."""
_MOST_WAITING: Final = 64
"""How many possible calls a sidechain remembers: no more run at once."""


class How(StrEnum):
    """How a subagent's call was found."""

    RESULT = "result"
    META = "meta"
    PROGRESS = "progress"
    PROMPT = "prompt"  # A guess: the prompts are the same.
    POSITION = "position"  # A guess: the call was waiting when the sidechain began.


class Spawn(Struct, frozen=True, kw_only=True):
    """A call that started a subagent."""

    call_id: str
    uuid: str | None
    """The record with the call."""
    caller: str | None
    """The subagent in whose log it is; None for the main one."""
    kind: str | None = None
    description: str | None = None
    prompt: str | None = None


class Sidechain(Struct, frozen=True, kw_only=True):
    """A subagent whose records are in the main log, by the uuid of the first of them."""

    agent_id: str | None
    prompt: str | None
    waiting: tuple[str, ...]
    """The calls for subagents that had no result when it began."""


class Subagent(Struct, frozen=True, kw_only=True):
    """A subagent of a session and its origin. *how* is None for an orphan."""

    id: str
    path: Path
    spawn: Spawn | None
    how: How | None
    kind: str | None = None
    description: str | None = None
    sidechain: str | None = None
    """The uuid of its first record if its records are in the main log; else None."""

    @property
    def is_orphan(self) -> bool:
        return self.spawn is None


class Traces(Struct):
    """What one log says about subagents, collected in one pass."""

    caller: str | None = None
    spawns: dict[str, Spawn] = field(default_factory=dict)
    call_of_subagent: dict[str, str] = field(default_factory=dict)
    progress_of_subagent: dict[str, str] = field(default_factory=dict)
    first_prompt: str | None = None
    answered: dict[str, Spawn] = field(default_factory=dict)
    """Calls of other tools that started an agent, from their results."""
    sidechains: dict[str, Sidechain] = field(default_factory=dict)
    sidechain_of: dict[str, str] = field(default_factory=dict)
    """The sidechain of each record that is in one, by its uuid."""
    waiting: dict[str, None] = field(default_factory=dict)
    """The calls for subagents without a result so far, in order. Only of a main log."""
    has_main: bool = False
    """Whether there are messages outside of sidechains."""

    def see(self, placed: Placed) -> None:
        """Collect what *placed* says about subagents."""
        record = placed.record
        if isinstance(record, Linked) and self.caller is None:
            self._see_side(record)
        if isinstance(record, Spoken):
            if self.first_prompt is None and isinstance(record, User):
                self.first_prompt = record.text or None
            for call in record.calls:
                if call.name in SUBAGENT_TOOLS:
                    self._see_call(call.id, record.uuid, call.input)
        if isinstance(record, User):
            for result in record.results:
                self.waiting.pop(result.tool_use_id, None)
            subagent = _text(record.tool_use_result, "agentId")
            if subagent is not None and record.results:
                self._see_result(subagent, record)
        elif isinstance(record, Progress) and record.kind == "agent_progress":
            subagent = _text(record.data, "agentId")
            if subagent is not None and record.parent_tool_use_id is not None:
                self.progress_of_subagent[subagent] = record.parent_tool_use_id

    def _see_side(self, record: Linked) -> None:
        """Note whether a main log's record is the session's or a sidechain's."""
        author = author_of(record)
        if record.is_sidechain:
            asks = author is Author.CALLER and isinstance(record, User)
            prompt = record.text if asks else None
            self.see_sidechain(record.uuid, record.parent_uuid, record.agent_id, prompt)
        elif isinstance(record, User | Assistant):
            self.has_main = True
            if author is Author.HUMAN:
                self.waiting.clear()  # The calls of the previous turn have ended somehow.

    def see_sidechain(
        self, uuid: str | None, parent: str | None, agent_id: str | None, prompt: str | None = None
    ) -> None:
        """Collect a sidechain's record; *prompt* is its request to the subagent, if any.

        A record follows its parent. If its parent is in no sidechain, it begins one, unless the log
        has lost some records of the last one: only a prompt, or a record without a parent, begins
        one.
        """
        if uuid is None or uuid in self.sidechain_of:
            return
        start = self.sidechain_of.get(parent) if parent else None
        if start is None and parent and prompt is None and self.sidechain_of:
            last = next(reversed(self.sidechain_of.values()))
            start = last if self.sidechains[last].agent_id == agent_id else None
        if start is None:
            start = uuid
            self.sidechains[uuid] = Sidechain(
                agent_id=agent_id,
                prompt=prompt or None,
                waiting=tuple(islice(reversed(self.waiting), _MOST_WAITING))[::-1],
            )
        self.sidechain_of[uuid] = start

    def members(self) -> dict[str, list[str]]:
        """Return the uuids of each sidechain's records, in order."""
        found: dict[str, list[str]] = {}
        for uuid, start in self.sidechain_of.items():
            found.setdefault(start, []).append(uuid)
        return found

    def _see_result(self, subagent: str, record: User) -> None:
        call_id = record.results[0].tool_use_id
        if call_id not in self.spawns:
            if subagent in self.call_of_subagent:
                return  # Another tool that only mentions it.
            self.answered[call_id] = Spawn(
                call_id=call_id,
                uuid=record.source_tool_assistant_uuid or record.parent_uuid,
                caller=self.caller,
                description=_text(record.tool_use_result, "description"),
            )
        self.call_of_subagent[subagent] = call_id

    def _see_call(self, call_id: str, uuid: str | None, arguments: Any) -> None:
        if self.caller is None:
            self.waiting[call_id] = None
        self.spawns[call_id] = Spawn(
            call_id=call_id,
            uuid=uuid,
            caller=self.caller or self.sidechain_of.get(uuid or ""),
            kind=_text(arguments, "subagent_type"),
            description=_text(arguments, "description"),
            prompt=_text(arguments, "prompt"),
        )


def subagents_by_call(agents: Iterable[Subagent]) -> dict[str, list[Subagent]]:
    """Return the agents whose calls are known, by the ids of these calls."""
    found: dict[str, list[Subagent]] = {}
    for agent in agents:
        if agent.spawn is not None:
            found.setdefault(agent.spawn.call_id, []).append(agent)
    return found


def link_subagents(
    main: Traces, subagents: Mapping[str, tuple[Path, Traces]], main_log: Path | None = None
) -> tuple[Subagent, ...]:
    """Link every subagent of a session to the call that started it.

    *subagents* are those with logs of their own, by id; the others are sidechains of *main_log*.
    """
    everywhere = [main, *(traces for _, traces in subagents.values())]
    spawns = {call: spawn for traces in everywhere for call, spawn in traces.answered.items()}
    spawns |= {call: spawn for traces in everywhere for call, spawn in traces.spawns.items()}
    by_result = _by_subagent(traces.call_of_subagent for traces in everywhere)
    by_progress = _by_subagent(traces.progress_of_subagent for traces in everywhere)
    found: dict[str, tuple[str, How]] = {}
    metas = {subagent: read_meta(path) for subagent, (path, _) in subagents.items()}
    for subagent in subagents:
        named = _text(metas[subagent], "toolUseId")
        for how, calls in (
            (How.RESULT, by_result.get(subagent, ())),
            (How.META, () if named is None else (named,)),
            (How.PROGRESS, by_progress.get(subagent, ())),
        ):
            call = next((each for each in calls if each in spawns), None)
            if call is not None:
                found[subagent] = (call, how)
                break
    taken = {call for call, _ in found.values()}
    free = _FreeCalls({call: spawn for call, spawn in spawns.items() if call not in taken})
    for subagent, (_, traces) in subagents.items():
        if subagent not in found and (same := free.with_prompt(traces.first_prompt)):
            found[subagent] = (same, How.PROMPT)
    # If the session has no messages of its own, its sidechains are the session.
    sidechains = main.sidechains if main_log is not None and main.has_main else {}
    for start, each in sidechains.items():
        if same := free.with_prompt(each.prompt, each.waiting):
            found[start] = (same, How.PROMPT)
    for start, each in sidechains.items():
        if start not in found and (waiting := free.first_of(each.waiting)):
            found[start] = (waiting, How.POSITION)
    ids = {
        start: start if each.agent_id is None or each.agent_id in subagents else each.agent_id
        for start, each in sidechains.items()
    }
    linked = [
        _subagent(subagent, path, metas[subagent], spawns, found.get(subagent))
        for subagent, (path, _) in subagents.items()
    ]
    if main_log is not None:
        linked += [
            replace(_subagent(subagent, main_log, {}, spawns, found.get(start)), sidechain=start)
            for start, subagent in ids.items()
        ]
    return tuple(
        replace(each, spawn=replace(each.spawn, caller=ids[each.spawn.caller]))
        if each.spawn and each.spawn.caller in ids
        else each
        for each in linked
    )


class _FreeCalls:
    """The calls not yet linked to an agent, in order; each is used once."""

    def __init__(self, spawns: Mapping[str, Spawn]) -> None:
        self._free = dict(spawns)
        self._by_prompt: dict[str, dict[str, None]] = {}
        for call, spawn in spawns.items():
            if spawn.prompt:
                self._by_prompt.setdefault(spawn.prompt, {})[call] = None

    def with_prompt(self, prompt: str | None, waiting: Iterable[str] = ()) -> str | None:
        """Claim the first call with *prompt*, preferably one of those *waiting*."""
        same = self._by_prompt.get(prompt or "", {})
        return self.first_of(each for each in waiting if each in same) or self.first_of(same)

    def first_of(self, calls: Iterable[str]) -> str | None:
        """Claim the first of *calls* that is free."""
        first = next((call for call in calls if call in self._free), None)
        if first is not None:
            spawn = self._free.pop(first)
            self._by_prompt.get(spawn.prompt or "", {}).pop(first, None)
        return first


def read_meta(log: Path) -> dict[str, Any]:
    """Read the ``.meta.json`` of a subagent's log; empty if missing or unreadable."""
    try:
        value = msgspec.json.decode(subagent_meta(log).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _by_subagent(sources: Iterable[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return all calls that mention each subagent."""
    found: dict[str, list[str]] = {}
    for calls in sources:
        for subagent, call in calls.items():
            found.setdefault(subagent, []).append(call)
    return found


def _subagent(
    subagent: str,
    path: Path,
    meta: dict[str, Any],
    spawns: Mapping[str, Spawn],
    found: tuple[str, How] | None,
) -> Subagent:
    spawn = spawns[found[0]] if found else None
    return Subagent(
        id=subagent,
        path=path,
        spawn=spawn,
        how=found[1] if found else None,
        kind=_text(meta, "agentType") or (spawn.kind if spawn else None),
        description=_text(meta, "description") or (spawn.description if spawn else None),
    )


def _text(value: Any, key: str) -> str | None:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None
