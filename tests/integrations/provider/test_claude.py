"""The provider and Claude Code go on from each other; real sessions lose nothing."""

import os
from functools import partial
from pathlib import Path

import anyio
import claude_agent_sdk
import pytest

import turnlog
from e2e.fake_api import FakeApi
from e2e.program import PROGRAM, Claude
from turnlog import build
from turnlog.catalog.sessions import list_sessions
from turnlog.formats import Home, find_logs
from turnlog.integrations.provider import ChatMessage, ClaudeStorageProvider
from turnlog.storage.reader import Placed, read_log

ID = "0a7e57ab-1234-4abc-9abc-0a7e57ab1234"
REPOSITORY = Path(__file__).resolve().parents[3]
CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or REPOSITORY.parent / "shared" / "corpus" / "claude"
)
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")


def on_loop(work, *args, **kwargs):
    return anyio.run(partial(work, *args, **kwargs))


@pytest.mark.skipif(not PROGRAM.exists(), reason="no `claude` for this platform")
def test_claude_and_the_provider_go_on_from_each_other(tmp_path, monkeypatch):
    with FakeApi() as api:
        claude = Claude(tmp_path, api)
        provider = ClaudeStorageProvider(claude.home)
        log = partial(on_loop, provider.log_message, claude.project, session_id=ID)
        # As bare as a message can be: no model, no usage, no ids of the API.
        log(message=ChatMessage(role="user", content="How many apples?"))
        log(message=ChatMessage(role="assistant", content="I will count."))
        log(message=ChatMessage(role="system", content="Wind from the west."))
        counting = build.call("Bash", {"command": "ls"}, call_id="toolu_1")
        log(message=ChatMessage.response(calls=[counting]))
        log(message=ChatMessage.result("toolu_1", "forty-two"))
        log(message=ChatMessage.response("Forty-two apples.", metadata={"basket": 7}))
        done = claude("--resume", ID, "-p", "And pears?")
        assert done.returncode == 0, done.stderr
        sent = str(api.requests[-1])
        for words in ("How many apples?", "I will count.", "forty-two", "Forty-two apples."):
            assert words in sent
        found = on_loop(provider.get_session_messages, claude.project, ID)
        assert any("And pears?" in each.text for each in found)
        assert found[5].metadata == {"basket": 7}
        thanks = ChatMessage.prompt("Thank you")
        log(message=thanks)
        on_loop(provider.aclose)
        found = on_loop(provider.get_session_messages, claude.project, ID)
        session = claude.store.session(ID)
        assert not session.tree.gaps
        assert turnlog.validate(session.path).is_valid
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(claude.home))
        by_sdk = [each.uuid for each in claude_agent_sdk.get_session_messages(ID)]
        spoken = [each for each in found if each.role != "system"]
        assert by_sdk == [each.id for each in spoken if not each.extra.get("isMeta")]
        assert by_sdk[-1] == thanks.id


def is_kept(before, after):
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and is_kept(before[key], after[key]) for key in before)
    return type(before) is type(after) and before == after


@needs_corpus
def test_real_records_lose_nothing_by_becoming_messages():
    count = 0
    for log in find_logs(Home(CORPUS)):
        for item in read_log(log.path):
            if isinstance(item, Placed) and item.record.type in ("user", "assistant", "system"):
                if item.record.dialect != "claude":
                    continue
                message = ChatMessage.from_record(item.record)
                assert is_kept(item.record.fields, message.to_record())
                count += 1
    assert count > 1_000


@needs_corpus
def test_real_sessions_end_as_the_sdk_reads_them(monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(CORPUS))
    provider = ClaudeStorageProvider(CORPUS)
    compared = 0
    for row in list_sessions((Home(CORPUS),)).sessions:
        if row.size_bytes > 500_000 or not (row.project or "").startswith("/"):
            continue
        by_sdk = claude_agent_sdk.get_session_messages(row.id, directory=row.project)
        found = on_loop(provider.get_session_messages, row.project, row.id)
        ids = [each.id for each in found if each.role != "system" and not each.extra.get("isMeta")]
        if by_sdk:  # It begins at the last compaction, and we at the very first message.
            assert ids[-len(by_sdk) :] == [each.uuid for each in by_sdk]
            compared += 1
    assert compared > 20
