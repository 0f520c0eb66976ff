"""Files of many bills: how many days and how many bills one may have."""

import csv
import io
from datetime import UTC, date, datetime, timedelta

import pytest

from meterlake.model.bills.requests import DownloadCsvRequest
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid
from meterlake.pipeline.billing.bill_csv import BILLS_MAX, DAYS_MAX, write_bills
from meterlake.stores.state.core.many_rows import insert_rows
from meterlake.stores.state.core.tables import BILL
from tests.homes import a_home

FIRST = datetime(2026, 10, 1, tzinfo=UTC)
REQUEST = DownloadCsvRequest(start_date=FIRST, end_date=FIRST + timedelta(days=DAYS_MAX))


@pytest.fixture(scope="module")
def home(every_lake, home_database, tmp_path_factory):  # noqa: ARG001
    """A home with as many bills of October as a file may have."""
    with a_home(tmp_path_factory.mktemp(home_database)) as opened:
        insert(opened, BILLS_MAX)
        yield opened


def insert(home, count, day=date(2026, 10, 31)):
    """Bills without lines, which differ in their grouping keys."""
    with home.organization.transaction("test") as t:
        shared = {
            "org": home.org_id,
            "account_id": t.find(Account, "acme").id,
            "bill_date": day,
            "frequency": "MONTHLY",
            "interval": 1,
            "period": f"{day - timedelta(1):%Y-%m}",
            "currency": "USD",
            "total": "0",
            "body": "{}",
            "pins": "{}",
            "version": 1,
            "status": "PENDING",
            "locked": False,
            "created": t.now,
            "created_by": "test",
            "modified": t.now,
            "modified_by": "test",
        }
        ids = (t.new_id() for _ in range(count))
        insert_rows(t.connection, BILL, [{**shared, "id": id_, "grouping_key": id_} for id_ in ids])


def rows(home, request):
    file = write_bills(home.organization, request)
    text = home.stores.objects.path(file.key).read_text("utf-8")
    return list(csv.reader(io.StringIO(text)))


@pytest.mark.long
def test_a_file_has_as_many_bills_as_it_may_and_no_more(home):
    # They have no lines, and so no rows.
    [header] = rows(home, REQUEST)
    assert header[0] == "billId"
    insert(home, 1, FIRST.date())
    with pytest.raises(Invalid, match=r"endDate: '5001 bills'.*at most 5000 bills"):
        rows(home, REQUEST)
    later = REQUEST.model_copy(update={"start_date": FIRST + timedelta(days=1)})
    assert rows(home, later) == [header]


@pytest.mark.parametrize("more", [timedelta(seconds=1), timedelta(days=1)])
@pytest.mark.parametrize("names", ["start_date end_date", "external_invoice_date_start _end"])
def test_a_day_more_is_refused_before_bills_are_counted(home, names, more):
    start, end = names.split()
    end = end if end != "_end" else "external_invoice_date_end"
    request = DownloadCsvRequest(**{start: FIRST, end: FIRST + timedelta(days=DAYS_MAX) + more})
    with pytest.raises(Invalid, match="at most 31 days after"):
        rows(home, request)
