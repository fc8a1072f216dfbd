"""The price table: look up a model by name, and its price on a day.

Names in logs come with a date, a context size, a cloud region or a gateway's prefix. These are
stripped step by step by fixed rules, never by similarity: a name that no rule explains has no
price.

The table is compiled from the genai-prices package. Importing that takes a third of a second, so
the compiled table is cached in a file, in a directory given by the caller. The file is rebuilt when
genai-prices changes. It can be deleted at any time; if it is missing, unwritable or corrupt, only
time is lost.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnlog.pricing import extras
from turnlog.pricing.money import WRITE_1H_PERMILLE, Price, Rates, Tier, rates_of

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


# -- the table of genai-prices, and its cache ----------------------------------------------

FILE_NAME: Final = "prices.json"
FORMAT: Final = 1

# Providers that cannot be recognized by a model's name, but by the form of their names.
_BY_FORM: Final = frozenset({"aws", "openrouter", "zai"})
_CLAUSES: Final = {
    "equals": "equals",
    "starts_with": "starts",
    "ends_with": "ends",
    "contains": "contains",
    "regex": "regex",
}
_TOKENS: Final = ("input", "output", "cache_write", "cache_write_1h", "cache_read")


class _CacheHeader(Struct, frozen=True):
    """The file's first line: what the rest was compiled from, and its checksum."""

    format: int
    made_from: str
    crc32: int


_decode_head = msgspec.json.Decoder(_CacheHeader).decode
_decode_table = msgspec.json.Decoder(Table).decode


def load_table(directory: str | os.PathLike[str] | None = None) -> Table:
    """Return the price table, from the cache in *directory* or newly compiled."""
    if directory is None:
        return compile_table()
    path = Path(directory) / FILE_NAME
    made_from = _fingerprint()
    with contextlib.suppress(OSError, ValueError, RecursionError):
        head, _, body = path.read_bytes().partition(b"\n")
        if made_from and _decode_head(head) == _CacheHeader(FORMAT, made_from, crc32(body)):
            return _decode_table(body)
    table = compile_table()
    if made_from and not table.problem:
        _write(path, made_from, table)
    return table


def _write(path: Path, made_from: str, table: Table) -> None:
    """Write the file atomically: readers see the old one or the new one."""
    body = msgspec.json.encode(table)
    head = msgspec.json.encode(_CacheHeader(FORMAT, made_from, crc32(body)))
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(head + b"\n" + body)
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _fingerprint() -> str:
    """Return a fingerprint of the installed genai-prices without importing it; "" if none."""
    try:
        spec = find_spec("genai_prices")
        places = spec.submodule_search_locations if spec else None
        status = os.stat(os.path.join(next(iter(places or ())), "data.py"))
    except (OSError, ValueError, ImportError, StopIteration):
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"


def compile_table() -> Table:
    """Return the table of genai-prices; if the package is missing, the table says so."""
    try:
        from importlib.metadata import version  # noqa: PLC0415

        from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415

        providers = tuple(
            Provider(provider.id, _match(provider.model_match), tuple(_models(provider)))
            for provider in get_snapshot().providers
            if provider.model_match is not None or provider.id in _BY_FORM
        )
        return Table(version("genai-prices"), providers)
    except Exception as error:  # noqa: BLE001 - whatever another version of it does.
        return Table("", (), f"genai-prices cannot be read: {type(error).__name__}: {error}")


def _models(provider: Any) -> Iterator[Model]:
    for model in provider.models:
        prices = model.prices if isinstance(model.prices, list) else [model]
        found = [_entry(price, is_claude="claude" in model.id) for price in prices]
        entries = tuple(entry for entry in found if entry is not None)
        if entries:
            yield Model(model.id, _match(model.match) or ["equals", model.id], entries)


def _entry(price: Any, *, is_claude: bool) -> PriceEntry | None:
    """Return one price as an entry; None if it is not per token."""
    by_name = {name: getattr(price.prices, f"{name}_mtok", None) for name in _TOKENS}
    if by_name["input"] is None and by_name["output"] is None:
        return None
    searches = _at(getattr(price.prices, "web_searches_kcount", None), 0) or Decimal(0)
    starts = sorted(
        {
            tier.start
            for price_of_kind in by_name.values()
            for tier in getattr(price_of_kind, "tiers", None) or ()
        }
    )
    constraint = getattr(price, "constraint", None)
    since = getattr(constraint, "start_date", None)
    start, end = getattr(constraint, "start_time", None), getattr(constraint, "end_time", None)
    return PriceEntry(
        _rates(by_name, searches, 0, is_claude=is_claude),
        tuple(
            Tier(above, _rates(by_name, searches, above + 1, is_claude=is_claude))
            for above in starts
        ),
        since,
        (_utc(start), _utc(end)) if start is not None and end is not None else None,
    )


def _rates(prices: dict[str, Any], searches: Decimal, context: int, *, is_claude: bool) -> Rates:
    """Return the rates of a request that reads *context* tokens.

    A cached token without a price of its own costs as much as any other, as in genai-prices. Only
    Claude's one-hour cache writes are known to cost twice the input if unlisted.
    """
    fresh = _at(prices["input"], context) or Decimal(0)
    written = _at(prices["cache_write"], context)
    kept = _at(prices["cache_write_1h"], context)
    if kept is None:
        is_known = is_claude and written is not None
        kept = fresh * WRITE_1H_PERMILLE / 1000 if is_known else written
    read = _at(prices["cache_read"], context)
    return rates_of(
        fresh,
        _at(prices["output"], context) or Decimal(0),
        cache_write_5m=fresh if written is None else written,
        cache_write_1h=fresh if kept is None else kept,
        cache_read=fresh if read is None else read,
        web_search=searches,
    )


def _at(price: Any, context: int) -> Decimal | None:
    """Return the price per million where the model reads *context* tokens."""
    if price is None or isinstance(price, Decimal):
        return price
    found: Decimal = price.base
    for tier in price.tiers:
        if context > tier.start:
            found = tier.price
    return found


def _utc(clock: time) -> time:
    return clock.replace(tzinfo=None)


def _match(clause: Any) -> Match | None:
    """Translate the clause that matches a model's name."""
    if clause is None:
        return None
    for field, how in (("or_", "any"), ("and_", "all")):
        if hasattr(clause, field):
            return [how, [_match(part) for part in getattr(clause, field)]]
    for field, how in _CLAUSES.items():
        if hasattr(clause, field):
            text = getattr(clause, field)
            return [how, text if how == "regex" else text.lower()]
    raise TypeError(f"an unknown clause: {clause!r}")
