"""Logs that two processes share: each is read once, whoever takes it."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnlog.index.pipeline import _Queue


@given(st.integers(0, 300))
@example(1_999)
@example(2_000)
@example(50_001)
def test_a_queue_gives_every_work_once_and_in_order(count):
    works = range(count)
    queue = _Queue(works)
    taken = []
    while some := queue.take():
        taken += some
    queue.close()
    assert taken == list(works)


@pytest.mark.skipif(sys.platform != "linux", reason="nowhere else is anything forked")
def test_processes_that_take_from_one_queue_never_take_the_same():
    works = range(20_000)
    queue = _Queue(works)
    answers = []
    for _ in range(4):
        here, there = os.pipe()
        if not (child := os.fork()):
            try:
                os.close(here)
                with os.fdopen(there, "w") as pipe:
                    while some := queue.take():
                        pipe.write("".join(f"{each} " for each in some))
            finally:
                os._exit(0)
        os.close(there)
        answers.append((child, here))
    taken = []
    for child, here in answers:
        with os.fdopen(here) as pipe:
            taken += map(int, pipe.read().split())
        os.waitpid(child, 0)
    queue.close()
    assert sorted(taken) == list(works)
