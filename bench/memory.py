"""The peak memory of reading a whole log of 1 GB, beside that of 1 MB.

Each is read in a process of its own, whose high-water mark the kernel tells.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from .data import log_of
from .table import Row

_READ = """
import sys
from turnlog.storage.reader import read_log
for item in read_log(sys.argv[1]):
    pass
print(open("/proc/self/status").read())
"""


def bench() -> list[Row]:
    if not os.path.exists("/proc/self/status"):
        return [Row("peak memory", "", "", "not told by this system")]
    large, small = _peak_mb(log_of(1_000_000_000)), _peak_mb(log_of(1_000_000))
    return [
        Row(
            "peak memory of a full read, 1 GB beside 1 MB",
            f"{large:.1f} MB",
            f"{small:.1f} MB",
            f"+{large - small:.1f} MB",
            "<= +32 MB",
            large - small <= 32,
        )
    ]


def _peak_mb(path: str) -> float:
    told = subprocess.run(
        [sys.executable, "-c", _READ, path], check=True, capture_output=True, text=True
    ).stdout
    found = re.search(r"VmHWM:\s+(\d+) kB", told)
    assert found is not None
    return int(found[1]) * 1024 / 1e6
