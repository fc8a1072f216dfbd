"""The prices that come with turnlog, loaded once."""

from __future__ import annotations

import pytest

from turnlog.pricing.cost import load_prices


@pytest.fixture(scope="session")
def prices():
    loaded = load_prices()
    assert not loaded.table.problem
    return loaded
