"""What no bill has, in the published file: usage without a price, late usage, what did not come."""

from datetime import UTC, datetime
from decimal import Decimal

import duckdb
import pytest

from meterlake.model.bill_requests import BillStatus
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Month
from meterlake.pipeline.billing.bills import set_status
from meterlake.pipeline.billing.jobs import bill, run_bill_job, submit_order
from meterlake.pipeline.billing.schedule import order_of_run
from meterlake.pipeline.publish.query import query
from meterlake.pipeline.publish.run import publish
from meterlake.stores.state.billing import bills
from tests.bills import a_home_to_bill, price_egress, subscribe, use
from tests.homes import HEADER, a_home, configure, csv_row

SEPTEMBER = Month(2026, 9)
TABLES = ("unbilled_usage", "late_usage", "late_usage_line", "missing_usage", "bill")


def read_both(home, statement):
    """The rows of the published file, which are those of the live lake."""
    path = publish(home.stores, home.org_id).path
    with duckdb.connect(str(path), read_only=True) as connection:
        found = connection.execute(statement).fetchall()
    with query(home.stores, home.org_id, statement) as answer:
        live = [tuple(row) for row in answer.rows]
    assert [tuple(map(str, row)) for row in live] == [tuple(map(str, row)) for row in found]
    return found


def test_usage_on_no_bill_is_a_table(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        use(home, ("9", "new", 7), ("10", "new", 1))
        bill(home.stores, home.org_id, SEPTEMBER)
        statement = (
            "SELECT month, account, meter, aggregation, reason, measurements, quantity"
            " FROM unbilled_usage ORDER BY ALL"
        )
        first = read_both(home, statement)
        # Another account alone changes nothing of it, the account itself does.
        bill(home.stores, home.org_id, SEPTEMBER, accounts=["acme"])
        same = read_both(home, statement)
        subscribe(home, "new")
        bill(home.stores, home.org_id, SEPTEMBER, accounts=["new"])
        priced = read_both(home, statement)

    row = ("2026-09", "new", "egress", "sent", "NoAccountPlan", 2, Decimal(8))
    assert first == same == [row]
    assert priced == []


def test_late_usage_that_no_run_has_looked_at_is_open(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        home.clock.time = datetime(2026, 10, 2, tzinfo=UTC)
        bill(home.stores, home.org_id, SEPTEMBER)
        statement = "SELECT account, month, status, measurements, difference FROM late_usage"
        before = read_both(home, statement)
        use(home, ("late", "acme", 5))
        open_ones = read_both(home, statement)
        bill(home.stores, home.org_id, SEPTEMBER)
        billed = read_both(home, statement)

    assert before == billed == []
    assert open_ones == [("acme", "2026-09", "OPEN", 1, None)]


def test_late_usage_is_a_table_with_what_was_done(tmp_path):
    with a_home(tmp_path) as home:
        price_egress(home)
        subscribe(home, "acme")
        use(home, ("1", "acme", 40))
        bill(home.stores, home.org_id, SEPTEMBER)
        home.clock.time = datetime(2026, 10, 2, tzinfo=UTC)
        settings = {"daysBeforeBillDue": 14, "lateUsage": "CARRY_FORWARD"}
        configure(home.stores, home.org_id, organizationConfig=settings)
        with home.stores.state.reading(home.org_id) as reader:
            [stored] = bills.of_period(reader, str(SEPTEMBER))
        set_status(home.stores, home.org_id, "finance", stored.id, BillStatus.APPROVED)
        use(home, ("4", "acme", 5))
        home.ingest("october.csv", HEADER + csv_row("6", 3, ts="2026-10-01T10:00:00Z"))
        with home.stores.state.transaction(home.org_id, "test") as transaction:
            [record] = transaction.all(OrganizationConfig)
            job = submit_order(transaction, order_of_run(record.entity, home.clock.time))
        run_bill_job(home.stores, job.id)

        found = read_both(
            home,
            "SELECT u.account, u.month, u.status, u.difference, l.memo_amount, b.month AS on_bill"
            " FROM late_usage u JOIN late_usage_line l ON l.late_usage_id = u.id"
            " JOIN bill b ON b.id = l.memo_bill_id",
        )
        approved = read_both(home, "SELECT month, approved_by FROM bill ORDER BY month")

    assert found == [("acme", "2026-09", "CARRIED", Decimal(5), Decimal(5), "2026-10")]
    assert approved == [("2026-09", "finance"), ("2026-10", None)]


def test_missing_usage_joins_months_accounts_and_rejected_rows(tmp_path):
    with a_home(tmp_path) as home:
        days = ("2026-08-03", "2026-09-03")
        rows = [csv_row(f"a{day}", 1, "acme", ts=f"{day}T10:00:00Z") for day in days]
        rows += [csv_row("b", 1, "bolt", ts="2026-08-03T10:00:00Z")]
        rows += [csv_row("c", "much", "acme", ts="2026-09-04T10:00:00Z")]
        rows += [csv_row("d", "more", "bolt", ts="2026-08-31T23:00:00Z")]
        home.ingest("usage.csv", HEADER + "".join(rows))

        found = read_both(home, "FROM missing_usage")

    assert found == [
        ("2026-09", "acme", "egress", 1, 1),
        ("2026-09", "bolt", "egress", 0, 0),
        ("2026-08", "bolt", "egress", 1, 1),
    ]


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_home_has_them(tmp_path, name):
    with a_home(tmp_path) as home:
        assert read_both(home, f"FROM {name}") == []
