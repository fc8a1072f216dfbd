"""What a browser gets, word for word: every page with its headers, and every refusal.

The pages are in snapshots/, one file for each address, for people to read. After a change on
purpose: TURNLOG_UPDATE_SNAPSHOTS=1 pytest tests/web/test_snapshots.py, and read the difference.
"""

import json
import os
import re
from pathlib import Path

import pytest

from cli.screens import FIXED_CLOCK, FROST, HARVEST, NOW, STORM, Home
from snapshots import check, digest, html_lines, stable
from web.served import served

SNAPSHOTS = Path(__file__).parent / "snapshots"
KEYED = "77aa3d20-5c1e-4b7e-9d5a-2f6b1c0e8f44"
"""A session in whose text there is a secret."""
# What is asked, by the name of the file that it is compared with.
PAGES = {
    "sessions": [
        "/", "/?project=lighthouse&sort=tokens", "/?words=harvest&since=30d",
        "/?since=nov&project=nowhere", "/?offset=9999", "/?gone=1",
    ],
    "session": [f"/session/{FROST}", f"/session/{FROST}?at=2026-10-19T08:19:00Z&find=sprinkler"],
    "session-branches": [
        f"/session/{HARVEST[:4]}?thread=all",
        f"/session/{HARVEST}?thread=current",
    ],
    "session-damaged": [f"/session/{STORM}"],
    "session-secret": [f"/session/{KEYED}"],
    "search": [
        "/search",
        "/search?q=frost",
        "/search?q=tool:Bash&results=1&newest=1&project=orchard",
        "/search?q=zanzibar",
        "/search?q=since:someday",
    ],
    "costs": ["/costs?since=7d", "/costs?since=today&project=orchart", "/costs?by=colour",
        "/costs.csv"],
    "insights": ["/insights", "/insights?since=today&project=lighthouse", "/insights?since=never"],
    "now": ["/now"],
    "files": ["/files", "/files?path=/home/ada/orchard/frost.py"],
    "compare": [f"/compare?a={FROST}&b={HARVEST}"],
    "mistakes": [
        "/nowhere", "/favicon.ico", "/session/nobody", "/?offset=-1", "/?sort=colour",
        f"/session/{FROST}?thread=none", f"/session/{FROST}/export.exe",
    ],
    "exports": [f"/session/{KEYED}/export.{shape}" for shape in ("md", "html", "json")],
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    made = Home(tmp_path_factory.mktemp("web") / "ada")
    sessions = made.claude / "sessions"
    sessions.mkdir()
    # One session waits for its person, and the program of the other is gone.
    programs = [
        (os.getpid(), KEYED, {"status": "waiting", "waitingFor": "permission prompt"}),
        (2**22 + 1, FROST, {"status": "busy"}),
    ]
    for pid, session, doing in programs:
        at = int(NOW.timestamp() * 1000) - 60_000
        told = {"pid": pid, "sessionId": session, "cwd": "/home/ada/orchard", "statusUpdatedAt": at}
        (sessions / f"{pid}.json").write_text(json.dumps(told | doing))
    return made


@pytest.fixture(scope="module")
def server(home):
    with serving(home) as found:
        yield found


def serving(home, *options):
    return served(home.path, *options, home=".claude", prelude=FIXED_CLOCK, environ=home.environ())


def shown(home, server, path, **request):
    """Return what is asked and what comes of it: the status, the headers and the page."""
    answer = server.ask(path, **request)
    headers = "".join(
        f"{name}: {value}\n"
        for name, value in sorted(answer.headers.items())
        if name not in {"date", "content-length", "transfer-encoding"}
    )
    body = digest(answer.text) if "attachment" in headers else html_lines(answer.text)
    asked = " ".join(filter(None, (request.pop("method", "GET"), path, str(request or ""))))
    text = f"=== {asked}\n{answer.status}\n{headers}\n{body}\n"
    text = text.replace(server.token, "TOKEN").replace(f"turnlog-{server.port}", "turnlog-PORT")
    text = re.sub(r"/static/[0-9a-f]{16}/", "/static/VERSION/", text)
    text = re.sub(r'data-tag="[0-9a-f]{16}"', 'data-tag="TAG"', text)
    return stable(text, home.path)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_it_was(name, home, server):
    found = "\n".join(shown(home, server, path) for path in PAGES[name])
    check(SNAPSHOTS / f"{name}.txt", found)


def test_the_door_opens_and_refuses_as_it_did(home, server):
    parts = [
        shown(home, server, f"/search?q=frost&token={server.token}", cookie=""),
        shown(home, server, "/?token=wrong", cookie=""),
        shown(home, server, "/", cookie=""),
        shown(home, server, "/", cookie="turnlog-1=wrong"),
        shown(home, server, "/", Host="evil.example"),
        shown(home, server, "/", Origin="http://evil.example"),
        shown(home, server, "/", method="POST"),
        shown(home, server, "/", method="HEAD"),
    ]
    check(SNAPSHOTS / "door.txt", "\n".join(parts))


def test_a_masked_page_is_what_it_was(home):
    with serving(home, "--redact") as server:
        found = shown(home, server, f"/session/{KEYED}")
    check(SNAPSHOTS / "masked.txt", found)


def test_every_address_that_a_page_links_to_is_asked(home, server):
    page = server.ask("/").text
    linked = {each.partition("?")[0] for each in re.findall(r'href="(/[^"]*)"', page)}
    asked = {path.partition("?")[0] for paths in PAGES.values() for path in paths}
    bar = {each for each in linked if not each.startswith(("/session/", "/static/", "/health"))}
    assert bar <= asked
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == {*PAGES, "door", "masked"}
