"""Who said it and what it is, as seed 002 maps it and as agents' own logs need it."""

from __future__ import annotations

import pytest

from records.samples import CALL, CLAUDE, FLAT, ORCHESTRATOR, RESULT, TEXT, answered, said
from strategies import to_line
from turnlog.records.codec import decode
from turnlog.records.meaning import Author, Meaning, author_of, meaning_of, meaning_of_block

IN_SUBAGENT = {"isSidechain": True, "agentId": "a1b2c3d"}
FAILED = RESULT | {"is_error": True}


@pytest.mark.parametrize(
    ("sample", "author", "meaning"),
    [
        (CLAUDE["user"], "human", "prompt"),
        (said("user", [TEXT]), "human", "prompt"),
        (said("user", [RESULT]), "tool", "result"),
        (said("user", [TEXT, RESULT]), "tool", "result"),
        (said("user", [FAILED]), "tool", "error"),
        (CLAUDE["assistant"], "assistant", "response"),
        (CLAUDE["assistant/thinking"], "assistant", "thinking"),
        (CLAUDE["assistant/call"], "assistant", "call"),
        (answered(TEXT, CALL), "assistant", "call"),
        (CLAUDE["assistant/synthetic"], "assistant", "error"),
        (said("user", "Sew.", **IN_SUBAGENT), "caller", "prompt"),
        (answered(TEXT, **IN_SUBAGENT), "subagent", "response"),
        (answered(CALL, **IN_SUBAGENT), "subagent", "call"),
        (said("user", [RESULT], **IN_SUBAGENT), "tool", "result"),
        (said("user", "<reminder>", isMeta=True), "program", "context"),
        (said("user", "<bash-stdout>a</bash-stdout>"), "program", "notice"),
        (said("user", "[Request interrupted by user]", **IN_SUBAGENT), "program", "notice"),
        (said("user", "Go on.", origin={"kind": "coordinator"}), "program", "notice"),
        (CLAUDE["user/compact-summary"], "program", "summary"),
        (CLAUDE["summary"], "program", "summary"),
        (CLAUDE["system/api_error"], "program", "error"),
        (CLAUDE["system/turn_duration"], "program", "context"),
        (CLAUDE["attachment/date_change"], "program", "context"),
        (CLAUDE["progress/bash_progress"], "program", "context"),
        (CLAUDE["mode"], "program", "state"),
        (CLAUDE["file-history-snapshot"], "program", "state"),
        (CLAUDE["cost-state"], "program", "state"),
        (ORCHESTRATOR["user"], "human", "prompt"),
        (ORCHESTRATOR["assistant"], "assistant", "response"),
        (ORCHESTRATOR["tool_call"], "assistant", "call"),
        (ORCHESTRATOR["tool_result"], "tool", "result"),
        (ORCHESTRATOR["tool_result/error"], "tool", "error"),
        (FLAT["system_init"], "program", "context"),
        (FLAT["user"], "human", "prompt"),
        (FLAT["assistant"], "assistant", "thinking"),
        (FLAT["tool_use"], "assistant", "call"),
        (FLAT["tool_result"], "tool", "result"),
    ],
)
def test_a_record_has_an_author_and_a_meaning(sample, author, meaning):
    record = decode(to_line(sample))
    assert author_of(record) == Author(author)
    assert meaning_of(record) == Meaning(meaning)


def test_each_block_of_a_message_has_a_meaning_of_its_own():
    record = decode(to_line(CLAUDE["assistant/several"]))
    found = [meaning_of_block(block, Author.ASSISTANT) for block in record.blocks]
    assert (found[0], found[1], found[3]) == (Meaning.THINKING, Meaning.RESPONSE, Meaning.CALL)
