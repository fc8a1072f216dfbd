"""A line, as far as its usage is concerned: shapes that skip all the rest at memory speed.

Two degrees of strictness. ``decode_line`` knows today's usage object and refuses every other, be it
for a counter that is no count or for a field that is new. ``decode_loose_line`` takes any.
"""

# Annotations are no strings here: msgspec would have to evaluate them at every start.

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from turnlog.records.counters import MAX_COUNT

Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]


class Writes(Struct, gc=False, forbid_unknown_fields=True):
    five_minutes: Count = field(default=0, name="ephemeral_5m_input_tokens")
    one_hour: Count = field(default=0, name="ephemeral_1h_input_tokens")


class Tools(Struct, gc=False, forbid_unknown_fields=True):
    web_search_requests: Count = 0
    web_fetch_requests: Count = 0


class Pass(Struct, gc=False):
    type: str | None = None


class ToldUsage(Struct, gc=False, forbid_unknown_fields=True):
    """Today's usage object, and nothing else: a field it does not know sends the line on."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_creation_input_tokens: Count | None = 0
    cache_read_input_tokens: Count | None = 0
    cache_creation: Writes | None = None
    server_tool_use: Tools | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None
    iterations: tuple[Pass, ...] | None = None
    output_tokens_details: dict[str, Count] | None = None


class ToldMessage(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    usage: ToldUsage | None = None


class LooseMessage(Struct):
    id: str | None = None
    model: str | None = None
    usage: Any = None


class Origin(Struct, gc=False, rename="camel"):
    session_id: str | None = None
    message_uuid: str | None = None


class ToldEnvelope(Struct, gc=False, rename="camel"):
    type: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    request_id: str | None = None
    timestamp: str | int | float | None = None
    agent_id: str | None = None
    is_sidechain: bool | None = None
    cwd: str | None = None
    cost_usd: float | None = field(default=None, name="costUSD")
    forked_from: Origin | None = None

    @property
    def copied_from(self) -> str | None:
        """Whose copy it says it is, empty if it does not say whose; None: it is none."""
        return None if self.forked_from is None else self.forked_from.session_id or ""


class ToldLine(ToldEnvelope, gc=False, rename="camel"):
    message: ToldMessage | None = None


class LooseLine(ToldEnvelope, gc=False, rename="camel"):
    message: LooseMessage | None = None


class ToldData(Struct, gc=False, rename="camel"):
    type: str | None = None
    agent_id: str | None = None
    message: ToldLine | None = None


class ToldProgress(Struct, gc=False, rename="camel"):
    """A record of progress; an agent's message stands in it whole."""

    session_id: str | None = None
    cwd: str | None = None
    timestamp: str | int | float | None = None
    data: ToldData | None = None


REFUSALS: Final = (ValueError, RecursionError)

decode_line = msgspec.json.Decoder(ToldLine).decode
decode_loose_line = msgspec.json.Decoder(LooseLine).decode
decode_progress = msgspec.json.Decoder(ToldProgress).decode
