"""Compare what turnlog outputs with the text in a file, word for word.

After a change on purpose, run the tests with TURNLOG_UPDATE_SNAPSHOTS=1 and read the difference.
What differs from run to run is replaced here.
"""

import os
import re

UPDATE = "TURNLOG_UPDATE_SNAPSHOTS"
# What neither a fixed clock nor a seed controls. Each replacement is as wide as what it replaces.
_VOLATILE = (
    (re.compile(r"(?<=in )\d+\.\d(?= s)"), "0.0"),
    (re.compile(r"(?<=\()\d+\.\d(?= s\))"), "0.0"),
    # The version of the compressor decides how small something becomes.
    (re.compile(r"\d+\.\d KB(?= on disk| \(\d\d%\)\n)|(?<= in )\d+\.\d KB(?=\n)"), "9.9 KB"),
    (re.compile(r"(?<= KB )\(\d\d%\)(?=\n)"), "(99%)"),
    (re.compile(r"genai-prices \d+(\.\d+)+"), "genai-prices 1.2.3"),
    (re.compile(r"(?<=turnlog )\d+\.\d+\.\d+"), "1.2.3"),
    (re.compile(r"(?<=recorded-data )[\w-]{12}(?=>)"), "NONCE-------"),
    (re.compile(r"(?<=\")(AAAAAAAAAA[\w-]{11})[\w-]{22}(?=\")"), r"\1-SIGNATURE------------"),
)


def check(path, found):
    """Compare *found* with the file at *path*, or rewrite the file if the environment says so."""
    if os.environ.get(UPDATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text("utf-8"), f"on purpose? {UPDATE}=1 rewrites {path.name}"


def stable(text, home):
    """Return *text* without what differs from run to run; *home* is written as ``~``."""
    text = text.replace(str(home), "~")
    for volatile, shown in _VOLATILE:
        text = volatile.sub(shown, text)
    return text
