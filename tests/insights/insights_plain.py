"""Insights counted the plain way: every line of every log decoded with the json module, no index.

Only the ledger's own scan of the logs (which has its tests) tells of responses; everything that is
made of them here is made anew.
"""

import json
import re
import statistics
from collections import Counter, defaultdict
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import msgspec

from turnlog.costs.usage import scan_usage
from turnlog.formats import find_everywhere, find_homes
from turnlog.pricing.cost import PriceTerms
from turnlog.records.responses import UNKNOWN

EDITORS = {
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "Write": "file_path",
    "NotebookEdit": "notebook_path",
}
MARK = re.compile(
    r"\s*<(task-notification|(local-command|bash)-std(out|err))>"
    r"|\s*<(ide_opened_file|ide_selection)>.*</\4>\s*\Z",
    re.DOTALL,
)
STOPPED = re.compile(r"\s*\[Request interrupted by user[^\]]*\]")
COMMAND = re.compile(r"<command-name>\s*(\S[^<]*?)\s*</command-name>")


def _with_sidechains(responses):
    """Name the subagents of responses in main logs: by the first records of their threads."""
    starts = {}
    for path in {each.log for each in responses if each.is_sidechain and each.subagent is None}:
        offset, parents, places = 0, {}, {}
        for line in Path(path).read_bytes().splitlines(keepends=True):
            with suppress(ValueError):
                record = json.loads(line)
                parents[record.get("uuid")] = record.get("parentUuid")
                places[offset] = record
            offset += len(line)
        said = [each for each in places.values() if each.get("type") in ("user", "assistant")]
        if all(each.get("isSidechain") for each in said):
            continue
        for place, record in places.items():
            uuid = record.get("uuid")
            while parents.get(uuid):
                uuid = parents[uuid]
            starts[path, place] = uuid
    return [
        msgspec.structs.replace(each, subagent=starts.get((each.log, each.offset)))
        if each.is_sidechain and each.subagent is None
        else each
        for each in responses
    ]


class Plain:
    """A home, read plainly."""

    def __init__(self, home):
        homes = find_homes([home])
        logs = list(find_everywhere(homes))
        self.logs = [self._read(log) for log in logs]
        self._mark_repeats([log.path for log in logs])
        self.mains = {
            session
            for log, (session, rows) in zip(logs, self.logs, strict=True)
            if log.kind == "session" and not (rows and rows[0].get("isSidechain") is True)
        }
        self.responses = _with_sidechains(scan_usage(homes).responses)

    def _mark_repeats(self, paths):
        """Mark what stands in several logs, but for the first of them by session and path."""
        first = {}
        for number in sorted(range(len(paths)), key=lambda n: (self.logs[n][0] or "", paths[n])):
            for record in self.logs[number][1]:
                log = first.setdefault(record.get("uuid") or id(record), number)
                record["is a repeat"] = log != number

    def _read(self, log):
        rows = []
        session = log.session_id
        for line in log.path.read_bytes().split(b"\n"):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict) and isinstance(value.get("type"), str):
                rows.append(value)
                if session is None and isinstance(value.get("sessionId"), str):
                    session = value["sessionId"]
        return session, rows


def instant(record):
    text = record.get("timestamp")
    if not isinstance(text, str):
        return None
    return datetime.fromisoformat(text).astimezone(UTC)


def blocks_of(record):
    content = (record.get("message") or {}).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [each for each in content or [] if isinstance(each, dict)]


def texts_of(record):
    return [each.get("text", "") for each in blocks_of(record) if each.get("type") == "text"]


def in_subagent(record):
    return record.get("isSidechain") is True or record.get("agentId") is not None


def results_of(record):
    if record["type"] != "user":
        return []
    return [each for each in blocks_of(record) if each.get("type") == "tool_result"]


def is_mains(record):
    """Tell whether a record of the main log speaks in a person's name."""
    return (
        record["type"] == "user"
        and not results_of(record)
        and not record.get("isMeta")
        and not record.get("isCompactSummary")
        and not in_subagent(record)
    )


def is_work(record):
    return record["type"] == "assistant" or bool(results_of(record))


def command_of(record):
    texts = texts_of(record) if record["type"] == "user" else [record.get("content") or ""]
    for text in texts:
        if isinstance(text, str) and text.lstrip().startswith("<command-"):
            found = COMMAND.search(text)
            if found:
                return found[1][:80]
    return None


def is_stopped(record):
    return any(STOPPED.match(text) for text in texts_of(record))


def is_prompt(record):
    """Tell whether a person typed it: text that is none of the program's marks."""
    if not is_mains(record):
        return False
    said = [text for text in texts_of(record) if text.split()]
    typed = any(not MARK.match(text) and not STOPPED.match(text) for text in said)
    return typed or not said or any(each.get("type") == "image" for each in blocks_of(record))


def within(at, asked):
    if at is None:
        return asked.since is None and asked.until is None
    return (asked.since is None or at >= asked.since) and (asked.until is None or at < asked.until)


def calls_of(plain, asked):
    """Every call of the period: session, log, tool, when, what came of it, and the model."""
    found = []
    for number, (session, rows) in enumerate(plain.logs):
        waiting, early = {}, {}
        for record in rows:
            if record["type"] == "assistant":
                for block in blocks_of(record):
                    if block.get("type") == "tool_use":
                        call = {
                            "log": number,
                            "session": session,
                            "tool": block["name"],
                            "at": instant(record),
                            "input": block.get("input"),
                            "model": (record["message"] or {}).get("model"),
                            "result": None,
                            "failed": None,
                        }
                        if not record["is a repeat"]:
                            found.append(call)
                        if block["id"] in early:
                            call |= early.pop(block["id"])
                        else:
                            waiting[block["id"]] = call
            for result in results_of(record):
                came = {"result": record, "failed": result.get("is_error") is True}
                came["answered_at"] = instant(record)
                call = waiting.pop(result["tool_use_id"], None)
                if call is not None:
                    call |= came
                else:
                    early.setdefault(result["tool_use_id"], came)
    return [call for call in found if within(call["at"], asked)]


def took_ms(call):
    if call["result"] is None or call["at"] is None or call["answered_at"] is None:
        return None
    return max(0, (call["answered_at"] - call["at"]) / timedelta(milliseconds=1))


def tools_of(calls):
    rows = {}
    for tool in {call["tool"] for call in calls}:
        own = [call for call in calls if call["tool"] == tool]
        answered = [call for call in own if call["failed"] is not None]
        times = [each for each in map(took_ms, own) if each is not None]
        rows[tool] = {
            "calls": len(own),
            "failed": sum(call["failed"] for call in answered),
            "unanswered": len(own) - len(answered),
            "rate": sum(call["failed"] for call in answered) / len(answered) if answered else None,
            "total_ms": sum(times),
            "median_ms": statistics.median(times) if times else None,
            "longest_ms": max(times, default=None),
        }
    return rows


def sequences_of(calls):
    logs = defaultdict(list)
    for call in calls:
        logs[call["log"]].append(call["tool"])
    found = Counter()
    for tools in logs.values():
        for length in (2, 3):
            found.update(tuple(tools[n : n + length]) for n in range(len(tools) - length + 1))
    return {run: count for run, count in found.items() if count >= 3 and len(set(run)) > 1}


def lines_of(result):
    told = result.get("toolUseResult")
    if not isinstance(told, dict):
        return None
    hunks = told.get("structuredPatch")
    content = told.get("content")
    patch = [line for hunk in hunks or [] for line in hunk.get("lines", [])]
    if not patch and isinstance(content, str) and content:
        return len(content.splitlines()), 0
    if not isinstance(hunks, list):
        return None
    return (
        sum(line.startswith("+") for line in patch),
        sum(line.startswith("-") for line in patch),
    )


def edits_of(calls):
    files = defaultdict(lambda: {"edits": 0, "failed": 0, "added": 0, "removed": 0})
    tries, unknown = Counter(), 0
    for call in calls:
        key = EDITORS.get(call["tool"])
        path = (call["input"] or {}).get(key) if isinstance(call["input"], dict) and key else None
        if not path or call["failed"] is None:
            continue
        file = files[path]
        if call["failed"]:
            file["failed"] += 1
            continue
        file["edits"] += 1
        tries[path, call["session"]] += 1
        lines = lines_of(call["result"])
        unknown += lines is None
        file["added"] += (lines or (0, 0))[0]
        file["removed"] += (lines or (0, 0))[1]
    return files, tries, unknown


def prompts_of(plain, asked):
    return [
        (session, record)
        for session, rows in plain.logs
        for record in rows
        if is_prompt(record) and not record["is a repeat"] and within(instant(record), asked)
    ]


def interruptions_of(plain, asked):
    return sum(
        is_mains(record) and is_stopped(record) and within(instant(record), asked)
        for _, rows in plain.logs
        for record in rows
        if not record["is a repeat"]
    )


def commands_of(plain, asked):
    found = Counter()
    for _, rows in plain.logs:
        for record in rows:
            if (is_prompt(record) or record["type"] == "system") and within(instant(record), asked):
                command = command_of(record)
                if command is not None and not record["is a repeat"]:
                    found[command] += 1
    return found


def turns_of(plain, asked):
    """How long each turn took, in milliseconds, or None if nobody worked; the longest of copies."""
    found = {}
    for _, rows in plain.logs:
        prompt, last = None, None
        turns = []
        for record in rows:
            if is_prompt(record):
                prompt, last = record, []
                turns.append((prompt, last))
            elif prompt is not None and is_work(record) and instant(record) is not None:
                last.append(instant(record))
        for prompt, answers in turns:
            at, uuid = instant(prompt), prompt.get("uuid")
            if not within(at, asked):
                continue
            is_worked = bool(answers) and at is not None
            took = max(0, (answers[-1] - at) // timedelta(milliseconds=1)) if is_worked else None
            name = uuid or id(prompt)
            known = found.get(name)
            found[name] = took if known is None else max(known, took or 0)
    return list(found.values())


def compactions_of(plain, asked):
    """The trigger and the tokens of each compaction, by uuid."""
    found = {}
    for _, rows in plain.logs:
        boundaries = {
            record["uuid"]: record.get("compactMetadata") or {}
            for record in rows
            if record["type"] == "system" and "uuid" in record
        }
        for record in rows:
            is_summary = record.get("isCompactSummary") and any(texts_of(record))
            if is_summary and within(instant(record), asked):
                told = boundaries.get(record.get("parentUuid"), {})
                found.setdefault(record["uuid"], (told.get("trigger"), told.get("preTokens")))
    return list(found.values())


def responses_of(plain, asked):
    return [each for each in plain.responses if asked.period.holds(each)]


def grouped(responses, key, prices):
    """Messages, tokens and cost of each group."""
    groups = defaultdict(list)
    for each in responses:
        groups[key(each)].append(each)
    return {
        name: (
            sum(each.messages for each in group),
            sum(each.counters.total for each in group),
            prices.bill(group).total_usd,
        )
        for name, group in groups.items()
    }


def misses_of(plain, asked, prices):
    """The tokens and the cost of each miss, by reason."""
    threads = defaultdict(list)
    for each in plain.responses:
        if each.at is not None and not each.part:
            threads[each.session, each.subagent, each.is_sidechain].append(each)
    found = defaultdict(list)
    for thread in threads.values():
        thread.sort(key=lambda each: each.at)
        for before, each in pairwise(thread):
            was, used = before.counters, each.counters
            lost = was.cache_read + was.cache_write_5m + was.cache_write_1h - used.cache_read
            paid = used.input + used.cache_write_5m + used.cache_write_1h
            again = min(lost, paid)
            if lost < 1024 or again <= 0 or not asked.period.holds(each):
                continue
            life = timedelta(hours=1) if was.cache_write_1h else timedelta(minutes=5)
            if before.model != each.model:
                why = "model"
            elif 2 * used.context < was.context:
                why = "context"
            else:
                why = "pause" if each.at - before.at > life else "other"
            found[why].append((again, _dearer(each, again, prices)))
    return found


def _dearer(response, again, prices):
    """What *again* tokens cost more than they would have from the cache."""
    terms = PriceTerms(response.speed, response.service_tier, response.inference_geo)
    quote = prices.quote(response.model or UNKNOWN, response.at, terms)
    if quote.price is None:
        return Decimal(0)
    rates = quote.price.rates_for(response.counters.context)
    used, left, atto = response.counters, again, 0
    for name in ("cache_write_5m", "cache_write_1h", "input"):
        moved = min(left, getattr(used, name))
        atto += moved * (getattr(rates, name) - rates.cache_read)
        left -= moved
    return Decimal(atto).scaleb(-18)
