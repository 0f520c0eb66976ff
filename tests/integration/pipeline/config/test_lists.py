import pytest

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.catalog.counters import Counter, CounterAdjustment
from meterlake.model.catalog.plans import Plan
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid, NotFound, StillReferenced
from meterlake.model.resources import BY_ENTITY
from meterlake.model.resources.proposal import Document
from meterlake.pipeline.config.apply_configuration import ChangeAction, apply, export
from meterlake.pipeline.config.lists import list_adjustments, list_by_product, list_children
from meterlake.stores.state.core.pages import Page
from tests.organizations import Clock, new_organization
from tests.rule_world import AGGREGATION, COMPOUND, GB, PRICING, START
from tests.shop_world import open_shop


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def shop(tmp_path, clock):
    with open_shop(tmp_path, clock) as shop:
        yield shop


def test_the_children_of_an_account_come_in_pages_newest_first(shop, clock):
    for name in ("c", "d"):
        clock.advance(seconds=1)
        shop.create(
            Account, name, code=name, name=name, emailAddress="a@b.example", parentAccountId="@acme"
        )

    first = list_children(shop.organization, shop.ids["acme"], Page(2))
    rest = list_children(shop.organization, shop.ids["acme"], Page(2, first["nextToken"]))

    assert (shop.names(first), shop.names(rest)) == (["d", "c"], ["bolt"])
    assert list_children(shop.organization, shop.ids["bolt"], Page(2)) == {"data": []}
    with pytest.raises(NotFound):
        list_children(shop.organization, shop.ids["cloud"], Page(2))


def by_product(shop, kind, **query):
    wanted = shop.wanted(kind, **query)
    return list_by_product(shop.organization, BY_ENTITY[kind], wanted, Page(100))


def test_plans_are_found_by_the_product_of_their_template(shop):
    assert shop.names(by_product(shop, Plan, productId="@cloud")) == ["cloud plan"]
    assert set(shop.names(by_product(shop, Plan))) == {"cloud plan", "shop plan"}
    assert by_product(shop, Plan, productId=shop.ids["acme"])["data"] == []


@pytest.fixture
def measured(shop):
    for name, product in (("m", "@cloud"), ("n", "@shop"), ("o", None)):
        meter = {"code": name, "name": name, "dataFields": [GB], "derivedFields": []}
        shop.create(Meter, name, **meter, productId=product)
        shop.create(Aggregation, f"{name}_gb", **AGGREGATION, code=f"{name}_gb", meterId=f"@{name}")
    return shop


def test_aggregations_are_found_by_the_products_of_their_meters(measured):
    several = [measured.ids["cloud"], measured.ids["shop"]]

    assert measured.names(by_product(measured, Aggregation, productId="@cloud")) == ["m_gb"]
    assert set(measured.names(by_product(measured, Aggregation, productId=several))) == {
        "m_gb",
        "n_gb",
    }


def test_an_aggregation_that_a_compound_reads_is_not_deleted(measured):
    measured.create(CompoundAggregation, "c", **COMPOUND, calculation="aggregation.m_gb * 2")

    with pytest.raises(StillReferenced):
        measured.delete(Aggregation, "m_gb")
    measured.delete(Aggregation, "n_gb")
    measured.delete(CompoundAggregation, "c")
    measured.delete(Aggregation, "m_gb")


@pytest.fixture
def counted(shop):
    shop.create(Counter, "seats", name="Seats", unit="seat")
    for day in ("02", "01", "03"):
        shop.create(
            CounterAdjustment,
            day,
            counterId="@seats",
            accountId="@acme",
            date=f"2026-01-{day}",
            value=1,
        )
    return shop


def adjusted(shop, page=None, *, ascending=True, **query):
    wanted = shop.wanted(CounterAdjustment, counterId="@seats", accountId="@acme", **query)
    return list_adjustments(shop.organization, wanted, page or Page(100), ascending=ascending)


def test_adjustments_may_be_sorted_by_their_day(counted):
    assert counted.names(adjusted(counted)) == ["01", "02", "03"]
    assert counted.names(adjusted(counted, ascending=False)) == ["03", "02", "01"]


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ({"date": "2026-01-02"}, ["02"]),
        ({"dateStart": "2026-01-02"}, ["02", "03"]),
        ({"dateEnd": "2026-01-02"}, ["01"]),
        ({"endDateStart": "2026-01-03"}, ["03"]),
        ({"endDateEnd": "2026-01-03"}, ["01", "02"]),
    ],
)
def test_adjustments_are_found_by_their_day(counted, query, days):
    assert counted.names(adjusted(counted, **query)) == days


def test_sorted_adjustments_come_in_pages(counted):
    first = adjusted(counted, Page(2))
    second = adjusted(counted, Page(2, first["nextToken"]))

    assert counted.names(first) + counted.names(second) == ["01", "02", "03"]
    assert "nextToken" not in second
    for token in ("x", "-1", "9" * 30, "\N{SUPERSCRIPT TWO}"):
        with pytest.raises(Invalid, match="nextToken"):
            adjusted(counted, Page(2, token))


NEW_KINDS = {
    "planGroups": [{"code": "bundle", "name": "Bundle", "currency": "USD"}, {"id": "g", "name": "G", "currency": "USD"}],
    "planGroupLinks": [{"planGroupId": "bundle", "planId": "cloud"}],
    "contracts": [
        {"id": "k", "accountId": "acme", "name": "C", "startDate": "2026-01-01", "endDate": "2027-01-01"}
    ],
    "counters": [{"code": "seats", "name": "Seats", "unit": "seat"}, {"id": "x", "name": "X", "unit": "x"}],
    "counterPricings": [{**PRICING, "planId": "cloud", "counterId": "seats"}],
    "counterAdjustments": [
        {"accountId": "acme", "counterId": "seats", "date": "2026-01-01", "value": 3}
    ],
    "accountPlans": [
        {"accountId": "acme", "planGroupId": "bundle", "contractId": "k", "startDate": START}
    ],
    "compoundAggregations": [{**COMPOUND, "code": "twice", "calculation": "2"}],
}  # fmt: skip


def test_the_kinds_round_trip_through_configuration_files(shop):
    state = shop.stores.state
    first = apply(state, shop.org_id, [Document("a.yaml", NEW_KINDS)], "USER_1")
    exported = export(state, shop.org_id)
    again = apply(state, shop.org_id, [Document("b.yaml", exported)], "USER_1")
    other = new_organization(state, "other")
    apply(state, other, [Document("c.yaml", exported)], "USER_1")

    assert {change.action for change in first} == {ChangeAction.CREATED}
    assert {change.action for change in again} == {ChangeAction.UNCHANGED}
    assert NEW_KINDS.keys() <= exported.keys()
    assert without_ids(export(state, other)) == without_ids(exported)


def without_ids(value):
    """Labels of entities without codes differ between organizations; their fields do not."""
    if isinstance(value, list):
        return sorted((without_ids(item) for item in value), key=str)
    if isinstance(value, dict):
        return {
            key: without_ids(item) for key, item in value.items() if not key.lower().endswith("id")
        }
    return value
