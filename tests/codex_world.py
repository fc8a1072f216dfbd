"""A small writer of Codex homes, with the true prompts and usage beside what it writes.

`Rollout` writes one session's log line by line, in the old mode (events called ``user_message``) or
in the paginated one (``item_completed``). `write_world` writes a home with one of everything that
is hard to read or to count. The words are invented; the shapes are those of 0.118 to 0.169.
"""

import json
import sqlite3
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

BEGAN_AT = datetime(2026, 10, 5, 9, 30, tzinfo=UTC)
PROJECT = "/srv/orchard"
OLD_MODEL, NEW_MODEL = "gpt-5-codex", "gpt-5"
INSTRUCTIONS = "Be brief and kind to trees."


def dated_id(at, number):
    """Return an id as Codex makes them: it begins with the time in milliseconds."""
    ms = f"{int(at.timestamp() * 1000):012x}"
    return f"{ms[:8]}-{ms[8:]}-7000-8000-{number:012x}"


def thread_id(number):
    return dated_id(BEGAN_AT + timedelta(hours=number), number)


class Usage(NamedTuple):
    """The tokens of one response, as the API counts them.

    *cached* and *written* are part of *input*, *reasoning* is part of *output*.
    """

    input: int
    output: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0

    @property
    def counters(self):
        """The same under turnlog's names, where no token is in two counters."""
        return Counter(
            messages=1,
            input=self.input - self.cached - self.written,
            cache_read=self.cached,
            cache_write_5m=self.written,
            output=self.output,
        )

    def __add__(self, other):
        return Usage(*map(sum, zip(self, other, strict=True)))

    def spelled(self, *, has_written):
        spelled = {
            "input_tokens": self.input,
            "cached_input_tokens": self.cached,
            "output_tokens": self.output,
            "reasoning_output_tokens": self.reasoning,
            "total_tokens": self.input + self.output,
        }
        return spelled | ({"cache_write_input_tokens": self.written} if has_written else {})


NOTHING = Usage(0, 0)


class Rollout:
    """The log of one session, written line by line.

    *prompts* are what a person typed, and *responses* the usage of each response that was paid
    for in this session: neither has what the log repeats of other sessions. *said* is what a resume
    has to send of prompts and answers. *total* is Codex's own cumulative figure. A fork takes over
    both from its parent.
    """

    provider = "openai"

    def __init__(self, home, number, *, is_paginated=True, parent=None, spawned_by=None, name=""):
        self.home, self.id, self.is_paginated = Path(home), thread_id(number), is_paginated
        self.parent, self.spawned_by = parent, spawned_by
        self.now = BEGAN_AT + timedelta(hours=number)
        self.model = NEW_MODEL if is_paginated else OLD_MODEL
        self.prompts, self.responses, self.answers, self.calls = [], [], [], []
        self.total = parent.total if parent else NOTHING
        self.said = [*parent.said] if parent else []
        self.ordinal = parent.ordinal if parent and is_paginated else 0
        self.turns = 0
        self.name = name
        self.archived = False
        self.path = (
            self.home / "sessions" / f"{self.now:%Y/%m/%d}"
            / f"rollout-{self.now:%Y-%m-%dT%H-%M-%S}-{self.id}.jsonl"
        )  # fmt: skip
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.meta()
        if parent and not is_paginated:  # In the old mode the parent's history is written again.
            for line in parent.path.read_bytes().splitlines():
                again = json.loads(line)
                self.line(again["type"], again["payload"])

    @property
    def counters(self):
        """The true usage of this session."""
        return sum((each.counters for each in self.responses), Counter())

    # -- lines

    def line(self, kind, payload, **more):
        self.now += timedelta(seconds=1)
        numbered = {"ordinal": self.ordinal} if self.is_paginated else {}
        self.ordinal += 1
        at = f"{self.now:%Y-%m-%dT%H:%M:%S}.{self.ordinal % 1000:03}Z"
        self.raw(
            json.dumps({"timestamp": at, **numbered, "type": kind, "payload": payload, **more})
        )

    def raw(self, text):
        """Write a line of which Codex would know nothing."""
        with self.path.open("a", encoding="utf-8", newline="\n") as log:
            log.write(text + "\n")

    def event(self, kind, **payload):
        self.line("event_msg", {"type": kind, **payload})

    def item(self, kind, **payload):
        self.line("response_item", {"type": kind, **payload})

    def completed(self, kind, **item):
        about = {"thread_id": self.id, "turn_id": self.turn_id, "completed_at_ms": 0}
        self.event("item_completed", item={"type": kind, **item}, **about)

    def message(self, role, text, kind="input_text"):
        number = f"msg_{self.id[-4:]}_{self.ordinal}"
        named = {"id": number} if self.is_paginated else {}
        self.item("message", role=role, content=[{"type": kind, "text": text}], **named)
        return number

    # -- what happens in a session

    def meta(self):
        """Begin the session, or go on with it: every start of the program wrote one of these."""
        payload = {
            "id": self.id,
            "timestamp": f"{self.now:%Y-%m-%dT%H:%M:%S}.000Z",
            "cwd": PROJECT,
            "originator": "codex_exec",
            "cli_version": "0.169.0" if self.is_paginated else "0.133.0",
            "source": "exec",
            "model_provider": self.provider,
            "base_instructions": {"text": INSTRUCTIONS},
            "git": {"branch": "main", "commit_hash": "0" * 40},
        }
        if self.is_paginated:
            payload |= {"session_id": self.id, "history_mode": "paginated"}
        if self.spawned_by:
            spawned = {"parent_thread_id": self.spawned_by.id, "depth": 1, "agent_nickname": "Ash"}
            payload["source"] = {"subagent": {"thread_spawn": spawned}}
            payload |= {"session_id": self.spawned_by.id} if self.is_paginated else {}
        elif self.parent:
            payload["forked_from_id"] = self.parent.id
            if self.is_paginated:
                end = {
                    "end_ordinal_exclusive": self.parent.ordinal,
                    "end_byte_offset": self.parent.path.stat().st_size,
                }
                payload["history_base"] = {"thread_id": self.parent.id, **end}
                payload["forked_from_ordinal_exclusive"] = self.parent.ordinal
        self.line("session_meta", payload)

    def prompt(self, text):
        """Begin a turn, with the context that the program puts before what was typed."""
        self.turns += 1
        self.turn_id = dated_id(self.now, self.turns)
        self.event("task_started", turn_id=self.turn_id, model_context_window=258_400)
        if self.turns == 1:
            self.message("developer", "<permissions instructions>\nAnything goes.")
            self.message("user", f"# AGENTS.md instructions for {PROJECT}\n\nPrune in winter.")
            self.message("user", f"<environment_context>\n  <cwd>{PROJECT}</cwd>")
        self.line(
            "turn_context",
            {"turn_id": self.turn_id, "cwd": PROJECT, "model": self.model, "effort": "high"},
        )
        self.message("user", text)
        if self.is_paginated:
            content = [{"type": "text", "text": text, "text_elements": []}]
            self.completed("UserMessage", id=f"user_{self.ordinal}", content=content)
        else:
            self.event("user_message", message=text, images=[])
        self.said.append(text)
        if not self.spawned_by:
            self.prompts.append(text)

    def think(self, text):
        summary = [{"type": "summary_text", "text": text}]
        if self.is_paginated:
            self.completed("Reasoning", id=f"rs_{self.ordinal}", summary_text=[text])
        else:
            self.event("agent_reasoning", text=text)
        self.item("reasoning", summary=summary, content=None, encrypted_content="gAAAA")

    def call(self, command, output, *, call_id=None, exit_code=0):
        """Run a command."""
        call_id = call_id or f"call_{self.id[-4:]}_{self.ordinal}"
        self.calls.append(command)
        arguments = json.dumps({"cmd": command})
        self.item("function_call", name="exec_command", arguments=arguments, call_id=call_id)
        ran = {
            "command": ["/bin/bash", "-lc", command],
            "aggregated_output": output,
            "exit_code": exit_code,
            "status": "completed" if exit_code == 0 else "failed",
        }
        if self.is_paginated:
            self.completed("CommandExecution", id=call_id, cwd=f"file://{PROJECT}", **ran)
        else:
            self.event("exec_command_end", call_id=call_id, turn_id=self.turn_id, **ran)
        told = f"Wall time: 0.1 seconds\nProcess exited with code {exit_code}\nOutput:\n{output}"
        self.item("function_call_output", call_id=call_id, output=told)

    def plan(self, *steps):
        """Write a plan; each step is its words and its status."""
        plan = [{"step": step, "status": status} for step, status in steps]
        call_id = f"call_plan_{self.ordinal}"
        arguments = json.dumps({"plan": plan})
        self.item("function_call", name="update_plan", arguments=arguments, call_id=call_id)
        self.item("function_call_output", call_id=call_id, output="Plan updated")

    def spawn(self, helper, words):
        """Make the call that started *helper*, and tell what it answered."""
        call_id = f"call_spawn_{self.ordinal}"
        self.item(
            "function_call",
            name="spawn_agent",
            namespace="multi_agent_v1",
            arguments=json.dumps({"message": words, "agent_type": "default"}),
            call_id=call_id,
        )
        done = {"receiver_thread_ids": [helper.id], "sender_thread_id": self.id, "prompt": words}
        self.completed("CollabAgentToolCall", id=call_id, tool="spawn_agent", **done)
        told = json.dumps({"agent_id": helper.id, "nickname": "Ash"})
        self.item("function_call_output", call_id=call_id, output=told)
        told = json.dumps({"agent_path": helper.id, "status": {"completed": helper.answers[-1]}})
        self.message("user", f"<subagent_notification>\n{told}\n</subagent_notification>")

    def answer(self, text, usage=None):
        """Answer in words, and end the turn; *usage* is what the response cost."""
        if self.is_paginated:
            number = f"msg_{self.id[-4:]}_{self.ordinal + 1}"
            content = [{"type": "Text", "text": text}]
            self.completed("AgentMessage", id=number, content=content)
        else:
            self.event("agent_message", message=text)
        self.message("assistant", text, "output_text")
        self.answers.append(text)
        self.said.append(text)
        if usage:
            self.spend(usage)
        self.event("task_complete", turn_id=self.turn_id, last_agent_message=text)

    def abort(self):
        """End the turn as a person does with the escape key."""
        self.event("turn_aborted", turn_id=self.turn_id, reason="interrupted")

    def compact(self, summary, usage):
        """Replace the history by a summary, on the API's side: only its own record is paid for."""
        response_id = self.record(usage)
        said = {"type": "message", "role": "user"}
        said["content"] = [{"type": "input_text", "text": summary}]
        replacement = {"message": summary, "replacement_history": [said]}
        self.said = [summary]
        self.line("compacted", replacement | {"compaction_response_id": response_id})
        self.completed("ContextCompaction", id=f"compact_{self.ordinal}")

    # -- usage

    def spend(self, usage):
        """Say what a response cost in every way that this mode has."""
        if self.is_paginated:
            self.record(usage)
        else:
            self.responses.append(usage)
        self.total += usage
        self.count(usage)

    def record(self, usage):
        """Write the exact record of one response; return the id of the response."""
        self.responses.append(usage)
        response_id = f"resp_{self.id[-4:]}_{len(self.responses)}"
        spelled = usage.spelled(has_written=True)
        self.line(
            "token_usage_record",
            {
                "thread_id": self.id,
                "turn_id": self.turn_id,
                "response_id": response_id,
                "usage": spelled,
                "thread_token_usage": (self.total + usage).spelled(has_written=True),
            },
        )
        return response_id

    def count(self, last):
        """Write the running total; again and again, if called so."""
        total = self.total.spelled(has_written=self.is_paginated)
        info = {
            "total_token_usage": total,
            "last_token_usage": last.spelled(has_written=self.is_paginated),
            "model_context_window": 258_400,
        }
        self.event("token_count", info=info, rate_limits=None)

    def archive(self):
        """Move the log to where ``codex archive`` moves it."""
        place = self.home / "archived_sessions" / self.path.name
        place.parent.mkdir(exist_ok=True)
        self.path = self.path.rename(place)
        self.archived = True


class World(NamedTuple):
    """The sessions of a home, with the truth about each."""

    home: Path
    old: Rollout
    """Old mode: two starts, a command that failed, a plan, an aborted turn, odd token counts."""
    old_fork: Rollout
    """Repeats its parent's history, with times and totals of its own."""
    old_helper: Rollout
    """A subagent that repeats the history of the session that started it."""
    new: Rollout
    """Paginated mode: commands, a compaction, a subagent, lines that no version knows."""
    new_fork: Rollout
    """Refers to its parent's first bytes."""
    fork_of_fork: Rollout
    helper: Rollout
    """The subagent of `new`."""
    archived: Rollout

    @property
    def rollouts(self):
        return self[1:]

    @property
    def counters(self):
        """The true usage of the home, each response counted once."""
        return sum((each.counters for each in self.rollouts), Counter())


def write_world(home):
    """Write a home with one session of every kind, and the files that Codex lists them in."""
    old = _write_old(home)
    old_fork = Rollout(home, 2, is_paginated=False, parent=old)
    old_fork.prompt("Is there a well?")
    old_fork.answer("Behind the barn.", Usage(2100, 25, cached=1700))
    old_helper = Rollout(home, 3, is_paginated=False, parent=old, spawned_by=old)
    old_helper.prompt("Measure the well")
    old_helper.answer("Nine metres deep.", Usage(2300, 15, cached=1700))

    new = Rollout(home, 4, name="Plum count")
    new.prompt("How many plums are ripe?")
    new.think("**Counting** plums")
    new.call("count plums --ripe", "forty-two\n")
    new.spend(Usage(1001, 20, cached=400, written=50, reasoning=5))
    new.answer("Forty-two plums are ripe.", Usage(1102, 21, cached=600, written=51))
    new_fork = Rollout(home, 5, parent=new)  # It ends here in the parent, which goes on.
    new_fork.prompt("And how many fell?")
    new_fork.answer("Seven.", Usage(1203, 22, cached=800, written=52))
    fork_of_fork = Rollout(home, 6, parent=new_fork)
    fork_of_fork.prompt("Who ate them?")
    fork_of_fork.answer("The geese.", Usage(1304, 23, cached=900))
    helper = Rollout(home, 7, spawned_by=new)
    helper.prompt("Count the figs")
    helper.call("count figs", "nine\n")
    helper.answer("Nine figs.", Usage(505, 11, cached=100, written=10))
    _go_on(new, helper)

    archived = Rollout(home, 8)
    archived.prompt("Which ladder is the long one?")
    archived.answer("The green one.", Usage(808, 27))
    archived.archive()
    world = World(
        Path(home), old, old_fork, old_helper, new, new_fork, fork_of_fork, helper, archived
    )
    write_lists(home, world.rollouts)
    return world


def _write_old(home):
    old = Rollout(home, 1, is_paginated=False, name="Wilting pears")
    old.prompt("Why do the pears wilt?")
    old.event("token_count", info=None, rate_limits=None)
    old.think("**Looking** at the soil")
    old.call("moisture --field north", "dry\n")
    old.spend(Usage(1200, 60, cached=400, reasoning=20))
    old.count(Usage(1200, 60, cached=400, reasoning=20))
    old.plan(("Water the field", "in_progress"), ("Look again", "pending"))
    old.answer("The northern field is dry.", Usage(1500, 40, cached=1100))
    old.meta()
    old.prompt("Water it then")
    old.call("sprinkle north", "sprinkle: no water\n", exit_code=1)
    old.spend(Usage(1800, 30, cached=1400))
    old.abort()
    return old


def _go_on(new, helper):
    new.prompt("Ask someone about the figs")
    new.spawn(helper, "Count the figs")
    new.line("world_state", {"full": False, "state": {"season": "autumn"}})
    new.line("weather_report", {"sky": "clear"})  # Of a version yet to come.
    new.event("leaf_fell", colour="red")
    new.item("grafting_call", call_id="call_graft", twig="quince")
    new.answer("Nine figs.", Usage(1405, 24, cached=1000, written=53))
    new.compact("Plums were counted, then figs.", Usage(1506, 125, cached=1200))
    new.prompt("And quinces?")
    new.answer("Not a single one.", Usage(707, 26, cached=200, written=54))


def write_lists(home, rollouts):
    """Write what Codex lists: its state database and the names of sessions."""
    path = Path(home, "state_5.sqlite")
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE threads (id TEXT PRIMARY KEY, rollout_path TEXT NOT NULL,"
            " created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, source TEXT NOT NULL,"
            " cwd TEXT NOT NULL, title TEXT NOT NULL, archived INTEGER NOT NULL DEFAULT 0,"
            " preview TEXT NOT NULL DEFAULT '')"
        )
        db.execute(
            "CREATE TABLE thread_spawn_edges (parent_thread_id TEXT NOT NULL,"
            " child_thread_id TEXT NOT NULL PRIMARY KEY, status TEXT NOT NULL)"
        )
        for each in rollouts:
            at = int(each.now.timestamp())
            title = (each.prompts or each.answers)[0]
            row = (each.id, str(each.path), at, at, "exec", PROJECT, title, each.archived, title)
            db.execute("INSERT INTO threads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            if each.spawned_by:
                edge = (each.spawned_by.id, each.id, "open")
                db.execute("INSERT INTO thread_spawn_edges VALUES (?, ?, ?)", edge)
    db.close()
    named = [each for each in rollouts if each.name]
    with Path(home, "session_index.jsonl").open("w", encoding="utf-8") as index:
        for each in named:
            entry = {"id": each.id, "thread_name": each.name, "updated_at": f"{each.now:%FT%TZ}"}
            index.write(json.dumps(entry) + "\n")
    Path(home, "config.toml").write_text('model = "gpt-5"\n', encoding="utf-8")
