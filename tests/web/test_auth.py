"""Who may look at the pages: whoever was told the token, here, and nobody else's page."""

import re
from html import unescape

import anyio
import pytest

from mcp_contexts import make_home
from turnlog.cli.app import run
from turnlog.loopback import ServerAddress
from turnlog.web import command
from turnlog.web.auth import WebAuth
from web.served import served


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("door")
    make_home(tmp_path)
    with served(tmp_path) as found:
        yield found


def sent_to(answer):
    """Give where the page leads that welcomes a visitor."""
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', answer.text)
    return unescape(found[1])


def test_the_address_that_is_shown_gives_a_cookie_for_the_token(server):
    answer = server.ask(f"/search?q=a%26b&token={server.token}", cookie="")
    assert answer.status == 200
    assert sent_to(answer) == "/search?q=a%26b"
    cookie, *rules = answer.headers["set-cookie"].split("; ")
    assert cookie == server.cookie
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(rules)
    assert server.ask("/", cookie=cookie).status == 200
    for others in ("other=1", 'state={"a": [1, "b"]}; x', "=;;,", "turnlog-1=no"):
        assert server.ask("/", cookie=f"{others}; {cookie}; more=2").status == 200


@pytest.mark.parametrize("path", ["//evil.example/x", "///evil.example", "/\\evil.example"])
def test_nobody_is_sent_to_another_host(server, path):
    answer = server.ask(f"{path}?token={server.token}", cookie="")
    assert re.match(r"/[^/\\]", sent_to(answer))


def test_a_ticket_is_good_for_one_visit():
    sent = []

    async def send(message):
        sent.append(message)

    def visit(token):
        sent.clear()
        host = [(b"host", b"127.0.0.1:1")]
        asked = {"raw_path": b"/", "query_string": f"token={token}".encode(), "headers": host}
        scope = {"type": "http", "method": "GET", **asked}
        anyio.run(door, scope, None, send)
        return sent[0]["status"]

    door = WebAuth(None, token="t" * 30, place=ServerAddress("127.0.0.1", 1))
    ticket, other = door.ticket(), door.ticket()
    assert visit(ticket) == 200
    assert visit(ticket) == 401
    assert visit("t" * 30) == 200
    assert visit(other) == 200
    assert dict(sent[0]["headers"])[b"set-cookie"].startswith(b"turnlog-1=" + b"t" * 30 + b";")


@pytest.mark.parametrize("path", ["/", "/search?q=apples", "/nowhere", "/session/latest"])
@pytest.mark.parametrize(
    "cookie", ["", "turnlog=x", "turnlog-{port}=", "turnlog-{port}=wrong", "=;"]
)
def test_without_the_cookie_nothing_is_told(server, path, cookie):
    answer = server.ask(path, cookie=cookie.format(port=server.port))
    assert answer.status == 401
    assert "shown when turnlog web started" in answer.text
    assert "apples" not in answer.text


@pytest.mark.parametrize("token", ["", "wrong", "é"])
def test_another_token_is_none(server, token):
    assert server.ask(f"/?token={token.encode().hex()}", cookie="").status == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "[::1]:{port}"])
def test_a_request_to_another_name_is_refused(server, host):
    assert server.ask("/", Host=host.format(port=server.port)).status == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_a_page_of_another_origin_may_not_ask(server, origin):
    assert server.ask("/", Origin=origin).status == 403
    assert server.ask("/", Origin=server.address).status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(server, method):
    assert server.ask("/", method=method).status == 405


def test_every_answer_is_private_and_not_to_be_framed(server):
    for path in ("/", "/search?q=apples", "/nowhere", "/session/latest", "/favicon.ico"):
        headers = server.ask(path).headers
        assert headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_nothing_but_http_is_answered():
    sent = []

    async def send(message):
        sent.append(message)

    door = WebAuth(None, token="t" * 30, place=ServerAddress("127.0.0.1", 1))
    anyio.run(door, {"type": "websocket", "headers": []}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_a_token_file_lets_the_address_stay(tmp_path):
    make_home(tmp_path)
    file = str(tmp_path / "token")
    with served(tmp_path, "--token-file", file) as first:
        pass
    with served(tmp_path, "--token-file", file) as second:
        assert first.token == second.token


def test_the_help_says_where_it_listens(capsys):
    assert run(["web", "--help"]) == 0
    assert str(command.PORT) in capsys.readouterr().out
