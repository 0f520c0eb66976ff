"""Counters, balances, charges, commitments, and the lookup tables that calculations read."""

from tests.e2e.api.asking import refused
from tests.e2e.api.world import END, MIDDLE, START

_LATER = "2028-01-01T00:00:00Z"


# --- Counters, balances, charges --------------------------------------------------------------------


def test_a_counter_is_adjusted_once_a_day(sdk, world):
    body = {"account_id": world.new_account(), "counter_id": world.counter, "date": "2026-05-01"}
    made = sdk.counter_adjustments.create(**body, value=5)
    refused(sdk.counter_adjustments.create, "date", "2026-05-01", made.id, **body, value=6)
    sdk.counter_adjustments.create(**{**body, "date": "2026-05-02"}, value=6)
    sdk.counter_adjustments.create(**{**body, "account_id": world.account}, value=6)
    sdk.counter_adjustments.update(made.id, **body, value=7, version=1)
    moved = {**body, "date": "2026-05-02", "version": 2}
    refused(sdk.counter_adjustments.update, "date", "2026-05-02", id=made.id, **moved, value=7)


def test_a_balance_is_carried_over_beyond_its_end(world):
    body = {"account_id": world.account}
    refused(world.new_balance, "rolloverAmount", "5", "rolloverEndDate", **body, rollover_amount=5)
    refused(
        world.new_balance, "rolloverEndDate", END, "after endDate", **body, rollover_end_date=END
    )
    refused(world.new_balance, "rolloverEndDate", MIDDLE, **body, rollover_end_date=MIDDLE)
    refused(
        world.new_balance,
        "rolloverAmount",
        "-1",
        **body,
        rollover_amount=-1,
        rollover_end_date=_LATER,
    )
    refused(world.new_balance, "endDate", START, **body, end_date=START)
    world.new_balance(**body, rollover_end_date=_LATER)
    world.new_balance(**body, rollover_end_date=_LATER, rollover_amount=5)


def test_charges_are_of_what_their_account_has(sdk, world):
    body = {
        "account_id": world.account,
        "name": "Setup",
        "currency": "USD",
        "service_period_start_date": START,
        "service_period_end_date": END,
    }
    fee = {**body, "entity_type": "BALANCE", "line_item_type": "BALANCE_FEE", "amount": 1}
    foreign = world.new_balance(world.new_account())
    refused(
        sdk.charges.create,
        "entityId",
        foreign,
        "balance",
        **fee,
        code=world.code(),
        entity_id=foreign,
    )
    refused(sdk.charges.create, "entityId", "null", **fee, code=world.code())
    once = {**body, "entity_type": "AD_HOC", "line_item_type": "AD_HOC", "code": world.code()}
    refused(sdk.charges.create, "units", "amount", **once)
    refused(sdk.charges.create, "amount", "1", **once, amount=1, units=1, unit_price=1)
    wrong = {**once, "line_item_type": "BALANCE_FEE", "amount": 1}
    refused(sdk.charges.create, "lineItemType", "BALANCE_FEE", **wrong)
    contract = world.new_contract(world.new_account())
    refused(sdk.charges.create, "contractId", **once, amount=1, contract_id=contract)
    sdk.charges.create(**fee, code=world.code(), entity_id=world.balance)
    sdk.charges.create(**once, units=2, unit_price=1.5)


def test_commitments_are_billed_in_one_way(sdk, world):
    body = {
        "account_id": world.account,
        "currency": "USD",
        "amount": 100,
        "start_date": "2026-01-01",
        "end_date": "2027-01-01",
    }
    fees = [
        {
            "date": "2026-01-01",
            "amount": 100,
            "service_period_start_date": START,
            "service_period_end_date": END,
        }
    ]
    refused(
        sdk.commitments.create,
        "billingPlanId",
        world.plan,
        **body,
        fee_dates=fees,
        billing_plan_id=world.plan,
    )
    refused(sdk.commitments.create, "billingInterval", "2", **body, billing_interval=2)
    turned = [{**fees[0], "service_period_start_date": END, "service_period_end_date": START}]
    refused(
        sdk.commitments.create, "feeDates[0].servicePeriodEndDate", START, **body, fee_dates=turned
    )
    both = {"separate_overage_usage": True, "overage_surcharge_percent": 10}
    refused(sdk.commitments.create, "separateOverageUsage", **body, **both)
    refused(sdk.commitments.create, "amountPrePaid", "101", **body, amount_pre_paid=101)
    refused(sdk.commitments.create, "endDate", "2026-01-01", **{**body, "end_date": "2026-01-01"})
    foreign = world.new_contract(world.new_account())
    refused(sdk.commitments.create, "contractId", **body, contract_id=foreign)


# --- Lookup tables ----------------------------------------------------------------------------------


def _publish(sdk, table, revision, status="PUBLISHED"):
    revisions = sdk.lookup_tables.lookup_table_revisions
    version = revisions.retrieve(revision, lookup_table_id=table).version
    return revisions.update_status(revision, lookup_table_id=table, status=status, version=version)


def test_a_published_revision_is_not_changed(sdk, world):
    table = world.new_table()
    revision = world.new_revision(table)
    revisions = sdk.lookup_tables.lookup_table_revisions
    data = sdk.lookup_tables.lookup_table_revision_data
    where = {"lookup_table_id": table}
    item = {"region": "eu", "factor": 1}
    data.update(revision, **where, items=[item])
    assert _publish(sdk, table, revision).status == "PUBLISHED"
    at = {**where, "lookup_table_revision_id": revision}
    refused(data.update, "status", "PUBLISHED", "DRAFT", **at, items=[item])
    refused(data.update_key, "status", "PUBLISHED", **at, lookup_key="eu", item=item)
    refused(data.delete_key, "status", "PUBLISHED", **at, lookup_key="eu")
    refused(data.delete, "status", "PUBLISHED", **at)
    now = revisions.retrieve(revision, **where)
    changed = {
        "fields": [{"type": "STRING", "name": "region"}, {"type": "STRING", "name": "factor"}],
        "keys": ["region"],
        "name": now.name,
        "version": now.version,
    }
    refused(revisions.update, "status", "PUBLISHED", id=revision, **where, **changed)
    back = {"sdk": sdk, "table": table, "revision": revision, "status": "DRAFT"}
    refused(_publish, "status", "DRAFT", "ARCHIVED", **back)


def test_a_table_has_one_published_revision(sdk, world):
    table = world.new_table()
    first, second = world.new_revision(table), world.new_revision(table)
    revisions = sdk.lookup_tables.lookup_table_revisions
    early = {"sdk": sdk, "table": table, "revision": first, "status": "ARCHIVED"}
    refused(_publish, "status", "ARCHIVED", "PUBLISHED", **early)
    _publish(sdk, table, first)
    _publish(sdk, table, second)
    states = {each.id: each.status for each in revisions.list(lookup_table_id=table)}
    assert states == {first: "ARCHIVED", second: "PUBLISHED"}
    refused(_publish, "status", "PUBLISHED", sdk=sdk, table=table, revision=first)
