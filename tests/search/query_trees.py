"""Small homes for queries: logs built from a plan, and what a plain look at the plan finds in them.

Nothing here asks the index: rows are made from the dicts that were written.
"""

import json
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh

BEGIN = datetime(2026, 11, 1, 10, tzinfo=UTC)
SESSIONS = (
    "aaaaaaaa-1111-4111-8111-111111111111",
    "aabbbbbb-2222-4222-8222-222222222222",
    "cccccccc-3333-4333-8333-333333333333",
)
PROJECTS = ("/home/ada/orchard", "/home/ada/orchard/cellar", "/home/ada/lighthouse")
# The fourth log is that of a subagent of the first session.
LOGS = (
    f"-home-ada-orchard/{SESSIONS[0]}.jsonl",
    f"-home-ada-orchard-cellar/{SESSIONS[1]}.jsonl",
    f"-home-ada-lighthouse/{SESSIONS[2]}.jsonl",
    f"-home-ada-orchard/{SESSIONS[0]}/subagents/agent-a1b2c3d.jsonl",
)
TOOLS = ("Read", "Edit", "Bash", "mcp__barn__open")
WORDS = ("frost", "graft", "pears and plums", "", "two\nlines\tand\\more")
KINDS = ("prompt", "text", "thinking", "call", "ok", "error", "api_error", "meta", "summary")

events = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(KINDS),
        st.one_of(st.none(), st.integers(0, 4)),
        st.sampled_from(("main", "frost", None)),
        st.sampled_from(TOOLS),
        st.sampled_from(WORDS),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=40,
)


class Tree:
    """A home made of a plan."""

    def __init__(self, plan):
        self.lines = {log: [] for log in range(len(LOGS))}
        self.records = []  # As written, with the number of their log and their offset.
        self.calls = []
        self._open = {}
        self._sizes = dict.fromkeys(self.lines, 0)
        self._parents = {}
        for number, event in enumerate(plan):
            self._add(number, event)

    def _add(self, number, event):
        log, kind, minute, branch, tool, words, share = event
        call = self._open.get(log, [])
        if kind in ("ok", "error") and not call:
            kind = "text"
        # Some ids are no UUIDs, as in other programs' logs.
        uuid = f"r-{number}" if number % 5 == 4 else f"{number:08x}-0000-4000-8000-00000000000a"
        fields = {"type": _TYPES[kind], "sessionId": SESSIONS[log % 3]}
        if kind == "summary":
            fields |= {"summary": words, "leafUuid": "x"}
        else:
            project = PROJECTS[log % 3]
            fields |= {"uuid": uuid, "parentUuid": self._parents.get(log), "cwd": project}
            fields |= {"version": "2.1.200"} | ({"gitBranch": branch} if branch else {})
            self._parents[log] = uuid
            if log == 3:
                fields |= {"isSidechain": True, "agentId": "a1b2c3d"}
            if minute is not None:
                at = BEGIN + timedelta(minutes=minute)
                fields["timestamp"] = at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
            fields |= self._message(number, log, kind, tool=tool, words=words, share=share)
        data = json.dumps(fields).encode() + b"\n"
        offset, self._sizes[log] = self._sizes[log], self._sizes[log] + len(data)
        row = {"log": log, "offset": offset, "length": len(data) - 1, "kind": kind, "json": fields}
        row |= {"words": words, "tool": tool, "number": number}
        self.records.append(row)
        self.lines[log].append(data)
        if kind == "call":
            asked = {"record": row, "tool": tool, "id": f"toolu_{number}", "answer": None}
            self.calls.append(asked)
            self._open.setdefault(log, []).append(asked)
        elif kind in ("ok", "error"):
            call.pop(0)["answer"] = row

    def _message(self, number, log, kind, *, tool, words, share):
        if kind == "prompt":
            return {"message": {"role": "user", "content": words}}
        if kind == "meta":
            return {"message": {"role": "user", "content": words}, "isMeta": True}
        if kind in ("ok", "error"):
            asked = self._open[log][0]["id"]
            block = {"type": "tool_result", "tool_use_id": asked, "content": words}
            if kind == "error":
                block["is_error"] = True
            return {"message": {"role": "user", "content": [block]}}
        name = f"msg_{log}_{share}"  # Several records carry one message.
        usage = {"input_tokens": 10 + share, "output_tokens": 3 + log}
        block = {"type": "text", "text": words}
        if kind == "thinking":
            block = {"type": "thinking", "thinking": words}
        elif kind == "call":
            given = {"file_path": f"/barn/{share}.py"} if tool in ("Read", "Edit") else {"x": words}
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": given}
        message = {"role": "assistant", "id": name, "model": "claude-opus-4-6", "content": [block]}
        if kind == "api_error":
            message |= {"id": f"err_{number}", "model": "<synthetic>", "content": [block]}
            return {"message": message, "isApiErrorMessage": True}
        return {"message": message | {"usage": usage}}

    def write(self, home, shares=(1.0,)):
        """Write the logs; several *shares* write them piece by piece, and yield between."""
        for share in shares:
            for log, lines in self.lines.items():
                if lines:
                    path = home / "projects" / LOGS[log]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(b"".join(lines[: round(len(lines) * share)]))
            yield share

    # What a plain look finds.

    def entries(self, home):
        return [self._entry(row, home) for row in self.records]

    def _entry(self, row, home):
        fields, kind, log = row["json"], row["kind"], row["log"]
        of_subagent = log == 3
        author = {
            "prompt": "caller" if of_subagent else "human",
            "ok": "tool",
            "error": "tool",
            "meta": "program",
            "summary": "program",
        }.get(kind, "subagent" if of_subagent else "assistant")
        role = {"prompt": "user", "ok": "tool", "error": "tool", "meta": None, "summary": None}
        message = fields.get("message", {})
        at = fields.get("timestamp")
        return {
            "uuid": fields.get("uuid"),
            "parent_uuid": fields.get("parentUuid"),
            "type": fields["type"],
            "author": author,
            "role": role.get(kind, "assistant"),
            "session_id": fields["sessionId"],
            "project": self.project_of(log),
            "git_branch": fields.get("gitBranch"),
            "at": None if at is None else datetime.fromisoformat(at),
            "subagent": "a1b2c3d" if of_subagent else None,
            "model": message.get("model"),
            "message_id": message.get("id"),
            "is_error": kind in ("error", "api_error"),
            "log": str(home / "projects" / LOGS[log]),
            "offset": row["offset"],
            "length": row["length"],
            "content": self._content(row),
        }

    def project_of(self, log):
        """Where a session worked: as its main log says, or its agent's if it has none."""
        of = [row for row in self.records if row["log"] % 3 == log % 3 and "cwd" in row["json"]]
        main = [row for row in self.records if row["log"] == log % 3]
        told = [row for row in of if row["log"] == log % 3] if main else of
        return PROJECTS[log % 3] if told else None

    def _content(self, row):
        if row["kind"] != "call":
            return row["words"]
        return "\n".join(row["json"]["message"]["content"][0]["input"].values())

    def tools(self, home):
        rows = []
        for call in self.calls:
            entry, answer = self._entry(call["record"], home), call["answer"]
            given = call["record"]["json"]["message"]["content"][0]["input"]
            answered = None if answer is None else self._entry(answer, home)
            rows.append(
                {name: entry[name] for name in _OF_CALLS}
                | {
                    "tool_name": call["tool"],
                    "call_id": call["id"],
                    "status": "pending" if answer is None else _STATUS[answer["kind"]],
                    "is_error": None if answer is None else answer["kind"] == "error",
                    "file": given.get("file_path"),
                    "input": given,
                    "result": None if answer is None else answer["words"],
                    "duration_ms": _took(entry, answered),
                }
            )
        return rows

    def messages(self, home):
        groups = {}
        for row in self.records:
            if row["kind"] in ("ok", "error", "meta", "summary"):
                continue
            name = row["json"]["message"].get("id") or row["number"]
            groups.setdefault((row["log"], name), []).append(row)
        return [self._one_message(rows, home) for rows in groups.values()]

    def _one_message(self, rows, home):
        first = self._entry(rows[0], home)
        parts = [self._entry(row, home) for row in rows]
        times = [part["at"] for part in parts if part["at"] is not None]
        is_counted = first["role"] == "assistant" and rows[0]["kind"] != "api_error"
        usage = rows[0]["json"]["message"].get("usage", {})
        shown = (row["words"] for row in rows if row["kind"] in ("prompt", "text", "api_error"))
        return first | {
            "at": min(times, default=None),
            "is_error": any(part["is_error"] for part in parts),
            "records": len(rows),
            "input": usage.get("input_tokens") if is_counted else None,
            "output": usage.get("output_tokens") if is_counted else None,
            "text": "\n".join(filter(None, shown)),
            "parts": [(row, part) for row, part in zip(rows, parts, strict=True)],
        }


_TYPES = dict.fromkeys(KINDS, "assistant") | {
    "prompt": "user", "meta": "user", "ok": "user", "error": "user", "summary": "summary",
}  # fmt: skip
_STATUS = {"ok": "success", "error": "error"}
_OF_CALLS = (
    "session_id", "project", "git_branch", "at", "subagent", "uuid", "parent_uuid", "model",
    "message_id", "log", "offset",
)  # fmt: skip


def _took(asked, answered):
    if answered is None or asked["at"] is None or answered["at"] is None:
        return None
    return max(0.0, (answered["at"] - asked["at"]).total_seconds() * 1000)


def opened(home):
    """Open the index of *home*, refreshed."""
    return open_fresh(find_homes([home]))


def built(tmp, plan):
    """Write a plan's logs into a home in *tmp*; give the tree and the home."""
    home = tmp / "home"
    (home / "projects").mkdir(parents=True)
    tree = Tree(plan)
    for _ in tree.write(home):
        pass
    return tree, home


def log_order(index):
    """Give the order in which the index keeps logs: rows that are equal in order stand so."""
    return {path: number for number, path in index.db.execute("SELECT id, path FROM logs")}
