"""A ctx in a world of its own, with and without a scope."""

import pytest

from mcp_contexts import world


@pytest.fixture(scope="module")
def ctx(tmp_path_factory):
    """A ctx for one project of two."""
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture(scope="module")
def wide_desk(tmp_path_factory):
    """A ctx for everything."""
    with world(tmp_path_factory.mktemp("wide"), scope=None) as made:
        yield made
