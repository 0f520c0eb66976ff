"""Laws of margins: each row is revenue less costs, and rows come to what bills and measures come to."""

from collections import Counter
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.values.money import ZERO, exact
from meterlake.pipeline.billing.margins import Cost, ReportingCurrency, find_margins
from meterlake.pipeline.billing.revenue import RevenueGroup
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stores.state.billing.bills.revenue import RevenueKey, RevenueSum

ACCOUNTS = st.sampled_from(["acme", "bolt", "branch", "nobody"])
UNITS = st.sampled_from(["USD", "EUR", "credits"])
PRODUCTS = st.sampled_from([None, "cloud", "disk"])
AMOUNTS = st.decimals(-1_000_000, 1_000_000, places=4)
KEYS = st.builds(
    RevenueKey,
    currency=st.sampled_from(["USD", "EUR"]),
    account_id=st.sampled_from(["acme", "bolt"]),
    product_id=PRODUCTS,
)
SUMS = st.dictionaries(KEYS, AMOUNTS, max_size=8).map(
    lambda found: [RevenueSum(key, billed=amount) for key, amount in found.items()]
)
COSTS = st.lists(
    st.builds(Cost, st.just("cost"), UNITS, PRODUCTS, st.dictionaries(ACCOUNTS, AMOUNTS)),
    max_size=4,
)
PARENTS = {"branch": "acme"}
GROUPS = st.sampled_from([RevenueGroup.PRODUCT, RevenueGroup.CUSTOMER])


def summed(pairs):
    with exact():
        found = Counter()
        for key, amount in pairs:
            found[key] = found.get(key, ZERO) + amount
    return {key: amount for key, amount in found.items() if amount}


@given(COSTS, SUMS, GROUPS)
def test_rows_are_revenue_less_costs_and_come_to_all_of_both(costs, sums, by):
    found = find_margins(costs, sums, PARENTS, by, ReportingCurrency(Currencies({}, {}), None))

    for each in (*found.rows, *found.totals()):
        with exact():
            left = each.revenue - each.cost
        assert each.margin == (None if each.other_costs else left)
    for name in ("revenue", "cost"):
        totals = summed((each.currency, getattr(each, name)) for each in found.totals())
        assert totals == summed((each.currency, getattr(each, name)) for each in found.rows)
    assert summed((each.currency, each.revenue) for each in found.rows) == summed(
        (each.key.currency, each.revenue) for each in sums
    )
    # No cost is lost or counted twice, wherever it stands.
    spent = summed((each.unit, amount) for each in costs for amount in each.accounts.values())
    shown = [(each.currency, each.cost) for each in found.rows]
    shown += [pair for each in found.rows for pair in each.other_costs.items()]
    shown += [(unit, amount) for (_, unit), amount in found.unbilled.items()]
    assert summed(shown) == spent
    assert len({(each.id, each.currency) for each in found.rows}) == len(found.rows)


def test_a_child_counts_for_its_parent_and_a_rate_makes_costs_comparable():
    sums = [
        RevenueSum(RevenueKey("EUR", None, "acme", "cloud"), billed=Decimal(80)),
        RevenueSum(RevenueKey("USD", None, "bolt", "cloud"), billed=Decimal(50)),
    ]
    costs = [
        Cost("a", "USD", "cloud", {"branch": Decimal(10), "nobody": Decimal(7)}),
        Cost("b", "USD", None, {"bolt": Decimal("0.5")}),
    ]
    rates = Currencies({}, {("EUR", "USD"): Decimal("1.25"), ("USD", "USD"): Decimal(1)})

    def rows(by, reporting):
        found = find_margins(costs, sums, PARENTS, by, ReportingCurrency(rates, reporting))
        assert found.unbilled == {("nobody", "USD"): Decimal(7)}
        return {
            (each.id, each.currency): (each.revenue, each.cost, each.margin) for each in found.rows
        }

    own = rows(RevenueGroup.CUSTOMER, None)
    assert own == {
        ("acme", "EUR"): (80, 0, None),
        ("bolt", "USD"): (50, Decimal("0.5"), Decimal("49.5")),
    }
    assert rows(RevenueGroup.CUSTOMER, "USD")["acme", "USD"] == (100, 10, 90)
    assert rows(RevenueGroup.PRODUCT, "USD") == {
        ("cloud", "USD"): (150, 10, 140),
        (None, "USD"): (0, Decimal("0.5"), Decimal("-0.5")),
    }
