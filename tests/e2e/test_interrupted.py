"""Ingest while clocks go back and the database of State crashes."""

import os
import signal
import time
from contextlib import suppress
from datetime import timedelta

import psycopg
import pytest

from meterlake.model.errors import Unavailable
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.segments import ingest_segments
from meterlake.stores import open_stores
from tests.homes import EGRESS, HEADER, Home, a_home, configure, csv_row, settings
from tests.organizations import Clock
from tests.postgres import START_S, missing, postgres


def submit(home, *uids):
    texts = [
        b'{"meter":"egress","account":"acme","uid":"%s","ts":"2026-09-03T10:00:00Z",'
        b'"measure":{"gb":1.5},"where":{"region":"eu"}}' % uid.encode()
        for uid in uids
    ]
    home.stores.segments.append(home.org_id, texts).result(180)


@pytest.mark.long
def test_a_clock_that_is_set_back_loses_and_doubles_nothing(tmp_path):
    with a_home(tmp_path, segment_bytes=1) as home:
        home.drop("a.csv", HEADER + csv_row("a") + csv_row("", account="newcomer"))
        submit(home, "s1", "s2")
        assert [receipt.accepted for receipt in home.work()] == [2]
        home.clock.time -= timedelta(hours=2)
        submit(home, "s2", "s3")
        home.drop("b.csv", HEADER + csv_row("a") + csv_row("b", account="newcomer"))
        home.drop("c.csv", HEADER + csv_row("c", account="another"))
        home.work()
        # Both are closed by now or by the end of their writer.
        home.stores.segments.close()
        ingest_segments(home.organization)

        found = {row[0] for row in home.uids()}
        assert {"a", "b", "c", "s1", "s2", "s3"} <= found
        assert len(found) == 7
        assert sorted(home.account_codes().values()) == ["acme", "another", "bolt", "newcomer"]
        home.check()


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_database_that_is_started_anew_costs_a_try_at_most(tmp_path):
    with postgres() as url:
        options = settings(tmp_path / "home", state=url)
        made = initialize(options, "Sample")
        clock = Clock()
        with open_stores(options, now=clock) as stores:
            configure(stores.organization(made.org_id), meters=[EGRESS])
            home = Home(stores, made.org_id, clock)
            home.drop("a.csv", HEADER + csv_row("a", account="newcomer"))
            assert [receipt.accepted for receipt in home.work()] == [1]
            _crash(url)
            home.drop("b.csv", HEADER + csv_row("a", account="newcomer") + csv_row("b"))
            try:
                home.work()
            except Unavailable:
                home.work()

            assert [row[0] for row in home.uids()] == ["a", "b"]
            assert sorted(home.account_codes().values()) == ["acme", "newcomer"]
            home.check()


def _crash(url: str) -> None:
    """Kill a process of the server: it ends all others, recovers, and starts anew."""
    with psycopg.connect(url) as connection, suppress(psycopg.Error):
        [pid] = connection.execute("SELECT pg_backend_pid()").fetchone()
        os.kill(pid, signal.SIGKILL)
        connection.execute("SELECT 1")
    give_up = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert time.monotonic() < give_up
            time.sleep(0.05)
        else:
            return
