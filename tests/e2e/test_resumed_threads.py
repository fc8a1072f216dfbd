"""The main thread is what the real `claude --resume` sends, and no version loses by a recovery."""

import json
from uuid import NAMESPACE_OID, uuid5

import pytest

from e2e.orchard import ID, MODEL, arrived
from sampling import sampled
from turnlog import build
from turnlog.formats import key_of
from turnlog.sessions.reading.threads import visible

NEXT = "And pears?"
# What the program says by itself when a session ended with a prompt.
FILLERS = ("No response requested.", "Continue from where you left off.")


def uuid(name):
    return str(uuid5(NAMESPACE_OID, name))


class Story:
    """A session, record by record; each is named by what it says."""

    def __init__(self):
        self.lines = []

    def say(self, name, parent, kind="user", second=None, **more):
        said = {
            "user": lambda: build.user(name),
            "assistant": lambda: build.assistant(name, model=MODEL),
            "system": lambda: build.system(name, subtype="turn_duration") | {"durationMs": 1},
            "progress": lambda: {"type": "progress", "data": {"type": "hook_progress"}},
        }[kind]()
        return self.add(name, parent, said | more, second)

    def add(self, name, parent, said, second=None):
        second = len(self.lines) if second is None else second
        place = {
            "parentUuid": None if parent is None else uuid(parent),
            "isSidechain": False,
            "userType": "external",
            "cwd": "/",
            "sessionId": ID,
            "version": "2.1.300",
            "uuid": uuid(name),
            "timestamp": f"2026-01-02T03:{second // 60:02d}:{second % 60:02d}.000Z",
        }
        self.lines.append(place | said)
        return self

    def names(self, leaf):
        line = {"type": "last-prompt", "lastPrompt": "x", "sessionId": ID}
        self.lines.append(line | {"leafUuid": None if leaf is None else uuid(leaf)})
        return self

    def calls(self, name, parent, message_id):
        call = build.call("Bash", {"command": "true"}, call_id=f"toolu_{name}")
        said = build.assistant([call], model=MODEL, stop_reason="tool_use", message_id=message_id)
        return self.add(name, parent, said)

    def answers(self, name, parent, call):
        return self.add(name, parent, build.result(f"toolu_{call}", name))

    def write(self, claude):
        place = claude.home / "projects" / key_of(str(claude.project))
        place.mkdir(parents=True, exist_ok=True)
        log = place / f"{ID}.jsonl"
        log.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return log


def branches():
    """An old branch that was left for a new one."""
    story = Story().say("u0", None).say("a1", "u0", "assistant")
    story.say("old2", "a1").say("old3", "old2", "assistant")
    return story.say("u4", "a1").say("a5", "u4", "assistant")


def talk(count=6):
    story = Story()
    for number in range(count):
        kind = "assistant" if number % 2 else "user"
        story.say(f"r{number}", f"r{number - 1}" if number else None, kind)
    return story


def sent_by(claude, api, log):
    """Resume the session and return what arrives, without what the program adds."""
    before = log.read_bytes()
    done = claude("--resume", ID, "-p", NEXT)
    assert done.returncode == 0, done.stderr
    log.write_bytes(before)
    words = [words for _, _, words in arrived(api.requests[-1])]
    return [each for each in words if each not in (*FILLERS, NEXT)]


RESUMED = {
    "a meta record at the end": branches().say("m6", "a5", isMeta=True),
    "a meta record on the old branch": branches().say("m6", "old3", isMeta=True),
    "a note on the old branch": branches().say("s6", "old3", "system"),
    "progress on the old branch": branches().say("p6", "old3", "progress"),
    "a subagent below the leaf": branches().say("x6", "a5", isSidechain=True),
    "a person went back": branches().names("old3").names(None),
    "a person went back further": branches().names("old2"),
    "an ancestor is named": branches().names("a1"),
    "a leaf that is gone is named": branches().names("gone"),
    "clocks step back": branches().say("u6", "old3", second=1).say("a7", "u6", "assistant", 2),
    "a missing parent": talk().say("u9", "gone").say("a10", "u9", "assistant"),
    "a null parent in mid-log": talk().say("u9", None).say("a10", "u9", "assistant"),
    "a ring of parents": talk().say("u9", "a10").say("a10", "u9", "assistant"),
}


@pytest.mark.parametrize("name", sampled(RESUMED, 3))
def test_the_main_thread_is_what_claude_resumes(claude, api, name):
    log = RESUMED[name].write(claude)
    session = claude.store.session(ID)
    ours = [record.text for node, record in session.records(session.thread) if node.is_spoken]
    assert sent_by(claude, api, log) == ours


def half_answered():
    """One of two parallel calls lost its result, long before the end."""
    story = Story().say("u0", None).calls("c1", "u0", "m1").calls("c2", "c1", "m1")
    story.answers("one", "c1", "c1")
    for number in range(4):
        kind = "user" if number % 2 else "assistant"
        story.say(f"r{number}", f"r{number - 1}" if number else "one", kind)
    return story


INJURED = {
    "a lost result": half_answered(),
    "a lost result, and meta at the end": half_answered().say("m9", "r3", isMeta=True),
    "a missing parent": RESUMED["a missing parent"],
    "a null parent in mid-log": RESUMED["a null parent in mid-log"],
    "a ring of parents": RESUMED["a ring of parents"],
}
WHOLE = {"a missing parent", "a null parent in mid-log", "a ring of parents"}


@pytest.mark.parametrize("name", sampled(INJURED, 2))
def test_no_version_resumes_less_after_a_recovery(any_claude, api, name):
    log = INJURED[name].write(any_claude)
    before, injured = sent_by(any_claude, api, log), log.read_bytes()
    assert any_claude.store.recover(ID).written
    after = sent_by(any_claude, api, log)
    assert [words for words in after if words in before] == before
    if name in WHOLE:
        assert after == [f"r{number}" for number in range(6)] + ["u9", "a10"]
    any_claude.store.undo_recovery(ID)
    assert log.read_bytes() == injured


def test_a_meta_record_at_the_end_hides_nothing_in_any_version(any_claude, api):
    log = RESUMED["a meta record at the end"].write(any_claude)
    session = any_claude.store.session(ID)
    assert [node.uuid for node in visible(session.thread)] == [
        uuid(name) for name in ("u0", "a1", "u4", "a5")
    ]
    assert sent_by(any_claude, api, log) == ["u0", "a1", "u4", "a5", "m6"]
