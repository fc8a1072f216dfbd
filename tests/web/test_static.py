"""Style sheets and scripts: kept forever by browsers, complete, and small."""

import gzip
import re
import urllib.request
from pathlib import Path

import pytest

from mcp_contexts import make_home
from turnlog.web import static_files
from turnlog.web.static_files import static_url
from web.served import served

STATIC = Path(static_files.__file__).with_name("static")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("static")
    make_home(tmp_path)
    with served(tmp_path) as found:
        yield found


def test_files_are_kept_and_compressed(server):
    url = static_url("layout.css")
    plain = server.ask(url)
    assert plain.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert plain.headers["content-type"].startswith("text/css")
    assert "content-encoding" not in plain.headers
    asked = urllib.request.Request(server.address + url)
    asked.add_header("Cookie", server.cookie)
    asked.add_header("Accept-Encoding", "gzip, br")
    with urllib.request.urlopen(asked) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(answer.read()).decode() == plain.text


@pytest.mark.parametrize(
    "path",
    ["/static/x/layout.css", "{}/../../app.py", "{}/..%2f..%2fapp.py", "{}/none.css", "{}/"],
)
def test_nothing_else_is_served(server, path):
    folder = static_url("layout.css").rpartition("/")[0]
    assert server.ask(path.format(folder)).status == 404


def test_a_missing_file_is_noticed_when_a_page_is_made():
    with pytest.raises(KeyError):
        static_url("none.css")


def test_scripts_import_what_exists_and_stay_small():
    scripts = list(STATIC.glob("*.js"))
    for script in scripts:
        for name in re.findall(r'from "\./([^"]+)"|import "\./([^"]+)"', script.read_text()):
            assert (STATIC / "".join(name)).is_file(), (script.name, name)
    compressed = sum(len(gzip.compress(path.read_bytes())) for path in scripts)
    assert compressed < 25_000


def test_every_answer_has_the_policy(server):
    for path in ("/", "/nowhere", static_url("layout.css"), "/api/projects"):
        policy = server.ask(path).headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "unsafe" not in policy
