"""Prices that genai-prices lacks, with the source of each figure.

Factors are in thousandths. They apply to Claude models served by Anthropic itself; nothing is
assumed about what other providers charge.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

from turnlog.pricing.money import rate_per_search
from turnlog.pricing.rates import Rates, Tier, rates_of

# Web searches cost $10 per thousand with every model.
# https://platform.claude.com/docs/en/about-claude/pricing, "Web search tool"
WEB_SEARCH: Final = "10"
SEARCH: Final = rate_per_search(Decimal(WEB_SEARCH))

# Models of limited availability, which genai-prices 0.2.1 lacks.
# https://platform.claude.com/docs/en/about-claude/pricing, "Model pricing"
MODELS: Final[dict[str, Rates]] = {
    "claude-mythos-5": rates_of("10", "50", web_search=WEB_SEARCH),
    "claude-mythos-5-1": rates_of("10", "50", cache_read="0.25", web_search=WEB_SEARCH),
}

# Above 200,000 tokens, the whole request to Sonnet 4 cost twice as much for input and 1.5 times as
# much for output. genai-prices has this for Sonnet 4.5 and later, not for 4.
# https://platform.claude.com/docs/en/api/service-tiers, on long requests of both
LONG_CONTEXT: Final[dict[str, tuple[Tier, ...]]] = {
    "claude-sonnet-4-0": (Tier(200_000, rates_of("6", "22.5", web_search=WEB_SEARCH)),)
}

# Fast mode, in which all tokens cost more, the cache's included.
# 6 times: https://platform.claude.com/docs/en/build-with-claude/fast-mode (Opus 4.6: $30 / $150)
#          https://code.claude.com/docs/en/fast-mode (4.6 and 4.7: $30 / $150; 4.8: $10 / $50)
# 2 times: https://vercel.com/ai-gateway/models/claude-opus-5-fast ($10 / $50)
#          https://docs.litellm.ai/blog/claude_opus_5_5 (twice its base price)
FAST: Final = {
    "claude-opus-4-6": 6000,
    "claude-opus-4-7": 6000,
    "claude-opus-4-8": 2000,
    "claude-opus-5": 2000,
    "claude-opus-5-5": 2000,
}

# Batches cost half, including cache tokens, excluding searches. genai-prices has this for models of
# 2026 from 2026-10-14 on; the discount is as old as batches.
# https://platform.claude.com/docs/en/build-with-claude/batch-processing#pricing
BATCH: Final = 500

# Inference kept in the United States costs a tenth more in every category of tokens, from Opus 4.6
# and Sonnet 4.6 on; older models cannot be asked for it.
# https://platform.claude.com/docs/en/manage-claude/data-residency
# https://docs.aws.amazon.com/claude-platform/latest/userguide/data-residency.html
US_ONLY: Final = 1100
_WITHOUT_GEOGRAPHY: Final = (
    *("claude-2", "claude-3", "claude-v1", "claude-haiku-4-5", "claude-opus-4-0"),
    *("claude-opus-4-1", "claude-opus-4-5", "claude-sonnet-4-0", "claude-sonnet-4-5"),
)

# Names for the standard terms. Capacity of the priority tier is bought beforehand; its tokens are
# accounted for at the usual prices. https://platform.claude.com/docs/en/api/service-tiers
_STANDARD_SPEEDS: Final = {None, "", "standard"}
_STANDARD_TIERS: Final = {None, "", "standard", "default", "auto", "priority"}
_STANDARD_PLACES: Final = {None, "", "global", "not_available"}


class PriceFactors(NamedTuple):
    """How a request's terms change its price. *unknown* is why that cannot be determined."""

    permille: tuple[int, ...] = ()
    assumed: tuple[str, ...] = ()
    """Terms without a known price that were treated as standard."""
    unknown: str = ""


def factors_of(
    model: str,
    provider: str,
    speed: str | None,
    service_tier: str | None,
    inference_geo: str | None,
) -> PriceFactors:
    """Return the price factors of a request's terms for *model*, named as in the table."""
    permille: list[int] = []
    assumed: list[str] = []
    is_anthropic = provider == "anthropic"
    if speed not in _STANDARD_SPEEDS:
        factor = FAST.get(model) if is_anthropic and speed == "fast" else None
        if factor is None:
            return PriceFactors(unknown=f"no price is known for speed {speed!r}")
        permille.append(factor)
    if service_tier == "batch" and is_anthropic:
        permille.append(BATCH)
    elif service_tier not in _STANDARD_TIERS:
        assumed.append(f"service tier {service_tier!r} priced as standard")
    if inference_geo == "us" and is_anthropic:
        permille.extend([US_ONLY] if not model.startswith(_WITHOUT_GEOGRAPHY) else [])
    elif inference_geo not in _STANDARD_PLACES:
        assumed.append(f"geography {inference_geo!r} priced as global")
    return PriceFactors(tuple(permille), tuple(assumed))
