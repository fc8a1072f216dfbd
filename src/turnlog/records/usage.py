"""Token usage of one API response: parsed, validated and summable.

Three vocabularies exist for the same counters: the API's (``cache_creation_input_tokens``), the
orchestrator's (``cache_creation_tokens``) and its camelCase variant. All become one Usage, which
holds what a program wrote. Counters hold what can be trusted of it: integers from 0 to MAX_COUNT,
also as floats or strings; null or absent counts as 0; anything else counts as 0 and is named as
odd.

Cache writes are reported twice: as one number, and by lifetime. The larger total counts, and what
is not known to live for an hour lives for five minutes. Unknown numbers of newer programs are kept
in ``others`` under their own names and are not part of any total.
"""

from __future__ import annotations

import math

# No string annotations here: msgspec would have to evaluate them at every start.
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field


class CacheWrites(Struct, frozen=True):
    """Cache writes by lifetime, which have different prices."""

    five_minutes: int = field(default=0, name="ephemeral_5m_input_tokens")
    one_hour: int = field(default=0, name="ephemeral_1h_input_tokens")


class ServerTools(Struct, frozen=True):
    """Tools run by the API itself."""

    web_searches: int = field(default=0, name="web_search_requests")
    web_fetches: int = field(default=0, name="web_fetch_requests")


class Usage(Struct, frozen=True):
    """Token counters of one API response, and what decides their price."""

    input: int = field(default=0, name="input_tokens")
    output: int = field(default=0, name="output_tokens")
    cache_write: int = field(default=0, name="cache_creation_input_tokens")
    cache_read: int = field(default=0, name="cache_read_input_tokens")
    cache_writes: CacheWrites | None = field(default=None, name="cache_creation")
    server_tools: ServerTools | None = field(default=None, name="server_tool_use")
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None
    iterations: Any = None
    output_tokens_details: Any = None

    @property
    def cache_write_1h(self) -> int:
        """Tokens written to the cache for an hour."""
        return self.cache_writes.one_hour if self.cache_writes else 0

    @property
    def cache_write_5m(self) -> int:
        """Tokens written to the cache that are not known to live for an hour."""
        apart = self.cache_writes or CacheWrites()
        return split_writes(self.cache_write, apart.five_minutes, apart.one_hour)[0]

    @property
    def web_searches(self) -> int:
        """Web searches made by the API."""
        return self.server_tools.web_searches if self.server_tools else 0

    @property
    def total(self) -> int:
        """All tokens: input, output, cached."""
        written = self.cache_write_5m + self.cache_write_1h
        return self.input + self.output + written + self.cache_read


def split_writes(scalar: int, five_minutes: int, one_hour: int) -> tuple[int, int]:
    """Return the cache writes for five minutes and for an hour.

    A log reports them twice: as one number, and by lifetime. What is not known to live for an hour
    lives for five minutes, so an empty or partial breakdown hides nothing.
    """
    return max(five_minutes, scalar - one_hour), one_hour


# Other writers' names for the API's counters.
_ALIASES = {
    "cache_creation_tokens": "cache_creation_input_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheCreationTokens": "cache_creation_input_tokens",
    "cacheReadTokens": "cache_read_input_tokens",
}


def with_api_names(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the counters of other dialects to the API's; an API name that is present wins."""
    renamed = {_ALIASES[key]: value for key, value in usage.items() if key in _ALIASES}
    return renamed | {key: value for key, value in usage.items() if key not in _ALIASES}


# A million times the largest context window: no real response has this many.
MAX_COUNT: Final = 10**12

_SCALARS: Final = {
    "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
    "cache_creation", "server_tool_use", "service_tier", "inference_geo", "speed", "iterations",
}  # fmt: skip


class Counters(Struct, gc=False):
    """Tokens by price category, and web searches."""

    input: int = 0
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    web_searches: int = 0
    others: dict[str, int] = field(default_factory=dict)

    @property
    def context(self) -> int:
        """All tokens the model read: input, cache writes and cache reads."""
        return self.input + self.cache_write_5m + self.cache_write_1h + self.cache_read

    @property
    def total(self) -> int:
        """All tokens."""
        return self.context + self.output

    @property
    def cache_efficiency(self) -> float | None:
        """The share of the context that came from the cache; None if the model read nothing."""
        context = self.context
        return self.cache_read / context if context else None

    def add(self, more: Counters, times: int = 1) -> None:
        """Add *more* in place, *times* times; -1 subtracts it again."""
        self.input += times * more.input
        self.output += times * more.output
        self.cache_write_5m += times * more.cache_write_5m
        self.cache_write_1h += times * more.cache_write_1h
        self.cache_read += times * more.cache_read
        self.web_searches += times * more.web_searches
        for name, count in more.others.items():
            self.others[name] = self.others.get(name, 0) + times * count
            if not self.others[name]:
                del self.others[name]


def count_of(value: Any) -> int | None:
    """Return *value* as a count by the rule above; None if it is odd."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip()
        # Sixteen digits exceed MAX_COUNT; longer text is not a count and costs no time.
        value = int(text) if len(text) <= 16 and text.isascii() and text.isdigit() else -1
    elif isinstance(value, float):
        value = int(value) if math.isfinite(value) else -1
    elif value is None:
        return 0
    return value if isinstance(value, int) and 0 <= value <= MAX_COUNT else None


def counters_of(usage: Mapping[str, Any]) -> tuple[Counters, tuple[str, ...]]:
    """Parse a usage object of any dialect; return it and the names of odd fields."""
    fields = with_api_names(usage)
    odd: list[str] = []

    def count(where: Mapping[str, Any], name: str, path: str = "") -> int:
        found = count_of(where.get(name))
        if found is None:
            odd.append(path + name)
        return found or 0

    writes = _object(fields, "cache_creation", odd)
    tools = _object(fields, "server_tool_use", odd)
    five_minutes, one_hour = split_writes(
        count(fields, "cache_creation_input_tokens"),
        count(writes, "ephemeral_5m_input_tokens", "cache_creation."),
        count(writes, "ephemeral_1h_input_tokens", "cache_creation."),
    )
    counters = Counters(
        input=count(fields, "input_tokens"),
        output=count(fields, "output_tokens"),
        cache_write_5m=five_minutes,
        cache_write_1h=one_hour,
        cache_read=count(fields, "cache_read_input_tokens"),
        web_searches=count(tools, "web_search_requests", "server_tool_use."),
        others=dict(_others(fields)),
    )
    return counters, tuple(odd)


def _object(fields: Mapping[str, Any], name: str, odd: list[str]) -> Mapping[str, Any]:
    value = fields.get(name)
    if isinstance(value, dict):
        return value
    if value is not None:
        odd.append(name)
    return {}


def _others(fields: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield numbers that no other field holds, one level deep, under dotted names."""
    for name, value in fields.items():
        if isinstance(value, dict):
            known = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
            for inner, number in value.items():
                if inner not in known and inner != "web_search_requests" and _is_number(number):
                    yield f"{name}.{inner}", number
        elif name not in _SCALARS and _is_number(value):
            yield name, value


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_COUNT
