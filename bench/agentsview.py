"""agentsview, the peer of the index: fetched, run, counted and stopped.

It is fetched with pip into an environment of its own in `.bench/peers`, and its native program is
run by itself, without the script around it. It sees one home and nothing of this machine's user.

`agentsview sync` asks a server, which it starts if there is none and leaves running, watching the
files. It can also do the work itself and end. Both are measured: the second is its better side
where there is little to do.
"""

from __future__ import annotations

import glob
import os
import shutil
import sqlite3
import subprocess
import sys
from types import TracebackType
from typing import NamedTuple, Self

from .data import BASE
from .programs import Ran, run, run_watched

_WANTED = "agentsview==0.46.1"
_PLACE = os.path.join(BASE, "peers", "agentsview")
_PROGRAM = os.path.join(
    _PLACE, "lib", "python*", "site-packages", "agentsview", "bin", "agentsview"
)


class Held(NamedTuple):
    """What its database holds."""

    logs: int
    messages: int
    size_bytes: int


def fetch() -> str | None:
    """Give its native program; fetch it if need be. None if it cannot be had."""
    if not glob.glob(_PROGRAM):
        shutil.rmtree(_PLACE, ignore_errors=True)
        python = os.path.join(_PLACE, "bin", "python")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for command in ([sys.executable, "-m", "venv", _PLACE], [*install, _WANTED]):
            if subprocess.run(command, check=False).returncode:
                return None
    found = glob.glob(_PROGRAM)
    return os.path.abspath(found[0]) if found else None


class Agentsview:
    """It and a database of its own in *place*, made from the Claude home *home*."""

    def __init__(self, program: str, home: str, place: str) -> None:
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        self._sync, self._stop = [program, "sync"], [program, "daemon", "stop"]
        self._database = os.path.abspath(os.path.join(place, "data", "sessions.db"))
        self.environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.path.abspath(place),
            "CLAUDE_PROJECTS_DIR": os.path.abspath(os.path.join(home, "projects")),
            "AGENTSVIEW_DATA_DIR": os.path.dirname(self._database),
            "AGENTSVIEW_TELEMETRY_ENABLED": "false",
            "AGENTSVIEW_NO_BROWSER": "1",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def build(self) -> Ran:
        """Make its database anew, without a server, and tell the memory too."""
        shutil.rmtree(os.path.dirname(self._database), ignore_errors=True)
        return run_watched(self._sync, self.environ | {"AGENTSVIEW_NO_DAEMON": "1"})

    def sync_alone(self) -> float:
        """Sync without a server."""
        return run(self._sync, self.environ | {"AGENTSVIEW_NO_DAEMON": "1"})

    def sync_by_server(self) -> float:
        """Sync as it does unless told otherwise."""
        return run(self._sync, self.environ)

    def stop(self) -> None:
        """Stop its server, if one runs."""
        subprocess.run(self._stop, env=self.environ, check=False, capture_output=True)

    def held(self) -> Held:
        """Count what it holds; a peer that read nothing proves nothing."""
        (logs,) = self._ask("SELECT count(*) FROM sessions")
        (messages,) = self._ask("SELECT count(*) FROM messages_fts")
        files = glob.glob(f"{self._database}*")  # What waits in the write-ahead log counts too.
        return Held(logs, messages, sum(os.path.getsize(path) for path in files))

    def messages_with(self, word: str) -> int:
        """Count the messages that it finds by *word*."""
        return self._ask("SELECT count(*) FROM messages_fts WHERE messages_fts MATCH ?", word)[0]

    def _ask(self, query: str, *values: str) -> tuple[int, ...]:
        database = sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)
        try:
            found: tuple[int, ...] = database.execute(query, values).fetchone()
            return found
        finally:
            database.close()
