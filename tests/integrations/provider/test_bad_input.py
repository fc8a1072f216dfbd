"""Whatever is asked of the provider that cannot be meant is a typed error that says what to do."""

import json
from datetime import UTC, datetime
from functools import partial

import anyio
import pytest

from turnlog import build
from turnlog.errors import InvalidId, NotFound, NotSerialisable, TurnlogError, UsageError
from turnlog.integrations.provider import ChatMessage, ClaudeStorageProvider

HELLO = ChatMessage(role="user", content="Hello", id="0b6e0cde-7d0f-4d7e-9a55-3c1d2e4f5a6b")
BAD_IDS = [
    "",
    ".",
    "..",
    "../../etc/passwd",
    "a/b",
    "a\\b",
    "/absolute",
    "a\0b",
    "line\nbreak",
    "C:drive",
    "NUL",
    "x" * 200,
    "-begins-so",
    "2026-01-01",
    "agent-a1",
    None,
    5,
    b"bytes",
]
BAD_AGENTS = ["", "..", "a/b", "../x", "a\0", "x" * 200, "con", 5, b"a1"]
BAD_LIMITS = [-1, -(10**9), 1.5, "5", True]
BAD_PATHS = ["", "a\0b", "\ud800", None, 5, b"bytes"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path):
    return str(tmp_path / "orchard")


@pytest.fixture
def provider(home, project):
    made = ClaudeStorageProvider(home)
    ask(made.log_message, project, HELLO, "s-1")
    return made


def ask(work, *args, **kwargs):
    return anyio.run(partial(work, *args, **kwargs))


def refused(kind, work, *args, **kwargs):
    with pytest.raises(kind) as raised:
        ask(work, *args, **kwargs)
    assert isinstance(raised.value, TurnlogError)
    assert raised.value.hint
    assert len(str(raised.value)) < 600
    return raised.value


def files(home):
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize("bad", BAD_IDS, ids=repr)
def test_ids_that_could_leave_their_directory(provider, home, project, tmp_path, bad):
    before, around = files(home), sorted(tmp_path.iterdir())
    for work in (
        partial(provider.log_message, project, HELLO, bad),
        partial(provider.get_session_messages, project, bad),
        partial(provider.fork_conversation, project, bad),
        partial(provider.get_agents, project, bad),
        *(
            ()
            if bad is None  # Then all sessions are meant, or a new id.
            else (
                partial(provider.get_message, project, HELLO.id, bad),
                partial(provider.get_message_ancestry, project, HELLO.id, bad),
                partial(provider.get_counts, project, bad),
                partial(provider.get_statistics, project, bad),
                partial(provider.log_command, project, "typed", bad),
                partial(provider.get_commands, project, bad),
                partial(provider.fork_conversation, project, "s-1", new_session_id=bad),
            )
        ),
    ):
        # An id that is safe, and only names another kind of file, is simply not there.
        kind = (InvalidId, NotFound) if bad in ("2026-01-01", "agent-a1") else InvalidId
        if work.func in (provider.log_command, provider.get_commands) and kind is not InvalidId:
            continue
        refused(kind, work)
    assert files(home) == before
    assert sorted(tmp_path.iterdir()) == around


@pytest.mark.parametrize("bad", BAD_AGENTS, ids=repr)
def test_agents_that_could_leave_their_directory(provider, home, project, bad):
    before = files(home)
    refused(InvalidId, provider.log_message, project, HELLO, "s-1", bad)
    refused(InvalidId, provider.get_session_messages, project, "s-1", agent_id=bad)
    assert files(home) == before


@pytest.mark.parametrize("bad", BAD_PATHS, ids=repr)
def test_paths_that_name_no_project(provider, home, bad):
    before = files(home)
    for work in (
        partial(provider.log_message, bad, HELLO, "s-1"),
        partial(provider.get_sessions, bad),
        partial(provider.get_session_messages, bad, "s-1"),
        partial(provider.get_agents, bad, "s-1"),
        partial(provider.get_message, bad, HELLO.id),
        partial(provider.get_message_ancestry, bad, HELLO.id),
        partial(provider.fork_conversation, bad, "s-1"),
        partial(provider.reset, bad),
        partial(provider.get_counts, bad),
        partial(provider.get_statistics, bad),
        partial(provider.log_command, bad, "typed"),
        partial(provider.get_commands, bad),
    ):
        refused(UsageError, work)
    assert files(home) == before
    with pytest.raises(UsageError):
        ClaudeStorageProvider(bad)


@pytest.mark.parametrize("bad", BAD_LIMITS, ids=repr)
def test_limits_that_cannot_be_meant(provider, project, bad):
    refused(UsageError, provider.get_session_messages, project, "s-1", bad)
    refused(UsageError, provider.get_commands, project, limit=bad)


def test_limits_that_are_more_than_there_is(provider, project):
    assert len(ask(provider.get_session_messages, project, "s-1", 10**9)) == 1
    assert len(ask(provider.get_session_messages, project, "s-1", 10**30)) == 1
    assert ask(provider.get_commands, project, limit=10**30) == []


@pytest.mark.parametrize("unknown", ["nobody", "s", "s-", "latest", "s-11"])
def test_sessions_that_are_not_there(provider, project, unknown):
    for work in (
        partial(provider.get_session_messages, project, unknown),
        partial(provider.get_session_messages, project, unknown, agent_id="a1"),
        partial(provider.fork_conversation, project, unknown),
        partial(provider.get_agents, project, unknown),
        partial(provider.get_message, project, HELLO.id, unknown),
        partial(provider.get_counts, project, unknown),
        partial(provider.get_statistics, project, unknown),
    ):
        assert unknown in str(refused(NotFound, work))


@pytest.mark.parametrize("unknown", ["nothing", HELLO.id[:8], "../../x", "x" * 100_000, "\ud800"])
def test_messages_that_are_not_there(provider, home, project, unknown):
    before = files(home)
    refused(NotFound, provider.get_message, project, unknown)
    refused(NotFound, provider.get_message, project, unknown, "s-1")
    refused(NotFound, provider.get_message_ancestry, project, unknown)
    refused(NotFound, provider.fork_conversation, project, "s-1", unknown)
    refused(
        NotFound, provider.log_message, project, ChatMessage.prompt("x", parent_id=unknown), "s-1"
    )
    assert {path: said for path, said in files(home).items() if path in before} == before
    assert set(files(home)) == set(before)


@pytest.mark.parametrize("bad", ["", None, 5], ids=repr)
def test_messages_without_a_name(provider, project, bad):
    refused(UsageError, provider.get_message, project, bad)
    refused(UsageError, provider.get_message_ancestry, project, bad)


def test_a_session_of_another_project(provider, project, tmp_path):
    elsewhere = str(tmp_path / "elsewhere")
    error = refused(NotFound, provider.get_session_messages, elsewhere, "s-1")
    assert "it is in" in str(error)
    error = refused(UsageError, provider.log_message, elsewhere, HELLO, "s-1")
    assert "does not belong to" in str(error)
    assert ask(provider.get_sessions, elsewhere) == []


def test_an_agent_that_is_not_there(provider, project):
    error = refused(NotFound, provider.get_session_messages, project, "s-1", agent_id="a9")
    assert "agent a9" in str(error)


def test_a_record_that_is_no_message(provider, home, project):
    (log,) = home.rglob("s-1.jsonl")
    with log.open("ab") as file:
        file.write(b'{"type":"attachment","uuid":"att","attachment":{"type":"x"}}\n')
    assert "attachment" in str(refused(NotFound, provider.get_message, project, "att"))


@pytest.mark.parametrize(
    "said",
    [{"role": "user", "content": "Hello"}, "Hello", None, build.user("Hello")],
    ids=repr,
)
def test_what_is_no_message(provider, home, project, said):
    before = files(home)
    error = refused(UsageError, provider.log_message, project, said, "s-1")
    assert "ChatMessage" in error.hint
    assert files(home) == before


def test_messages_of_others(provider, project):
    of_other = ChatMessage.prompt("Hello", session_id="s-2")
    assert "s-2" in str(refused(UsageError, provider.log_message, project, of_other, "s-1"))
    of_agent = ChatMessage.prompt("Hello", agent_id="a1")
    refused(UsageError, provider.log_message, project, of_agent, "s-1")
    refused(UsageError, provider.log_message, project, of_agent, "s-1", "a2")
    ask(provider.log_message, project, of_agent, "s-1", "a1")


@pytest.mark.parametrize("value", [float("nan"), object()], ids=["nan", "object"])
def test_what_json_cannot_hold_leaves_the_log_as_it_was(provider, home, project, value):
    before = files(home)
    message = ChatMessage.prompt("Hello", metadata={"x": value})
    refused(NotSerialisable, provider.log_message, project, message, "s-1")
    assert files(home) == before
    ask(provider.log_message, project, ChatMessage.prompt("Next"), "s-1")
    assert len(ask(provider.get_session_messages, project, "s-1")) == 2


@pytest.mark.parametrize("agent", [None, "a1"])
@pytest.mark.parametrize(
    "message",
    [
        ChatMessage.prompt("Hello", metadata={"x": float("nan")}),
        ChatMessage.prompt("Hello", parent_id="nobody"),
        ChatMessage.prompt("Hello", session_id="s-7"),
        ChatMessage.prompt("Hello", agent_id="a7"),
    ],
    ids=["nan", "parent", "session", "agent"],
)
def test_a_mistake_begins_no_session(provider, home, project, message, agent):
    before = files(home)
    refused(TurnlogError, provider.log_message, project, message, "s-2", agent)
    assert files(home) == before
    ask(provider.log_message, project, ChatMessage.prompt("Well"), "s-2", agent)
    found = ask(provider.get_session_messages, project, "s-2", agent_id=agent)
    assert [each.text for each in found] == ["Well"]
    assert (home / "todos" / "s-2-agent-a1.json").exists() is (agent == "a1")


@pytest.mark.parametrize("told", ["a\0b", "\ud800", "x" * 10_000, "", "../.."], ids=repr)
def test_a_session_that_says_it_worked_nowhere_is_listed(provider, home, project, told):
    (log,) = home.rglob("s-1.jsonl")
    line = build.user("Hm") | {"uuid": "u", "sessionId": "s-5", "cwd": told}
    log.with_name("s-5.jsonl").write_text(json.dumps(line) + "\n")
    found = {each["sessionId"] for each in ask(provider.get_sessions, project)}
    assert found == {"s-1", "s-5"}
    assert len(ask(provider.get_session_messages, project, "s-5")) == 1


def test_todos_that_could_not_be_begun_are_begun_with_the_next_message(provider, home, project):
    (home / "todos").write_text("in the way")
    refused(TurnlogError, provider.log_message, project, ChatMessage.prompt("One"), "s-1", "a1")
    (home / "todos").unlink()
    ask(provider.log_message, project, ChatMessage.prompt("Two"), "s-1", "a1")
    assert (home / "todos" / "s-1-agent-a1.json").read_text() == "[]"
    found = ask(provider.get_session_messages, project, "s-1", agent_id="a1")
    assert [each.text for each in found] == ["One", "Two"]


def test_selections_that_cannot_be_meant(provider, project):
    for selection in (
        {"types": ["tool"]},
        {"types": [None]},
        {"since": datetime(2026, 1, 1)},  # noqa: DTZ001 - That is the mistake.
        {"offset": 3},
    ):
        refused(UsageError, provider.get_session_messages, project, "s-1", **selection)
    assert ask(provider.get_session_messages, project, "s-1", types=[]) == []
    assert (
        ask(provider.get_session_messages, project, "s-1", until=datetime.min.replace(tzinfo=UTC))
        == []
    )


@pytest.mark.parametrize("by", [("tool",), ("branch",), ("colour",), (None,), "nothing"], ids=repr)
def test_groups_that_the_logs_do_not_tell(provider, project, by):
    refused(UsageError, provider.get_statistics, project, by=by)


@pytest.mark.parametrize("typed", ["", None, 5])
def test_commands_that_nobody_typed(provider, project, typed):
    refused(UsageError, provider.log_command, project, typed)


def test_a_base_directory_that_is_none(tmp_path, project):
    file = tmp_path / "file"
    file.write_text("not a directory")
    provider = ClaudeStorageProvider(file)
    assert ask(provider.get_sessions, project) == []
    refused(TurnlogError, provider.log_message, project, HELLO, "s-1")
    refused(TurnlogError, provider.log_command, project, "typed")
    assert file.read_text() == "not a directory"
    with pytest.raises(UsageError):
        ClaudeStorageProvider(tmp_path, open_logs=0)


def test_links_are_not_followed_when_writing(home, project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (home / "projects").parent.mkdir(parents=True)
    (home / "projects").symlink_to(outside)
    provider = ClaudeStorageProvider(home)
    refused(TurnlogError, provider.log_message, project, HELLO, "s-1")
    assert not list(outside.iterdir())
