"""Several processes want the same: one file that all ingest, one row that all change."""

import json
import os
import subprocess
import sys
import threading
import time

import duckdb
import pytest

from meterlake.model.errors import Unavailable
from meterlake.pipeline.home.setup import initialize
from meterlake.stores import open_stores
from meterlake.stores.lake.connection import translate_errors
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row, settings
from tests.organizations import Clock

PROCESSES = 3
ROWS = 500
# Waits until all are ready, so that they really meet.
INGEST = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from meterlake.model.values import wire
from meterlake.model.measurements.receipt import Delivery
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.settings import Settings
from meterlake.stores import open_stores

home, path, number = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
with open_stores(Settings(home=home)) as stores:
    organization = stores.find_organization()
    print("ready", flush=True)
    sys.stdin.readline()
    delivery = Delivery(f"delivery-{number}", path.name, datetime.now(UTC))
    receipt = ingest_file(organization, path, delivery)
    print(wire.dumps(receipt.to_wire()).decode(), flush=True)
"""


@pytest.mark.slow
def test_a_file_that_several_processes_ingest_is_committed_once(database, tmp_path):
    home, path = tmp_path / "home", tmp_path / "usage.csv"
    url = database.render_as_string(hide_password=False)
    made = initialize(settings(home, state=url), "Sample")
    path.write_text(HEADER + "".join(csv_row(f"u-{n}", n % 7) for n in range(ROWS)), "utf-8")
    with open_stores(settings(home, state=url)) as stores:
        configure(stores.organization(made.org_id), meters=[EGRESS], accounts=ACCOUNTS)

    found = at_once(home, path, url)

    with open_stores(settings(home, state=url)) as stores:
        opened = Home(stores, made.org_id, Clock())
        assert len(opened.measurements()) == ROWS
        [[attempts, received, accepted, repeats]] = opened.query(
            "SELECT count(*), sum(received), sum(accepted), sum(repeats) FROM lake.source"
        )
        [[uids]] = opened.query("SELECT count(*) FROM lake.uid_index")
    # One brings the rows; for the others all of them are repeats, in an attempt of their own.
    assert sorted(each["accepted"] for each in found) == [0, 0, ROWS]
    assert sorted(each["repeats"] for each in found) == [0, ROWS, ROWS]
    assert (received, accepted, uids) == (attempts * ROWS, ROWS, ROWS)
    assert repeats == (attempts - 1) * ROWS


def at_once(home, path, url):
    """The receipts of processes that begin at the same moment."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", INGEST, str(home), str(path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"METERLAKE_STATE": url},
        )
        for number in range(PROCESSES)
    ]
    assert [each.stdout.readline() for each in started] == ["ready\n"] * PROCESSES
    for each in started:
        each.stdin.write("go\n")
        each.stdin.flush()
    answers = [each.communicate(timeout=120)[0] for each in started]
    assert [each.returncode for each in started] == [0] * PROCESSES
    return [json.loads(answer) for answer in answers]


def test_two_transactions_that_change_one_row_are_told_apart():
    """DuckDB refuses the second one; it is the world's error, which is tried again, not ours."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE counted AS SELECT 0 AS n")
        first, second = connection.cursor(), connection.cursor()
        for each in (first, second):
            each.execute("BEGIN")
        first.execute("UPDATE counted SET n = n + 1")
        with pytest.raises(Unavailable, match=r"[Cc]onflict"), translate_errors():
            second.execute("UPDATE counted SET n = n + 1")
        second.execute("ROLLBACK")
        first.execute("COMMIT")
        second.execute("UPDATE counted SET n = n + 1")

        assert connection.execute("SELECT n FROM counted").fetchall() == [(2,)]


@pytest.mark.slow
@pytest.mark.parametrize("writers", [4])
def test_writers_of_one_lake_wait_for_each_other(tmp_path, writers):
    """What conflicts in DuckDB never meets there: commits of a lake are under its lock."""
    home = tmp_path / "home"
    made = initialize(settings(home), "Sample")
    with open_stores(settings(home)) as stores:
        configure(stores.organization(made.org_id), meters=[EGRESS], accounts=ACCOUNTS)
    failed = []

    def write(number):
        try:
            with open_stores(settings(home)) as stores:
                opened = Home(stores, made.org_id, Clock())
                for turn in range(3):
                    rows = [csv_row(f"w{number}-{turn}-{n}", 1) for n in range(5)]
                    opened.ingest(f"{number}-{turn}.csv", HEADER + "".join(rows))
        except Exception as error:  # noqa: BLE001 - a thread's error is nobody's otherwise
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for each in threads:
        each.start()
    give_up = time.monotonic() + 120
    for each in threads:
        each.join(max(0, give_up - time.monotonic()))
    with open_stores(settings(home)) as stores:
        stored = len(Home(stores, made.org_id, Clock()).measurements())

    assert failed == []
    assert stored == writers * 3 * 5
