"""The SDK's session store against a plain dictionary: whatever is done, it holds the same."""

import json
import tempfile
from pathlib import Path

import anyio
import claude_agent_sdk as sdk
from hypothesis import given
from hypothesis import strategies as st

from integrations.claude_agent_sdk.claude_entries import log_of
from strategies import json_values, words
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore
from turnlog.integrations.claude_agent_sdk.keys import Key

PROJECTS = ("-home-ada-orchard", "proj")
SESSIONS = ("5f0c3a52-8f0e-4c55-9d3e-0b4f8a2f6d10", "s")
SUBPATHS = (None, "subagents/agent-a1", "subagents/workflows/run-1/agent-b2", "..", "notes")

keys = st.builds(
    Key, st.sampled_from(PROJECTS), st.sampled_from(SESSIONS), st.sampled_from(SUBPATHS)
)
uuids = st.integers(0, 12).map(lambda n: f"uuid-{n}")
texts = words | st.sampled_from(
    ["\ud800", "\0", "\u2028", "Prune the old tree.", "<tick>", "x" * 300]
)
entries = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "tag", "progress", "agent_metadata"])},
    optional={
        "uuid": uuids | st.sampled_from([None, 7, ""]),
        "timestamp": st.sampled_from(["2026-10-05T08:00:00.000Z", "0001-01-01T00:00:00", "x"]),
        "message": st.fixed_dictionaries({"role": st.just("user"), "content": texts}),
        "isSidechain": st.booleans(),
        "customTitle": texts,
        "tag": texts,
        "cwd": texts,
        "more": json_values,
    },
)
batches = st.lists(entries, max_size=5)
deeds = st.one_of(
    st.tuples(st.just("append"), keys, batches),
    st.tuples(st.just("append"), keys, batches),
    st.tuples(st.just("retry"), keys, batches),
    st.tuples(st.just("cut"), keys, batches, st.floats(0, 1)),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("other")),
    st.tuples(st.just("list"), st.sampled_from(PROJECTS)),
    st.tuples(st.just("delete"), keys),
)


class Model:
    """What a store must hold."""

    def __init__(self):
        self.logs = {}

    def append(self, key, batch):
        log = self.logs.get(key, [])
        known = {entry["uuid"] for entry in log if isinstance(entry.get("uuid"), str)} - {""}
        for entry in batch:
            uuid = entry.get("uuid")
            if isinstance(uuid, str) and uuid:
                if uuid in known:
                    continue
                known.add(uuid)
            log.append(entry)
        if log:
            self.logs[key] = log

    def delete(self, key):
        gone = [each for each in self.logs if each[:2] == key[:2]] if key.subpath is None else [key]
        for each in gone:
            self.logs.pop(each, None)

    def sessions(self, project):
        return sorted(each[1] for each in self.logs if each[0] == project and each[2] is None)

    def subkeys(self, key):
        of_session = (each for each in self.logs if each[:2] == key[:2])
        return sorted(each[2] for each in of_session if each[2] is not None)


def folded(key, log):
    """Fold a log's entries as the SDK would, one by one, without those that it cannot fold."""
    summary = None
    for entry in log:
        try:
            summary = sdk.fold_session_summary(summary, key.as_dict(), [entry])
        except Exception:
            continue
    return summary["data"] if summary else {}


async def compare(store, model):
    for key in (Key(*each) for each in _all_keys()):
        assert await store.load(key.as_dict()) == model.logs.get(key), key
        if key.subpath is None:
            assert sorted(await store.list_subkeys(key.as_dict())) == model.subkeys(key)
    for project in PROJECTS:
        listed = {each["session_id"]: each["mtime"] for each in await store.list_sessions(project)}
        assert sorted(listed) == model.sessions(project)
        for each in await store.list_session_summaries(project):
            assert each["mtime"] == listed.pop(each["session_id"])
            key = Key(project, each["session_id"])
            assert each["data"] == folded(key, model.logs[key])
        assert not listed


def _all_keys():
    return ((p, s, subpath) for p in PROJECTS for s in SESSIONS for subpath in SUBPATHS)


def cut_short(root, key, batch, part):
    """Do what a killed append leaves: some of its bytes; give the entries that stand whole."""
    data = b"".join(json.dumps(entry).encode() + b"\n" for entry in batch)
    cut = int(len(data) * part)
    log = log_of(root, key.as_dict()) if key.subpath != ".." else None
    if log is None or not log.exists():
        return []
    with log.open("ab") as file:
        file.write(data[:cut])
    # The last one may lack only its newline.
    return batch[: (data[:cut] + b"\n").count(b"\n") - 1 + _is_whole(data[:cut])]


def _is_whole(data):
    try:
        json.loads(data.rpartition(b"\n")[2])
    except ValueError:
        return 0
    return 1


async def play(root, script):
    model, store, other = Model(), TurnlogSessionStore(root), TurnlogSessionStore(root)
    for name, *told in script:
        if name in {"append", "retry"}:
            key, batch = told
            for _ in range(1 if name == "append" else 3):
                again = [each for each in batch if each.get("uuid")] if name == "retry" else batch
                await store.append(key.as_dict(), again)
                model.append(key, again)
        elif name == "cut":
            key, batch, part = told
            known = {entry.get("uuid") for entry in model.logs.get(key, ())}
            new = {}
            for entry in batch:
                uuid = entry.get("uuid")
                if isinstance(uuid, str) and uuid and uuid not in known:
                    new.setdefault(uuid, entry)
            standing = cut_short(root, key, list(new.values()), part)
            model.append(key, standing)
            await store.append(key.as_dict(), list(new.values()))
            model.append(key, list(new.values()))
        elif name == "reopen":
            store.close()
            store = TurnlogSessionStore(root)
        elif name == "other":
            store, other = other, store
        elif name == "list":
            assert len(await store.list_session_summaries(told[0])) == len(model.sessions(told[0]))
        else:
            await store.delete(told[0].as_dict())
            model.delete(told[0])
    await compare(store, model)
    await compare(TurnlogSessionStore(root), model)


@given(script=st.lists(deeds, max_size=8), backend=st.sampled_from(["asyncio", "trio"]))
def test_it_holds_what_a_dictionary_holds(script, backend):
    with tempfile.TemporaryDirectory() as root:
        anyio.run(play, Path(root), script, backend=backend)
