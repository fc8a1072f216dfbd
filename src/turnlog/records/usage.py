"""How many tokens one API response used, as the log tells it.

Three vocabularies exist for the same counters: the API's (``cache_creation_input_tokens``), the
orchestrator's (``cache_creation_tokens``) and its camelCase sibling (``cacheCreationTokens``).
All become one Usage. What is believed of it is ``counters``' business, how often it counts that of
``responses``.
"""

# Annotations are no strings here: msgspec would have to evaluate them at every start.

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field


class CacheWrites(Struct, frozen=True):
    """Cache writes by how long they live; the two are priced apart."""

    five_minutes: int = field(default=0, name="ephemeral_5m_input_tokens")
    one_hour: int = field(default=0, name="ephemeral_1h_input_tokens")


class ServerTools(Struct, frozen=True):
    """Tools the API itself ran."""

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
        """Everything written to the cache that is not known to live for an hour."""
        apart = self.cache_writes or CacheWrites()
        return split_writes(self.cache_write, apart.five_minutes, apart.one_hour)[0]

    @property
    def web_searches(self) -> int:
        """Searches that the API made."""
        return self.server_tools.web_searches if self.server_tools else 0

    @property
    def total(self) -> int:
        """All tokens: read, written, cached."""
        written = self.cache_write_5m + self.cache_write_1h
        return self.input + self.output + written + self.cache_read


def split_writes(scalar: int, five_minutes: int, one_hour: int) -> tuple[int, int]:
    """Give the cache writes of five minutes and of an hour that both accounts together tell.

    A log tells them twice: as one number, and apart by how long they live. What is not known to
    live for an hour was written for five minutes, so an empty or partial breakdown hides nothing.
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
