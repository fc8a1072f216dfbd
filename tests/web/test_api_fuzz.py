"""Requests that schemathesis makes up from the description under /api: none is a server error.

They have missing headers and wrong values, too. Every answer has a documented status
and shape.
"""

import subprocess
import sys

import pytest

from mcp_contexts import make_home
from web.served import served

pytestmark = pytest.mark.slow
# That valid values are accepted is not checked: to the description, a date is any text.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "missing_required_header",
)


def test_no_request_is_a_server_error(tmp_path):
    pytest.importorskip("schemathesis")
    make_home(tmp_path)
    with served(tmp_path) as server:
        program = "from schemathesis.cli import schemathesis; schemathesis()"
        done = subprocess.run(
            [
                *(sys.executable, "-c", program, "run", f"{server.address}/api/openapi.json"),
                *("--header", f"Cookie: {server.cookie}", "--header", f"Origin: {server.address}"),
                *("--checks", ",".join(CHECKS), "--max-examples", "50", "--no-color"),
                "--continue-on-failure",
            ],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    assert done.returncode == 0, done.stdout.decode()
