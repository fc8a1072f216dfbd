"""The real `claude` and `codex`, run offline in a directory and a home of their own."""

import contextlib
import copy
import os
import subprocess
import sys
from pathlib import Path

import claude_agent_sdk

import turnlog

PROGRAM = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
# Older versions resume other records than the newest; `make claudes` fetches these two.
PROGRAMS = {"newest": PROGRAM} | {
    version: Path(sys.prefix) / "claude" / version / "claude" for version in ("2.1.51", "2.1.91")
}
PATIENCE_SECONDS = 120


class Program:
    """An agent that runs in a project and with an environment of its own; call it to wait."""

    def __init__(self, program, project, environ):
        self.program, self.project, self.environ = program, project, environ
        project.mkdir(exist_ok=True)

    def __call__(self, *arguments):
        return subprocess.run(
            [self.program, *arguments],
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )

    @contextlib.contextmanager
    def started(self, *arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL):
        """Run it beside the test; it does not outlive the ``with`` block."""
        with subprocess.Popen(
            [self.program, *arguments],
            cwd=self.project,
            env=self.environ,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


class Claude(Program):
    """The real `claude`."""

    def __init__(self, place, api, program=PROGRAM):
        self.home = place / "home"
        self.store = turnlog.open(self.home)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "CLAUDE_CONFIG_DIR": str(self.home),
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",
        }
        super().__init__(program, place / "orchard", environ)

    def at(self, home):
        """Give the same program with another home."""
        other = copy.copy(self)
        other.home = home
        other.store = turnlog.open(home)
        other.environ = self.environ | {"CLAUDE_CONFIG_DIR": str(home)}
        return other
