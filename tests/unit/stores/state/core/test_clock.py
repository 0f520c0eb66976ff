"""Machines that share a server have its clock."""

import os
import re
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import meterlake
from meterlake.model.errors import Unavailable
from meterlake.stores.state import State, utc_now
from meterlake.stores.state.core.engine import parse_url
from meterlake.stores.state.core.state import ServerClock
from tests.databases import new_database
from tests.soak.clocks import missing, shifted_clock

BEGIN = datetime(2026, 11, 23, 12, tzinfo=UTC)


class Server:
    """A server whose time a test sets, and a clock of this machine that it turns."""

    def __init__(self):
        self.time, self.count, self.silent = BEGIN, 100.0, False
        self.asked = threading.Semaphore(0)

    def ask(self):
        self.asked.release()
        if self.silent:
            raise Unavailable("the State database", "silent")
        return self.time

    def clock(self):
        return ServerClock(self.ask, lambda: self.count)


def until_compared(server, clock):
    """Look at the clock when its next comparison is over."""
    while server.asked.acquire(blocking=False):
        pass
    server.count += 60
    clock()
    assert server.asked.acquire(timeout=180)
    with clock._comparing:
        return clock()


def test_a_server_that_does_not_answer_at_the_beginning_is_an_error():
    server = Server()
    server.silent = True

    with pytest.raises(Unavailable):
        server.clock()


def test_time_goes_on_without_asking():
    server = Server()
    clock = server.clock()
    server.count += 30

    assert clock() == BEGIN + timedelta(seconds=30)


def test_a_server_whose_clock_was_set_is_followed_after_a_minute():
    server = Server()
    clock = server.clock()
    server.time = BEGIN + timedelta(hours=1)

    assert until_compared(server, clock) == server.time


def test_while_the_server_is_silent_time_goes_on():
    server = Server()
    clock = server.clock()
    server.silent = True

    assert until_compared(server, clock) == BEGIN + timedelta(seconds=60)
    server.silent, server.time = False, BEGIN + timedelta(minutes=5)
    assert until_compared(server, clock) == server.time


def test_state_in_a_file_has_the_clock_of_its_machine(tmp_path):
    with State.at(parse_url(f"sqlite:///{tmp_path}/state.sqlite")) as state:
        assert state.now is utc_now


@pytest.mark.long
def test_a_clock_that_is_given_is_used(postgresql):
    with State.at(parse_url(new_database(postgresql)), lambda: BEGIN) as state:
        assert state.now() == BEGIN


@pytest.mark.long
@pytest.mark.parametrize("seconds", [600, -600])
def test_a_machine_whose_clock_is_wrong_has_the_time_of_the_server(postgresql, seconds):
    reason = missing()
    if reason:
        pytest.skip(reason)
    program = (
        "import sys, time; from meterlake.stores.state import State;"
        "from meterlake.stores.state.core.engine import parse_url\n"
        "with State.at(parse_url(sys.argv[1])) as state:\n"
        " print(time.time(), state.now().timestamp())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, new_database(postgresql)],
        env=os.environ
        | shifted_clock(seconds)
        | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()

    machine, state = map(float, told)
    now = datetime.now(UTC).timestamp()
    assert machine - state == pytest.approx(seconds, abs=60)
    assert state == pytest.approx(now, abs=60)


# What looks at the machine's own clock, and why that is right.
OWN_CLOCK = {
    "stores/state/core/state.py": "where no server is shared",
    "stores/state/core/migrations/earlier.py": "a migration, once",
    "stores/lake/maintenance.py": "ages of files, in days",
    "stores/lake/backends/bucket_files.py": "a file that has no time",
    "pipeline/ingest/drop_folder.py": "times of files of the same machine",
    "pipeline/integrations/connectors/webhook.py": "a date in an answer that just came",
}


def test_nobody_else_looks_at_the_clock_of_the_machine():
    source = Path(meterlake.__file__).parent
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"datetime\.now\(|\btime\.time\(|utcnow\(", path.read_text("utf-8"))
    }

    assert found == set(OWN_CLOCK)
