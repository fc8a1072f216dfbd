"""The small home of which everything is known, and its index, for all who search."""

import pytest

from search.search_world import make_world, open_world


@pytest.fixture(scope="module")
def world():
    return make_world()


@pytest.fixture(scope="module")
def index(world, tmp_path_factory):
    with open_world(world, tmp_path_factory.mktemp("world")) as opened:
        yield opened
