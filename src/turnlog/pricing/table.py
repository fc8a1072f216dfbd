"""The price table: look up a model by name, and its price on a day.

Names in logs come with a date, a context size, a cloud region or a gateway's prefix. These are
stripped step by step by fixed rules, never by similarity: a name that no rule explains has no
price. ``genai`` loads the table.
"""

from __future__ import annotations

import re
from datetime import date, time
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from turnlog.pricing import extras
from turnlog.pricing.money import Price, Rates, Tier

# ["equals", text], ["starts", text], ["any", [match, …]] and so on.
Match = list[Any]

ANTHROPIC: Final = "anthropic"
_MOST_PREFIXES: Final = 4

_CONTEXT_SIZE: Final = re.compile(r"\[[0-9a-z]+\]$")
_COMPACT_DATE: Final = re.compile(r"-(20[0-9]{2})(0[1-9]|1[0-2])([0-3][0-9])(?=[-:@]|$)")


class PriceEntry(Struct, frozen=True, array_like=True):
    """Rates valid from a day on, or at some hours of the day."""

    rates: Rates
    tiers: tuple[Tier, ...] = ()
    since: date | None = None
    hours: tuple[time, time] | None = None


class Model(Struct, frozen=True, array_like=True):
    """A model, the names that match it, and its prices; later ones take precedence."""

    id: str
    match: Match
    entries: tuple[PriceEntry, ...]


class Provider(Struct, frozen=True, array_like=True):
    """A seller of models. *match* matches names that can only be its own; None if none can."""

    id: str
    match: Match | None
    models: tuple[Model, ...]


class Table(Struct, frozen=True):
    """All known prices."""

    version: str
    """The version of genai-prices it was compiled from; empty if not installed."""
    providers: tuple[Provider, ...]
    problem: str = ""
    """Why there are no prices, if so."""

    def find(self, name: str) -> tuple[Provider, Model] | None:
        """Return the provider and model that *name* means, or None."""
        plain = _CONTEXT_SIZE.sub("", name.strip().lower())
        for _ in range(_MOST_PREFIXES):
            found = self._by_rule(plain)
            if found is None and plain in extras.MODELS:
                found = _own(plain)
            if found is None and "/" in plain:
                # "vendor/model" as in OpenRouter, or a gateway's prefix before a bare name.
                found = self._of("openrouter", plain.removeprefix("openrouter/"))
            if found is not None or "/" not in plain:
                return found
            plain = plain.partition("/")[2]
        return None

    def _by_rule(self, name: str) -> tuple[Provider, Model] | None:
        if "anthropic.claude" in name:
            return self._of("aws", name)  # Bedrock's names; its regions have prices of their own.
        for provider in self.providers:
            if provider.match is not None and matches(provider.match, name):
                found = self._of(provider.id, name)
                # Z.ai sells Zhipu's models abroad and lists some that Zhipu does not.
                return found or (self._of("zai", name) if provider.id == "zhipuai" else None)
        return None

    def _of(self, provider_id: str, name: str) -> tuple[Provider, Model] | None:
        dashed = _COMPACT_DATE.sub(r"-\1-\2-\3", name)
        for provider in self.providers:
            if provider.id == provider_id:
                for spelt in dict.fromkeys((name, dashed)):
                    for model in provider.models:
                        if matches(model.match, spelt):
                            return provider, model
        return None


def matches(match: Match, name: str) -> bool:
    """Return whether *match* matches *name*, in lower case."""
    how, what = match
    if how == "any":
        return any(matches(part, name) for part in what)
    if how == "all":
        return all(matches(part, name) for part in what)
    if how == "regex":
        return re.search(what, name) is not None
    if how == "equals":
        return bool(name == what)
    if how == "starts":
        return name.startswith(what)
    return name.endswith(what) if how == "ends" else what in name


def prices_of(provider: Provider, model: Model) -> list[Price]:
    """Return all prices of *model*, oldest first, each with its end."""
    is_claude = provider.id == ANTHROPIC
    long = extras.LONG_CONTEXT.get(model.id, ()) if is_claude else ()
    starts = [entry.since for entry in model.entries]
    is_by_hour = any(entry.hours is not None for entry in model.entries)
    prices = []
    for number, entry in enumerate(model.entries):
        rates, tiers = entry.rates, entry.tiers or long
        if is_claude:  # A search costs the same in a long context.
            search = rates.web_search or extras.SEARCH
            rates = replace(rates, web_search=search)
            tiers = tuple(
                Tier(tier.above, replace(tier.rates, web_search=search)) for tier in tiers
            )
        prices.append(
            Price(
                model=model.id,
                provider=provider.id,
                source="turnlog" if provider is _OWN else "genai-prices",
                rates=rates,
                tiers=tiers,
                since=entry.since,
                until=next((day for day in starts[number + 1 :] if day is not None), None),
                hours=entry.hours,
                is_by_hour=is_by_hour,
            )
        )
    return prices


def _own(name: str) -> tuple[Provider, Model]:
    return _OWN, Model(name, ["equals", name], (PriceEntry(extras.MODELS[name]),))


_OWN: Final = Provider(ANTHROPIC, None, ())
