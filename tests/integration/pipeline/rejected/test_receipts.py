"""Receipts: of sources and jobs, and where a uid was first seen."""

import pytest

from meterlake.model.errors import NotFound
from meterlake.pipeline.rejected.receipts import list_receipts, show_receipts, uid_receipts
from meterlake.pipeline.rejected.requeue import requeue
from meterlake.stores.lake.receipts import ReceiptFilters
from meterlake.stores.lake.rejected import RejectedFilter
from tests.homes import HEADER, a_home, csv_row
from tests.integration.pipeline.rejected.test_rejected import correct

DATA = HEADER + csv_row("u1") + csv_row("", "x") + csv_row("u3", meter="later")


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as found:
        yield found


def of_uids(home, *uids):
    return uid_receipts(home.organization, uids)


def test_an_unknown_source_is_not_found(home):
    home.ingest("a.csv", DATA)
    for name in ("nothing", "0" * 64, ""):
        with pytest.raises(NotFound):
            show_receipts(home.organization, name)


@pytest.mark.long
def test_an_unknown_uid_says_so(home):
    home.ingest("a.csv", DATA)
    assert of_uids(home, "nobody", "") == [
        {"uid": uid, "status": "unknown", "contradicted": [], "rejected": [], "retracted": []}
        for uid in ("nobody", "")
    ]
    assert of_uids(home) == []


@pytest.mark.long
def test_a_source_and_a_job_have_receipts_that_balance(home):
    home.ingest("a.csv", DATA, delivery="job-1")
    home.ingest("broken.csv", b"uid,ts\n1,2\n")
    home.ingest("again.csv", DATA)
    listed = list_receipts(home.organization, ReceiptFilters(), 10)
    by_name = {each["name"]: each for each in listed}
    newest, failed, oldest = by_name["again.csv"], by_name["broken.csv"], by_name["a.csv"]
    assert (newest["name"], newest["attempt"], newest["repeats"]) == ("again.csv", 2, 1)
    assert (failed["status"], failed["reason"]) == ("failed", "MissingHeader")
    assert oldest["reasons"] == {"InvalidNumber": 1, "UndefinedMeter": 1}
    assert show_receipts(home.organization, "job-1") == [oldest]
    identity = oldest["identity"][:12]
    assert show_receipts(home.organization, identity) == [newest, oldest]
    only = ReceiptFilters(status="failed")
    assert list_receipts(home.organization, only, 10) == [failed]
    assert list_receipts(home.organization, ReceiptFilters(name="a.csv"), 10) == [oldest]
    assert len(list_receipts(home.organization, ReceiptFilters(), 2)) == 2
    for receipt in (newest, failed, oldest):
        counts = receipt["accepted"] + receipt["repeats"] + receipt["rejected"]
        assert receipt["received"] == counts


@pytest.mark.long
def test_where_a_uid_was_first_seen_and_what_contradicted_it(home):
    first = home.ingest("a.csv", DATA, delivery="job-1")
    home.ingest("b.csv", HEADER + csv_row("u1", 99))
    home.ingest("again.csv", DATA)
    accepted, rejected = of_uids(home, "u1", "u3")
    expected = {
        "status": "accepted",
        "name": "a.csv",
        "identity": first.identity,
        "row": 2,
        "meter": "egress",
        "account": "acme",
        "delivery": "job-1",
        "attempt": 1,
    }
    assert {name: accepted[name] for name in expected} == expected
    assert [each["name"] for each in accepted["redelivered"]] == ["again.csv"]
    [contradicted] = accepted["contradicted"]
    assert (contradicted["name"], contradicted["row"]) == ("b.csv", 2)
    assert rejected["status"] == "rejected"
    assert [each["reason"] for each in rejected["rejected"]] == ["UndefinedMeter"] * 2


@pytest.mark.long
def test_a_row_that_came_in_later_was_seen_when_it_came_in(home):
    home.ingest("a.csv", DATA)
    correct(home)
    home.ingest("again.csv", DATA)
    [found] = of_uids(home, "u3")
    assert (found["name"], found["attempt"], found["redelivered"]) == ("again.csv", 2, [])


@pytest.mark.long
def test_a_requeued_row_names_its_origin(home):
    first = home.ingest("a.csv", DATA)
    correct(home)
    requeue(home.organization, RejectedFilter())
    [found] = of_uids(home, "u3")
    assert found["requeuedFrom"] == f"{first.identity[:12]}:4"
    assert found["name"].startswith("requeue-")
