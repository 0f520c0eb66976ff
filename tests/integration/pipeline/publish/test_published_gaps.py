"""What no bill has, in the published file: usage without a price, late usage, what did not come."""

from datetime import UTC, datetime
from decimal import Decimal

import duckdb
import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import BillConfig, OrganizationConfig
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bills import delete_bill, set_status
from meterlake.pipeline.billing.jobs.jobs import bill, run_bill_job, submit_order
from meterlake.pipeline.billing.jobs.schedule import order_of_run
from meterlake.pipeline.billing.named_bills import find_bills
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.publish.query import query
from meterlake.pipeline.publish.run import publish
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill, price_egress, refuse_bills, subscribe, use
from tests.homes import HEADER, a_home, configure, csv_row

SEPTEMBER = Month(2026, 9)
TABLES = ("unbilled_usage", "late_usage", "late_usage_line", "missing_usage", "bill")


def read_both(home, statement):
    """The rows of the published file, which are those of the live lake."""
    path = publish(home.organization).path
    with duckdb.connect(str(path), read_only=True) as connection:
        found = connection.execute(statement).fetchall()
    with query(home.organization, statement) as answer:
        live = [tuple(row) for row in answer.rows]
    assert [tuple(map(str, row)) for row in live] == [tuple(map(str, row)) for row in found]
    return found


@pytest.mark.long
def test_usage_on_no_bill_is_a_table(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        use(home, ("9", "new", 7), ("10", "new", 1))
        bill(home.organization, SEPTEMBER)
        statement = (
            "SELECT month, account, meter, aggregation, reason, measurements, quantity"
            " FROM unbilled_usage ORDER BY ALL"
        )
        first = read_both(home, statement)
        # Another account alone changes nothing of it, the account itself does.
        bill(home.organization, SEPTEMBER, accounts=["acme"])
        same = read_both(home, statement)
        subscribe(home, "new")
        bill(home.organization, SEPTEMBER, accounts=["new"])
        priced = read_both(home, statement)

    row = ("2026-09", "new", "egress", "sent", "NoAccountPlan", 2, Decimal(8))
    assert first == same == [row]
    assert priced == []


GAPS = """SELECT month, account, meter, aggregation, reason, detail, measurements, quantity, unit
    FROM unbilled_usage ORDER BY ALL"""
MISSING = ("2026-09", "acme", "egress", "sent", "MissingBill", "no bill of 2026-10-01")


def delete_bill_of(home, account, month=SEPTEMBER):
    [id_] = find_bills(home.organization, [account, str(month)])
    delete_bill(home.organization, "finance", id_)


def test_usage_of_a_deleted_bill_is_on_no_bill_until_it_is_made_again(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        bill(home.organization, SEPTEMBER)
        before = read_both(home, GAPS)
        delete_bill_of(home, "acme")
        deleted = read_both(home, GAPS)
        # Nobody has to bill for what came after the deletion, either.
        use(home, ("more", "acme", 1))
        more = read_both(home, GAPS)
        bill(home.organization, SEPTEMBER, accounts=["bolt"])
        other = read_both(home, GAPS)
        bill(home.organization, SEPTEMBER, accounts=["acme"])
        again = read_both(home, GAPS)

    assert before == again == []
    assert deleted == [(*MISSING, 2, Decimal("42.5"), "GB")]
    assert more == other == [(*MISSING, 3, Decimal("43.5"), "GB")]


@pytest.mark.long
def test_usage_of_a_deleted_bill_stays_in_a_closed_month(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        bill(home.organization, SEPTEMBER, approve=True)
        delete_bill_of(home, "acme")
        place, document = ResourceRef(BY_ENTITY[BillConfig], {}), {"billLockDate": "2026-10-01"}
        entities.update(home.organization, "finance", place, {"version": 1, **document})
        assert bill(home.organization, SEPTEMBER, accounts=["acme"]).bills == []
        closed = read_both(home, GAPS)

    assert closed == [(*MISSING, 2, Decimal("42.5"), "GB")]


@pytest.mark.long
def test_usage_of_a_deleted_bill_without_a_plan_since_has_no_price(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        bill(home.organization, SEPTEMBER)
        delete_bill_of(home, "acme")
        ends = {"endDate": "2026-02-01T00:00:00Z", "startDate": "2026-01-01T00:00:00Z"}
        plan = {"code": "acme-basic", "accountId": "acme", "planId": "basic", **ends}
        configure(home.organization, accountPlans=[plan])
        found = read_both(home, GAPS)

    acme = ("2026-09", "acme", "egress", "sent", "NoAccountPlan", None)
    assert found == [(*acme, 2, Decimal("42.5"), "GB")]


@pytest.mark.long
def test_usage_of_a_deleted_bill_that_cannot_be_made_is_what_it_was(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        bill(home.organization, SEPTEMBER)
        delete_bill_of(home, "acme")
        refuse_bills(home, "acme")
        use(home, ("more", "acme", 1))
        refused = read_both(home, GAPS)

    assert refused == [(*MISSING, 2, Decimal("42.5"), "GB")]


@pytest.mark.long
def test_usage_of_a_deleted_bill_is_there_once_if_another_bill_of_its_account_cannot_be_made(
    tmp_path,
):
    with a_home_to_bill(tmp_path) as home:
        bill(home.organization, SEPTEMBER)
        delete_bill_of(home, "acme")
        refuse_bills(home, "acme", "WEEKLY")
        use(home, ("more", "acme", 1))
        found = read_both(home, GAPS)

    assert found == [(*MISSING, 3, Decimal("43.5"), "GB")]


@pytest.mark.long
def test_usage_of_a_child_is_its_own_where_the_bill_of_its_parent_is_deleted(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        child = {"code": "child", "name": "Child", "emailAddress": "child@example.com"}
        configure(home.organization, accounts=[{**child, "parentAccountId": "acme"}])
        use(home, ("child", "child", 3))
        subscribe(home, "child")
        bill(home.organization, SEPTEMBER)
        delete_bill_of(home, "acme")
        found = read_both(home, GAPS)

    assert found == [
        (*MISSING, 2, Decimal("42.5"), "GB"),
        ("2026-09", "child", *MISSING[2:], 1, Decimal(3), "GB"),
    ]


def test_late_usage_that_no_run_has_looked_at_is_open(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        home.clock.time = datetime(2026, 10, 2, tzinfo=UTC)
        bill(home.organization, SEPTEMBER)
        statement = "SELECT account, month, status, measurements, difference FROM late_usage"
        before = read_both(home, statement)
        use(home, ("late", "acme", 5))
        open_ones = read_both(home, statement)
        bill(home.organization, SEPTEMBER)
        billed = read_both(home, statement)

    assert before == billed == []
    assert open_ones == [("acme", "2026-09", "OPEN", 1, None)]


@pytest.mark.long
def test_late_usage_is_a_table_with_what_was_done(tmp_path):
    with a_home(tmp_path) as home:
        price_egress(home)
        subscribe(home, "acme")
        use(home, ("1", "acme", 40))
        bill(home.organization, SEPTEMBER)
        home.clock.time = datetime(2026, 10, 2, tzinfo=UTC)
        settings = {"daysBeforeBillDue": 14, "lateUsage": "CARRY_FORWARD"}
        configure(home.organization, organizationConfig=settings)
        with home.organization.reading() as reader:
            [stored] = bills.of_period(reader, str(SEPTEMBER))
        set_status(home.organization, "finance", stored.id, BillStatus.APPROVED)
        use(home, ("4", "acme", 5))
        home.ingest("october.csv", HEADER + csv_row("6", 3, ts="2026-10-01T10:00:00Z"))
        with home.organization.transaction("test") as transaction:
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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_an_empty_home_has_them(tmp_path, name):
    with a_home(tmp_path) as home:
        assert read_both(home, f"FROM {name}") == []
