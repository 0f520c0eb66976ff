"""Rules of accounts, contracts, and the plans that accounts are on."""

from dataclasses import replace

import pytest

from meterlake.model.catalog.catalog import Meter
from meterlake.model.catalog.plans import Plan, PlanGroup, PlanGroupLink, PlanTemplate
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.contracts import Contract
from meterlake.model.errors import Invalid
from meterlake.model.resources import BY_ENTITY
from meterlake.model.rules import Proposed
from meterlake.model.rules.accounts import CHILDREN_MAX, children_fit
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.ids import derived_id
from tests.rule_world import DERIVED, GB, KEY, START, TIER, market, subscribed

CHILD = {"name": "C", "emailAddress": "a@b.example"}
CONTRACT = {"name": "2026", "startDate": "2026-01-01", "endDate": "2027-01-01"}


def test_an_account_is_not_its_own_parent():
    with pytest.raises(Invalid, match=r"parentAccountId.*an account cannot be its own parent"):
        market().change(Account, "acme", parentAccountId="@acme")


def test_a_child_gets_no_children():
    world = market().change(Account, "acme", parentAccountId="@bolt")

    with pytest.raises(Invalid, match="'acme' has a parent itself; choose an account without one"):
        world.put(Account, "c", **CHILD, code="c", parentAccountId="@acme")
    world.put(Account, "c", **CHILD, code="c", parentAccountId="@bolt")


def test_an_account_with_children_gets_no_parent():
    world = market().change(Account, "acme", parentAccountId="@bolt")
    world.put(Account, "c", **CHILD, code="c")

    with pytest.raises(Invalid, match="the account has children, such as 'acme'; leave it out"):
        world.change(Account, "bolt", parentAccountId="@c")


@pytest.mark.parametrize(("children", "free"), [(CHILDREN_MAX, True), (CHILDREN_MAX + 1, False)])
def test_an_account_has_at_most_999_children(children, free):
    world = market()
    parent, some = world.has(Account, "bolt"), world.has(Account, "acme")
    child = some.entity.model_copy(update={"parent_account_id": parent.id})
    records = [
        Record(derived_id(str(n)), 1, child, some.created, "", some.created, "")
        for n in range(children)
    ]
    around = Configuration([parent, *records])
    new = Proposed(records[-1].id, child, None, around)

    if free:
        children_fit(new)
    else:
        with pytest.raises(Invalid, match="it has 999 children, and may have no more"):
            children_fit(new)
    children_fit(Proposed(new.id, child, child, around))


def test_an_account_plan_is_for_a_plan_or_for_a_group():
    world = market().put(PlanGroup, "group", name="G", currency="USD")
    dates = {"accountId": "@acme", "startDate": START}

    with pytest.raises(Invalid, match="exactly one of planId and planGroupId"):
        world.put(AccountPlan, "x", **dates)
    with pytest.raises(Invalid, match="exactly one of planId and planGroupId"):
        world.put(AccountPlan, "x", **dates, planId="@cloud plan", planGroupId="@group")
    world.put(AccountPlan, "x", **dates, planGroupId="@group")


def grouped(*products):
    """The group of the plans of some products."""
    world = subscribed().put(PlanGroup, "group", name="G", currency="USD")
    for product in products:
        world.put(PlanGroupLink, product, planGroupId="@group", planId=f"@{product} plan")
    return world


def on_group(world, start=START):
    return world.put(
        AccountPlan, "acme group", accountId="@acme", planGroupId="@group", startDate=start
    )


def test_a_group_covers_no_product_that_the_account_has_a_plan_for():
    with pytest.raises(Invalid, match="plans of one product may not overlap"):
        on_group(grouped("shop", "cloud"))
    on_group(grouped("shop"))


def test_groups_may_follow_each_other():
    world = grouped("cloud").change(AccountPlan, "acme cloud", endDate="2026-07-01T00:00:00Z")

    with pytest.raises(Invalid, match="plans of one product may not overlap"):
        on_group(world, "2026-06-30T23:59:59.999999Z")
    on_group(world, "2026-07-01T00:00:00Z")


def test_overlapping_is_allowed_where_the_organization_allows_it():
    world = grouped("cloud")
    config = next(iter(world.configuration.all(OrganizationConfig)))
    allowed = config.entity.model_copy(update={"allow_overlapping_plans": True})
    records = [
        Record(r.id, 1, allowed if r.id == config.id else r.entity, r.created, "", r.created, "")
        for kind in world.configuration.kinds()
        for r in world.configuration.all(kind)
    ]
    world.configuration = Configuration(records)

    on_group(world)


def test_a_plan_comes_into_no_group_in_use_that_it_would_overlap_with():
    world = on_group(grouped("shop"))

    with pytest.raises(Invalid, match=r"planId: 'cloud' is not allowed.*AccountPlan"):
        world.put(PlanGroupLink, "late", planGroupId="@group", planId="@cloud plan")
    world.change(AccountPlan, "acme cloud", endDate="2026-01-02T00:00:00Z")
    world.change(AccountPlan, "acme group", startDate="2026-01-02T00:00:00Z")
    world.put(PlanGroupLink, "late", planGroupId="@group", planId="@cloud plan")


def test_a_template_goes_to_no_product_that_a_group_in_use_covers():
    world = on_group(grouped("shop"))

    with pytest.raises(Invalid, match="PlanGroupLink"):
        world.change(PlanTemplate, "shop template", productId="@cloud")


def test_a_template_goes_to_no_product_that_its_accounts_have_a_plan_for():
    world = subscribed()
    world.put(AccountPlan, "acme shop", accountId="@acme", planId="@shop plan", startDate=START)

    with pytest.raises(Invalid, match="plans of one product may not overlap"):
        world.change(PlanTemplate, "shop template", productId="@cloud")


def test_a_plan_for_one_account_is_for_no_other():
    world = market().change(Plan, "cloud plan", accountId="@acme", bespoke=True)
    fields = {"planId": "@cloud plan", "startDate": START}

    with pytest.raises(Invalid, match="the plan was made for another account; choose"):
        world.put(AccountPlan, "x", **fields, accountId="@bolt")
    world.put(AccountPlan, "x", **fields, accountId="@acme")
    with pytest.raises(Invalid, match=r"the plan was made for .* and stays there"):
        world.change(Plan, "cloud plan", accountId="@bolt")


def test_a_plan_in_use_does_not_become_one_for_another_account():
    with pytest.raises(Invalid, match="the plan was made for another account; choose"):
        subscribed().change(Plan, "cloud plan", accountId="@bolt")
    subscribed().change(Plan, "cloud plan", accountId="@acme")


def test_a_group_for_one_account_is_for_no_other():
    world = market().put(PlanGroup, "group", name="G", currency="USD", accountId="@acme")
    fields = {"planGroupId": "@group", "startDate": START}

    with pytest.raises(Invalid, match="the plan group was made for another account; choose"):
        world.put(AccountPlan, "x", **fields, accountId="@bolt")
    world.put(AccountPlan, "x", **fields, accountId="@acme")
    with pytest.raises(Invalid, match=r"the plan group was made for .* and stays there"):
        world.change(PlanGroup, "group", accountId="@bolt")


@pytest.mark.parametrize(("account", "free"), [("@acme", True), ("@bolt", False), (None, False)])
def test_a_plan_for_one_account_is_in_groups_for_that_account_only(account, free):
    world = market().change(Plan, "cloud plan", accountId="@acme")
    world.put(PlanGroup, "group", name="G", currency="USD", accountId=account)
    link = {"planGroupId": "@group", "planId": "@cloud plan"}

    if free:
        world.put(PlanGroupLink, "link", **link)
    else:
        with pytest.raises(Invalid, match="the plan was made for another account"):
            world.put(PlanGroupLink, "link", **link)


def test_a_group_has_one_plan_per_product():
    world = grouped("cloud")
    world.put(Plan, "other", code="other", name="O", planTemplateId="@cloud template")
    link = {"planGroupId": "@group"}

    with pytest.raises(Invalid, match="'cloud' of the plan group is of the same product"):
        world.put(PlanGroupLink, "l", **link, planId="@other")
    world.put(PlanGroupLink, "l", **link, planId="@shop plan")
    with pytest.raises(Invalid, match="of the plan group is of the same product"):
        world.change(Plan, "cloud plan", planTemplateId="@shop template")


@pytest.mark.parametrize(
    ("end", "free"), [("2026-01-01", False), ("2025-12-31", False), ("2026-01-02", True)]
)
def test_a_contract_ends_after_it_starts(end, free):
    fields = CONTRACT | {"endDate": end, "accountId": "@acme"}
    if free:
        market().put(Contract, "c", **fields)
    else:
        with pytest.raises(Invalid, match="after startDate 2026-01-01"):
            market().put(Contract, "c", **fields)


@pytest.mark.parametrize(
    ("code", "free"),
    [("region", True), ("place", True), ("gb", False), ("key", False), ("nowhere", False)],
)
def test_a_usage_filter_looks_at_a_text_field_of_a_meter(code, free):
    usage_filter = {"dimensionCode": code, "value": "eu", "mode": "INCLUDE"}
    fields = CONTRACT | {"accountId": "@acme", "usageFilters": [usage_filter]}
    if free:
        market().put(Contract, "c", **fields)
    else:
        with pytest.raises(Invalid, match=r"usageFilters\[0\].dimensionCode"):
            market().put(Contract, "c", **fields)


def test_a_field_that_a_contract_filters_by_stays_with_a_meter():
    usage_filter = {"dimensionCode": "region", "value": "eu", "mode": "INCLUDE"}
    world = market().put(Contract, "c", **CONTRACT, accountId="@acme", usageFilters=[usage_filter])
    fields, derived = [GB, TIER, KEY], DERIVED[:1]

    world.change(Meter, "egress", dataFields=fields, derivedFields=derived)
    with pytest.raises(Invalid, match=r"dataFields: 'region' .* Contract .* filters by it"):
        world.change(Meter, "calls", dataFields=fields, derivedFields=derived)
    world.change(Contract, "c", usageFilters=[usage_filter | {"dimensionCode": "tier"}])
    world.change(Meter, "calls", dataFields=fields, derivedFields=derived)


def test_what_was_broken_before_is_no_reason_to_refuse_a_change_of_something_else():
    world = subscribed().put(Contract, "c", **CONTRACT, accountId="@acme")
    world.change(AccountPlan, "acme cloud", contractId="@c")
    config = world.configuration
    # As an earlier version stored it: the contract is of another account.
    strange = config.get(Contract, derived_id("c"))
    strange = replace(
        strange, entity=strange.entity.model_copy(update={"account_id": derived_id("bolt")})
    )
    kept = [each for kind in config.kinds() for each in config.all(kind) if each.id != strange.id]
    world.configuration = Configuration([*kept, strange])

    world.change(Account, "acme", currency="USD")
    with pytest.raises(Invalid, match="choose a contract of the account or of its parent"):
        world.change(AccountPlan, "acme cloud", endDate="2027-01-01T00:00:00Z")


def test_a_contract_covers_its_account_and_its_children():
    world = market().put(Contract, "c", **CONTRACT, accountId="@acme")
    fields = {"planId": "@cloud plan", "startDate": START, "contractId": "@c"}

    with pytest.raises(Invalid, match="choose a contract of the account or of its parent"):
        world.put(AccountPlan, "x", **fields, accountId="@bolt")
    world.change(Account, "bolt", parentAccountId="@acme")
    world.put(AccountPlan, "x", **fields, accountId="@bolt")
    world.put(AccountPlan, "y", **fields, accountId="@acme")
    with pytest.raises(Invalid, match="choose a contract of the account or of its parent"):
        world.change(Account, "bolt", parentAccountId=None)


def test_every_reference_of_an_account_plan_blocks_deletes():
    refs = BY_ENTITY[AccountPlan].refs

    assert set(refs) == {"account_id", "plan_id", "plan_group_id", "contract_id"}


def test_a_plan_group_carries_custom_fields_that_the_organization_does_not_know():
    world = market().put(PlanGroup, "group", name="G", currency="USD", customFields={"x": 1})

    assert world.has(PlanGroup, "group").entity.custom_fields == {"x": 1}
    with pytest.raises(
        Invalid, match=r"customFields\.contract has no such field; add it there first"
    ):
        world.put(Contract, "c", **CONTRACT, accountId="@acme", customFields={"x": 1})
