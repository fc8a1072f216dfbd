"""Many log at once: tasks, providers, processes. Nothing is lost and a session stays one thread."""

import json
import resource
import subprocess
import sys
import time

import anyio
import pytest

import turnlog
from turnlog.errors import UsageError
from turnlog.integrations.provider import ChatMessage, ClaudeStorageProvider
from turnlog.storage.reader import Placed, read_log


@pytest.fixture(params=["asyncio", "trio"])
def run(request):
    return lambda work: anyio.run(work, backend=request.param)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    return tmp_path / "home"


def thread(home, session_id):
    """The words of a session's thread; fails if anything stands beside it or is damaged."""
    session = turnlog.open(home).session(session_id)
    assert turnlog.validate(session.path).is_valid
    assert not session.tree.gaps
    assert not session.tree.branchings
    assert not session.tree.replaced
    return [record.text for _, record in session.records(session.whole_thread)]


def test_tasks_log_to_one_session(run, home, tmp_path):
    async def use():
        async with ClaudeStorageProvider(home) as provider, anyio.create_task_group() as group:
            for number in range(40):
                message = ChatMessage.prompt(f"{number}")
                group.start_soon(provider.log_message, tmp_path, message, "s-1")

    run(use)
    assert sorted(thread(home, "s-1"), key=int) == [str(number) for number in range(40)]


def test_one_task_after_another_keeps_its_order(run, home, tmp_path):
    async def talk(provider, who):
        for number in range(12):
            await provider.log_message(tmp_path, ChatMessage.prompt(f"{who} {number}"), "s-1")

    async def use():
        async with ClaudeStorageProvider(home) as provider, anyio.create_task_group() as group:
            for who in "abc":
                group.start_soon(talk, provider, who)

    run(use)
    words = thread(home, "s-1")
    for who in "abc":
        mine = [each for each in words if each.startswith(who)]
        assert mine == [f"{who} {number}" for number in range(12)]


def test_more_sessions_than_open_logs(home, tmp_path):
    provider = ClaudeStorageProvider(home, open_logs=2)

    async def use():
        async with provider, anyio.create_task_group() as group:
            for number in range(60):
                message = ChatMessage.prompt(f"{number}")
                group.start_soon(provider.log_message, tmp_path, message, f"s-{number % 6}")
        assert provider._writers.open == 0

    anyio.run(use)
    for name in range(6):
        found = sorted(map(int, thread(home, f"s-{name}")))
        assert found == list(range(name, 60, 6))
        assert turnlog.open(home).session(f"s-{name}").metadata.ended_at is not None


def test_the_same_message_logged_by_many_is_there_once(home, tmp_path):
    message = ChatMessage.prompt("Only once")

    async def use():
        async with anyio.create_task_group() as group:
            for _ in range(8):
                provider = ClaudeStorageProvider(home)
                group.start_soon(provider.log_message, tmp_path, message, "s-1")

    anyio.run(use)
    assert thread(home, "s-1") == ["Only once"]


def test_closing_while_others_log_loses_nothing(home, tmp_path):
    provider = ClaudeStorageProvider(home)

    async def use():
        async with provider, anyio.create_task_group() as group:
            for number in range(30):
                message = ChatMessage.prompt(f"{number}")
                group.start_soon(provider.log_message, tmp_path, message, f"s-{number % 2}")
                if number % 5 == 0:
                    group.start_soon(provider.aclose)

    anyio.run(use)
    assert provider._writers.open == 0
    for name in range(2):
        assert sorted(map(int, thread(home, f"s-{name}"))) == list(range(name, 30, 2))
        life = turnlog.open(home).session(f"s-{name}").facts.life
        assert (life.writers, life.crashed) == ([], False)


def test_a_call_that_was_cancelled_may_be_repeated(run, home, tmp_path):
    said = [ChatMessage.prompt(f"{number}") for number in range(20)]

    async def use():
        provider = ClaudeStorageProvider(home)
        for number, message in enumerate(said):
            with anyio.move_on_after(0.0005 * (number % 5)):
                await provider.log_message(tmp_path, message, "s-1")
            await provider.log_message(tmp_path, message, "s-1")
        await provider.aclose()

    run(use)
    assert thread(home, "s-1") == [each.text for each in said]


def test_of_many_sessions_that_want_one_agent_one_has_it(home, tmp_path):
    refused = []

    async def ask(number):
        provider = ClaudeStorageProvider(home)
        try:
            message = ChatMessage.prompt(f"{number}")
            await provider.log_message(tmp_path, message, f"s-{number}", "a1")
        except UsageError as error:
            refused.append((number, error))

    async def use():
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(ask, number)

    anyio.run(use)
    assert len(refused) == 7
    assert all("belongs to session s-" in error.message for _, error in refused)
    (log,) = home.rglob("agent-a1.jsonl")
    owners = {item.record.session_id for item in read_log(log)}
    assert owners == {f"s-{next(iter(set(range(8)) - {number for number, _ in refused}))}"}
    assert len(list((home / "todos").iterdir())) == 1


TALKER = """
import sys, anyio
from turnlog.integrations.provider import ChatMessage, ClaudeStorageProvider

home, project, who, count = sys.argv[1:]

async def talk():
    provider = ClaudeStorageProvider(home)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        words = f"{who} {number}"
        await provider.log_message(project, ChatMessage(role="user", content=words), "s-1")
        await provider.log_message(project, ChatMessage(role="user", content=words), "s-1", "a1")
        print(words, flush=True)

anyio.run(talk)
"""


def talker(home, project, who, count):
    started = subprocess.Popen(
        [sys.executable, "-c", TALKER, str(home), str(project), who, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout.readline() == "ready\n"
    return started


def test_four_processes_log_to_one_session_and_one_is_killed(home, tmp_path):
    names = ("north", "east", "south", "west")
    counts = dict.fromkeys(names, 25) | {"west": 10_000}
    talkers = {name: talker(home, tmp_path, name, counts[name]) for name in names}
    for each in talkers.values():
        each.stdin.write("go\n")
        each.stdin.flush()
    killed = talkers["west"]
    acknowledged = [killed.stdout.readline() for _ in range(5)]
    time.sleep(0.05)
    killed.kill()
    acknowledged += killed.stdout.readlines()
    told = {"west": [line.strip() for line in acknowledged if line.endswith("\n")]}
    for name in names[:3]:
        told[name] = talkers[name].communicate(timeout=60)[0].splitlines()
        assert talkers[name].returncode == 0
    killed.communicate()
    words = thread(home, "s-1")
    for name in names:
        mine = [each for each in words if each.startswith(name)]
        assert mine[: len(told[name])] == told[name]
        assert len(mine) == counts[name] if name != "west" else len(mine) <= len(told[name]) + 1

    async def read():
        provider = ClaudeStorageProvider(home)
        await provider.log_message(tmp_path, ChatMessage.prompt("Go on"), "s-1")
        messages = await provider.get_session_messages(tmp_path, "s-1")
        agents = await provider.get_session_messages(tmp_path, "s-1", agent_id="a1")
        return messages, agents

    messages, agents = anyio.run(read)
    assert [each.text for each in messages] == [*words, "Go on"]
    for name in names:
        mine = [each.text for each in agents if each.text.startswith(name)]
        assert mine[: len(told[name])] == told[name]


FULL = """
import resource, sys, anyio
from turnlog.integrations.provider import ChatMessage, ClaudeStorageProvider
from turnlog.errors import StorageFull

home, project = sys.argv[1:]

async def talk():
    provider = ClaudeStorageProvider(home)
    await provider.log_message(project, ChatMessage.prompt("Before"), "s-1")
    message = ChatMessage.prompt("x" * 20_000)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, hard))
    for _ in range(2):
        try:
            await provider.log_message(project, message, "s-1")
        except StorageFull as error:
            print(error.hint)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await provider.log_message(project, message, "s-1")
    await provider.log_message(project, ChatMessage.prompt("After"), "s-1")
    await provider.aclose()

anyio.run(talk)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no such limit here")
def test_after_a_full_disk_it_goes_on(home, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(home), str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert [each[:6] for each in thread(home, "s-1")] == ["Before", "xxxxxx", "After"]


def test_a_log_in_which_others_write_rubbish_is_gone_on_with(home, tmp_path):
    async def use():
        provider = ClaudeStorageProvider(home)
        first = ChatMessage.prompt("One")
        await provider.log_message(tmp_path, first, "s-1")
        (log,) = home.rglob("s-1.jsonl")
        with log.open("ab") as file:
            file.write(b'{"type": "user", "uuid": "torn", "messa\x00\x00\xff')
        await provider.log_message(tmp_path, ChatMessage.prompt("Two"), "s-1")
        found = await provider.get_session_messages(tmp_path, "s-1")
        assert [each.text for each in found] == ["One", "Two"]
        assert found[1].parent_id == first.id
        return log

    log = anyio.run(use)
    lines = log.read_bytes().split(b"\n")
    assert sum(b"torn" in line for line in lines) == 1
    whole = [item for item in read_log(log) if isinstance(item, Placed)]
    assert all(json.loads(item.record.raw) for item in whole)
