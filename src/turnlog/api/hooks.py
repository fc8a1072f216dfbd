"""What turnlog can set up for agents: kept copies, a status line and the MCP server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from turnlog.api.homes import row_from
from turnlog.api.mcp_clients import ClientSetting, client_settings, mcp_step
from turnlog.formats.settings_changes import Deed, Kind, Remove, Run, State, Step, Write, carry_out
from turnlog.keep.schedule import (
    install_steps,
    passing_place,
    program,
    remove_status_line_steps,
    status_line_steps,
    uninstall_steps,
)

__all__ = [
    "HOOKS",
    "Deed",
    "Hook",
    "HookName",
    "HooksDocument",
    "Remove",
    "Step",
    "Write",
    "change_hooks",
    "hooks_document",
    "plan_hooks",
    "temporary_place",
]

HookName = Literal["keep", "statusline", "mcp"]
HOOKS: Final[tuple[HookName, ...]] = ("keep", "statusline", "mcp")


class Hook(Struct):
    """Something to set up or to remove, as steps."""

    name: HookName
    steps: list[Step]

    @property
    def state(self) -> State:
        """The state of all steps together."""
        states = {step.state for step in self.steps}
        if states <= {"installed"}:
            return "installed" if states else "missing"
        order: tuple[State, ...] = ("outdated", "missing", "refused")
        return next(state for state in order if state in states)


class StepRow(Struct, kw_only=True):
    """One place that is, or would be, changed."""

    kind: Kind
    place: str
    state: State
    """The state before the change."""
    command: str
    """The command that runs from there."""
    writes: list[str]
    removes: list[str]
    runs: list[str]
    reason: str
    hint: str
    notes: list[str]


class HookRow(Struct, kw_only=True):
    """Something that turnlog can set up."""

    name: HookName
    state: State
    steps: list[StepRow]


class HooksDocument(Struct, kw_only=True):
    """The output of `turnlog hooks --json`."""

    hooks: list[HookRow]
    done: bool
    """True if the changes were made."""
    settings: list[ClientSetting]
    """With `install mcp`: the settings of other programs."""


def plan_hooks(
    names: Sequence[HookName] = (), homes: Sequence[str] = (), *, is_removed: bool = False
) -> list[Hook]:
    """Return what is set up and how to set up or remove the rest; nothing is changed."""
    return [_plan(name, homes, is_removed=is_removed) for name in names or HOOKS]


def _plan(name: HookName, homes: Sequence[str], *, is_removed: bool) -> Hook:
    if name == "keep":
        steps = uninstall_steps(homes) if is_removed else install_steps(homes)
    elif name == "statusline":
        steps = remove_status_line_steps(homes) if is_removed else status_line_steps(homes)
    else:
        step = mcp_step(homes=homes, is_removed=is_removed)
        steps = [] if is_removed and step.state == "missing" else [step]
    return Hook(name, steps)


def change_hooks(hooks: Sequence[Hook], homes: Sequence[str] = (), *, is_removed: bool) -> None:
    """Carry out what was planned.

    Each is planned again first, because the one before may have changed the same file.
    """
    for hook in hooks:
        for step in _plan(hook.name, homes, is_removed=is_removed).steps:
            carry_out(step)


def temporary_place() -> str:
    """Return the cache from which turnlog runs; "" if it is installed permanently."""
    return passing_place(program())


def hooks_document(
    hooks: Sequence[Hook],
    homes: Sequence[str] = (),
    *,
    done: bool = False,
    is_install: bool = False,
) -> HooksDocument:
    """Return *hooks* as they are printed."""
    with_settings = is_install and any(hook.name == "mcp" for hook in hooks)
    return HooksDocument(
        hooks=[
            HookRow(name=hook.name, state=hook.state, steps=[_row(step) for step in hook.steps])
            for hook in hooks
        ],
        done=done,
        settings=client_settings(homes=homes) if with_settings else [],
    )


def _row(step: Step) -> StepRow:
    return row_from(
        StepRow,
        step,
        writes=[str(deed.path) for deed in step.deeds if isinstance(deed, Write)],
        removes=[str(deed.path) for deed in step.deeds if isinstance(deed, Remove)],
        runs=[deed.line for deed in step.deeds if isinstance(deed, Run)],
        notes=list(step.notes),
    )
