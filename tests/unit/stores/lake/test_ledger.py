"""The ledger: what it remembers of a source, and the rejected rows of each attempt."""

from datetime import UTC, datetime

import pytest

from meterlake.model.measurements.receipt import Delivery, Receipt
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.stores.lake import ledger
from tests.homes import a_home

NOW = datetime(2026, 10, 1, 12, 0, 0, 5, tzinfo=UTC)


def receipt(attempt=1, delivery="d1", **change):
    base = {
        "delivery": Delivery(delivery, "a.csv", NOW),
        "identity": "i1",
        "attempt": attempt,
        "sha256": "s",
        "size_bytes": 3,
        "format": "csv",
        "mapping": None,
        "status": "done",
    }
    return Receipt(**(base | change))


@pytest.fixture
def lake(tmp_path):
    with a_home(tmp_path) as home:
        yield home.organization.lake


def write(lake, *receipts, rejected=()):
    with lake.lock(), lake.transaction() as connection:
        lake.insert(
            connection, "source", [ledger.source_row(each, NOW, {"m1": 2}) for each in receipts]
        )
        if rejected:
            frame = ledger.rejected_frame(rejected, "i1", 1, "a.csv")
            lake.insert(connection, "rejected", frame.rows())


def history(lake, delivery="d9"):
    with lake.reader() as connection:
        return ledger.history(connection, "i1", delivery)


def test_an_unknown_source_has_no_history(lake):
    assert history(lake) == (0, None, None)


def test_a_receipt_comes_back_as_it_was_written(lake):
    written = receipt(
        received=5,
        accepted=1,
        repeats=2,
        rejected=2,
        rounded=3,
        reasons={Reason.INVALID_NUMBER: 2},
        mapping="m@1",
    )
    write(lake, written)

    assert history(lake, "d1") == (1, written, written)


def test_a_failed_attempt_counts_but_is_not_what_was_done(lake):
    failed = receipt(2, "d2", status="failed", reason=Reason.DAMAGED_FILE, detail="x")
    write(lake, receipt(), failed)

    found = history(lake, "d2")

    assert found.attempts == 2
    assert found.same_delivery == failed
    assert found.done.attempt == 1


def test_the_newest_attempt_that_was_done_counts(lake):
    write(lake, receipt(1), receipt(2, "d2", received=1, accepted=1))

    assert history(lake).done.attempt == 2


@pytest.mark.long
def test_rejections_keep_everything_that_was_told(lake):
    bad = Rejection(7, Reason.DUPLICATE_UID, "why", 'text "x"\n\x00ü', 2, "uid", "egress", "u1")
    write(
        lake,
        receipt(received=2, rejected=2, reasons={Reason.DUPLICATE_UID: 2}),
        rejected=[bad, bad._replace(row=3)],
    )

    with lake.reader() as connection:
        told = ledger.with_sample(connection, history(lake).done)
        places = ledger.missing_places(connection, history(lake).done)

    assert told.sample == (bad._replace(row=3), bad)
    assert sorted(places.rows()) == [(3, 2), (7, 2)]


def test_books_that_do_not_balance_cannot_be_written():
    with pytest.raises(AssertionError):
        receipt(received=2, accepted=1)
    with pytest.raises(AssertionError):
        receipt(received=1, rejected=1)
