"""The sessions that these tests write, and what of them arrives at the API."""

from datetime import UTC, datetime, timedelta

from e2e.fake_api import blocks_of
from turnlog import build
from turnlog.records.dates import iso

ID = "66666666-ffff-4fff-8fff-666666666666"
MODEL = "claude-sonnet-4-5-20250929"


def write_session(claude):
    """Four messages: a prompt, a call, its result, an answer."""
    with claude.store.create(project=claude.project, session_id=ID) as session:
        session.append(build.user("How many apples?"))
        asked = build.call("Bash", {"command": "cat apples", "description": "Count"})
        session.append(build.assistant([asked], model=MODEL, stop_reason="tool_use"))
        session.append(build.result(asked["id"], "forty-two"))
        session.append(build.assistant("Forty-two apples.", model=MODEL))
    return session.path


# What is said in the long session, record by record: role, kind of block, words. The calls of
# plums and figs are parallel: one response in two records, each result hanging from its own call.
LONG = [
    ("user", "text", "How many apples?"),
    ("assistant", "tool_use", "apples"),
    ("user", "tool_result", "forty-two"),
    ("assistant", "text", "Forty-two apples."),
    ("user", "text", "And plums, and figs?"),
    ("assistant", "tool_use", "plums"),
    ("assistant", "tool_use", "figs"),
    ("user", "tool_result", "seven"),
    ("user", "tool_result", "nine"),
    ("assistant", "text", "Seven plums and nine figs."),
    ("user", "text", "Is that so?"),
    ("assistant", "text", "It is."),
]
PARENTS = [None, 0, 1, 2, 3, 4, 5, 5, 6, 8, 9, 10]
ANSWERS = {"forty-two": "apples", "seven": "plums", "nine": "figs"}


def write_long_session(claude):
    """Write what is said in LONG; give the log and the uuids.

    Of every two records the first is the later one, by its clock: real clocks step back, and
    whoever links records by time instead of parents is caught.
    """
    began_at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    uuids = []
    with claude.store.create(project=claude.project, session_id=ID) as session:
        for number, (role, kind, words) in enumerate(LONG):
            parent = PARENTS[number]
            place = {
                "parentUuid": None if parent is None else uuids[parent],
                "timestamp": iso(began_at + timedelta(seconds=number ^ 1)),
            }
            uuids.append(session.append(_said(role, kind, words) | place))
    return session.path, uuids


def _said(role, kind, words):
    if kind == "tool_result":
        return build.result(f"toolu_{ANSWERS[words]}", words)
    if kind == "tool_use":
        asked = {"command": f"cat {words}", "description": "Count"}
        call = build.call("Bash", asked, call_id=f"toolu_{words}")
        message_id = "msg_apples" if words == "apples" else "msg_plums_and_figs"
        return build.assistant([call], model=MODEL, stop_reason="tool_use", message_id=message_id)
    return build.user(words) if role == "user" else build.assistant(words, model=MODEL)


def arrived(messages):
    """List what a request says, block by block, without what the program says by itself."""
    said = [
        (message["role"], block["type"], _words(block))
        for message in messages
        if message["role"] != "system"
        for block in blocks_of(message)
    ]
    return [each for each in said if not each[2].startswith("<system-reminder>")]


def _words(block):
    match block["type"]:
        case "text":
            return block["text"].strip()
        case "tool_use":
            return block["id"].removeprefix("toolu_")
        case "tool_result":
            return "".join(part["text"] for part in blocks_of(block))
    return ""
