"""Two hundred queries such as people type, drawn with a seed from what a home's logs say.

Words of every frequency, alone, two and three together, one or the other, one without the other,
phrases that stand in a text, beginnings of words, filters with and without words, among them the
one for what tools answered, and a few that find nothing.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .trees import logs_of

_SEED, _LOGS, _LINES = 41, 60, 200
_WORD = re.compile(r"[^\W_]+")


class Said:
    """What a sample of a home's logs says: its words by frequency, its phrases, what it touched."""

    def __init__(self, home: str, rng: random.Random) -> None:
        self._rng = rng
        self._texts: list[list[str]] = []
        self.tools: list[str] = []
        self.files: list[str] = []
        self.projects: list[str] = []
        self.days: list[str] = []
        logs = logs_of(home)
        for log in rng.sample(logs, min(_LOGS, len(logs))):
            self._read(log)
        counted = Counter(word for text in self._texts for word in text if len(word) > 2)
        ranked = [word for word, _ in counted.most_common()]
        third = len(ranked) // 3
        self.bands = {
            "common": ranked[: min(40, third)],
            "medium": ranked[third : 2 * third],
            "rare": ranked[2 * third :],
        }

    def _read(self, log: str) -> None:
        with open(log, encoding="utf-8") as file:
            for _, line in zip(range(_LINES), file, strict=False):
                record = json.loads(line)
                self.projects += [record["cwd"]] if "cwd" in record else []
                self.days += [record["timestamp"][:10]] if "timestamp" in record else []
                for block in _blocks(record):
                    self._take(block)

    def _take(self, block: dict[str, Any]) -> None:
        if block.get("type") == "tool_use":
            self.tools.append(block["name"])
            self.files += [block["input"]["file_path"]] if "file_path" in block["input"] else []
        words = [word.lower() for word in _WORD.findall(block.get("text", ""))]
        self._texts += [words] if len(words) >= 4 else []

    def word(self, band: str = "") -> str:
        return self._rng.choice(self.bands[band or self._rng.choice(list(self.bands))])

    def phrase(self, length: int) -> str:
        words = self._rng.choice(self._texts)
        at = self._rng.randrange(len(words) - length + 1)
        return " ".join(words[at : at + length])


def _blocks(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = (record.get("message") or {}).get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def queries_for(home: str) -> list[str]:
    """Give two hundred queries, the same ones every time for the same home."""
    rng = random.Random(_SEED)
    said = Said(home, rng)
    made = [
        *(said.word(band) for band in said.bands for _ in range(14)),
        *(f"{said.word('common')} {said.word()}" for _ in range(20)),
        *(f"{said.word()} {said.word()}" for _ in range(14)),
        *(f"{said.word('common')} {said.word('common')} {said.word()}" for _ in range(24)),
        *(f"{said.word('medium')} OR {said.word('rare')}" for _ in range(6)),
        *(f"{said.word('common')} -{said.word()}" for _ in range(6)),
        *(f'"{said.phrase(rng.randint(2, 4))}"' for _ in range(24)),
        *(f"{said.word()[: rng.randint(2, 4)]}*" for _ in range(18)),
        *_filtered(said, rng),
        *(f"{said.word('common')} zq{rng.randrange(10**6)}xv" for _ in range(6)),
    ]
    rng.shuffle(made)
    return made


def _filtered(said: Said, rng: random.Random) -> Iterator[str]:
    for _ in range(8):
        yield f"{said.word()} is:result"
        yield f"{said.word()} tool:{rng.choice(said.tools)}"
        yield f"{said.word('common')} project:{_name(rng.choice(said.projects))}"
        yield f"{said.word('common')} since:{rng.choice(said.days)}"
    for _ in range(4):
        yield f"file:{_name(rng.choice(said.files))}"
        yield f"{said.word('common')} is:error"


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
