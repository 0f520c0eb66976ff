"""A process has the time of day that it is given, and waits no longer for that."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from tests.soak.clocks import missing, shifted_clock

PROGRAM = """
import threading, time
from datetime import UTC, datetime
began = time.monotonic()
time.sleep(0.05)
threading.Event().wait(0.05)
assert time.monotonic() - began < 5
print(time.time(), datetime.now(UTC).timestamp(), time.monotonic())
"""


@pytest.mark.parametrize("seconds", [600, -600])
def test_the_time_of_day_is_shifted_and_intervals_are_not(seconds):
    reason = missing()
    if reason:
        pytest.skip(reason)
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | shifted_clock(seconds),
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    ).stdout.split()

    first, second, monotonic = map(float, told)
    now = datetime.now(UTC).timestamp()
    assert first == pytest.approx(now + seconds, abs=30)
    assert second == pytest.approx(now + seconds, abs=30)
    assert monotonic == pytest.approx(time.monotonic(), abs=30)
