"""Compound aggregations and defaults in runs of a real lake."""

from collections import defaultdict
from decimal import Decimal

import pytest

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation
from meterlake.model.values.period import Month
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.pipeline.usage.explain import QuantityFilter, explain
from tests.bills import aggregation, price_egress, subscribe
from tests.homes import HEADER, a_home, configure, csv_row

SEPTEMBER = Month(2026, 9)


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        price_egress(opened)
        yield opened


def compound(code, calculation, **changes):
    return {
        "code": code,
        "name": code,
        "calculation": calculation,
        "rounding": "NONE",
        "quantityPerUnit": 1,
        "unit": "GB",
        **changes,
    }


def use(home, *rows):
    lines = [
        csv_row(f"{n}", gb, account, ts=f"2026-09-{day:02}T00:00:00Z")
        for n, (account, day, gb) in enumerate(rows)
    ]
    home.ingest("usage.csv", HEADER + "".join(lines))


def found(home):
    """A run, and by aggregation and account: (value, side of the pool)."""
    result = aggregate(home.organization, SEPTEMBER)
    around = home.organization.configuration()
    codes = home.account_codes()
    names = {
        record.id: record.entity.code
        for kind in (Aggregation, CompoundAggregation)
        for record in around.all(kind)
    }
    values = defaultdict(dict)
    for row in result.rows:
        each = row.quantity
        side = row.pooled and row.pooled.value
        group = (codes[each.account_id], each.period.start.day)
        values[names[each.aggregation_id]][group] = (each.value, side)
    return result, values


@pytest.mark.long
def test_compounds_are_calculated_from_the_parts_of_the_same_account_and_period(home):
    configure(
        home.organization,
        customFields={"account": {"factor": 2}},
        compoundAggregations=[
            compound("twice", "aggregation.sent * customFields.account.factor"),
            compound("apart", "1 / (aggregation.sent - 3) + aggregation.mean * 0"),
        ],
    )
    configure(
        home.organization,
        accounts=[
            {"code": "mid", "name": "M", "emailAddress": "a@b.example", "billEpoch": "2022-01-10"},
            {
                "code": "own",
                "name": "O",
                "emailAddress": "a@b.example",
                "customFields": {"factor": 10},
            },
        ],
    )
    use(home, ("acme", 3, 3), ("mid", 5, 1), ("mid", 12, 5), ("own", 3, 7))
    result, of = found(home)

    assert of["twice"] == {
        ("acme", 1): (6, None),
        ("mid", 10): (10, None),
        ("own", 1): (70, None),
    }
    assert of["apart"] == {("mid", 10): (Decimal("0.5"), None), ("own", 1): (Decimal("0.25"), None)}
    [failure] = result.failures
    assert home.account_codes()[failure.account_id] == "acme"
    assert not aggregate(home.organization, SEPTEMBER).appended
    [explained] = explain(home.organization, QuantityFilter("own", "twice", "2026-09"))
    wire = explained.to_wire()
    assert (wire["statement"], wire["kind"]) == (
        "aggregation.sent * customFields.account.factor",
        "compound",
    )
    [part] = wire["parts"]
    assert (part["aggregation"], part["quantity"], len(part["measurements"])) == ("sent", 7, 1)


def test_whoever_is_on_a_plan_has_constants_and_defaults(home):
    configure(
        home.organization,
        aggregations=[aggregation("least", "MIN", defaultValue=9)],
        compoundAggregations=[
            compound("more", "aggregation.least + 1"),
            compound("global", "5"),
            compound("cloud", "7", productId="cloud"),
            compound("none", "isnull(aggregation.sent, 1)", evaluateNullAggregations=True),
        ],
    )
    subscribe(home, "bolt")
    use(home, ("acme", 3, 3))

    result, of = found(home)

    assert of["global"] == {("bolt", 1): (5, None)}
    assert of["cloud"] == {("bolt", 1): (7, None)}
    assert of["none"] == {("acme", 1): (3, None), ("bolt", 1): (1, None)}
    assert of["least"] == {("acme", 1): (3, None), ("bolt", 1): (9, None)}
    assert of["more"] == {("acme", 1): (4, None), ("bolt", 1): (10, None)}
    assert {row.quantity.measurements for row in result.rows if row.statement is None} == {0}


@pytest.mark.long
def test_a_parent_s_compound_is_of_what_is_pooled(home):
    configure(
        home.organization,
        accounts=[
            {"code": "parent", "name": "P", "emailAddress": "a@b.example"},
            {
                "code": "child",
                "name": "C",
                "emailAddress": "a@b.example",
                "parentAccountId": "parent",
            },
        ],
        compoundAggregations=[compound("square", "aggregation.sent ^ 2")],
    )
    subscribe(home, "parent")
    use(home, ("parent", 1, 1), ("child", 2, 2))

    assert found(home)[1]["square"] == {
        ("parent", 1): (9, "parent"),
        ("child", 1): (4, "child"),
    }


def quarterly_shop(home):
    """A product whose plan is billed by the quarter, with `acme` on it."""
    template = {"code": "shop", "name": "Shop", "productId": "shop", "currency": "USD"}
    terms = {"standingCharge": 0, "billFrequency": "MONTHLY", "billFrequencyInterval": 3}
    configure(
        home.organization,
        products=[{"code": "shop", "name": "Shop"}],
        planTemplates=[template | terms],
        plans=[{"code": "shop", "name": "Shop", "planTemplateId": "shop"}],
        accountPlans=[
            {
                "code": "acme-shop",
                "accountId": "acme",
                "planId": "shop",
                "startDate": "2026-01-01T00:00:00Z",
            }
        ],
    )


@pytest.mark.long
def test_a_compound_of_a_product_is_there_for_accounts_on_other_products_plans_alone(home):
    quarterly_shop(home)
    configure(
        home.organization,
        compoundAggregations=[
            compound("cloud", "aggregation.sent + 1", productId="cloud"),
            compound("shop", "aggregation.sent + 2", productId="shop"),
            compound("global", "aggregation.sent + 3"),
        ],
    )
    use(home, ("acme", 3, 3), ("bolt", 4, 5))
    # Not the first month of a quarter; the meter is of no product.
    _, of = found(home)

    assert of["cloud"] == {("acme", 1): (4, None), ("bolt", 1): (6, None)}
    assert of["shop"] == {("bolt", 1): (7, None)}
    assert of["global"] == {("bolt", 1): (8, None)}
    # What a compound was calculated from is there, too.
    [explained] = explain(home.organization, QuantityFilter("acme", "cloud", "2026-09"))
    [part] = explained.to_wire()["parts"]
    assert (part["quantity"], len(part["measurements"])) == (3, 1)
