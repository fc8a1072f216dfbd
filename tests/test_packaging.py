"""The sdist and the wheel: what they contain, which version they have, and that they install."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from pathlib import Path

import pytest

from web.served import served

TREE = Path(__file__).parents[1]
SAMPLES = TREE / "samples" / "claude"
IGNORED = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", ".bench", ".faults", ".fuzz",
    "__pycache__", "_version.py", "build", "dist",
)  # fmt: skip


def copy_tree(to):
    """Copy the source tree, without git, as a downloaded archive has it."""
    shutil.copytree(TREE, to, ignore=IGNORED)
    return to


def tag(tree, name):
    for words in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "Begin"],
        ["tag", name],
    ):
        subprocess.run(["git", *words], cwd=tree, check=True)


def build(tree, *options):
    """Build without fetching anything: `make test` has installed the build backend."""
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith("SETUPTOOLS_SCM")
    }
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", tree / "dist", *options],
        cwd=tree,
        env=outside,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return tree / "dist"


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Return a directory with the sdist of a tagged tree, and the wheel built from that sdist."""
    tree = copy_tree(tmp_path_factory.mktemp("packaging") / "turnlog")
    tag(tree, "v1.2.3")
    return build(tree)


def test_the_version_is_the_git_tag(dist):
    assert sorted(os.listdir(dist)) == ["turnlog-1.2.3-py3-none-any.whl", "turnlog-1.2.3.tar.gz"]


def test_the_wheel_has_the_package_and_nothing_else(dist):
    with zipfile.ZipFile(dist / "turnlog-1.2.3-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
        version = wheel.read("turnlog/_version.py").decode()
    package = {
        path.relative_to(TREE / "src").as_posix()
        for path in (TREE / "src" / "turnlog").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"turnlog/py.typed", "turnlog/index/schema.sql"} <= package
    metadata = {name for name in names if name.startswith("turnlog-1.2.3.dist-info/")}
    assert names - metadata == package | {"turnlog/_version.py"}
    assert version.endswith('\n__version__ = "1.2.3"\n')


def test_the_sdist_has_what_the_tests_need(dist):
    with tarfile.open(dist / "turnlog-1.2.3.tar.gz") as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for name in ("SECURITY.md", "Makefile", ".ci/run", "tests/conftest.py", "docs/releasing.md"):
        assert name in names
    assert any(name.startswith("samples/claude/projects/") for name in names)


def test_a_tree_without_git_builds(tmp_path):
    dist = build(copy_tree(tmp_path / "turnlog"), "--wheel")
    assert os.listdir(dist) == ["turnlog-0.0+unknown-py3-none-any.whl"]


def test_a_tree_that_was_never_built_has_a_version(tmp_path):
    copy_tree(tmp_path / "turnlog")
    done = subprocess.run(
        [sys.executable, "-c", "import turnlog; print(turnlog.__version__)"],
        env={"PYTHONPATH": str(tmp_path / "turnlog" / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "0.0+unknown\n"


class Installed:
    """A turnlog in an environment of its own."""

    def __init__(self, place, wheel):
        venv.create(place / "venv", with_pip=True)
        self.place = place
        self.program = str(place / "venv" / "bin" / "turnlog")
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "TURNLOG_HOME": str(place / "own"),
            "PYTHONUTF8": "1",
            "TERM": "xterm-256color",
        }
        for arguments in (["install", "--quiet", wheel], ["check"]):
            done = subprocess.run(
                [place / "venv" / "bin" / "python", "-m", "pip", *arguments],
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stdout + done.stderr

    def run(self, *arguments, **options):
        done = subprocess.run(
            [self.program, *arguments],
            env=self.environ,
            cwd=self.place,
            capture_output=True,
            text=True,
            **options,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def reads_sessions(installed):
    assert installed.run("--version") == "turnlog 1.2.3\n"
    assert installed.run("--help").startswith("Usage: turnlog")
    assert "orchard" in installed.run("sessions", "--home", str(SAMPLES))
    assert "frost" in installed.run("search", "frost", "--home", str(SAMPLES))


def serves_pages(installed):
    shutil.copytree(SAMPLES, installed.place / "home")
    with served(installed.place, environ=installed.environ, program=[installed.program]) as server:
        answer = server.ask()
        assert answer.status == 200
        assert "orchard" in answer.text


def serves_agents(installed):
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    said = installed.run(
        "mcp", "--project", "all", "--home", str(SAMPLES), input=json.dumps(hello) + "\n"
    )
    server = json.loads(said.splitlines()[0])["result"]["serverInfo"]
    assert (server["name"], server["version"]) == ("turnlog", "1.2.3")


def shows_the_live_view(installed):
    ours, theirs = pty.openpty()
    command = [installed.program, "top", "--home", str(SAMPLES), "--since", "3650d"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=installed.environ
    ) as process:
        os.close(theirs)
        seen, end = b"", time.monotonic() + 180
        try:
            while b"orchard" not in seen:
                assert time.monotonic() < end, seen.decode(errors="replace")
                if select.select([ours], [], [], 1)[0]:
                    seen += os.read(ours, 65536)
        finally:
            process.kill()
            os.close(ours)


@pytest.mark.slow
def test_the_wheel_works_in_a_clean_environment(dist, tmp_path):
    """One test, so that the dependencies are installed once and not by every worker."""
    installed = Installed(tmp_path, dist / "turnlog-1.2.3-py3-none-any.whl")
    reads_sessions(installed)
    serves_pages(installed)
    serves_agents(installed)
    shows_the_live_view(installed)
