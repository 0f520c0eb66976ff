"""Custom SQL that nobody foresaw ends with its process, and with nothing else."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from meterlake.model.custom_sql import InvalidSql
from meterlake.model.errors import Unavailable
from meterlake.stores.custom_sql import Checker, Sandbox, SqlLimits, checker
from meterlake.stores.custom_sql.process import Ended, Process

D = Decimal
COUNT = "SELECT count(*) FROM measurements"
COLUMNS = {"ts": "TIMESTAMP", "gb": "DECIMAL(38, 12)"}
# None of these would pass the check: they stand for what the check does not know of.
SLOW = {
    "cases": "SELECT " + "CASE " * 30 + "1" + " WHEN 1 THEN 1 WHEN 2 THEN 2 END" * 30,
    "planning": "SELECT " + "(SELECT " * 40 + "1" + ")" * 40,
    "running": "SELECT count(*) FROM range(1000000000000000)",
}
LARGE = {
    "a text": "SELECT length(repeat('x', 4000000000))",
    "texts": "SELECT length(string_agg(repeat('x', 1000000), ',')) FROM range(100000)",
    "a list": "SELECT len(list(range)) FROM range(1000000000)",
    "distinct values": "SELECT count(DISTINCT range) FROM range(1000000000)",
    "a sort": "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY range DESC) AS n"
    " FROM range(1000000000))",
    "joins": "SELECT count(*) FROM " + ", ".join(f"measurements AS m{n}" for n in range(60)),
}
REST = [
    "SELECT count(*) FROM measurements WHERE regexp_matches(repeat('a', 99999) || 'b', '(a*)*c')",
    "SELECT count(*) FROM measurements WHERE repeat('a', 9999) LIKE '" + "%a" * 40 + "%b'",
    "SELECT " + "(" * 100_000 + "1" + ")" * 100_000,
    "COPY measurements TO '/tmp/custom-sql'",
    "SELECT current_timestamp",
    "SELECT '\ud800'",
]


def rows(*numbers, **more):
    return pa.table(
        {
            "ts": pa.array([datetime(2026, 10, 1)] * len(numbers)),
            "gb": pa.array([D(each) for each in numbers], pa.decimal128(38, 12)),
            **more,
        }
    )


@pytest.fixture(scope="module")
def small():
    """A sandbox whose process is not to end."""
    with Sandbox(SqlLimits("64MB", 60)) as opened:
        yield opened


@pytest.fixture
def quick():
    with Sandbox(SqlLimits("64MB", 0.2)) as opened:
        yield opened


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.long
@pytest.mark.parametrize("sql", [SLOW["planning"], SLOW["running"]], ids=["planning", "running"])
def test_what_takes_too_long_is_killed_and_the_next_one_runs(quick, sql):
    quick.put(rows(1, 2))
    with pytest.raises(Ended, match=r"longer than 0\.2 s"):
        quick.value(sql)
    assert quick.pid is None
    quick.limits = quick.limits._replace(seconds=60)
    # The measurements are handed over again.
    assert quick.value(COUNT) == 2


@pytest.mark.parametrize("sql", LARGE.values(), ids=list(LARGE))
def test_what_takes_too_much_memory_is_refused(small, sql):
    small.put(rows(1, 2))
    with pytest.raises(InvalidSql, match="more memory than 64MB"):
        small.value(sql)
    assert small.value(COUNT) == 2


@pytest.mark.parametrize("sql", REST)
def test_the_process_lives_on(small, sql):
    small.put(rows(1, 2))
    try:
        assert small.value(sql) == 0
    except InvalidSql as error:
        assert not isinstance(error, Ended)  # noqa: PT017
    assert small.value(COUNT) == 2


def test_memory_that_duckdb_does_not_count_has_an_end_too():
    with Process("run", "64MB") as process:
        limits = Path(f"/proc/{process.pid}/limits")
        if not limits.exists():
            pytest.skip("only Linux keeps this limit")
        process.ask("ping", 5)
        found = {
            line[:25].strip(): line[25:].split()[0] for line in limits.read_text().splitlines()
        }
        size = Path(f"/proc/{process.pid}/statm").read_text().split()[0]
        own = int(size) * os.sysconf("SC_PAGESIZE")
        assert own < int(found["Max address space"]) < own + 2**30
        # No file is opened, written, or left behind: it does not matter how full the disk is.
        for what in ("open files", "file size", "core file size"):
            assert found[f"Max {what}"] == "0"
        assert int(found["Max cpu time"]) < 100


@pytest.mark.long
def test_who_is_killed_in_the_middle_is_an_error_of_that_query_only(small):
    with Sandbox(SqlLimits(seconds=60)) as sandbox:
        sandbox.put(rows(1, 2, 3))
        assert sandbox.value(COUNT) == 3
        victim = sandbox.pid
        threading.Timer(0.1, os.kill, (victim, signal.SIGKILL)).start()
        with pytest.raises(Ended, match=r"the process that ran it ended \(SIGKILL\)"):
            sandbox.value(SLOW["running"])
        assert gone(victim)
        assert sandbox.value(COUNT) == 3
        # Another one at the same time notices nothing.
        small.put(rows(1))
        assert small.value(COUNT) == 1
        last = sandbox.pid
    assert gone(last)


def test_who_dies_between_two_accounts_is_an_error_of_the_next_one_only(small):
    small.put(rows(1))
    small.value(COUNT)
    os.kill(small.pid, signal.SIGKILL)
    small.put(rows(1, 2))
    with pytest.raises(Ended):
        small.value(COUNT)
    assert small.value(COUNT) == 2


def test_a_process_ends_with_who_started_it():
    with Process("check", "64MB") as process:
        process._socket.close()
        assert process._child.wait(180) == 0


@pytest.mark.long
def test_two_run_at_once_and_do_not_meet():
    def run(number):
        with Sandbox(SqlLimits("64MB", 60)) as sandbox:
            found = []
            for n in range(20):
                sandbox.put(rows(*[number] * n))
                found.append(sandbox.value("SELECT sum(gb) FROM measurements"))
            return found

    with ThreadPoolExecutor(2) as pool:
        for number, found in zip((1, 1000), pool.map(run, (1, 1000)), strict=True):
            assert found == [None, *(number * n for n in range(1, 20))]


@pytest.mark.long
def test_all_accounts_together_have_a_time_too():
    with Sandbox(SqlLimits("64MB", 0.2, 0.3)) as sandbox:
        sandbox.put(rows(1))
        with pytest.raises(InvalidSql, match=r"longer than 0\.2 s"):
            sandbox.value(SLOW["running"], "one")
        for _ in range(2):
            with pytest.raises(InvalidSql, match=r"longer than 0\.3 s for all accounts of the run"):
                sandbox.value(SLOW["running"], "one")
        # Nothing is started for it any more; another aggregation has a time of its own.
        assert sandbox.pid is None
        sandbox.limits = sandbox.limits._replace(seconds=60, run_seconds=60)
        assert sandbox.value(COUNT, "another") == 1


@pytest.mark.long
def test_a_query_is_planned_once_and_follows_its_measurements(small):
    total = "SELECT sum(gb) FROM measurements"
    for numbers in ([1], [], [1, 2], ["0.1"] * 3):
        small.put(rows(*numbers))
        assert small.value(total) == (sum(map(D, numbers)) if numbers else None)
    small.put(rows(1, region=["eu"]))
    assert small.value("SELECT count(region) FROM measurements") == 1
    assert small.value(total) == 1
    small.put(rows(2))
    assert small.value(total) == 2
    with pytest.raises(InvalidSql, match="region"):
        small.value("SELECT count(region) FROM measurements")


def test_numbers_keep_all_their_digits(small):
    small.put(rows(1))
    for text in (
        "99999999999999999999999999.999999999999",
        "-0.000000000001",
        "170141183460469231731687303715884105727",
    ):
        assert str(small.value(f"SELECT {text}")) in {text, f"{D(text)}"}


@pytest.mark.long
def test_what_is_bound_for_long_is_killed(monkeypatch):
    monkeypatch.setattr(checker, "_PLAN_S", 0.3)
    with Checker() as own:
        with pytest.raises(Ended, match=r"longer than 0\.3 s"):
            own.bind(SLOW["planning"], COLUMNS)
        monkeypatch.undo()
        own.bind(COUNT, COLUMNS)


def test_who_was_left_in_the_middle_answers_nobody_else():
    class Stopped(BaseException):
        """As Ctrl-C."""

    with Checker() as own:
        own.bind(COUNT, COLUMNS)
        process = own._process

        def stop(*_):
            if not process.waits:
                raise Stopped

        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        try:
            with pytest.raises(Stopped):
                own.bind(SLOW["cases"], COLUMNS)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert gone(process.pid)


@pytest.mark.parametrize(
    ("program", "reason"), [("/nowhere/python", "No such file"), ("/bin/false", "exit code 1")]
)
def test_what_cannot_start_is_worth_another_try(monkeypatch, program, reason):
    monkeypatch.setattr("sys.executable", program)
    with Sandbox() as sandbox, pytest.raises(Unavailable, match=f"process of custom SQL.*{reason}"):
        sandbox.value(COUNT)


@pytest.mark.long
def test_who_waits_for_queries_is_used_again_unless_it_died():
    with Checker() as own:
        own.bind(COUNT, COLUMNS)
        first = own._process.pid
    with Checker() as own:
        own.bind(COUNT, COLUMNS)
        assert own._process.pid == first
    os.kill(first, signal.SIGKILL)
    with Checker() as own, Checker() as other:
        own.bind(COUNT, COLUMNS)
        other.bind(COUNT, COLUMNS)
        both = {own._process.pid, other._process.pid}
    # One of them waits, and takes as much memory as is asked for.
    assert sum(map(gone, both)) == 1
    with Checker(SqlLimits("64MB")) as own:
        own.bind(COUNT, COLUMNS)
        assert own._process.memory == "64MB"
    deadline = time.monotonic() + 30
    while not all(map(gone, both)):
        assert time.monotonic() < deadline
