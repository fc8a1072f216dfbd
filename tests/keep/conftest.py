"""What tests of keeping share: a place for copies, and a home that is kept there."""

import pytest

from keep.orchard_home import Orchard


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Return turnlog's own directory, which is empty."""
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    return tmp_path / "own"


@pytest.fixture
def orchard(tmp_path, monkeypatch):
    """Return a home of which everything is kept."""
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    found = Orchard(tmp_path)
    found.keep()
    return found
