import pytest

from meterlake.model.catalog.plans import Plan, PlanGroup, PlanGroupLink
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.customers.contracts import Contract
from meterlake.model.errors import Invalid, NotFound, StillReferenced
from meterlake.pipeline.config.end_dating import replace_account_plan
from meterlake.pipeline.config.lists import list_account_plans
from meterlake.stores.state.core.pages import Page
from tests.organizations import Clock
from tests.shop_world import AUTHOR, open_shop, plan_of

JULY = "2026-07-01T00:00:00Z"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def shop(tmp_path, clock):
    with open_shop(tmp_path, clock) as shop:
        yield shop


def replace(shop, name, **document):
    found = replace_account_plan(shop.organization, AUTHOR, shop.ids[name], shop.resolved(document))
    shop.ids["new"] = found["newAccountPlan"]["id"]
    return found


def test_a_replaced_plan_ends_where_its_replacement_starts(shop):
    shop.create(AccountPlan, "old", **plan_of("acme"))

    found = replace(shop, "old", **plan_of("acme", startDate=JULY))

    assert shop.read(AccountPlan, "old") == found["originalAccountPlan"]
    assert shop.read(AccountPlan, "new") == found["newAccountPlan"]
    assert (found["originalAccountPlan"]["version"], found["newAccountPlan"]["version"]) == (2, 1)
    assert found["originalAccountPlan"]["endDate"] == found["newAccountPlan"]["startDate"]


def test_a_plan_that_ends_where_its_replacement_starts_is_left_alone(shop):
    shop.create(AccountPlan, "old", **plan_of("acme", endDate=JULY))

    assert (
        replace(shop, "old", **plan_of("acme", startDate=JULY))["originalAccountPlan"]["version"]
        == 1
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"startDate": "2026-01-01T00:00:00Z"},
            "startDate.*the replaced account plan must be active then",
        ),
        (
            {"startDate": "2027-01-01T00:00:01Z"},
            "startDate.*the replaced account plan must be active then",
        ),
        ({"accountId": "@bolt"}, "accountId.*the account of the replaced account plan"),
        ({"planGroupId": "@group"}, "exactly one of planId and planGroupId"),
        ({"endDate": JULY}, "endDate.*after startDate"),
        ({"startDate": None}, "startDate is required"),
    ],
)
def test_a_replacement_that_does_not_fit_changes_nothing(shop, fields, sentence):
    shop.create(PlanGroup, "group", name="G", currency="USD")
    shop.create(AccountPlan, "old", **plan_of("acme", endDate="2027-01-01T00:00:00Z"))

    with pytest.raises(Invalid, match=sentence):
        replace(shop, "old", **plan_of("acme", startDate=JULY) | fields)
    assert shop.read(AccountPlan, "old")["version"] == 1


def test_what_does_not_exist_is_not_replaced(shop):
    shop.ids["nothing"] = shop.ids["acme"]

    with pytest.raises(NotFound):
        replace(shop, "nothing", **plan_of("acme"))


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """acme was on cloud, is on cloud and on a group; bolt will be on shop; all under a contract."""
    clock = Clock()
    with open_shop(tmp_path_factory.mktemp("plans"), clock) as shop:
        _subscribe(shop, clock)
        yield shop


def _subscribe(shop, clock):
    shop.create(
        Contract,
        "contract",
        accountId="@acme",
        name="C",
        startDate="2026-01-01",
        endDate="2028-01-01",
    )
    shop.create(PlanGroup, "group", name="G", currency="USD")
    shop.create(PlanGroupLink, "link", planGroupId="@group", planId="@shop plan")
    under = {"contractId": "@contract"}
    for name, document in {
        "past": plan_of("acme", endDate=JULY, **under),
        "now": plan_of("acme", startDate=JULY, **under),
        "grouped": plan_of("acme", planGroupId="@group", **under) | {"planId": None},
        "future": plan_of("bolt", "shop plan", startDate="2027-01-01T00:00:00Z", **under),
        "other": plan_of("bolt"),
    }.items():
        clock.advance(seconds=1)
        shop.create(AccountPlan, name, **document)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["other", "future", "grouped", "now", "past"]),
        ({"includeall": True}, ["other", "future", "grouped", "now", "past"]),
        ({"account": "@acme"}, ["grouped", "now"]),
        ({"account": "@acme", "includeall": False}, ["grouped", "now"]),
        ({"account": "@acme", "includeall": True}, ["grouped", "now", "past"]),
        ({"account": "@acme", "date": "2026-03-01T00:00:00Z"}, ["grouped", "past"]),
        ({"date": "2026-03-01T00:00:00Z"}, ["other", "grouped", "past"]),
        ({"date": JULY}, ["other", "grouped", "now"]),
        ({"plan": "@cloud plan"}, ["other", "now"]),
        ({"plan": "@cloud plan", "includeall": True}, ["other", "now", "past"]),
        ({"plan": "@shop plan"}, []),
        ({"contract": "@contract"}, ["now"]),
        ({"contract": "@contract", "includeall": True}, ["future", "now", "past"]),
        ({"account": "@acme", "product": "@cloud", "includeall": True}, ["now", "past"]),
        ({"account": "@acme", "product": "@cloud"}, ["now"]),
        ({"account": "@acme", "product": "@shop", "includeall": True}, []),
    ],
)
def test_the_filters_of_account_plans_mean_what_the_contract_says(plans, query, names):
    wanted = plans.wanted(AccountPlan, **query)

    page = list_account_plans(plans.organization, wanted, Page(100))

    assert plans.names(page) == names


def test_account_plans_come_in_pages(plans):
    first = list_account_plans(plans.organization, [], Page(3))
    second = list_account_plans(plans.organization, [], Page(3, first["nextToken"]))

    assert plans.names(first) + plans.names(second) == ["other", "future", "grouped", "now", "past"]
    assert "nextToken" not in second


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Contract, "contract"), (PlanGroup, "group"), (Plan, "cloud plan"), (Plan, "shop plan")],
)
def test_what_an_account_plan_or_a_link_refers_to_is_not_deleted(plans, kind, name):
    with pytest.raises(StillReferenced):
        plans.delete(kind, name)


def test_an_account_plan_shows_its_product_unless_it_is_for_a_group(plans):
    assert plans.read(AccountPlan, "now")["productId"] == plans.ids["cloud"]
    assert "productId" not in plans.read(AccountPlan, "grouped")
