"""Prices that genai-prices lacks, with the source of each figure.

Factors are in thousandths. They apply to Claude models served by Anthropic itself; nothing is
assumed about what other providers charge.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from turnlog.pricing.money import Rates, Tier, rate_per_search, rates_of

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
WITHOUT_GEOGRAPHY: Final = (
    *("claude-2", "claude-3", "claude-v1", "claude-haiku-4-5", "claude-opus-4-0"),
    *("claude-opus-4-1", "claude-opus-4-5", "claude-sonnet-4-0", "claude-sonnet-4-5"),
)
