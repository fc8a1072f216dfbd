"""What every test shares: how Hypothesis works here, and what a test may ask for."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# Nobody's own settings and prices decide a test, and no test writes to somebody's home.
_home = tempfile.mkdtemp(prefix="turnlog-tests-")
os.environ["TURNLOG_HOME"] = _home
os.environ["CODEX_HOME"] = os.path.join(_home, "codex")
os.environ["COPILOT_HOME"] = os.path.join(_home, "copilot")
atexit.register(shutil.rmtree, _home, ignore_errors=True)

# A shell starts jobs in the background with SIGINT ignored, nohup with SIGHUP ignored. Programs
# that tests start and signal would inherit that.
for _signal, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGTERM, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGCHLD, signal.SIG_DFL),
):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _handler)
signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())


def pytest_configure(config):
    """Choose how Hypothesis works.

    Deadlines measure the machine, not the code; nothing is stored between runs. `make test` tries
    few examples of each property, other runs try many. For a longer hunt: HYPOTHESIS_PROFILE=hunt.
    What guards the main branch tries the same examples every time (seeded): a change is judged by
    itself, and luck finds its bugs elsewhere.
    """
    common = {
        "deadline": None,
        "database": None,
        "print_blob": True,
        "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    }
    examples = 10 if config.option.markexpr == "not slow" else 100
    settings.register_profile("house", max_examples=examples, **common)
    settings.register_profile("seeded", max_examples=examples, derandomize=True, **common)
    settings.register_profile("hunt", max_examples=5_000, **common)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))


def pytest_collection_finish():
    """Exempt modules and collected tests from garbage collection: there are millions of objects."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    gc.unfreeze()


@pytest.fixture(
    params=[pytest.param(7, id="every-7th"), pytest.param(1, id="every", marks=pytest.mark.slow)]
)
def stride(request):
    """Return how far apart the steps of a sweep are: every step is for `make test-slow`."""
    return request.param


@pytest.fixture
def own_signals():
    """Give the test's process its signal handlers back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
