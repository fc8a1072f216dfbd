"""Compare what turnlog outputs with the text in a file, word for word.

After a change on purpose, run the tests with TURNLOG_UPDATE_SNAPSHOTS=1 and read the difference.
What differs from run to run is replaced here, and long lines are broken so that a difference can be
read.
"""

import hashlib
import json
import os
import re
import sys

UPDATE = "TURNLOG_UPDATE_SNAPSHOTS"
# What neither a fixed clock nor a seed controls. Each replacement is as wide as what it replaces.
_VOLATILE = (
    (re.compile(r"(?<=in )\d+\.\d(?= s)"), "0.0"),
    (re.compile(r"(?<=\()\d+\.\d(?= s\))"), "0.0"),
    # The version of the compressor decides how small something becomes.
    (re.compile(r"\d+\.\d KB(?= on disk| \(\d\d%\)\n)|(?<= in )\d+\.\d KB(?=\n)"), "9.9 KB"),
    (re.compile(r"(?<= KB )\(\d\d%\)(?=\n)"), "(99%)"),
    (re.compile(r'("(?:packed|written)_bytes": )[1-9]\d*'), r"\g<1>9999"),
    (re.compile(r'(?<="ratio": )0\.\d+'), "0.9999"),
    (re.compile(r'(?<="elapsed_ms": )\d+(?=,\n  "files")'), "0"),
    # Tables name the logs, whose paths may be of any length.
    (re.compile(r"(wrote \S+\.(?:csv|parquet)) \([\d.]+ [KM]?B\)"), r"\1 (9.9 KB)"),
    (re.compile(r"genai-prices \d+(\.\d+)+"), "genai-prices 1.2.3"),
    (re.compile(r'"genai_prices": "\d+(\.\d+)+"'), '"genai_prices": "1.2.3"'),
    (re.compile(r"(?<=turnlog )\d+\.\d[\w.+]*"), "1.2.3"),
    (re.compile(r"(?<=recorded-data )[\w-]{12}(?=>)"), "NONCE-------"),
    (re.compile(r"(?<=\")(AAAAAAAAAA[\w-]{11})[\w-]{22}(?=\")"), r"\1-SIGNATURE------------"),
)
_BODY = re.compile(r"(<(style|script)\b[^>]*>)(?!</)(.+?)(</\2>)", re.DOTALL)


def check(path, found):
    """Compare *found* with the file at *path*, or rewrite the file if the environment says so."""
    if os.environ.get(UPDATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text("utf-8"), f"on purpose? {UPDATE}=1 rewrites {path.name}"


def stable(text, home):
    """Return *text* without what differs from run to run; *home* is written as ``~``."""
    text = text.replace(str(home), "~").replace(os.path.dirname(sys.executable), "BIN")
    for volatile, shown in _VOLATILE:
        text = volatile.sub(shown, text)
    return text


def json_lines(text):
    """Return *text* with every line that is a JSON document broken into lines, keys in their order.

    A line that is written in another way than compactly is left as it is: the way it is written
    belongs to what is compared.
    """
    return "\n".join(_broken(line) for line in text.split("\n"))


def _broken(line):
    if line[:1] not in {"{", "["}:
        return line
    try:
        document = json.loads(line)
    except ValueError:
        return line
    if json.dumps(document, ensure_ascii=False, separators=(",", ":")) != line:
        return line
    return json.dumps(document, ensure_ascii=False, indent=1)


def html_lines(page):
    """Return *page* with a line for each element; styles and scripts are shown as a digest."""
    digested = _BODY.sub(lambda found: f"{found[1]}{digest(found[3])}{found[4]}", page)
    return re.sub(r"(?<!\n)(?=<[a-z!])", "\n", digested).lstrip("\n")


def digest(text):
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"
