"""A server of pages, started as a person starts it, and what it answers."""

import http.client
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Served:
    """A server that runs: its port, its token, and a way to ask it."""

    def __init__(self, port, token):
        self.port, self.token = port, token
        self.cookie = f"turnlog-{port}={token}"
        self.address = f"http://127.0.0.1:{port}"

    def ask(self, path="/", *, method="GET", cookie=None, **headers):
        """Ask for a page, with the cookie unless another is given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host="Host" in headers)
        given = {"Cookie": self.cookie if cookie is None else cookie, **headers}
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders()
        found = connection.getresponse()
        text = found.read().decode(errors="replace")
        told = {name.lower(): value for name, value in found.getheaders()}
        connection.close()
        return Answer(found.status, told, text)


@contextmanager
def served(tmp_path, *more, home="home", prelude="", environ=None, program=()):
    """Serve a home until the test is done with it; the process runs *prelude* first.

    *program* is the command line of another turnlog.
    """
    script = f"{prelude}\nfrom turnlog.cli import main; main()"
    words = program or (sys.executable, "-c", script)
    with subprocess.Popen(
        [*words, "web", "--port", "0", "--home", str(tmp_path / home), *more],
        bufsize=0,  # What follows the first line is left for the end.
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ or dict(os.environ, TURNLOG_HOME=str(tmp_path / "own"), TZ="UTC"),
    ) as process:
        try:
            line = process.stderr.readline().decode()
            found = re.fullmatch(
                r"turnlog is at http://127\.0\.0\.1:(\d+)/\?token=([\w-]+)\n", line
            )
            assert found, line + process.stderr.read().decode()
            server = Served(int(found[1]), found[2])
            yield server
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
            server.said = err.decode()
            assert (process.returncode, out) == (130, b"")
            assert b"Traceback" not in err
        finally:
            process.kill()
