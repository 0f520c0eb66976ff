"""The events of billing: each type of the published list happens as it says, with its fields.

A module's home lives through all of it once; what never happens is not offered.
"""

from collections import defaultdict

import pytest

from meterlake.model.resources.event_fields import OTHERS
from meterlake.model.resources.events import NEVER_HAPPEN, published_types
from meterlake.pipeline.billing.jobs.schedule import whole_bill_round
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.served import served

STEMS = (
    *("balance", "balanceamount", "bill", "billconfig", "billjob", "charge", "counteradjustment"),
    *("scheduledbalancecharge", "scheduledbalancetransaction", "statementjob"),
)
TYPES = [
    f"billing.{stem}.{action}" for stem in STEMS for action in ("created", "updated", "deleted")
]
HAPPENING = [each for each in TYPES if each not in NEVER_HAPPEN]
SIDES = {"created": ["newDto"], "updated": ["newDto", "oldDto"], "deleted": ["oldDto"]}
KINDS = {
    "string": str,
    "double": (int, float),
    "int": int,
    "boolean": bool,
    "map": dict,
    "array": list,
}
TIME = {"start_date": "2026-01-01T00:00:00Z", "end_date": "2027-01-01T00:00:00Z"}


@pytest.fixture(scope="module")
def server(home_database, tmp_path_factory):
    with served(tmp_path_factory.mktemp(home_database) / "home") as found:
        home = Home(found.stores, found.org_id, Clock())
        configure(
            found.organization,
            meters=[EGRESS],
            accounts=ACCOUNTS,
            organizationConfig={"daysBeforeBillDue": 14, "currency": "USD", "billPrefix": "INV-"},
            counters=[{"code": "seats", "name": "Seats", "unit": "seats"}],
            transactionTypes=[{"code": "topup", "name": "Top-up"}],
        )
        price_egress(home)
        subscribe(home, "bolt")
        assert home.ingest("a.csv", HEADER + csv_row("1", "42.5", "bolt")).rejected == 0
        yield found


@pytest.fixture(scope="module")
def sdk(server):
    return server.sdk()


@pytest.fixture(scope="module")
def accounts(sdk):
    return {each.code: each.id for each in sdk.accounts.list()}


@pytest.fixture(scope="module")
def told(server, sdk, accounts):
    """All events of billing by name, the oldest first, after everything has happened once."""
    live_of_a_bill(server, sdk, accounts["bolt"])
    lives_of_balances(sdk, accounts["acme"])
    live_of_a_charge(sdk, accounts["acme"])
    live_of_an_adjustment(sdk, accounts["acme"])
    config = sdk.bill_config.retrieve()
    sdk.bill_config.update(bill_lock_date="2020-01-01", version=config.version)
    found = defaultdict(list)
    for event in sdk.events.list(page_size=100, include_actioned=True):
        if event.event_name.startswith("billing."):
            found[event.event_name].insert(0, event)
    return found


def bill_september(server, sdk, account_id, cancel=False):
    job = sdk.bill_jobs.create(account_ids=[account_id], bill_date="2026-10-01")
    if cancel:
        sdk.bill_jobs.cancel(job.id)
    whole_bill_round(server.organization)
    return job.id


def live_of_a_bill(server, sdk, account_id):
    """Created, approved, changed by a debit, approved, deleted; another one is locked."""
    bill_september(server, sdk, account_id, cancel=True)
    bill_september(server, sdk, account_id)
    bill = sdk.bills.latest_by_account(account_id)
    sdk.bills.approve(bill_ids=[bill.id])
    product = next(iter(sdk.products.list())).id
    sdk.bills.debit_line_items.create(
        bill_id=bill.id,
        product_id=product,
        accounting_product_id=product,
        description="Forgotten",
        amount=5,
        referenced_bill_id=bill.id,
        referenced_line_item_id=bill.line_items[0].id,
        service_period_start_date="2026-09-01T00:00:00Z",
        service_period_end_date="2026-10-01T00:00:00Z",
    )
    sdk.bills.delete(bill.id)
    bill_september(server, sdk, account_id)
    again = sdk.bills.latest_by_account(account_id)
    sdk.statements.create_csv(again.id)
    sdk.bills.update_status(again.id, status="APPROVED")
    sdk.bills.lock(again.id)


def lives_of_balances(sdk, account_id):
    shared = {"account_id": account_id, "currency": "USD", **TIME}
    balance = sdk.balances.create(code="credit", name="Credit", **shared)
    for amount in (100, 50):
        sdk.balances.transactions.create(balance.id, amount=amount)
    empty = sdk.balances.create(code="empty", name="Empty", **shared)
    sdk.balances.update(empty.id, code="empty", name="Renamed", version=1, **shared)
    charge_schedule(sdk, empty.id)
    transaction_schedule(sdk, empty.id)
    sdk.balances.delete(empty.id)


def charge_schedule(sdk, balance_id):
    wanted = {
        "name": "Fee",
        "code": "fee",
        "currency": "USD",
        "amount": 10,
        "service_period_start_date": TIME["start_date"],
        "service_period_end_date": TIME["end_date"],
        "bill_frequency": "MONTHLY",
        "bill_frequency_interval": 1,
        "bill_in_advance": False,
        "charge_description": "Fee",
    }
    made = sdk.balances.charge_schedules.create(balance_id, **wanted)
    changed = {**wanted, "amount": 11, "version": 1}
    sdk.balances.charge_schedules.update(made.id, balance_id=balance_id, **changed)
    sdk.balances.charge_schedules.delete(made.id, balance_id=balance_id)


def transaction_schedule(sdk, balance_id):
    [kind] = [each for each in sdk.transaction_types.list() if each.code == "topup"]
    wanted = {
        "name": "Top-up",
        "code": "topup",
        "amount": 10,
        "transaction_description": "Top-up",
        "transaction_type_id": kind.id,
        "frequency": "MONTHLY",
        "frequency_interval": 1,
        **TIME,
    }
    made = sdk.balances.transaction_schedules.create(balance_id, **wanted)
    changed = {**wanted, "amount": 11, "version": 1}
    sdk.balances.transaction_schedules.update(made.id, balance_id=balance_id, **changed)
    sdk.balances.transaction_schedules.delete(made.id, balance_id=balance_id)


def live_of_a_charge(sdk, account_id):
    wanted = {
        "name": "Set-up",
        "code": "setup",
        "account_id": account_id,
        "currency": "USD",
        "entity_type": "AD_HOC",
        "line_item_type": "AD_HOC",
        "amount": 5,
        "bill_date": "2026-12-01",
        "service_period_start_date": "2026-11-01T00:00:00Z",
        "service_period_end_date": "2026-12-01T00:00:00Z",
    }
    made = sdk.charges.create(**wanted)
    sdk.charges.update(made.id, **{**wanted, "amount": 6, "version": 1})
    sdk.charges.delete(made.id)


def live_of_an_adjustment(sdk, account_id):
    [counter] = list(sdk.counters.list())
    wanted = {"account_id": account_id, "counter_id": counter.id, "date": "2026-09-10"}
    made = sdk.counter_adjustments.create(value=5, **wanted)
    sdk.counter_adjustments.update(made.id, value=6, version=1, **wanted)
    sdk.counter_adjustments.delete(made.id)


def test_the_list_is_the_published_one(sdk):
    offered = {each for each in sdk.events.get_types().events if each.startswith("billing.")}
    assert offered == set(HAPPENING)
    assert {each for each in published_types() if each.startswith("billing.")} == set(TYPES)


@pytest.mark.parametrize("name", TYPES)
def test_each_type_happens_or_is_not_offered(told, name):
    assert bool(told[name]) == (name in HAPPENING), NEVER_HAPPEN.get(name)


@pytest.mark.parametrize("name", HAPPENING)
def test_each_event_has_the_documented_fields(sdk, told, name):
    [fields] = sdk.events.get_fields(event_name=name).events.values()
    for event in told[name]:
        data = event.m3ter_event["eventData"]
        assert sorted(data) == SIDES[name.rpartition(".")[2]]
        for side in data:
            for member, value in data[side].items():
                path = f"{side.removesuffix('Dto')}.{member}"
                assert path in fields, path
                assert isinstance(value, KINDS[fields[path]]), (path, value)


def sides(event):
    data = event.m3ter_event["eventData"]
    return data.get("oldDto"), data.get("newDto")


def test_events_of_a_bill_follow_its_life(told):
    created = [sides(each)[1] for each in told["billing.bill.created"]]
    assert [each["status"] for each in created] == ["PENDING", "PENDING"]
    assert [each["sequentialInvoiceNumber"] for each in created] == ["INV-1", "INV-2"]
    assert all(each["accountCode"] == "bolt" and each["billJobId"] for each in created)

    def states(name):
        return [
            tuple(
                None if side is None else (side["status"], side["locked"], side["billTotal"])
                for side in sides(each)
            )
            for each in told[name]
        ]

    waits, approved = ("PENDING", False, 73.5), ("APPROVED", False, 73.5)
    assert states("billing.bill.updated") == [
        (waits, approved),
        (approved, ("PENDING", False, 78.5)),
        (waits, approved),
        (approved, ("APPROVED", True, 73.5)),
    ]
    assert states("billing.bill.deleted") == [(("PENDING", False, 78.5), None)]


def test_events_of_a_bill_say_who_approved_and_locked_it(told):
    old, new = sides(told["billing.bill.updated"][-1])
    assert {"dtApproved", "approvedBy"} <= old.keys() & new.keys()
    assert {"dtLocked", "lockedBy"} <= new.keys() - old.keys()
    _, waits = sides(told["billing.bill.updated"][1])
    assert not {"dtApproved", "approvedBy"} & waits.keys()


def test_events_of_a_job_follow_its_statuses(told):
    def status(side):
        return side and side["status"]

    created = [status(sides(each)[1]) for each in told["billing.billjob.created"]]
    assert created == ["PENDING"] * 3
    updated = [tuple(map(status, sides(each))) for each in told["billing.billjob.updated"]]
    runs = [("INITIALIZING", "RUNNING"), ("RUNNING", "COMPLETE")]
    assert updated == [("PENDING", "CANCELLED"), *runs, *runs]
    _, running = sides(told["billing.billjob.updated"][1])
    assert (running["total"], running["pending"]) == (1, 1)
    _, complete = sides(told["billing.billjob.updated"][2])
    assert (complete["total"], complete["pending"], len(complete["billIds"])) == (1, 0, 1)


def test_amounts_of_a_balance_are_told_with_what_they_were(told):
    amounts = [
        (old and old["amount"], new["amount"])
        for name in ("created", "updated")
        for old, new in map(sides, told[f"billing.balanceamount.{name}"])
    ]
    assert amounts == [(None, 100), (100, 150)]


def test_events_name_their_account_and_their_resource(sdk, told, accounts):
    [deleted] = told["billing.bill.deleted"]
    old, _ = sides(deleted)
    of_bill = {each.id for each in sdk.events.list(resource_id=old["id"])}
    assert deleted.id in of_bill
    of_account = {each.event_name for each in sdk.events.list(account_id=accounts["bolt"])}
    assert {"billing.bill.created", "billing.bill.updated", "billing.bill.deleted"} <= of_account
    assert "billing.charge.created" not in of_account


def test_fields_of_others_have_no_member_that_is_one_of_ours_alone():
    assert {stem for stem in OTHERS if stem.startswith("billing.")} <= {
        f"billing.{s}" for s in STEMS
    }
