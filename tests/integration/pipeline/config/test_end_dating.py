from datetime import UTC, date, datetime

import pytest

from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.catalog.counters import Counter, CounterPricing
from meterlake.model.catalog.plans import Plan, PlanGroup, PlanGroupLink, Pricing
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.contracts import Commitment, Contract
from meterlake.model.errors import Invalid, NotFound, StillReferenced
from meterlake.pipeline.config.end_dating import end_account, end_contract
from tests.rule_world import AGGREGATION, GB, PRICING, START
from tests.shop_world import AUTHOR, open_shop, plan_of

ALL = ["CONTRACT", "ACCOUNTPLAN", "PREPAYMENT", "PRICINGS", "COUNTER_PRICINGS"]
JULY = "2026-07-01T00:00:00Z"
YEAR = {"startDate": "2026-01-01", "endDate": "2027-01-01"}


@pytest.fixture
def shop(tmp_path):
    """acme with a contract, a plan of its own with prices, and a prepayment; bolt the same without."""
    with open_shop(tmp_path) as shop:
        shop.create(
            Plan, "own", code="own", name="O", planTemplateId="@cloud template", accountId="@acme"
        )
        shop.create(Meter, "m", code="m", name="M", dataFields=[GB], derivedFields=[])
        shop.create(Aggregation, "a", **AGGREGATION, code="a", meterId="@m")
        shop.create(Counter, "seats", name="Seats", unit="seat")
        for name, plan in (("own price", "@own"), ("general price", "@cloud plan")):
            shop.create(Pricing, name, **PRICING, planId=plan, aggregationId="@a")
        shop.create(CounterPricing, "seat price", **PRICING, planId="@own", counterId="@seats")
        for account in ("acme", "bolt"):
            owner = {"accountId": f"@{account}"}
            shop.create(Contract, f"{account} contract", **owner, **YEAR, name="C")
            shop.create(Commitment, f"{account} prepaid", **owner, **YEAR, currency="USD", amount=9)
        under = {"contractId": "@acme contract"}
        shop.create(AccountPlan, "acme plan", **plan_of("acme", "own", **under))
        shop.create(AccountPlan, "bolt plan", **plan_of("bolt", **under))
        shop.create(AccountPlan, "bolt shop", **plan_of("bolt", "shop plan"))
        yield shop


def named(shop, ids):
    by_id = {id_: name for name, id_ in shop.ids.items()}
    return {kind: [by_id[id_] for id_ in each] for kind, each in ids.items()}


def end(shop, function, name, **document):
    document = {"endDate": JULY, "billingEntities": ALL} | document
    found = function(shop.organization, AUTHOR, shop.ids[name], document)
    return named(shop, found["updatedEntities"]), named(shop, found["failedEntities"])


def test_everything_of_an_account_ends_together(shop):
    updated, failed = end(shop, end_account, "acme")

    assert updated == {
        "CONTRACT": ["acme contract"],
        "ACCOUNTPLAN": ["acme plan"],
        "PREPAYMENT": ["acme prepaid"],
        "PRICINGS": ["own price"],
        "COUNTER_PRICINGS": ["seat price"],
    }
    assert failed == {}
    assert shop.read(Contract, "acme contract")["endDate"] == date(2026, 7, 1)
    assert shop.read(Commitment, "acme prepaid")["endDate"] == date(2026, 7, 1)
    for kind, name in ((AccountPlan, "acme plan"), (Pricing, "own price")):
        assert shop.read(kind, name)["endDate"] == datetime(2026, 7, 1, tzinfo=UTC)
        assert shop.read(kind, name)["version"] == 2
    assert "endDate" not in shop.read(Pricing, "general price")


def test_only_the_chosen_kinds_end(shop):
    assert end(shop, end_account, "acme", billingEntities=["PRICINGS"]) == (
        {"PRICINGS": ["own price"]},
        {},
    )
    assert shop.read(AccountPlan, "acme plan")["version"] == 1


def test_children_end_with_their_parent_if_asked_for(shop):
    updated, _ = end(
        shop, end_account, "acme", billingEntities=["ACCOUNTPLAN"], applyToChildren=True
    )

    assert sorted(updated["ACCOUNTPLAN"]) == ["acme plan", "bolt plan", "bolt shop"]


def test_what_ends_earlier_is_left_alone(shop):
    end(shop, end_account, "acme", endDate="2026-03-01T00:00:00Z")

    assert end(shop, end_account, "acme") == ({}, {})
    assert shop.read(AccountPlan, "acme plan")["version"] == 2


def test_what_cannot_end_then_is_told_and_the_rest_ends(shop):
    document = {"endDate": "2026-01-01T00:00:00Z", "billingEntities": ["ACCOUNTPLAN", "PREPAYMENT"]}
    shop.create(
        AccountPlan, "early", **plan_of("acme", "shop plan", startDate="2025-01-01T00:00:00Z")
    )

    updated, failed = end(shop, end_account, "acme", **document)
    answer = end_account(shop.organization, AUTHOR, shop.ids["acme"], document)

    assert updated == {"ACCOUNTPLAN": ["early"]}
    assert failed == {"ACCOUNTPLAN": ["acme plan"], "PREPAYMENT": ["acme prepaid"]}
    assert shop.read(AccountPlan, "acme plan")["version"] == 1
    assert answer["statusMessage"] == (
        "0 entities end at 2026-01-01T00:00:00Z; 2 could not be changed"
    )


def test_a_contract_ends_with_what_is_under_it(shop):
    updated, failed = end(shop, end_contract, "acme contract")

    assert updated == {
        "CONTRACT": ["acme contract"],
        "ACCOUNTPLAN": ["acme plan"],
        "PRICINGS": ["own price"],
        "COUNTER_PRICINGS": ["seat price"],
    }
    assert failed == {}


def test_what_children_have_under_a_contract_ends_if_asked_for(shop):
    kinds = ["ACCOUNTPLAN", "PREPAYMENT"]

    updated, _ = end(
        shop, end_contract, "acme contract", billingEntities=kinds, applyToChildren=True
    )

    assert sorted(updated["ACCOUNTPLAN"]) == ["acme plan", "bolt plan"]
    assert shop.read(Contract, "acme contract")["version"] == 1


def test_the_prices_of_a_group_under_a_contract_end_too(shop):
    shop.create(PlanGroup, "group", name="G", currency="USD", accountId="@acme")
    shop.create(PlanGroupLink, "link", planGroupId="@group", planId="@own")
    shop.create(Contract, "second", **YEAR, accountId="@acme", name="D")
    end(shop, end_account, "acme", billingEntities=["ACCOUNTPLAN"])
    document = plan_of("acme", startDate=JULY, planGroupId="@group", contractId="@second")
    shop.create(AccountPlan, "grouped", **document | {"planId": None})

    updated, _ = end(shop, end_contract, "second", endDate="2026-08-01T00:00:00Z")

    assert updated == {
        "CONTRACT": ["second"],
        "ACCOUNTPLAN": ["grouped"],
        "PRICINGS": ["own price"],
        "COUNTER_PRICINGS": ["seat price"],
    }


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"billingEntities": []}, "billingEntities"),
        ({"billingEntities": ["BALANCE"]}, "billingEntities"),
        ({"endDate": "2026-07-01"}, "endDate"),
        ({"endDate": None}, "endDate is required"),
        ({"applyToChildren": "yes"}, "applyToChildren"),
    ],
)
def test_a_broken_wish_is_refused(shop, document, sentence):
    with pytest.raises(Invalid, match=sentence):
        end(shop, end_account, "acme", **document)


def test_what_does_not_exist_does_not_end(shop):
    with pytest.raises(NotFound):
        end(shop, end_account, "acme contract")
    with pytest.raises(NotFound):
        end(shop, end_contract, "acme")


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Account, "acme"), (Contract, "acme contract"), (Counter, "seats"), (Plan, "own")],
)
def test_what_is_referred_to_is_not_deleted(shop, kind, name):
    with pytest.raises(StillReferenced):
        shop.delete(kind, name)
    assert shop.read(AccountPlan, "acme plan")["startDate"] == datetime.fromisoformat(START)
