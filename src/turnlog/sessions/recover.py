"""After a crash: a session made whole again, for us and for the program that wrote it.

Looking costs nothing and changes nothing: ``examine`` says what is wrong. ``recover`` then does the
least that helps. Records on damaged lines are freed by a repair, which keeps the log as it was
beside it. A cut last line is sealed by whatever is appended next. The rest is mended by appending:

- A record whose parent is missing gets one: a record with the missing uuid, which hangs from the
  record before the gap. Where that made a call nobody answered, the missing record was the answer,
  and the new one stands in for it, marked as an error.
- A call that went unanswered though others of its response were answered gets such a stand-in too.
  A call that nobody answered at all was interrupted, which is no damage.
- Last comes a record that hangs from the tip, since Claude Code goes on from the last it finds.

Nobody sends a model more than the stand-ins. What was done is written down in the log, and running
it again finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct, to_builtins

from turnlog.errors import UsageError
from turnlog.log.repair import Repair, repair
from turnlog.sessions import build
from turnlog.sessions.life import Running
from turnlog.sessions.session import Session
from turnlog.sessions.threads import main_tip
from turnlog.sessions.tree import Gap, GapReason, Node, Tree
from turnlog.sessions.writing import SessionWriter

_BATCH: Final = 200
_WRITTEN_DOWN: Final = ("salvaged", "torn", "bridges", "lost")
_LOST: Final = "[The result of this call was lost.]"


class Bridge(Struct, frozen=True, kw_only=True):
    """A parent that is missing, and the record taken in its place."""

    missing: str
    child: str
    to: str
    answers: list[str] = []
    """Calls whose results were lost with it."""


class Recovery(Struct, kw_only=True):
    """What is wrong with a session, and whether it has been mended.

    `turnlog recover SESSION --json` prints it.
    """

    id: str
    path: str
    written: bool = False
    crashed: bool = False
    damaged: int = 0
    """Ranges of bytes that are no record."""
    salvaged: int = 0
    """Records that stand on damaged lines."""
    torn: bool = False
    """The last line was cut short, or lacks its newline."""
    bridges: list[Bridge] = []
    cycles: list[str] = []
    """Records that are their own ancestors; the first of each ring. They are left as they are."""
    lost: list[str] = []
    """Calls whose results are missing, though others of their response were answered."""
    interrupted: list[str] = []
    """Calls that nobody answered. They are left as they are."""
    originals: list[str] = []
    """Logs as they were before a repair."""

    @property
    def needed(self) -> bool:
        """Whether there is anything to mend."""
        return bool(self.crashed or self.salvaged or self.torn or self.bridges or self.lost)


def examine(session: Session, running: Running | None = None) -> Recovery:
    """Say what is wrong with *session*; *running* is what its program left about itself."""
    found, _ = _examine(session, running)
    return found


def recover(
    session: Session, resume: Callable[[], SessionWriter], running: Running | None = None
) -> Recovery:
    """Mend *session*; *resume* opens it for writing once its logs are readable."""
    _refuse_if_running(session, running)
    found, repairs = _examine(session, running)
    if not found.needed:
        return found
    for plan in repairs:
        if plan.salvaged:
            done = repair(plan.path, write=True)
            found.originals += [done.original] if done.original else []
    if found.originals:  # What was freed may be what others were missing.
        session = Session(session.id, session.logs)
        _look_at(session.tree, found)
    tree = session.tree
    with resume() as writer:
        lines = _mending(found, tree)
        for start in range(0, len(lines), _BATCH):
            writer.append_many(lines[start : start + _BATCH])
        facts = to_builtins(found)
        writer.mark("recovered", **{key: facts[key] for key in _WRITTEN_DOWN})
    found.written = True
    return found


def _examine(session: Session, running: Running | None) -> tuple[Recovery, list[Repair]]:
    agents = [log.path for log in session.logs if log.kind == "agent" and not log.compression]
    repairs = [repair(path) for path in (*session.paths, *agents)]
    left_behind = running is not None and running.was_killed(session.facts.life)
    found = Recovery(
        id=session.id,
        path=str(session.path),
        crashed=session.facts.life.crashed or left_behind,
        damaged=sum(len(plan.quarantined) for plan in repairs),
        salvaged=sum(plan.salvaged for plan in repairs),
        torn=any(plan.torn or plan.adds_newline for plan in repairs),
    )
    _look_at(session.tree, found)
    return found, repairs


def _look_at(tree: Tree, found: Recovery) -> None:
    """Say what is wrong with the tree."""
    calls = _Calls(tree)
    found.cycles = [gap.node.uuid for gap in tree.gaps if gap.reason is GapReason.CYCLE]
    found.bridges = _bridges(tree, calls)
    bridged = {call for bridge in found.bridges for call in bridge.answers}
    left = [call for call in calls.open if call not in bridged]
    found.lost = [call for call in left if calls.is_half_answered(call)]
    found.interrupted = [call for call in left if not calls.is_half_answered(call)]


class _Calls:
    """The calls of a session in Claude Code's dialect, and which of them were answered."""

    def __init__(self, tree: Tree) -> None:
        self.made_by = {
            call: node
            for node in tree.nodes
            for call in node.calls
            if not (node.is_sidechain or node.is_chained)
        }
        answered = {call for node in tree.nodes for call in node.results}
        self.open = [call for call in self.made_by if call not in answered]
        self._answered_messages = {
            node.message_id for call, node in self.made_by.items() if call in answered
        }

    def is_half_answered(self, call: str) -> bool:
        """Tell whether other calls of the same response were answered."""
        message_id = self.made_by[call].message_id
        return message_id is not None and message_id in self._answered_messages

    def open_at(self, node: Node) -> list[str]:
        """Give the open calls of the response that *node* belongs to."""
        return [
            call
            for call in self.open
            if self.made_by[call] is node
            or (node.message_id is not None and self.made_by[call].message_id == node.message_id)
        ]


def _bridges(tree: Tree, calls: _Calls) -> list[Bridge]:
    """List the parents that are missing, each once, where there is something to hang from."""
    found: dict[str, Bridge] = {}
    for gap in tree.gaps:
        if gap.reason is GapReason.MISSING and gap.bridged_to is not None and _is_plain(gap):
            bridge = Bridge(
                missing=gap.named,
                child=gap.node.uuid,
                to=gap.bridged_to.uuid,
                answers=calls.open_at(gap.bridged_to),
            )
            found.setdefault(gap.named, bridge)
    return list(found.values())


def _is_plain(gap: Gap) -> bool:
    """Tell whether the missing parent has a uuid that a record could bear."""
    return bool(gap.named.strip()) and not gap.node.is_sidechain


def _mending(found: Recovery, tree: Tree) -> list[dict[str, Any]]:
    """Give the records that mend the tree, in the order in which they are appended."""
    tip = main_tip(tree)
    makers = _Calls(tree).made_by
    lines = []
    for bridge in found.bridges:
        at = tree.by_uuid[bridge.child].timestamp
        line = _stand_in(bridge.answers) if bridge.answers else _note("A record is missing here.")
        line |= {"uuid": bridge.missing, "parentUuid": bridge.to}
        lines.append(line | {"timestamp": at} if at else line)
    # Beside the thread, and so marked that nobody takes it for the thread's end.
    beside = {"isMeta": True}
    lines += [_stand_in([call]) | beside | {"parentUuid": makers[call].uuid} for call in found.lost]
    if lines and tip is not None:
        words = f"turnlog recovered this session: {len(lines)} lost records were replaced."
        lines.append(_note(words) | {"parentUuid": _last_below(tip).uuid})
    return lines


def _last_below(tip: Node) -> Node:
    """Give the last record that hangs below the last thing said, such as a hook's output."""
    node = tip
    while node.children:
        node = node.children[-1]
    return node


def _note(words: str) -> dict[str, Any]:
    """Make a record that stands in the tree and that nobody sends to a model."""
    return build.system(words) | {"isMeta": True}


def _stand_in(calls: list[str]) -> dict[str, Any]:
    """Make a record that answers *calls* in place of the one that was lost."""
    blocks = [
        {"type": "tool_result", "tool_use_id": call, "content": _LOST, "is_error": True}
        for call in calls
    ]
    return build.user(blocks)


def _refuse_if_running(session: Session, running: Running | None) -> None:
    if session.facts.life.is_running or (running is not None and running.is_alive):
        raise UsageError(
            f"session {session.id} is being written",
            hint="end the program that writes it, then recover",
        )
