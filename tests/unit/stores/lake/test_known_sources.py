"""What is remembered of a ledger is never older than it says."""

import pytest

from meterlake.model.measurements.receipt import UNKNOWN, Delivery
from meterlake.stores.lake import known_sources as module
from tests.homes import HEADER, a_home, csv_row, open_home


def ingest(home, number, delivery=None):
    return home.ingest(f"{number}.csv", HEADER + csv_row(f"u{number}"), delivery=delivery)


@pytest.mark.long
def test_a_new_source_is_unknown_and_a_known_one_has_its_history(tmp_path):
    with a_home(tmp_path) as home:
        lake = home.organization.lake
        first = ingest(home, 1, delivery="d1")

        assert lake.history("0" * 64, "d1") == UNKNOWN
        past = lake.history(first.identity, "d1")
        assert (past.attempts, past.same_delivery.delivery) == (
            1,
            Delivery("d1", "1.csv", home.clock()),
        )
        assert ingest(home, 1).attempt == 2


def test_what_another_process_committed_is_known_at_the_commit(tmp_path):
    with a_home(tmp_path) as home, open_home(home.stores.home, home.org_id) as other:
        assert [ingest(each, 1).accepted for each in (home, other)] == [1, 0]
        for number in range(2, 5):
            assert ingest(other, number).accepted == 1
            again = ingest(home, number)
            assert (again.attempt, again.repeats) == (2, 1)
        home.check()


@pytest.mark.long
def test_a_ledger_with_very_many_sources_is_asked_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SOURCES_MAX", 1)
    with a_home(tmp_path) as home:
        for number in (1, 2, 3, 2):
            ingest(home, number)
        lake = home.organization.lake

        assert not lake.sources.is_new("0" * 64)
        assert lake.history("0" * 64, "d") == UNKNOWN
        assert [row[1] for row in home.ledger()] == [1, 1, 2, 1]


@pytest.mark.long
def test_snapshots_that_expired_are_no_gap(tmp_path):
    with a_home(tmp_path) as home, open_home(home.stores.home, home.org_id) as other:
        ingest(home, 1)
        known = ingest(other, 2)
        ingest(other, 3)
        lake = other.stores.lake(home.org_id)
        with lake.lock(), lake.transaction() as connection:
            newest = connection.execute("SELECT id FROM lake.current_snapshot()").fetchone()[0]
            versions = list(range(1, newest))
            connection.execute(
                f"CALL ducklake_expire_snapshots('lake', versions => {versions})"
            ).fetchall()

        assert ingest(home, 2).attempt == 2
        assert home.organization.lake.history(known.identity, "x").attempts == 2
