"""The provider: sessions are begun, resumed, searched through, forked, counted and forgotten.

The first tests make the calls that agent builders know, by the same names and arguments.
"""

import gc
import json
import os
import secrets
import stat
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

import turnlog
from turnlog import build
from turnlog.cli.app import app
from turnlog.errors import LogLocked, NotFound, UsageError
from turnlog.formats import project_key
from turnlog.integrations.provider import (
    ChatMessage,
    ClaudeStorageProvider,
    Commands,
    Conversations,
    MessageFinder,
    MessageLog,
    SessionReader,
    Statistics,
    StorageProvider,
)
from turnlog.sessions.side_files.todos import replace_todos
from turnlog.storage.reader import read_log

USED = {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 1000}
MODEL = "claude-sonnet-4-5-20250929"


@pytest.fixture(params=["asyncio", "trio"])
def run(request):
    """Run a function without arguments on both event loops."""
    return lambda work: anyio.run(work, backend=request.param)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    return tmp_path / "home" / ".claude"


@pytest.fixture
def project(tmp_path):
    place = tmp_path / "orchard"
    place.mkdir()
    return str(place)


@pytest.fixture
def provider(home):
    return ClaudeStorageProvider(base_dir=home)


def on_loop(work, *args, **kwargs):
    return anyio.run(partial(work, *args, **kwargs))


@pytest.fixture
def session(provider, project):
    """A session with a prompt, a response that calls a tool, its result, and an answer."""
    session_id = str(uuid.uuid4())
    said = [
        ChatMessage.prompt("Which trees need pruning?"),
        ChatMessage.response(
            "Let me look.",
            thinking="The list is in a file.",
            calls=[build.call("Read", {"file_path": "trees.md"}, call_id="toolu_1")],
            model=MODEL,
            usage=USED,
        ),
        ChatMessage.result("toolu_1", "pear, quince"),
        ChatMessage.response("The pear.", model=MODEL, usage=USED, metadata={"mood": "sure"}),
    ]
    for message in said:
        on_loop(provider.log_message, project, message, session_id)
    return session_id, said


def directory(home, project):
    return home / "projects" / project_key(project)


# -- as agent builders call it --------------------------------------------------------------


def test_starting_resuming_and_a_sub_agent_as_they_are_called(run, home, project, monkeypatch):
    monkeypatch.setenv("HOME", str(home.parent))

    async def use():
        provider = ClaudeStorageProvider(base_dir="~/.claude")
        session_id = str(uuid.uuid4())
        await provider.log_message(
            project_path=project,
            message=ChatMessage(role="user", content="Hello"),
            session_id=session_id,
        )

        conversations = await provider.get_sessions(project_path=project)
        messages = await provider.get_session_messages(
            project_path=project,
            session_id=conversations[0]["sessionId"],
            limit=50,
        )
        assert [(each.role, each.content) for each in messages] == [("user", "Hello")]

        for agent_id in ("a753668", "a" + secrets.token_hex(3)):
            await provider.log_message(
                project_path=project,
                message=ChatMessage(role="user", content="Count the pears"),
                session_id=session_id,
                agent_id=agent_id,
            )
            log = directory(home, project) / f"agent-{agent_id}.jsonl"
            assert "Count the pears" in log.read_text()
            todos = home / "todos" / f"{session_id}-agent-{agent_id}.json"
            assert json.loads(todos.read_text()) == []
        assert len(await provider.get_agents(project, session_id)) == 2
        await provider.aclose()

    run(use)


def test_the_path_of_a_project_need_not_exist(provider, home):
    on_loop(
        provider.log_message,
        project_path="/path/to/project",
        message=ChatMessage(role="user", content="Hello"),
        session_id="s-1",
    )
    assert (home / "projects" / "-path-to-project" / "s-1.jsonl").is_file()


def test_it_has_every_protocol(provider):
    parts = (MessageLog, SessionReader, MessageFinder, Conversations, Statistics, Commands)
    for part in (*parts, StorageProvider):
        assert isinstance(provider, part)


# -- what is written ------------------------------------------------------------------------


def test_what_was_logged_comes_back(provider, project, session):
    session_id, said = session
    found = on_loop(provider.get_session_messages, project, session_id)
    assert [each.content for each in found] == [each.content for each in said]
    assert [each.id for each in found] == [each.id for each in said]
    assert [each.parent_id for each in found] == [None, *(each.id for each in said[:-1])]
    assert [each.usage for each in found] == [each.usage for each in said]
    assert found[3].metadata == {"mood": "sure"}
    assert all(each.timestamp is not None and each.session_id == session_id for each in found)
    assert found[1].calls[0].input == {"file_path": "trees.md"}
    assert found[2].results[0].tool_use_id == "toolu_1"


def test_a_message_is_an_ordinary_private_record(provider, home, project, session):
    session_id, said = session
    path = directory(home, project) / f"{session_id}.jsonl"
    records = [item.record for item in read_log(path)]
    spoken = [record for record in records if record.type in ("user", "assistant")]
    assert [record.uuid for record in spoken] == [each.id for each in said]
    assert {record.cwd for record in spoken} == {project}
    assert not any(record.odd for record in records)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert turnlog.validate(path).is_valid
    store = turnlog.open(home)
    assert [row.id for row in store.sessions(project=project)] == [session_id]
    assert [hit.session for hit in store.search("pruning").hits] == [session_id]


def test_parts_that_claude_code_needs_are_filled_in(provider, home, project):
    on_loop(provider.log_message, project, ChatMessage(role="assistant", content="Hm."), "s-1")
    on_loop(provider.log_message, project, ChatMessage(role="system", content="Wind."), "s-1")
    *_, spoken, note = read_log(directory(home, project) / "s-1.jsonl")
    assert spoken.record.message.content[0].text == "Hm."
    assert spoken.record.message.id.startswith("msg_")
    assert (note.record.subtype, note.record.level) == ("informational", "info")
    found = on_loop(provider.get_session_messages, project, "s-1")
    assert [(each.role, each.content) for each in found] == [
        ("assistant", "Hm."),
        ("system", "Wind."),
    ]


def test_logging_a_message_again_changes_nothing(provider, home, project, session):
    session_id, said = session
    path = directory(home, project) / f"{session_id}.jsonl"
    on_loop(provider.aclose)
    before = on_loop(provider.get_session_messages, project, session_id)
    other = ClaudeStorageProvider(home)
    for message in (*said, *before):
        assert on_loop(other.log_message, project, message, session_id) == message.id
    assert on_loop(provider.get_session_messages, project, session_id) == before
    assert path.read_bytes().count(said[0].id.encode()) == 2  # Its own, and as a parent.


def test_a_message_may_follow_an_earlier_one(provider, project, session):
    session_id, said = session
    other = ChatMessage.prompt("No, which ones bloom?", parent_id=said[1].id)
    on_loop(provider.log_message, project, other, session_id)
    found = on_loop(provider.get_session_messages, project, session_id)
    assert [each.id for each in found][:2] == [said[0].id, said[1].id]
    assert found[-1].id == other.id
    assert said[3].id not in {each.id for each in found}
    onwards = ChatMessage.response("The pear, again.")
    on_loop(provider.log_message, project, onwards, session_id)
    last = on_loop(provider.get_session_messages, project, session_id, 1)
    assert [each.parent_id for each in last] == [other.id]


def test_what_claude_code_writes_in_between_is_seen(provider, home, project, session):
    session_id, said = session
    path = directory(home, project) / f"{session_id}.jsonl"
    line = build.assistant("From elsewhere.", model="m") | {
        "uuid": "elsewhere",
        "parentUuid": said[3].id,
        "sessionId": session_id,
        "timestamp": "2026-11-01T10:00:00.000Z",
    }
    with path.open("ab") as file:
        file.write(json.dumps(line).encode() + b"\n")
    message = ChatMessage.prompt("And then?")
    on_loop(provider.log_message, project, message, session_id)
    found = on_loop(provider.get_session_messages, project, session_id)
    assert [each.id for each in found[-2:]] == ["elsewhere", message.id]
    assert found[-1].parent_id == "elsewhere"
    on_loop(provider.log_message, project, replace(message, content="changed"), session_id)
    assert on_loop(provider.get_session_messages, project, session_id) == found


@pytest.mark.parametrize("gone", ["log", "directory", "cut"])
def test_a_log_that_goes_away_begins_anew(provider, home, project, session, gone):
    session_id, _ = session
    path = directory(home, project) / f"{session_id}.jsonl"
    if gone == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        path.unlink()
        if gone == "directory":
            path.parent.rmdir()
    message = ChatMessage.prompt("Still there?")
    on_loop(provider.log_message, project, message, session_id)
    found = on_loop(provider.get_session_messages, project, session_id)
    assert found[-1].id == message.id
    assert turnlog.validate(path).is_valid is (gone != "cut")


def test_few_logs_are_open_at_a_time_and_all_say_goodbye(home, project):
    provider = ClaudeStorageProvider(home, open_logs=3)

    async def use():
        async with provider:
            for turn in range(3):
                for number in range(6):
                    words = ChatMessage.prompt(f"{turn} of {number}")
                    await provider.log_message(project, words, f"s-{number}")
                    assert provider._writers.open <= 3

    anyio.run(use)
    store = turnlog.open(home)
    for number in range(6):
        found = store.session(f"s-{number}")
        assert found.metadata.ended_at is not None
        assert [record.text for _, record in found.records(found.thread)] == [
            f"{turn} of {number}" for turn in range(3)
        ]


def test_a_provider_that_is_forgotten_says_goodbye(home, project):
    provider = ClaudeStorageProvider(home)
    on_loop(provider.log_message, project, ChatMessage.prompt("Hello"), "s-1")
    assert turnlog.open(home).session("s-1").metadata.ended_at is None
    del provider
    for _ in range(100):  # The thread that did the work may hold it for a moment.
        gc.collect()
        if turnlog.open(home).session("s-1").metadata.ended_at is not None:
            return
        time.sleep(0.05)
    pytest.fail("the session still runs")


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise SystemError", "os._exit(0)"])
def test_the_end_of_the_program_says_goodbye_unless_it_is_killed(home, project, ending):
    code = (
        "import os, sys, anyio\n"
        "from turnlog.integrations.provider import ChatMessage, ClaudeStorageProvider\n"
        "provider = ClaudeStorageProvider(sys.argv[1])\n"
        "message = ChatMessage(role='user', content='Hello')\n"
        f"anyio.run(provider.log_message, sys.argv[2], message, 's-1')\n{ending}\n"
    )
    subprocess.run([sys.executable, "-c", code, home, project], stderr=subprocess.DEVNULL)
    found = turnlog.open(home).session("s-1").metadata
    assert (found.ended_at is None, found.crashed) == (("_exit" in ending),) * 2


def test_an_archived_session_is_brought_back_when_it_goes_on(provider, home, project, session):
    session_id, said = session
    on_loop(provider.aclose)
    turnlog.open(home).archive(session_id, remove=True)
    assert on_loop(provider.get_sessions, project) == []
    assert len(on_loop(provider.get_session_messages, project, session_id)) == len(said)
    on_loop(provider.log_message, project, ChatMessage.prompt("Again."), session_id)
    found = on_loop(provider.get_session_messages, project, session_id)
    assert [each.text for each in found[-2:]] == ["The pear.", "Again."]
    assert [each["sessionId"] for each in on_loop(provider.get_sessions, project)] == [session_id]


# -- agents ---------------------------------------------------------------------------------


def test_an_agents_messages_are_its_own(provider, home, project, session):
    session_id, said = session
    mine = ChatMessage.prompt("Count.")
    on_loop(provider.log_message, project, mine, session_id, "a753668")
    on_loop(provider.log_message, project, ChatMessage.response("Two."), session_id, "a753668")
    found = on_loop(provider.get_session_messages, project, session_id, agent_id="a753668")
    assert [each.text for each in found] == ["Count.", "Two."]
    assert {each.agent_id for each in found} == {"a753668"}
    assert found[1].parent_id == mine.id
    main = on_loop(provider.get_session_messages, project, session_id)
    assert len(main) == len(said)
    assert turnlog.open(home).session(session_id).subagents[0].id == "a753668"


def test_the_main_agents_id_is_the_sessions(provider, home, project):
    on_loop(provider.log_message, project, ChatMessage.prompt("Hello"), "s-1", "s-1")
    assert [path.name for path in directory(home, project).iterdir()] == ["s-1.jsonl"]
    found = on_loop(provider.get_session_messages, project, "s-1", agent_id="s-1")
    assert [each.text for each in found] == ["Hello"]
    assert not (home / "todos").exists()


def test_todos_that_an_agent_has_are_not_touched(provider, home, project):
    todos = [{"content": "Prune", "status": "pending"}]
    path = replace_todos(turnlog.formats.Home(home), "s-1", "a1", todos)
    on_loop(provider.log_message, project, ChatMessage.prompt("Go on"), "s-1", "a1")
    assert json.loads(path.read_bytes()) == todos


def test_an_agents_log_in_its_sessions_directory_is_gone_on_with(provider, home, project, session):
    session_id, _ = session
    nested = directory(home, project) / session_id / "subagents" / "agent-a1.jsonl"
    nested.parent.mkdir(parents=True)
    first = build.user("Begun elsewhere") | {"uuid": "x", "sessionId": session_id, "agentId": "a1"}
    nested.write_bytes(json.dumps(first | {"isSidechain": True}).encode() + b"\n")
    on_loop(provider.log_message, project, ChatMessage.prompt("Go on"), session_id, "a1")
    found = on_loop(provider.get_session_messages, project, session_id, agent_id="a1")
    assert [each.text for each in found] == ["Begun elsewhere", "Go on"]
    assert not (directory(home, project) / "agent-a1.jsonl").exists()


def test_two_sessions_cannot_have_one_agent(provider, project):
    on_loop(provider.log_message, project, ChatMessage.prompt("Mine"), "s-1", "a1")
    with pytest.raises(UsageError, match="belongs to session s-1") as raised:
        on_loop(provider.log_message, project, ChatMessage.prompt("No, mine"), "s-2", "a1")
    assert "another agent id" in raised.value.hint
    with pytest.raises(NotFound):
        on_loop(provider.get_session_messages, project, "s-2", agent_id="a1")


# -- what is read ---------------------------------------------------------------------------


def test_the_session_that_was_active_last_comes_first(provider, project, tmp_path):
    for name in ("s-1", "s-2", "s-3", "s-1"):
        on_loop(provider.log_message, project, ChatMessage.prompt(f"To {name}"), name)
    elsewhere = str(tmp_path / "orchard" / "below")
    on_loop(provider.log_message, elsewhere, ChatMessage.prompt("Below"), "s-4")
    found = on_loop(provider.get_sessions, project)
    assert [each["sessionId"] for each in found] == ["s-1", "s-3", "s-2"]
    assert found[0]["title"] == "To s-1"
    assert found[0]["projectPath"] == project
    assert found[0]["lastActiveAt"] > found[0]["startedAt"]
    assert on_loop(provider.get_sessions, str(tmp_path / "nowhere")) == []


def test_projects_that_share_a_key_are_told_apart(provider, tmp_path):
    one, two = str(tmp_path / "a" / "b"), str(tmp_path / "a-b")
    assert project_key(one) == project_key(two)
    on_loop(provider.log_message, one, ChatMessage.prompt("One"), "s-1")
    on_loop(provider.log_message, two, ChatMessage.prompt("Two"), "s-2")
    assert [each["sessionId"] for each in on_loop(provider.get_sessions, one)] == ["s-1"]
    assert [each["sessionId"] for each in on_loop(provider.get_sessions, two)] == ["s-2"]
    assert [each.id for each in on_loop(provider.reset, one)] == ["s-1"]
    assert [each["sessionId"] for each in on_loop(provider.get_sessions, two)] == ["s-2"]


def test_a_session_that_says_no_directory_is_listed_where_it_lies(provider, home, project):
    path = directory(home, project) / "s-9.jsonl"
    path.parent.mkdir(parents=True)
    bare = {
        "type": "user",
        "sessionId": "s-9",
        "uuid": "u-1",
        "timestamp": "2026-02-03T04:05:06.007Z",
        "message": {"role": "user", "content": "Trim the sails."},
    }
    path.write_text(json.dumps(bare) + "\n")
    assert [each["sessionId"] for each in on_loop(provider.get_sessions, project)] == ["s-9"]
    found = on_loop(provider.get_session_messages, project, "s-9")
    assert [each.text for each in found] == ["Trim the sails."]
    assert [each.id for each in on_loop(provider.reset, project)] == ["s-9"]
    assert not path.exists()


@pytest.mark.parametrize(
    ("limit", "given"), [(None, 4), (0, 0), (1, 1), (3, 3), (4, 4), (10**9, 4)]
)
def test_a_limit_counts_from_the_end(provider, project, session, limit, given):
    session_id, said = session
    found = on_loop(provider.get_session_messages, project, session_id, limit)
    assert [each.id for each in found] == [each.id for each in said][len(said) - given :]


def test_messages_are_chosen_before_they_are_counted(provider, project, session):
    session_id, said = session
    on_loop(provider.log_message, project, ChatMessage(role="system", content="Wind."), session_id)
    ask = partial(on_loop, provider.get_session_messages, project, session_id)
    assert [each.text for each in ask(types=["user"])] == ["Which trees need pruning?", ""]
    assert [each.id for each in ask(1, types=["assistant"])] == [said[3].id]
    assert [each.text for each in ask(types="system")] == ["Wind."]
    assert [each.role for each in ask(with_system=False)] == ["user", "assistant"] * 2
    plain = ask(with_tools=False)
    assert [each.text for each in plain] == [
        "Which trees need pruning?",
        "Let me look.",
        "The pear.",
        "Wind.",
    ]
    assert not any(each.calls or each.results for each in plain)
    assert plain[1].thinking == "The list is in a file."


def test_notes_that_say_nothing_are_no_messages(provider, home, project, session):
    session_id, said = session
    path = directory(home, project) / f"{session_id}.jsonl"
    note = {"type": "system", "subtype": "turn_duration", "durationMs": 5, "uuid": "note"}
    with path.open("a") as file:
        file.write(json.dumps(note | {"parentUuid": said[3].id, "sessionId": session_id}) + "\n")
    last = on_loop(provider.get_session_messages, project, session_id, 1)
    assert [each.id for each in last] == [said[3].id]
    assert on_loop(provider.get_counts, project, session_id).messages == len(said)
    assert on_loop(provider.get_message, project, "note").extra["durationMs"] == 5
    forked = on_loop(provider.fork_conversation, project, session_id)
    assert len(turnlog.open(home).session(forked).tree.nodes) == len(said) + 1


def test_a_session_of_notes_alone_is_read_and_gone_on_with(provider, project):
    for words in ("Wind.", "Rain."):
        on_loop(provider.log_message, project, ChatMessage(role="system", content=words), "s-1")
    ask = partial(on_loop, provider.get_session_messages, project, "s-1")
    assert [each.text for each in ask()] == ["Wind.", "Rain."]
    on_loop(provider.log_message, project, ChatMessage.prompt("Hello"), "s-1")
    assert [each.text for each in ask()] == ["Wind.", "Rain.", "Hello"]
    assert on_loop(provider.get_counts, project).messages == 3


def test_messages_are_chosen_by_when_they_were_said(provider, project):
    start = datetime(2026, 5, 1, tzinfo=UTC)
    for hour in range(6):
        message = ChatMessage.prompt(f"{hour}", timestamp=start + timedelta(hours=hour))
        on_loop(provider.log_message, project, message, "s-1")
    ask = partial(on_loop, provider.get_session_messages, project, "s-1")
    since, until = start + timedelta(hours=1), start + timedelta(hours=4)
    assert [each.text for each in ask(since=since, until=until)] == ["1", "2", "3"]
    assert [each.text for each in ask(2, since=since, until=until)] == ["2", "3"]
    assert ask(since=until, until=since) == []


def test_a_message_is_found_by_its_uuid_anywhere_in_the_project(provider, project, session):
    session_id, said = session
    of_agent = ChatMessage.prompt("Count.")
    on_loop(provider.log_message, project, of_agent, session_id, "a1")
    odd = ChatMessage.prompt("Odd", id='né "\\\n')
    on_loop(provider.log_message, project, odd, "s-2")
    for message, owner in ((said[1], session_id), (of_agent, session_id), (odd, "s-2")):
        for where in (None, owner):
            found = on_loop(provider.get_message, project, message.id, where)
            assert (found.id, found.content) == (message.id, message.content)
            assert found.session_id == owner
    with pytest.raises(NotFound):
        on_loop(provider.get_message, project, odd.id, session_id)


def test_the_way_to_a_message_begins_at_the_very_first(provider, project, session):
    session_id, said = session
    branch = ChatMessage.prompt("Which ones bloom?", parent_id=said[1].id)
    on_loop(provider.log_message, project, branch, session_id)
    way = on_loop(provider.get_message_ancestry, project, branch.id)
    assert [each.id for each in way] == [said[0].id, said[1].id, branch.id]
    way = on_loop(provider.get_message_ancestry, project, said[0].id, session_id)
    assert [each.id for each in way] == [said[0].id]


# -- forks, counts, costs -------------------------------------------------------------------


def test_a_fork_begins_as_the_session_stood_at_a_message(provider, project, session):
    session_id, said = session
    before = on_loop(provider.get_session_messages, project, session_id)
    forked = on_loop(provider.fork_conversation, project, session_id, said[2].id)
    found = on_loop(provider.get_session_messages, project, forked)
    assert [each.content for each in found] == [each.content for each in said[:3]]
    assert not {each.id for each in found} & {each.id for each in said}
    on_loop(provider.log_message, project, ChatMessage.prompt("Otherwise?"), forked)
    assert len(on_loop(provider.get_session_messages, project, forked)) == 4
    assert on_loop(provider.get_session_messages, project, session_id) == before
    whole = on_loop(provider.fork_conversation, project, session_id, new_session_id="s-fork")
    assert whole == "s-fork"
    assert len(on_loop(provider.get_session_messages, project, whole)) == len(said)
    with pytest.raises(UsageError, match="exists"):
        on_loop(provider.fork_conversation, project, session_id, new_session_id="s-fork")


def test_counts_are_those_of_the_messages(provider, project, session):
    session_id, said = session
    on_loop(provider.log_message, project, ChatMessage.prompt("Hello"), "s-2")
    counts = on_loop(provider.get_counts, project, session_id)
    assert (counts.sessions, counts.messages, counts.prompts, counts.calls) == (1, 4, 1, 1)
    counts = on_loop(provider.get_counts, project)
    assert (counts.sessions, counts.messages, counts.prompts) == (2, len(said) + 1, 2)


def cost(home, *args):
    """What `turnlog cost` tells."""
    from click.testing import CliRunner

    done = CliRunner().invoke(app, ["cost", *args, "--home", str(home), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["totals"]


def test_tokens_are_those_of_the_ledger(provider, home, project, session, tmp_path):
    session_id, said = session
    agents = ChatMessage.response("Two.", model=MODEL, usage=USED)
    on_loop(provider.log_message, project, agents, session_id, "a1")
    # Parts of one response count once, and a fork does not pay again.
    for words in ("In two", "parts."):
        part = ChatMessage.response(words, model=MODEL, usage=USED, response_id="msg_parts")
        on_loop(provider.log_message, project, part, session_id)
    forked = on_loop(provider.fork_conversation, project, session_id)
    elsewhere = str(tmp_path / "elsewhere")
    on_loop(provider.log_message, elsewhere, replace(said[1], id="other"), "s-9")
    on_loop(provider.aclose)
    used = on_loop(provider.get_statistics, project, session_id).totals
    assert (used.messages, used.input, used.output, used.cache_read) == (4, 400, 80, 4000)
    theirs = cost(home, "--session", session_id)
    assert {key: getattr(used, key) for key in theirs} == theirs
    whole = on_loop(provider.get_statistics, project, by=("session", "model"))
    theirs = cost(home, "--project", project)
    assert {key: getattr(whole.totals, key) for key in theirs} == theirs
    assert [(row.session, row.model) for row in whole.rows] == [(session_id, MODEL)]
    assert on_loop(provider.get_statistics, project, forked).totals.messages == 0
    assert on_loop(provider.get_statistics, elsewhere).totals.messages == 1
    by_agent = on_loop(provider.get_statistics, project, by="subagent").rows
    assert {row.subagent: row.messages for row in by_agent} == {None: 3, "a1": 1}


def test_without_an_index_the_logs_are_counted(provider, project, session, tmp_path, monkeypatch):
    session_id, _ = session
    before = on_loop(provider.get_statistics, project, session_id)
    blocked = tmp_path / "blocked"
    blocked.write_text("no directory")
    monkeypatch.setenv("TURNLOG_HOME", str(blocked))
    assert on_loop(provider.get_statistics, project, session_id).totals == before.totals


# -- commands, reset ------------------------------------------------------------------------


def test_commands_are_the_homes_history(provider, home, project):
    home.mkdir(parents=True)
    below = os.path.join(project, "below")
    old = {"display": "/clear", "timestamp": 1_700_000_000_000, "project": project}
    (home / "history.jsonl").write_text(json.dumps(old) + "\n")
    on_loop(provider.log_command, project, "prune the pear", "s-1")
    on_loop(provider.log_command, below, "elsewhere")
    on_loop(provider.log_command, project, "/cost", "s-10")
    ask = partial(on_loop, provider.get_commands, project)
    assert [each.text for each in ask()] == ["/clear", "prune the pear", "/cost"]
    assert [each.text for each in ask(limit=2)] == ["prune the pear", "/cost"]
    assert [each.text for each in ask("s-1")] == ["prune the pear"]
    assert ask(limit=0) == []


def test_a_reset_moves_everything_to_the_trash_and_it_can_come_back(
    provider, home, project, session, tmp_path
):
    session_id, said = session
    on_loop(provider.log_message, project, ChatMessage.prompt("Count."), session_id, "a1")
    on_loop(provider.log_message, project, ChatMessage.prompt("Alone."), "s-lost", "a2")
    elsewhere = str(tmp_path / "elsewhere")
    on_loop(provider.log_message, elsewhere, ChatMessage.prompt("Stays"), "s-2")
    gone = on_loop(provider.reset, project)
    assert {each.id for each in gone} == {session_id, "s-lost"}
    assert on_loop(provider.get_sessions, project) == []
    assert not directory(home, project).exists()
    assert not list((home / "todos").iterdir())
    assert len(on_loop(provider.get_sessions, elsewhere)) == 1
    assert on_loop(provider.reset, project) == []
    from click.testing import CliRunner

    entry = next(each for each in gone if each.id == session_id).entries[0]
    done = CliRunner().invoke(app, ["trash", "restore", entry])
    assert done.exit_code == 0, done.output
    assert len(on_loop(provider.get_session_messages, project, session_id)) == len(said)
    on_loop(provider.log_message, project, ChatMessage.prompt("Back."), session_id)
    assert len(on_loop(provider.get_session_messages, project, session_id)) == len(said) + 1


def test_a_session_that_runs_elsewhere_keeps_its_project(provider, home, project, session):
    session_id, said = session
    other = ClaudeStorageProvider(home)
    on_loop(other.log_message, project, ChatMessage.prompt("Busy"), "s-2")
    with pytest.raises(LogLocked, match="s-2 is running"):
        on_loop(provider.reset, project)
    assert len(on_loop(provider.get_sessions, project)) == 2
    assert len(on_loop(provider.get_session_messages, project, session_id)) == len(said)
    on_loop(other.aclose)
    assert len(on_loop(provider.reset, project)) == 2


def test_nothing_is_written_by_reading(provider, home, project, session):
    session_id, said = session
    on_loop(provider.aclose)
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    reader = ClaudeStorageProvider(home)
    on_loop(reader.get_sessions, project)
    on_loop(reader.get_session_messages, project, session_id)
    on_loop(reader.get_message_ancestry, project, said[2].id)
    on_loop(reader.get_counts, project)
    on_loop(reader.get_statistics, project)
    on_loop(reader.get_commands, project)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    assert not Path(home, "todos").exists()
