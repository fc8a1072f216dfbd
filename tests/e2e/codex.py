"""The real `codex`, run offline in a directory and a home of its own."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

from e2e.program import Program

VERSIONS = ("0.169.0", "0.163.0", "0.133.0")
"""The newest, as npm has it, and older ones; the last writes in the old mode."""
PROGRAMS = {each: Path(sys.prefix) / "codex" / each / "codex" for each in VERSIONS}
CONFIG = """\
model = "gpt-5.5"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
"""
FREELY = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")


class Codex(Program):
    """The real `codex`."""

    def __init__(self, place, api, program):
        self.home = place / ".codex"
        self.api = api
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "CODEX_HOME": str(self.home),
            "FAKE_KEY": "none",
        }
        super().__init__(program, place / "orchard", environ)
        self.configure()

    def configure(self):
        """Write the settings of a new home."""
        self.home.mkdir(exist_ok=True)
        (self.home / "config.toml").write_text(CONFIG.format(url=self.api.url))

    def ask(self, prompt, *, resume=None):
        """Have a turn in a new session, or in the one to *resume*; return the session's id."""
        arguments = ["resume", resume, prompt] if resume else [prompt]
        done = self("exec", *FREELY, "--json", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        events = map(json.loads, done.stdout.splitlines())
        return next(each["thread_id"] for each in events if each["type"] == "thread.started")

    @contextlib.contextmanager
    def server(self):
        """Run the program's server, through which editors use it."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with self.started("app-server", **pipes) as process:
            yield Server(process)
            process.stdin.close()
            process.wait(timeout=60)


class Server:
    """What an editor says to the program, one JSON document a line."""

    def __init__(self, process):
        self._process = process
        self._calls = 0
        self.call("initialize", clientInfo={"name": "test", "version": "1"})
        self._send({"method": "initialized"})

    def call(self, method, **params):
        self._calls += 1
        self._send({"id": self._calls, "method": method, "params": params})
        answer = self._until(lambda said: said.get("id") == self._calls and "method" not in said)
        assert "result" in answer, answer
        return answer["result"]

    def fork(self, thread_id):
        return self.call("thread/fork", threadId=thread_id)["thread"]["id"]

    def ask(self, thread_id, prompt):
        self.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": prompt}])
        self._until(lambda said: said.get("method") == "turn/completed")

    def compact(self, thread_id):
        self.call("thread/compact/start", threadId=thread_id)
        self._until(lambda said: said.get("method") == "turn/completed")

    def _send(self, message):
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _until(self, is_it):
        return next(said for said in map(json.loads, self._process.stdout) if is_it(said))


def arrived(asked):
    """Give the prompts and answers in a request, without what the program puts before them."""
    return [
        each["text"]
        for item in asked["input"]
        if item["type"] == "message" and item["role"] != "developer"
        for each in item["content"]
        if not each["text"].startswith(("<", "# AGENTS.md"))
    ]
