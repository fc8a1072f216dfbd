"""The prices that hold here: the table's, under those that the user has set in config.toml."""

from __future__ import annotations

import os

from turnlog.config import SettingProblem, load_config
from turnlog.prices.cost import Prices, load_prices
from turnlog.prices.overrides import overrides_from


def configured_prices(
    home: str | os.PathLike[str],
) -> tuple[Prices, tuple[SettingProblem, ...]]:
    """Load the prices of turnlog's *home*, and what is wrong with its settings."""
    config = load_config(home)
    overrides, broken = overrides_from(config.prices)
    prices = load_prices(home, overrides)
    return prices, (*config.problems, *(SettingProblem(each.where, each.reason) for each in broken))
