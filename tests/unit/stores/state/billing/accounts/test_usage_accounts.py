"""Which accounts a run of quantities has to know, and which periods are billed."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.catalog.catalog import Product
from meterlake.model.catalog.plans import Plan, PlanTemplate
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.stores.state.billing.accounts.usage_accounts import accounts_apart
from meterlake.stores.state.billing.bills.batch import put_all
from meterlake.stores.state.billing.late_usage.late_bills import billed_periods, oldest_bills
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def made(state, org):
    """Accounts of all sorts on two plans; ids by name."""
    ids = {}
    with state.transaction(org, "test") as transaction:
        product = transaction.create(Product(code="p", name="P"))
        for code in ("usual", "quarterly"):
            template = PlanTemplate(
                product_id=product.id,
                code=code,
                name=code,
                currency="USD",
                standing_charge=0,
                bill_frequency="MONTHLY",
            )
            plan = Plan(plan_template_id=transaction.create(template).id, name=code, code=code)
            ids[code] = transaction.create(plan).id
        for code, fields in (
            ("plain", {}),
            ("epoch", {"bill_epoch": date(2022, 1, 15)}),
            ("parent", {}),
            ("on quarterly", {}),
            ("own epoch", {}),
        ):
            account = Account(code=code, name=code, email_address="a@b.example", **fields)
            ids[code] = transaction.create(account).id
        child = Account(
            code="child", name="c", email_address="a@b.example", parent_account_id=ids["parent"]
        )
        ids["child"] = transaction.create(child).id
        for code, plan, fields in (
            ("plain", "usual", {}),
            ("parent", "usual", {}),
            ("on quarterly", "quarterly", {}),
            ("own epoch", "usual", {"bill_epoch": date(2022, 1, 10)}),
        ):
            entity = AccountPlan(
                account_id=ids[code], plan_id=ids[plan], start_date=START, **fields
            )
            transaction.create(entity)
    return ids


def test_only_who_differs_is_read_with_all_plans(state, org, made):
    with state.reading(org) as reader:
        found = accounts_apart(reader, [made["quarterly"]])
    names = {id_: name for name, id_ in made.items()}
    accounts = {names[each.id] for each in found if isinstance(each.entity, Account)}
    plans = [
        names[each.entity.account_id] for each in found if isinstance(each.entity, AccountPlan)
    ]

    assert accounts == {"epoch", "parent", "child", "on quarterly", "own epoch"}
    assert sorted(plans) == ["on quarterly", "own epoch", "parent"]


def test_without_special_plans_nobody_is_on_one(state, org, made):
    with state.reading(org) as reader:
        found = accounts_apart(reader, [])

    assert made["on quarterly"] not in {each.id for each in found}


def test_bills_made_from_an_older_snapshot_have_their_periods(state, org, made, clock):
    def bill(account, snapshot):
        key = BillKey(made[account], date(2026, 2, 1), "MONTHLY", 1)
        body = {"startDateTimeUTC": START, "endDateTimeUTC": datetime(2026, 2, 1, tzinfo=UTC)}
        return BillContent(
            key=key,
            period="2026-01",
            currency="USD",
            total=Decimal(0),
            body=body,
            pins={"snapshot": snapshot, "versions": {}, "code": "1"},
            lines=[],
        )

    with state.transaction(org, "test") as transaction:
        put_all(transaction, [bill("plain", 3), bill("epoch", 7)], BillStatus.PENDING)
    with state.reading(org) as reader:
        assert oldest_bills(reader, before=3) == []
        assert oldest_bills(reader, before=7) == [("2026-01", "MONTHLY", 3)]
        [found] = billed_periods(reader, "2026-01", "MONTHLY", {made["plain"]})

    assert found[1:] == (made["plain"], START, datetime(2026, 2, 1, tzinfo=UTC), clock(), 3)
