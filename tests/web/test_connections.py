"""Connections that never ask anything, and requests with numbers that no page has."""

import socket
from contextlib import ExitStack

import pytest

from web.served import served

FEW_DESCRIPTORS = """\
import resource, turnlog.loopback
resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
turnlog.loopback.HEADER_SECONDS = 1.0"""
IMPATIENT = "import turnlog.loopback; turnlog.loopback.HEADER_SECONDS = 0.2"


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home" / "projects").mkdir(parents=True)
    return tmp_path


def test_connections_that_send_nothing_do_not_keep_others_out(home):
    with served(home, prelude=FEW_DESCRIPTORS) as server, ExitStack() as opened:
        for _ in range(150):
            opened.enter_context(connected(server)).sendall(b"GET / HTTP/1.1\r\n")
        assert server.ask().status == 200
    assert len(server.said.splitlines()) <= 3, server.said


def test_a_server_without_descriptors_says_so_once_and_recovers(home):
    no_cap = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\n"
        "import turnlog.loopback as loopback; loopback.most_connections = lambda: 1000\n"
        "loopback.HEADER_SECONDS = 1.0"
    )
    with served(home, prelude=no_cap) as server, ExitStack() as opened:
        for _ in range(40):
            opened.enter_context(connected(server))
        assert server.ask().status == 200  # Once the deadline has closed the others.
    assert server.said.count("cannot accept more connections") == 1
    assert len(server.said.splitlines()) <= 3, server.said


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0"])
def test_a_request_has_to_come_in_time(home, sent):
    with served(home, prelude=IMPATIENT) as server, connected(server) as half_open:
        half_open.sendall(sent)
        assert _closed(half_open)
        assert server.ask().status == 200


def test_sending_bit_by_bit_does_not_gain_time(home):
    with served(home, prelude=IMPATIENT) as server, connected(server) as slow:
        slow.settimeout(0.02)
        for _ in range(500):
            try:
                slow.sendall(b"X")
                if slow.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
        pytest.fail("the connection is still open")


def test_a_connection_may_wait_between_requests(home):
    with served(home) as server, connected(server) as kept:
        for _ in range(2):
            host = f"Host: 127.0.0.1:{server.port}\r\nCookie: {server.cookie}\r\n"
            kept.sendall(f"GET /favicon.ico HTTP/1.1\r\n{host}\r\n".encode())
            assert kept.recv(4096).startswith(b"HTTP/1.1 204")


@pytest.mark.parametrize("page", ["/", "/search", "/costs", "/insights", "/now", "/session/x"])
@pytest.mark.parametrize("number", ["9" * 5000, "-1", "1e5", "\u0661" * 500, "0x10"])
def test_numbers_that_nobody_can_mean_are_the_callers_mistake(home_served, page, number):
    from urllib.parse import quote

    asked = "&".join(
        f"{name}={quote(number)}" for name in ("offset", "limit", "since", "until", "at", "page")
    )
    answer = home_served.ask(f"{page}?q=x&{asked}")
    assert answer.status in (200, 400, 404)
    assert len(answer.text) < 200_000
    if page == "/":
        assert answer.status == 400


@pytest.fixture(scope="module")
def home_served(tmp_path_factory):
    directory = tmp_path_factory.mktemp("web")
    (directory / "home" / "projects").mkdir(parents=True)
    with served(directory) as server:
        yield server


def _closed(half_open):
    try:
        return half_open.recv(4096) == b""
    except ConnectionResetError:
        return True
