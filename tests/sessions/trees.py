"""Small logs in a few words: builders for records that hang together."""

import json

from turnlog.records.codec import decode
from turnlog.sessions.reading.tree import Tree
from turnlog.storage.reader import Placed


def record(uuid, parent=None, kind="user", **fields):
    """A record named *uuid*; its message says its own name unless told otherwise."""
    message = fields.pop("message", {"role": kind, "content": f"this is {uuid}"})
    base = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s"}
    if kind in ("user", "assistant"):
        base["message"] = message
    return base | fields


def answer(uuid, parent, message_id, *blocks, **fields):
    """An assistant's record: a part of the response *message_id*."""
    content = list(blocks) or [{"type": "text", "text": f"this is {uuid}"}]
    message = {"role": "assistant", "id": message_id, "model": "m", "content": content}
    return record(uuid, parent, "assistant", message=message, **fields)


def call(call_id, name="Bash", **asked):
    return {"type": "tool_use", "id": call_id, "name": name, "input": asked}


def result(uuid, parent, call_id, **fields):
    """A tool's answer to *call_id*."""
    blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": "done"}]
    return record(uuid, parent, message={"role": "user", "content": blocks}, **fields)


def line(fields):
    return json.dumps(fields, separators=(",", ":")).encode()


def log_of(*records):
    return b"".join(line(fields) + b"\n" for fields in records)


def placed(*records):
    offset = 0
    for number, fields in enumerate(records, 1):
        data = line(fields)
        yield Placed(decode(data), offset, len(data), number)
        offset += len(data) + 1


def tree(*records):
    return Tree(placed(*records))


def names(nodes):
    return [node.uuid for node in nodes]
