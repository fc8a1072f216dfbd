"""Keeping, offered where it is of use: the agents' own cleanup asks nobody."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WITHIN_DAYS = 7


def offer_keeping(out: Console, names: tuple[str, ...]) -> None:
    """Say in two lines what will be lost, or that it could be; nothing if all is kept."""
    from turnlog.cli.options import to_type
    from turnlog.cli.terminal import counted, safe
    from turnlog.formats import find_homes
    from turnlog.formats.kept_copies import kept_place
    from turnlog.keep.retention.agent_cleanup import is_cleaned, losses, period_of

    homes = [home for home in find_homes(names) if is_cleaned(home)]
    lost = [loss for loss in losses(homes, datetime.now(UTC), WITHIN_DAYS) if not loss.is_kept]
    command = to_type("turnlog keep", names)
    if lost:
        will = counted(len(lost), "log") + " will be deleted by Claude Code within"
        out.print(f"\n [yellow]![/] {will} {WITHIN_DAYS} days; this keeps a copy of all:")
        out.print(f"   {safe(command)}", soft_wrap=True)
    elif homes and not any(kept_place(home).is_dir() for home in homes):
        days = min(period_of(home).days for home in homes)
        out.print(f"\n [dim]hint: Claude Code deletes sessions after {days} days; to keep them:[/]")
        out.print(f"   {safe(command)}", soft_wrap=True)
