"""A home with things beside its logs, made file by file."""

import json
import os

from turnlog.formats import find_homes

PROJECT = "/home/ada/orchard"


def make_home(tmp_path):
    (tmp_path / "home" / "projects").mkdir(parents=True)
    (tmp_path / "home" / "statsig").mkdir()  # The home is Claude Code's own.
    return find_homes((tmp_path / "home",))[0]


def write(home, place, content=b"", *, at=None):
    """Write *content* (bytes, text, or anything JSON can hold) at *place* in *home*."""
    path = home.path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, bytes):
        text = content if isinstance(content, str) else json.dumps(content)
        content = text.encode("utf-8", "surrogatepass")
    path.write_bytes(content)
    if at is not None:
        os.utime(path, (at, at))
    return path


def log(home, session_id, *records, subagent=None):
    """Write a log of *records*, dicts, into the one project of *home*."""
    name = f"{session_id}/subagents/agent-{subagent}" if subagent else session_id
    lines = "".join(json.dumps({"sessionId": session_id} | each) + "\n" for each in records)
    return write(home, f"projects/-home-ada-orchard/{name}.jsonl", lines)


def prompt(uuid, parent=None, **more):
    message = {"role": "user", "content": f"this is {uuid}"}
    fields = {"type": "user", "uuid": uuid, "parentUuid": parent, "cwd": PROJECT}
    return fields | {"message": message} | more


def kept(name, number=1, at="2026-11-01T10:00:00.000Z"):
    return {"backupFileName": name, "version": number, "backupTime": at}


def snapshot(message, files, *, update_of=None):
    """A snapshot record of *message*; an update carries another message's id outside."""
    inner = {"messageId": message, "trackedFileBackups": files}
    inner["timestamp"] = "2026-11-01T10:00:00.000Z"
    return {
        "type": "file-history-snapshot",
        "messageId": update_of or message,
        "snapshot": inner,
        "isSnapshotUpdate": update_of is not None,
    }


def delta(message, path, version):
    return {
        "type": "file-history-delta",
        "messageId": "somewhere-in-the-turn",
        "snapshotMessageId": message,
        "trackingPath": path,
        "backup": version,
        "timestamp": "2026-11-01T10:00:01.000Z",
    }


def edit(uuid, parent, path, tool="Edit", **told):
    """The two records of a call that wrote *path*: asked for, and done."""
    block = {"type": "tool_use", "id": f"call-{uuid}", "name": tool, "input": {"file_path": path}}
    message = {"role": "assistant", "content": [block]}
    asked = {"type": "assistant", "uuid": f"{uuid}-asked", "parentUuid": parent}
    result = {"type": "tool_result", "tool_use_id": f"call-{uuid}", "content": "done"}
    done = prompt(uuid, f"{uuid}-asked", toolUseResult={"filePath": path} | told)
    done["message"] = {"role": "user", "content": [result]}
    return asked | {"message": message}, done
