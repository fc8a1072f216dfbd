"""Over HTTP: on loopback, behind a token, and no page of anybody's gets in."""

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import anyio
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from mcp import Client
from mcp_contexts import ONE, ORCHARD, TWO, make_home
from turnlog.errors import UsageError
from turnlog.loopback import ServerAddress, listen, token_in
from turnlog.mcp import command
from turnlog.mcp.http import PORT, McpAuth
from turnlog.mcp.untrusted_text import unframed

INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
)


def server(tmp_path, *more, prelude=""):
    """Start the server over HTTP; the process runs *prelude* first."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{prelude}\nfrom turnlog.cli import main; main()", "mcp", "--http",
         "--port", "0", "--home", str(tmp_path / "home"), "--project", ORCHARD, *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, TURNLOG_HOME=str(tmp_path / "own")),
    )  # fmt: skip


@contextmanager
def started(tmp_path, *more, prelude=""):
    """Start the server over HTTP; give its port and what it said of its token."""
    with server(tmp_path, *more, prelude=prelude) as process:
        try:
            address = process.stderr.readline().decode()
            token = process.stderr.readline().decode().strip().removeprefix("token: ")
            found = re.fullmatch(r"listening on http://127\.0\.0\.1:(\d+)/mcp\n", address)
            assert found, address
            yield int(found[1]), token
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=20)
            assert (out, b"Traceback" in err, token.encode() in err) == (b"", False, False)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("http")
    make_home(tmp_path)
    with started(tmp_path) as (port, token):
        yield port, token


def post(port, token=None, **headers):
    """Send the first message of the protocol; give the status and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("POST", "/mcp", skip_host="Host" in headers)
    given = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(INITIALIZE)),
    }
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    for name, value in (given | headers).items():
        for each in value if isinstance(value, list) else [value]:
            connection.putheader(name, each)
    connection.endheaders(INITIALIZE.encode())
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


@pytest.mark.parametrize("lines", [1, 2])
def test_ctrl_c_as_soon_as_it_listens_ends_it_quietly(tmp_path, lines):
    make_home(tmp_path)
    with server(tmp_path) as process:
        try:
            said = [process.stderr.readline() for _ in range(lines)]
            assert said[0].startswith(b"listening on ")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    left = [line for line in err.split(b"\n") if line and not line.startswith(b"token: ")]
    assert (process.returncode, out, left) == (130, b"", [])


def test_the_official_client_with_the_token_is_let_in(served):
    port, token = served

    async def ask():
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http_client:
            transport = streamable_http_client(
                f"http://127.0.0.1:{port}/mcp", http_client=http_client
            )
            async with Client(transport) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                result = await client.call_tool("list_sessions", {})
                return names, json.loads(unframed(result.content[0].text))

    names, found = anyio.run(ask)
    assert "list_sessions" in names
    assert {each["id"] for each in found["sessions"]} == {ONE, TWO}


def test_a_plain_request_with_the_token_is_let_in(served):
    port, token = served
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert post(port, token, Host=host)[0] == 200
    assert post(port, token, Origin=f"http://127.0.0.1:{port}")[0] == 200


@pytest.mark.parametrize(
    "changed",
    [
        lambda _token: None,
        lambda _token: "",
        lambda token: "x" * len(token),
        lambda token: token[:-1],
        lambda token: token + "x",
        lambda token: token.swapcase(),
        lambda token: token[:-1] + "é",
    ],
)
def test_without_the_token_nothing_is_told(served, changed):
    port, token = served
    status, body, headers = post(port, changed(token))
    assert status == 401
    assert json.loads(body)["error"]["type"] == "wrong_token"
    assert headers["www-authenticate"] == "Bearer"
    assert token not in body


@pytest.mark.parametrize(
    "authorization", ["Basic {}", "{}", "bearer", "Token {}", ["Bearer {}", "Bearer {}"]]
)
def test_the_token_in_another_form_is_none(served, authorization):
    port, token = served
    many = authorization if isinstance(authorization, list) else [authorization]
    given = [each.format(token) for each in many]
    assert post(port, Authorization=given)[0] == 401


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1.evil.example:{}",
        "localhost.evil.example:{}",
        "127.0.0.1:{}.evil.example",
        "0.0.0.0:{}",
        "127.0.0.1:{}@evil.example",
        "",
        ["127.0.0.1:{}", "evil.example"],
    ],
)
def test_another_host_is_refused_with_the_token_as_well(served, host):
    port, token = served
    many = [each.format(port) for each in (host if isinstance(host, list) else [host])]
    try:
        status, body, _ = post(port, token, Host=many)
    except ConnectionResetError:
        status, body = 400, ""  # It was refused before all of it was read.
        assert len(many) > 1
    assert status in {400, 403}  # What is no request at all, uvicorn itself refuses.
    assert status == 400 or json.loads(body)["error"]["type"] == "wrong_host"


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://127.0.0.1:{}",
        "http://127.0.0.1",
        "http://localhost:1",
        "null",
        "file://",
        "http://127.0.0.1:{}.evil.example",
        ["http://127.0.0.1:{}", "http://evil.example"],
    ],
)
def test_another_origin_is_refused_with_the_token_as_well(served, origin):
    port, token = served
    many = [each.format(port) for each in (origin if isinstance(origin, list) else [origin])]
    status, body, _ = post(port, token, Origin=many)
    assert status == 403
    assert json.loads(body)["error"]["type"] == "wrong_origin"


def test_no_other_path_and_no_preflight_is_answered(served):
    port, _token = served
    for method, path in (("GET", "/"), ("OPTIONS", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp")):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request(method, path)
        answer = connection.getresponse()
        assert answer.status == 401
        assert "access-control-allow-origin" not in dict(answer.getheaders())
        connection.close()


def test_a_socket_of_another_kind_is_closed():
    sent = []

    async def send(message):
        sent.append(message)

    door = McpAuth(None, token="t" * 30, place=ServerAddress("127.0.0.1", 1))
    anyio.run(door, {"type": "websocket", "headers": []}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_it_listens_on_loopback_only():
    with listen(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_port_that_somebody_has_is_told():
    with listen(0) as listener:
        listener.listen()
        with pytest.raises(UsageError, match="cannot listen") as caught:
            listen(listener.getsockname()[1])
    assert "--port" in caught.value.hint


def test_the_token_file_is_made_once_and_for_its_owner_only(tmp_path):
    path = tmp_path / "token"
    token = token_in(path)
    assert len(token) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token_in(path) == token
    path.chmod(0o644)
    with pytest.raises(UsageError, match="others can read") as caught:
        token_in(path)
    assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize("said", ["", "short", "x" * 20, "a b" * 20, "é" * 30, "x" * 600, "\x00"])
def test_a_file_without_a_token_is_told(tmp_path, said):
    path = tmp_path / "token"
    path.write_text(said)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="no token"):
        token_in(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_token_file_of_another_user_is_refused(tmp_path):
    path = tmp_path / "token"
    token_in(path)
    os.chown(path, 12345, 12345)
    with pytest.raises(UsageError, match="another user") as caught:
        token_in(path)
    assert "of your own" in caught.value.hint


def test_a_token_file_that_cannot_be_is_told(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        token_in(tmp_path / "nowhere" / "token")
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(UsageError, match="no token"):
        token_in(tmp_path / "fifo")


def test_with_a_token_file_the_token_is_not_shown(tmp_path):
    make_home(tmp_path)
    path = tmp_path / "token"
    with started(tmp_path, "--token-file", str(path)) as (port, said):
        token = path.read_text().strip()
        assert said == f"as in {path}"
        assert post(port, token)[0] == 200
        assert post(port, said)[0] == 401


def test_the_port_in_the_help_is_the_port():
    assert command._PORT == PORT


def test_connections_that_send_nothing_do_not_keep_others_out(tmp_path):
    make_home(tmp_path)
    few = (
        "import resource, turnlog.loopback\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))\n"
        "turnlog.loopback.HEADER_SECONDS = 1.0"
    )
    with started(tmp_path, prelude=few) as (port, token), ExitStack() as opened:
        for _ in range(150):
            opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        assert post(port, token)[0] == 200
