"""The JSON under /api: the documents of the commands, and the only changes that pages may make."""

import http.client
import json
import os
import socket

import pytest

from insights.edited_home import edited_home
from mcp_contexts import ONE, SECRET, TWO, make_home
from turnlog.cli.app import run
from web.served import served


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("api")
    make_home(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def server(place):
    with served(place) as found:
        yield found


@pytest.fixture
def printed(place, capsys, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(place / "own"))

    def printed(*words):
        run([*words, "--json", "--home", str(place / "home")])
        return json.loads(capsys.readouterr().out)

    return printed


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/api/projects", ["projects"]),
        (f"/api/sessions/{ONE}", ["info", ONE]),
        ("/api/costs?by=model", ["cost", "--by", "model", "--since", "2000-01-01"]),
        ("/api/search?q=pears", ["search", "pears", "--limit", "20"]),
    ],
)
def test_a_document_is_what_the_command_prints(server, printed, path, words):
    answer = server.ask(path)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    found, wanted = json.loads(answer.text), printed(*words)
    assert found | {"since_at": None} == wanted | {"since_at": None}


def test_pages_of_sessions_make_up_the_whole_list(server):
    whole = json.loads(server.ask("/api/sessions").text)["sessions"]
    pieces, offset = [], 0
    while offset is not None:
        page = json.loads(server.ask(f"/api/sessions?limit=1&offset={offset}").text)
        pieces += page["sessions"]
        offset = page["next"]
    assert [each["id"] for each in pieces] == [each["id"] for each in whole]
    assert len(whole) > 1


def test_filters_keep_what_matches(server):
    def ids(query):
        return {each["id"] for each in json.loads(server.ask(query).text)["sessions"]}

    every = json.loads(server.ask("/api/sessions").text)["sessions"]
    assert ids("/api/sessions?tool=Bash") == {
        each["id"] for each in every if "Bash" in each["tools"]
    }
    assert ids("/api/sessions?errors=1") == {each["id"] for each in every if each["errors"]}
    assert ids("/api/sessions?words=apples+nowhere") == set()
    assert ids("/api/sessions?model=nothing") == set()


def test_edits_and_comparisons_are_those_of_the_pages(tmp_path):
    edited_home(tmp_path)
    with served(tmp_path) as server:
        found = json.loads(server.ask("/api/files?path=src/tree.py").text)
        assert {each["session"] for each in found["edits"]} == {ONE, TWO}
        assert all(each["path"].endswith("src/tree.py") for each in found["edits"])
        found = json.loads(server.ask(f"/api/compare?a={ONE}&b={TWO}").text)
        assert [found[side]["session"]["id"] for side in ("a", "b")] == [ONE, TWO]


def test_what_has_not_changed_is_not_sent_again(server):
    first = server.ask("/api/sessions")
    again = server.ask("/api/sessions", **{"If-None-Match": f'"x", {first.headers["etag"]}'})
    assert (again.status, again.text) == (304, "")
    assert server.ask("/api/sessions", **{"If-None-Match": '"x"'}).status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/sessions/nothing", 404),
        ("/api/sessions?offset=x", 400),
        ("/api/sessions?limit=-1", 400),
        ("/api/sessions?sort=color", 400),
        ("/api/search", 400),
        (f"/api/compare?a={ONE}", 400),
        (f"/api/compare?a={ONE}&b=nothing", 404),
        ("/api/files?since=nov", 400),
        ("/api/search?q=x&since=nov", 400),
        ("/api/costs?by=color", 400),
        *((f"/api/{each}?q=x&project=nowhere", 400) for each in ("search", "costs", "insights")),
        ("/api/sessions?project=nowhere", 400),
    ],
)
def test_mistakes_are_explained(server, path, status):
    answer = server.ask(path)
    assert answer.status == status
    problem = json.loads(answer.text)
    assert problem["error"]
    assert problem["hint"]
    assert os.getcwd() not in answer.text  # An unknown project is no directory of the server.


def test_the_description_names_every_path_and_resolves(server):
    found = json.loads(server.ask("/api/openapi.json").text)
    assert found["openapi"].startswith("3.1")
    text = json.dumps(found)
    for name in found["components"]["schemas"]:
        assert f"#/components/schemas/{name}" in text
    for path, described in found["paths"].items():
        if "get" in described:
            answer = server.ask(path.format(id=ONE) + f"?q=apples&a={ONE}&b={TWO}")
            assert answer.status == 200, path


def post(server, path, body, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    given = {
        "Cookie": server.cookie,
        "Origin": server.address,
        "X-Turnlog": "1",
        "Content-Type": "application/json",
        **headers,
    }
    sent = {name: value for name, value in given.items() if value is not None}
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), sent)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


LABELS = f"/api/sessions/{ONE}/labels"


def test_title_tags_and_pin_are_changed(tmp_path):
    make_home(tmp_path)
    with served(tmp_path) as server:
        wanted = {"title": "Apples <b>again</b>", "tags": ["fruit", "old"], "pinned": True}
        status, text = post(server, LABELS, wanted)
        assert status == 200, text
        done = json.loads(text)
        assert {name: done[name] for name in wanted} == wanted
        listed = json.loads(server.ask("/api/sessions?title=again").text)["sessions"]
        assert [(each["id"], each["tags"]) for each in listed] == [(ONE, ["fruit", "old"])]
        status, text = post(server, LABELS, {"tags": [], "pinned": False})
        done = json.loads(text)
        assert (done["title"], done["tags"], done["pinned"]) == (wanted["title"], [], False)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": None}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"X-Turnlog": None}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Cookie": ""}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_no_other_site_changes_anything(place, server, headers, status):
    log = next((place / "home").rglob(f"{ONE}.jsonl"))
    before = log.read_bytes()
    assert post(server, LABELS, {"title": "evil"}, **headers)[0] == status
    assert log.read_bytes() == before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff", 400),
        (b"[]", 400),
        ({"path": "/etc"}, 400),
        ({"pinned": "yes"}, 400),
        ({"tags": [""]}, 400),
        (b'"' + b"x" * 70_000 + b'"', 413),
    ],
)
def test_a_wrong_body_changes_nothing(place, server, body, status):
    log = next((place / "home").rglob(f"{ONE}.jsonl"))
    before = log.read_bytes()
    assert post(server, LABELS, body)[0] == status
    assert log.read_bytes() == before


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_no_other_method(server, method):
    answer = server.ask("/", method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert server.ask(LABELS, method=method).status == 405


def test_read_only(tmp_path):
    make_home(tmp_path)
    with served(tmp_path, "--read-only") as server:
        assert post(server, LABELS, {"title": "no"})[0] == 405


def test_masked(tmp_path):
    make_home(tmp_path)
    with served(tmp_path, "--redact") as server:
        for path in (
            "/api/sessions",
            f"/api/search?q={SECRET.secret}",
            "/api/projects",
            "/api/now",
            "/api/files",
            f"/api/compare?a={ONE}&b={TWO}",
        ):
            found = server.ask(path)
            assert found.status == 200
            assert SECRET.secret not in found.text


def test_a_change_is_announced_and_the_server_still_ends(tmp_path):
    make_home(tmp_path)
    with (
        served(tmp_path) as server,
        socket.create_connection(("127.0.0.1", server.port)) as listener,
    ):
        head = f"Host: 127.0.0.1:{server.port}\r\nCookie: {server.cookie}\r\n\r\n"
        listener.sendall(f"GET /events HTTP/1.1\r\n{head}".encode())
        stream = listener.makefile("rb")

        def message():
            for line in stream:
                if line.startswith(b"data: "):
                    return json.loads(line.removeprefix(b"data: "))
            raise AssertionError("the stream ended")

        first = message()
        assert first["waiting"] >= 0
        log = next((tmp_path / "home").rglob(f"{ONE}.jsonl"))
        with log.open("ab") as file:
            file.write(b'{"type":"note"}\n')
        assert message()["number"] > first["number"]
        # `served` asserts that the open stream does not keep the server from ending.
