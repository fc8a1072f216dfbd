"""Draw the picture of `turnlog top` that docs/guides/top.md shows.

    python docs/top_picture.py

The sessions are made up; everything else is the real screen.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import structs
from textual.app import App

from turnlog.cli.live.app import THEME, TopApp
from turnlog.cli.live.sessions_screen import SessionsScreen
from turnlog.costs.blocks import BlockRow
from turnlog.costs.ledger import sum_of
from turnlog.live.activity import Doing, LiveCall
from turnlog.live.sessions import LiveDay, LiveDocument, LiveSession
from turnlog.live.watch import LiveNews
from turnlog.sessions.state import State

PICTURE: Final = Path(__file__).parent / "images" / "top.svg"
_SIZE: Final = (100, 24)
_FONTS: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def _session(number: int, project: str, title: str, doing: Doing, **more: Any) -> LiveSession:
    now = datetime.now(UTC)
    seconds = more.pop("seconds", 5)
    usual: dict[str, Any] = {
        "id": f"{number}f0c{number:04}-aaaa-4aaa-8aaa-{number:012}",
        "project": f"/home/ada/{project}",
        "title": title,
        "started_at": now - timedelta(hours=1, minutes=number),
        "last_active_at": now - timedelta(seconds=seconds),
        "records": 120,
        "state": State.ACTIVE,
        "keeping": "kept",
        "home": "/home/ada/.claude",
        "layout": "claude",
        "path": "",
        "git_branch": "main",
        "pid": None,
        "is_running": True,
        "doing": doing,
        "since_at": now - timedelta(seconds=seconds),
        "waiting_for": None,
        "prompt": None,
        "calls": [],
        "subagents": 0,
        "model": "claude-opus-5-5",
        "context_window": 200_000,
    }
    return LiveSession(**usual | more)


def _call(tool: str, words: str, agent: str | None = None) -> LiveCall:
    return LiveCall(tool=tool, asked=words, at=None, subagent=agent)


def _document() -> LiveDocument:
    now = datetime.now(UTC)
    sessions = [
        _session(1, "payments-api", "Fix the flaky webhook test", Doing.WAITING, seconds=128,
                 waiting_for="permission prompt",
                 calls=[_call("Bash", "rm -rf build && make dist")], cost_usd="3.14",
                 context_tokens=86_000, cache_read=2_100_000),
        _session(2, "turnlog", "Index large logs without blocking", Doing.CALLING, seconds=34,
                 calls=[_call("Bash", "make test")],
                 cost_usd="7.02", context_tokens=131_000, cache_read=6_400_000),
        _session(3, "orchard", "Write the release notes for 2.4", Doing.CALLING, seconds=61,
                 calls=[_call("Task", "read"), _call("Grep", "BREAKING CHANGE in src", "a1")],
                 subagents=2, cost_usd="1.20", context_tokens=42_000, cache_read=800_000),
        _session(4, "site", "Sketch the new landing page", Doing.THINKING, seconds=8,
                 prompt="Try a quieter colour for the headline",
                 cost_usd="0.41", context_tokens=24_000, cache_read=190_000),
        _session(5, "site", "Resize the hero images", Doing.IDLE, seconds=400,
                 prompt="Make them half as wide",
                 cost_usd="0.38", context_tokens=31_000, cache_read=210_000),
        _session(6, "payments-api", "Upgrade to Python 3.14", Doing.QUIET, seconds=4_000,
                 is_running=False, prompt="And the build image, please",
                 cost_usd="5.77", context_tokens=174_000, cache_read=4_900_000),
        _session(7, "orchard", "Count the apples", Doing.CRASHED, seconds=9_000,
                 is_running=False, prompt="Only the red ones",
                 cost_usd="0.09", context_tokens=12_000, cache_read=12_000),
    ]  # fmt: skip
    start = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    block = BlockRow(
        **structs.asdict(sum_of([])) | {"cost_usd": "11.80"},
        start_at=start,
        end_at=start + timedelta(hours=5),
        first_at=start,
        last_at=now,
        is_active=True,
        models=[],
        usd_per_hour="5.09",
        projected_usd="25.46",
    )
    today = LiveDay(day=f"{now:%Y-%m-%d}", cost_usd="18.01")
    return LiveDocument(at=now, sessions=sessions, today=today, block=block)


class _Picture(App[None]):
    """The first screen, without anything that runs behind it."""

    TITLE = "turnlog top"
    CSS = TopApp.CSS
    ENABLE_COMMAND_PALETTE = False

    def on_mount(self) -> None:
        self.register_theme(THEME)
        self.theme = THEME.name
        self.push_screen(SessionsScreen())


async def draw() -> str:
    """Give the picture, without fonts from elsewhere."""
    app = _Picture()
    async with app.run_test(size=_SIZE) as pilot:
        await pilot.pause()
        assert isinstance(app.screen, SessionsScreen)
        app.screen.show_news(LiveNews(_document()))
        await pilot.pause()
        return _FONTS.sub("", app.export_screenshot(title="turnlog top"))


if __name__ == "__main__":
    PICTURE.write_text(asyncio.run(draw()), "utf-8")
