"""Publishing after measurements were corrected, after pooling, in a crowd, and on a full disk."""

import os
import resource
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal

import duckdb
import pytest

from meterlake.model.values.period import Month
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.publish.query import query
from meterlake.pipeline.publish.report import gather_report
from meterlake.pipeline.publish.run import publish
from meterlake.pipeline.usage.aggregate import aggregate
from tests.bills import price_egress, subscribe
from tests.homes import HEADER, a_home, configure, csv_row, open_home


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        opened.clock.time = datetime(2027, 1, 1, tzinfo=UTC)
        yield opened


def uids(home, *, parquet=False):
    """What the file and the Parquet files have now, and how many months were made anew."""
    published = publish(home.organization, parquet=parquet)
    with closing(duckdb.connect(str(published.path), read_only=True)) as connection:
        found = connection.execute("SELECT uid FROM egress ORDER BY uid").fetchall()
        if parquet:
            files = f"read_parquet('{published.parquet}/egress/*/*.parquet')"
            assert connection.execute(f"SELECT uid FROM {files} ORDER BY uid").fetchall() == found
    return [uid for (uid,) in found], published.made


@pytest.mark.slow
def test_what_is_withdrawn_after_it_was_published_goes_and_comes_back(home):
    home.ingest("a.csv", HEADER + csv_row("a1") + csv_row("a2"))
    home.ingest("b.csv", HEADER + csv_row("b1") + csv_row("o1", ts="2026-10-01T00:00:00Z"))
    everything = ["a1", "a2", "b1", "o1"]
    assert uids(home) == (everything, (2, 2))
    [[source]] = home.query("SELECT identity FROM lake.source WHERE name = 'a.csv'")
    wanted = BackfillSpec(Mode.RETRACT, "wrong", source=source)
    backfill.start(home.organization, Order(wanted, "ann", "withdrawn"))

    backfill.apply(home.organization, "withdrawn", "ann")
    assert uids(home, parquet=True) == (["b1", "o1"], (1, 2))
    backfill.revert(home.organization, "withdrawn", "ann")
    assert uids(home) == (everything, (1, 2))


@pytest.mark.slow
def test_nothing_that_is_pooled_is_counted_twice(home):
    price_egress(home)
    fields = {"name": "A", "emailAddress": "a@b.example"}
    for entry in ({"code": "parent"}, {"code": "child", "parentAccountId": "parent"}):
        configure(home.organization, accounts=[fields | entry])
    subscribe(home, "parent")
    rows = csv_row("p", 1, "parent") + csv_row("c", 2, "child") + csv_row("o", 4, "acme")
    home.ingest("a.csv", HEADER + rows)
    aggregate(home.organization, Month(2026, 9))
    home.ingest("b.csv", HEADER + csv_row("later", 8, "child"))
    aggregate(home.organization, Month(2026, 9))
    published = publish(home.organization, parquet=True)

    question = (
        "SELECT account, pooled, quantity FROM {} WHERE aggregation = 'sent' ORDER BY account"
    )
    expected = [
        ("acme", None, Decimal(4)),
        ("child", "child", Decimal(10)),
        ("parent", "parent", Decimal(11)),
    ]
    with closing(duckdb.connect(str(published.path), read_only=True)) as connection:
        now = connection.execute(question.format("quantity_current")).fetchall()
        ever = connection.execute(question.format("quantity")).fetchall()
        files = question.format(f"'{published.parquet}/quantity/*.parquet'")
        assert sorted(connection.execute(files).fetchall(), key=repr) == sorted(ever, key=repr)
        used = connection.execute("SELECT sum(total) FROM usage_per_day").fetchall()
    with query(home.organization, question.format("quantity_current")) as answer:
        assert list(answer.rows) == now == expected
    assert (len(ever), used) == (6, [(Decimal(15),)])
    totals = {each.aggregation: each.total for each in gather_report(home.organization).totals}
    # Means of accounts do not add up.
    assert totals == {"sent": 15, "mean": None}


PUBLISH = """
import resource, signal, sys
from pathlib import Path
from meterlake.model.errors import Unavailable
from meterlake.pipeline.publish.run import publish
from meterlake.stores import open_stores
from tests.homes import settings

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open_stores(settings(Path(sys.argv[1]))) as stores:
    limit = int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        print(publish(stores.organization(sys.argv[2]), parquet=True).rows["egress"])
    except Unavailable:
        print("unavailable")
"""


def publishing(home, limit=resource.RLIM_INFINITY):
    """A process that publishes, with files of so many bytes at most."""
    return subprocess.Popen(
        [sys.executable, "-c", PUBLISH, str(home.stores.home), home.org_id, str(limit)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": "src:."},
    )


@pytest.mark.slow
def test_two_at_once_while_measurements_arrive(home):
    home.ingest("first.csv", HEADER + csv_row("first"))
    processes = [publishing(home) for _ in range(2)]
    arrived = 1
    while any(process.poll() is None for process in processes):
        home.ingest(f"{arrived}.csv", HEADER + csv_row(f"n{arrived}"))
        arrived += 1
    for process in processes:
        assert 1 <= int(process.communicate()[0]) <= arrived

    assert len(uids(home)[0]) == arrived


@pytest.mark.slow
@pytest.mark.parametrize("limit", [100_000, 1_000_000])
def test_a_full_disk_leaves_what_was_published(home, limit):
    home.ingest("a.csv", HEADER + csv_row("a"))
    published = publish(home.organization, parquet=True)
    before, led = published.path.read_bytes(), published.parquet.resolve()
    home.ingest("b.csv", HEADER + csv_row("b"))
    path, clock = home.stores.home, home.clock
    home.stores.close()

    assert publishing(home, limit).communicate()[0] == "unavailable\n"
    assert (published.path.read_bytes(), published.parquet.resolve()) == (before, led)
    with open_home(path, home.org_id, clock) as again:
        assert uids(again, parquet=True) == (["a", "b"], (1, 1))
