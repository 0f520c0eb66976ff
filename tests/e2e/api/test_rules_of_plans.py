"""Plans and parents: who may be on what at the same time, and who is whose child."""

import pytest

from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from tests.e2e.api.asking import refused
from tests.e2e.api.world import END, MIDDLE, START

_LATER = "2028-01-01T00:00:00Z"


# --- Plans of accounts ------------------------------------------------------------------------------


def test_an_account_is_on_one_plan_of_a_product_at_a_time(sdk, world):
    account, other = world.new_account(), world.new_plan()
    running = world.put_on(account, plan_id=world.plan, end_date=END)
    body = {"account_id": account, "plan_id": other}
    refused(sdk.account_plans.create, "startDate", MIDDLE, START, **body, start_date=MIDDLE)
    refused(
        sdk.account_plans.create,
        "startDate",
        "2025-01-01",
        **body,
        start_date="2025-01-01T00:00:00Z",
    )
    after = sdk.account_plans.create(**body, start_date=END)
    world.put_on(account, plan_id=world.new_plan_of_another_product())
    longer = {"account_id": account, "plan_id": world.plan, "start_date": START, "version": 1}
    refused(sdk.account_plans.update, "startDate", END, id=running, **longer)
    sdk.account_plans.delete(after.id)
    sdk.account_plans.update(running, **longer)


def test_plans_of_a_product_overlap_where_the_organization_allows_it(sdk, world):
    account = world.new_account()
    world.put_on(account, plan_id=world.plan)
    body = {"account_id": account, "plan_id": world.new_plan(), "start_date": START}
    refused(sdk.account_plans.create, "startDate", **body)
    _allow_overlapping(sdk, allowed=True)
    try:
        second = sdk.account_plans.create(**body)
        code = sdk.accounts.retrieve(account).code
        refused(
            _allow_overlapping,
            *("allowOverlappingPlans", f"Account {code!r}", second.id, f"from {START} on"),
            sdk=sdk,
            allowed=False,
        )
        sdk.account_plans.delete(second.id)
    finally:
        _allow_overlapping(sdk, allowed=False)


@pytest.mark.long
def test_overlaps_of_an_earlier_version_block_no_edit_that_leaves_them_alone(server, sdk, world):
    account = world.new_account()
    first = world.put_on(account, plan_id=world.plan, end_date=END)
    _allow_overlapping(sdk, allowed=True)
    other = world.new_plan()
    second = world.put_on(account, plan_id=other)
    # An earlier version let it be switched off meanwhile: written past the rules.
    with server.organization.transaction("test") as transaction:
        config = next(iter(transaction.all(OrganizationConfig)))
        off = config.entity.model_copy(update={"allow_overlapping_plans": False})
        transaction.update(config.id, config.version, off)

    was = sdk.accounts.retrieve(account)
    body = {"name": was.name, "code": was.code, "email_address": was.email_address}
    assert sdk.accounts.update(account, **body, currency="USD", version=1).version == 2
    code = sdk.plans.retrieve(other).code
    template = sdk.plans.retrieve(other).plan_template_id
    plan = {"plan_template_id": template, "name": "B", "code": code, "standing_charge": 3}
    assert sdk.plans.update(other, **plan, version=1).standing_charge == 3
    same = {"account_id": account, "plan_id": other, "start_date": START}
    assert sdk.account_plans.update(second, **same, code="second", version=1).code == "second"
    now = {**same, "version": 2}
    refused(sdk.account_plans.update, first, "overlap", id=second, **now | {"end_date": END})
    sdk.account_plans.update(second, **now | {"start_date": END})


def _allow_overlapping(sdk, *, allowed):
    now = sdk.organization_config.retrieve()
    sdk.organization_config.update(
        currency=now.currency,
        day_epoch=now.day_epoch,
        days_before_bill_due=now.days_before_bill_due,
        month_epoch=now.month_epoch,
        timezone=now.timezone,
        week_epoch=now.week_epoch,
        year_epoch=now.year_epoch,
        allow_overlapping_plans=allowed,
        version=now.version,
    )


@pytest.mark.long
def test_a_plan_group_has_one_plan_of_a_product(sdk, world):
    group, second = world.new_group(world.plan), world.new_plan()
    code = sdk.plans.retrieve(second).code
    body = {"plan_group_id": group, "plan_id": second}
    refused(sdk.plan_group_links.create, "planId", code, "product", **body)
    other = world.new_plan_of_another_product()
    link = sdk.plan_group_links.create(plan_group_id=group, plan_id=other)
    refused(sdk.plan_group_links.update, "planId", code, id=link.id, **body, version=1)


def test_plan_groups_of_an_account_share_no_product(sdk, world):
    account = world.new_account()
    shared = world.new_plan_of_another_product()
    other = world.new_plan(sdk.plans.retrieve(shared).plan_template_id)
    first, second = world.new_group(shared), world.new_group(other, world.plan)
    world.put_on(account, plan_group_id=first)
    body = {"account_id": account, "start_date": START}
    refused(sdk.account_plans.create, "startDate", START, **body, plan_group_id=second)
    refused(sdk.account_plans.create, "startDate", START, **body, plan_id=other)
    free = world.new_group(world.plan)
    world.put_on(account, plan_group_id=free)
    # Nor does a plan come into the group of an account behind its back.
    code = sdk.plans.retrieve(other).code
    refused(sdk.plan_group_links.create, "planId", code, plan_group_id=free, plan_id=other)


def test_custom_plans_are_for_their_account(sdk, world):
    mine, yours = world.new_account(), world.new_account()
    plan = world.new_plan_of_another_product(account_id=mine)
    code = sdk.plans.retrieve(plan).code
    body = {"start_date": START, "plan_id": plan}
    refused(sdk.account_plans.create, "planId", code, "account", **body, account_id=yours)
    sdk.account_plans.create(**body, account_id=mine)
    refused(
        sdk.plan_group_links.create, "planId", code, plan_group_id=world.new_group(), plan_id=plan
    )
    own = world.new_group(account_id=mine)
    sdk.plan_group_links.create(plan_group_id=own, plan_id=plan)


def test_custom_plan_groups_are_for_their_account(sdk, world):
    mine, yours = world.new_account(), world.new_account()
    group = world.new_group(account_id=mine, code=world.code())
    code = sdk.plan_groups.retrieve(group).to_dict()["code"]
    body = {"start_date": START, "plan_group_id": group}
    refused(sdk.account_plans.create, "planGroupId", code, "account", **body, account_id=yours)
    sdk.account_plans.create(**body, account_id=mine)


@pytest.mark.parametrize("both", [True, False])
def test_an_account_is_put_on_a_plan_or_on_a_group(sdk, world, both):
    given = {"plan_id": world.plan, "plan_group_id": world.new_group()} if both else {}
    value = world.plan if both else "null"
    body = {"account_id": world.new_account(), "start_date": START, **given}
    refused(sdk.account_plans.create, "planId", value, "exactly one", "planGroupId", **body)


def test_a_contract_covers_plans_of_its_account_and_of_its_children(sdk, world):
    parent, stranger = world.new_account(), world.new_account()
    child = world.new_account(parent_account_id=parent)
    contract = world.new_contract(parent)
    body = {"plan_id": world.plan, "start_date": START, "contract_id": contract}
    refused(sdk.account_plans.create, "contractId", "Yearly", **body, account_id=stranger)
    for account in (parent, child):
        sdk.account_plans.create(**body, account_id=account)


# --- Parents and children ---------------------------------------------------------------------------


def test_there_are_no_grandparents(sdk, world):
    parent = world.new_account()
    child, other = world.new_account(parent_account_id=parent), world.new_account()
    code = sdk.accounts.retrieve(child).code
    body = {"name": "Acme", "code": world.code(), "email_address": "a@b.example"}
    refused(sdk.accounts.create, "parentAccountId", child, code, **body, parent_account_id=child)
    mine = {**body, "code": sdk.accounts.retrieve(parent).code, "version": 1}
    refused(
        sdk.accounts.update,
        "parentAccountId",
        other,
        code,
        id=parent,
        **mine,
        parent_account_id=other,
    )
    refused(
        sdk.accounts.update,
        "parentAccountId",
        "another",
        id=parent,
        **mine,
        parent_account_id=parent,
    )


@pytest.mark.long
def test_a_parent_has_999_children_at_most(server, sdk, world):
    parent = world.new_account()
    body = {"name": "Child", "email_address": "a@b.example", "parent_account_id": parent}
    with server.organization.transaction("test") as transaction:
        for _ in range(998):
            transaction.create(Account(**body, code=world.code()))
    last = sdk.accounts.create(**body, code=world.code())
    refused(sdk.accounts.create, "parentAccountId", parent, "999", **body, code=world.code())
    # One of them is still changed.
    sdk.accounts.update(last.id, **{**body, "name": "Grown"}, code=last.code, version=1)
    sdk.accounts.delete(last.id)
    sdk.accounts.create(**body, code=world.code())
