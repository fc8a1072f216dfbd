"""Quiet for tests that damage logs by the hundred."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture(scope="module")
def hushed():
    """Keep warnings about damage out of a failing test's report."""
    logger = logging.getLogger("turnlog.storage")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)
