"""The real `claude`, the API that it talks to, and the official SDK."""

import claude_agent_sdk
import pytest

from e2e.fake_api import FakeApi
from e2e.program import PROGRAM, PROGRAMS, Claude
from sampling import sampled


@pytest.fixture
def api():
    with FakeApi() as server:
        yield server


@pytest.fixture
def claude(api, tmp_path):
    if not PROGRAM.exists():
        pytest.skip("no `claude` for this platform")
    return Claude(tmp_path, api)


@pytest.fixture(params=sampled(PROGRAMS, len(PROGRAMS)))
def any_claude(request, api, tmp_path):
    """The program in each of three versions."""
    program = PROGRAMS[request.param]
    if not program.exists():
        pytest.skip(f"claude {request.param} is not here: `make claudes` fetches it")
    return Claude(tmp_path, api, program)


@pytest.fixture
def read_by_sdk(claude, monkeypatch):
    """Give the uuids of a session's messages as the official SDK reads them."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(claude.home))

    def read(session_id):
        return [message.uuid for message in claude_agent_sdk.get_session_messages(session_id)]

    return read
