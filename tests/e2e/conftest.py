"""The real `claude` and `codex`, the APIs that they talk to, and the official SDK."""

import claude_agent_sdk
import pytest

from e2e import codex as codexes
from e2e.fake_api import FakeApi
from e2e.fake_responses import FakeResponses
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


@pytest.fixture
def responses():
    with FakeResponses() as server:
        yield server


@pytest.fixture
def codex(responses, tmp_path):
    """The newest version that is here."""
    program = next((each for each in codexes.PROGRAMS.values() if each.exists()), None)
    if program is None:
        pytest.skip("no codex is here: `make codexes` fetches it")
    return codexes.Codex(tmp_path, responses, program)


@pytest.fixture(params=codexes.VERSIONS)
def any_codex(request, responses, tmp_path):
    """The program in each of three versions."""
    program = codexes.PROGRAMS[request.param]
    if not program.exists():
        pytest.skip(f"codex {request.param} is not here: `make codexes` fetches it")
    return codexes.Codex(tmp_path, responses, program)
