"""Which call made which agent.

An agent's log says whose session it belongs to, but not which call asked for it. That is told, from
the surest source to the weakest, by the call's result (``toolUseResult.agentId``), by the
``agent-ID.meta.json`` beside the log, by the progress the agent reported, and, as a last resort and
marked as such, by a call whose prompt is the agent's first. Agents call agents: the call may stand
in another agent's log. An agent whose call is nowhere is kept, and says so.

Claude Code's own tools that start agents are known by name, so that their calls are remembered
before anything came of them. Any other tool is one if its result names an agent.

Slugs repeat and are never an identity.
"""

# Annotations are no strings here: msgspec would have to evaluate them at every start.

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from turnlog.log.reader import Placed
from turnlog.records.record import Progress, Spoken, User

AGENT_TOOLS = frozenset({"Task", "Agent"})
"""Claude Code's own."""


class How(StrEnum):
    """How an agent's call was found."""

    RESULT = "result"
    META = "meta"
    PROGRESS = "progress"
    PROMPT = "prompt"  # A guess: the prompts are the same.


class Spawn(Struct, frozen=True, kw_only=True):
    """A call that asked for an agent."""

    call_id: str
    uuid: str | None
    """The record that carries the call."""
    caller: str | None
    """The agent in whose log it stands; None for the main one."""
    kind: str | None = None
    description: str | None = None
    prompt: str | None = None


class Agent(Struct, frozen=True, kw_only=True):
    """A subagent of a session and where it came from. *how* is None for an orphan."""

    id: str
    path: Path
    spawn: Spawn | None
    how: How | None
    kind: str | None = None
    description: str | None = None

    @property
    def is_orphan(self) -> bool:
        return self.spawn is None


class Traces(Struct):
    """What one log knows about agents, gathered in one pass."""

    caller: str | None = None
    spawns: dict[str, Spawn] = field(default_factory=dict)
    call_of_agent: dict[str, str] = field(default_factory=dict)
    progress_of_agent: dict[str, str] = field(default_factory=dict)
    first_prompt: str | None = None
    answered: dict[str, Spawn] = field(default_factory=dict)
    """Calls of other tools that an agent came of: what their results tell of them."""

    def see(self, placed: Placed) -> None:
        """Take note of what *placed* tells about agents."""
        record = placed.record
        if isinstance(record, Spoken):
            if self.first_prompt is None and isinstance(record, User):
                self.first_prompt = record.text or None
            for call in record.calls:
                if call.name in AGENT_TOOLS:
                    self._see_call(call.id, record.uuid, call.input)
        if isinstance(record, User):
            agent = _text(record.tool_use_result, "agentId")
            if agent is not None and record.results:
                self._see_result(agent, record)
        elif isinstance(record, Progress) and record.kind == "agent_progress":
            agent = _text(record.data, "agentId")
            if agent is not None and record.parent_tool_use_id is not None:
                self.progress_of_agent[agent] = record.parent_tool_use_id

    def _see_result(self, agent: str, record: User) -> None:
        call_id = record.results[0].tool_use_id
        if call_id not in self.spawns:
            if agent in self.call_of_agent:
                return  # Another tool that only tells of it.
            self.answered[call_id] = Spawn(
                call_id=call_id,
                uuid=record.source_tool_assistant_uuid or record.parent_uuid,
                caller=self.caller,
                description=_text(record.tool_use_result, "description"),
            )
        self.call_of_agent[agent] = call_id

    def _see_call(self, call_id: str, uuid: str | None, asked: Any) -> None:
        self.spawns[call_id] = Spawn(
            call_id=call_id,
            uuid=uuid,
            caller=self.caller,
            kind=_text(asked, "subagent_type"),
            description=_text(asked, "description"),
            prompt=_text(asked, "prompt"),
        )


def link_agents(main: Traces, agents: Mapping[str, tuple[Path, Traces]]) -> tuple[Agent, ...]:
    """Link every agent of a session, given by id, to the call that spawned it."""
    everywhere = [main, *(traces for _, traces in agents.values())]
    spawns = {call: spawn for traces in everywhere for call, spawn in traces.answered.items()}
    spawns |= {call: spawn for traces in everywhere for call, spawn in traces.spawns.items()}
    by_result = _by_agent(traces.call_of_agent for traces in everywhere)
    by_progress = _by_agent(traces.progress_of_agent for traces in everywhere)
    found: dict[str, tuple[str, How]] = {}
    metas = {agent: read_meta(path) for agent, (path, _) in agents.items()}
    for agent in agents:
        named = _text(metas[agent], "toolUseId")
        for how, calls in (
            (How.RESULT, by_result.get(agent, ())),
            (How.META, () if named is None else (named,)),
            (How.PROGRESS, by_progress.get(agent, ())),
        ):
            call = next((each for each in calls if each in spawns), None)
            if call is not None:
                found[agent] = (call, how)
                break
    taken = {call for call, _ in found.values()}
    free: dict[str, deque[str]] = defaultdict(deque)
    for call, spawn in spawns.items():
        if call not in taken and spawn.prompt:
            free[spawn.prompt].append(call)
    for agent, (_, traces) in agents.items():
        if agent not in found and traces.first_prompt in free:
            same = free[traces.first_prompt]
            if same:
                found[agent] = (same.popleft(), How.PROMPT)
    return tuple(
        _agent(agent, path, metas[agent], spawns, found.get(agent))
        for agent, (path, _) in agents.items()
    )


def read_meta(log: Path) -> dict[str, Any]:
    """Read the ``.meta.json`` beside an agent's log; nothing if there is none, or none to read."""
    try:
        beside = log.with_name(f"{log.name.split('.')[0]}.meta.json")
        value = msgspec.json.decode(beside.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _by_agent(told: Iterable[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return all the calls that were told of each agent."""
    found: dict[str, list[str]] = {}
    for calls in told:
        for agent, call in calls.items():
            found.setdefault(agent, []).append(call)
    return found


def _agent(
    agent: str,
    path: Path,
    meta: dict[str, Any],
    spawns: Mapping[str, Spawn],
    found: tuple[str, How] | None,
) -> Agent:
    spawn = spawns[found[0]] if found else None
    return Agent(
        id=agent,
        path=path,
        spawn=spawn,
        how=found[1] if found else None,
        kind=_text(meta, "agentType") or (spawn.kind if spawn else None),
        description=_text(meta, "description") or (spawn.description if spawn else None),
    )


def _text(value: Any, key: str) -> str | None:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None
