"""A match that would take years ends in time, and the alarm is given back."""

import re
import signal
import threading
import time

import pytest

from turnlog.questions.in_time import Alarm, TookTooLong


def in_time(match, seconds):
    with Alarm() as alarm:
        return alarm.in_time(match, seconds)


def for_years():
    return re.search("(x+)+y", "x" * 38)


def test_what_is_done_in_time_is_given_and_no_alarm_is_left():
    assert in_time(lambda: 7, 5) == 7
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_what_is_not_is_ended():
    with pytest.raises(TookTooLong):
        in_time(for_years, 0.1)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_an_error_comes_through_and_leaves_no_alarm():
    with pytest.raises(ZeroDivisionError):
        in_time(lambda: 1 / 0, 5)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_an_alarm_of_the_program_around_is_left_to_it():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        in_time(lambda: time.sleep(0.2), 0.01)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rung == [1]


def test_another_thread_has_no_alarm_and_takes_its_time():
    given = []
    thread = threading.Thread(target=lambda: given.append(in_time(lambda: 7, 0.01)))
    thread.start()
    thread.join()
    assert given == [7]


def test_many_matches_share_an_alarm_and_one_that_rings_late_ends_nothing():
    with Alarm() as alarm:
        with pytest.raises(TookTooLong):
            alarm.in_time(for_years, 0.05)
        signal.raise_signal(signal.SIGALRM)
        assert alarm.in_time(lambda: 7, 5) == 7
