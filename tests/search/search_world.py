"""A small home of which everything is known, and what a search of it should find."""

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

import pytest

from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh
from turnlog.search.language import All, Any, FieldFilter, Not, Phrase, Word

NOW = datetime(2026, 11, 10, tzinfo=UTC)
START = datetime(2026, 11, 1, 10, tzinfo=UTC)
ORCHARD, TOOLS = "/home/ada/orchard", "/home/ada/tools/press"
ONE, TWO, THREE = (f"{each * 8}-aaaa-4aaa-8aaa-{each * 12}" for each in "123")


@dataclass
class Doc:
    """One text, and all that a filter may ask of it."""

    text: str
    kind: str
    session: str
    project: str
    at: datetime
    uuid: str
    author: str
    type: str
    tool: str | None = None
    file: str | None = None
    model: str | None = None
    branch: str | None = None
    is_error: bool = False
    of_subagent: bool = False


@dataclass
class World:
    docs: list[Doc] = field(default_factory=list)
    lines: dict[str, list[str]] = field(default_factory=dict)
    step: int = 0

    def _add(self, place, record, *docs):
        self.step += 1
        at = START + timedelta(hours=self.step)
        stamp = at.isoformat().replace("+00:00", "Z")
        uuid = f"{self.step:08x}-0000-4000-8000-{self.step:012x}"
        record |= {"uuid": uuid, "timestamp": stamp}
        self.lines.setdefault(place, []).append(json.dumps(record, ensure_ascii=self.step % 2 == 0))
        for doc in docs:
            self.docs.append(Doc(at=at, uuid=uuid, type=record["type"], **doc))

    def _base(self, session, project, branch, subagent):
        key = re.sub("[^A-Za-z0-9]", "-", project)
        name = f"{session}/subagents/agent-{subagent}" if subagent else session
        more = {"isSidechain": True, "agentId": subagent} if subagent else {}
        common = {"sessionId": session, "cwd": project, "gitBranch": branch} | more
        about = {
            "session": session,
            "project": project,
            "branch": branch,
            "of_subagent": bool(subagent),
        }
        return f"{key}/{name}.jsonl", common, about

    def prompt(self, text, session=ONE, project=ORCHARD, branch="main", subagent=None):
        place, common, about = self._base(session, project, branch, subagent)
        record = {"type": "user", "message": {"role": "user", "content": text}} | common
        author = "caller" if subagent else "human"
        self._add(place, record, {"text": text, "kind": "prompt", "author": author} | about)

    def answer(
        self, *blocks, session=ONE, project=ORCHARD, branch="main", subagent=None, model="opus",
        fails=False,
    ):  # fmt: skip
        """Each block is a text, ("thinking", text) or (tool, file, text)."""
        place, common, about = self._base(session, project, branch, subagent)
        about |= {"author": "subagent" if subagent else "assistant", "model": model}
        content, docs = [], []
        for block in blocks:
            if isinstance(block, str):
                content.append({"type": "text", "text": block})
                docs.append({"text": block, "kind": "response"} | about)
            elif block[0] == "thinking":
                content.append({"type": "thinking", "thinking": block[1], "signature": ""})
                docs.append({"text": block[1], "kind": "thinking"} | about)
            else:
                tool, file, said = block
                name = f"call-{self.step}"
                given = ({"path" if tool == "Grep" else "file_path": file} if file else {}) | {
                    "said": said
                }
                content.append({"type": "tool_use", "id": name, "name": tool, "input": given})
                text = "\n".join(filter(None, (file, said)))
                known = {"tool": tool, "file": file, "is_error": fails}
                docs.append({"text": text, "kind": "call"} | about | known)
        message = {"role": "assistant", "id": f"m{self.step}", "model": model, "content": content}
        self._add(place, {"type": "assistant", "message": message} | common, *docs)

    def result(self, tool, file, asked, text, **where):
        """A call and what came of it; one that says boom fails."""
        self.answer((tool, file, asked), fails="boom" in asked, **where)
        name, failed = f"call-{self.step - 1}", "boom" in asked
        where.pop("model", None)
        here = {"session": ONE, "project": ORCHARD, "branch": "main", "subagent": None} | where
        place, common, about = self._base(**here)
        block = {"type": "tool_result", "tool_use_id": name, "content": text, "is_error": failed}
        record = {"type": "user", "message": {"role": "user", "content": [block]}} | common
        known = {"kind": "result", "author": "tool", "tool": tool, "file": file}
        self._add(place, record, {"text": text, "is_error": failed} | known | about)

    def write(self, home):
        for place, lines in self.lines.items():
            path = home / "projects" / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def make_world():
    world = World()
    world.prompt("fix the retry loop, please: it never backs off")
    world.answer(
        "I will add exponential backoff to the retry loop.", ("thinking", "retry twice? no")
    )
    world.result("Bash", None, "cargo test retry", "running 3 tests\nretry ... ok\nloop ok")
    world.result("Read", f"{ORCHARD}/src/retry.py", "", "def retry(loop):\n    pass")
    world.result("Edit", f"{ORCHARD}/src/loop.rs", "backoff boom", "String to replace not found")
    world.prompt("Grüße aus Köln: das Café bleibt offen ✅", session=TWO, branch="feat/café")
    world.answer("数据库连接失败。需要重试", session=TWO, branch="feat/café", model="haiku-4")
    world.answer(
        "日本語のテキスト検索 → できました", session=TWO, branch="feat/café", model="haiku-4"
    )
    world.prompt("서버가 응답하지 않는다", session=TWO, branch="feat/café")
    world.prompt("look for apples", session=ONE, subagent="a1")
    world.answer("Found apples, and the retry loop.", subagent="a1", model="haiku-4")
    world.result("Grep", TOOLS, "apple.*", "press/apple.py:3: apples = []", subagent="a1")
    world.prompt(
        "press the apples: std::vector<int> v; v.push_back(x)", session=THREE, project=TOOLS
    )
    world.answer("Loop over apples -> juice; x := y", ("Bash", None, "make juice boom"),
                 session=THREE, project=TOOLS, branch="juice")  # fmt: skip
    world.prompt("loop loop LOOP Retry", session=THREE, project=TOOLS, branch="juice")
    return world


@contextmanager
def open_world(world, tmp_path):
    """Write *world* as a home and open its index; TURNLOG_HOME is as it was as soon as it is."""
    home = tmp_path / "home"
    world.write(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
        opened = open_fresh(find_homes((home,)))
    with opened:
        yield opened


def terms(text):
    """Words by the simplest rule that holds for the ASCII words that trees here ask for."""
    return re.findall(r"[^\W_]+", text.lower())


def holds(node, doc):
    """What a tree asks of a text, said once more and without any index."""
    match node:
        case None:
            return True
        case Not():
            return not holds(node.node, doc)
        case All():
            return all(holds(each, doc) for each in node.nodes)
        case Any():
            return any(holds(each, doc) for each in node.nodes)
        case FieldFilter():
            return _is(node, doc)
    wanted, found = terms(node.text), terms(doc.text)
    if not wanted:
        return node.text in doc.text
    is_prefix = isinstance(node, Word) and node.is_prefix
    for at in range(len(found) - len(wanted) + 1):
        piece = found[at : at + len(wanted)]
        last = piece[-1].startswith(wanted[-1]) if is_prefix else piece[-1] == wanted[-1]
        if piece[:-1] == wanted[:-1] and last:
            return True
    assert isinstance(node, Word | Phrase)
    return False


def _is(wanted, doc):
    value = wanted.value
    of_tool = doc.kind in ("call", "result")
    match wanted.field:
        case "before":
            return doc.at < wanted.at
        case "after" | "since":
            return doc.at >= wanted.at
        case "session":
            return doc.session.startswith(value)
        case "project" if value.startswith("/"):
            return doc.project == value or doc.project.startswith(value + "/")
        case "project":
            return value.lower() in doc.project.lower()
        case "tool":
            return of_tool and fnmatchcase((doc.tool or "").lower(), value.lower())
        case "file" if "*" in value:
            return doc.file is not None and fnmatchcase(doc.file, value)
        case "file":
            return doc.file is not None and value in doc.file
        case "model":
            return value in (doc.model or "")
        case "branch":
            return value == doc.branch
        case "role":
            return value == doc.author
        case "type":
            return value in (doc.type, doc.kind)
    flags = {"error": doc.is_error, "subagent": doc.of_subagent, "gone": False}
    return flags.get(value, value == doc.kind)
