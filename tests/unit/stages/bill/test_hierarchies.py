"""Bills of parents and children: what fails, what is pinned, what is reported; and the page's example."""

from decimal import Decimal
from itertools import takewhile
from pathlib import Path

import pytest

from meterlake.model.bills.bill import Bill, Failure
from meterlake.model.bills.unbilled import Uncovered
from meterlake.model.catalog.catalog import Product
from meterlake.model.values.ids import derived_id
from meterlake.model.values.money import plain
from meterlake.model.values.period import Month
from meterlake.stages.bill import months_billed_with
from tests.billing_world import World, instant

PAGE = Path(__file__).parents[4] / "docs" / "billing.md"
MODES = ("PARENT_SUMMARY", "PARENT_BREAKDOWN", "CHILD")
ALL_FAIL = "(SELECT 1 / 0 AS value FROM measurements)"


def family(mode="PARENT_BREAKDOWN", children=("east", "west"), **organization):
    """A parent on a plan, and its children; `price` and `use` are up to the test."""
    world = World(**organization)
    world.aggregation("gb", unit="GB")
    world.plan("storage")
    world.account("acme")
    for code in children:
        world.account(code, parent="acme")
    world.subscribe("acme", "storage", child_billing_mode=mode)
    return world


def use(world, **used):
    for code, n in used.items():
        world.use(code, "2026-10-05T00:00:00Z", n)


def usage_lines(world):
    """Usage lines by the account of the bill: child, quantity, amount."""
    return {
        bill.account_code: [
            (
                *(line.members.get("childAccountCode"), plain(line.quantity)),
                str(line.converted_subtotal),
            )
            for line in bill.lines
        ]
        for bill in world.bills("2026-10")
    }


@pytest.mark.parametrize("mode", MODES)
def test_a_pool_whose_quantity_cannot_be_calculated_fails_by_name(mode):
    world = family(mode)
    world.aggregation(
        "own", "CUSTOM_SQL", custom_sql="SELECT max(n) * 1e300 * 1e300 FROM measurements"
    )
    world.pricing("storage", "own", [(0, 0, 1)])
    use(world, acme=3, east=4)

    failures = [each for each in world.made("2026-10") if isinstance(each, Failure)]
    codes = ["acme", "east", "west"] if mode == "CHILD" else ["acme"]
    assert [each.account_code for each in failures] == codes
    assert all("own" in each.reason for each in failures)


def test_a_missing_rate_fails_the_child_alone():
    world = family("CHILD", ())
    world.account("east", parent="acme", currency="EUR")
    world.pricing("storage", "gb", [(0, 0, 1)])
    use(world, acme=3, east=4)

    bill, failure = world.made("2026-10")
    assert (bill.account_code, bill.lines[0].converted_subtotal) == ("acme", 3)
    assert failure.account_code == "east"
    assert "no conversion rate from USD to EUR" in failure.reason


def test_a_share_is_converted_and_rounded_on_the_childs_bill():
    rate = {"from": "USD", "to": "EUR", "multiplier": Decimal("0.9")}
    world = family("CHILD", (), currency_conversions=(rate,))
    world.account("east", parent="acme", currency="EUR")
    world.pricing("storage", "gb", [(0, 0, "0.335")])
    use(world, acme=1, east=1)

    # 0.335 of each: 0.34 in USD; 0.3015 in EUR, not 0.9 × 0.34.
    assert usage_lines(world) == {"acme": [(None, "1", "0.34")], "east": [(None, "1", "0.30")]}


@pytest.mark.parametrize(
    ("reduce", "parent", "child"), [("MAX", "5.14", "6.86"), ("UNIQUE", "1.00", "1.00")]
)
def test_own_quantities_are_the_weights_of_what_does_not_add_up(reduce, parent, child):
    world = family()
    world.aggregation("most", reduce)
    world.pricing("storage", "most", [(0, 0, "1.5" if reduce == "MAX" else 1)])
    use(world, acme=6, east=8)

    [acme, east] = usage_lines(world)["acme"]
    assert (acme[2], east[2]) == (parent, child)


def test_weights_that_sum_to_nothing_leave_all_to_the_parent():
    world = family()
    world.pricing("storage", "gb", [(0, 7, 1)])
    use(world, east=5, west=-5)
    world.aggregation("rows", "COUNT")
    world.pricing("storage", "rows", [(0, 0, 1)])

    lines = usage_lines(world)["acme"]
    assert lines[:2] == [("east", "5", "0.00"), ("west", "-5", "0.00")]
    assert lines[2:] == [("east", "1", "1.00"), ("west", "1", "1.00")]


def test_a_default_stands_on_the_parent_if_nobody_used_anything():
    world = family("CHILD")
    world.aggregation("seats", default_value=Decimal(3))
    world.pricing("storage", "seats", [(0, 0, 2)])
    assert usage_lines(world) == {"acme": [(None, "3", "6.00")], "east": [], "west": []}


def test_compounds_and_custom_sql_are_of_the_pool():
    world = family()
    world.aggregation("rows", "COUNT")
    world.compound("mean", "aggregation.gb / aggregation.rows")
    world.aggregation("own", "CUSTOM_SQL", custom_sql="SELECT sum(n * n) FROM measurements")
    world.pricing("storage", "mean", [(0, 0, 1)], compound=True)
    world.pricing("storage", "own", [(0, 0, 1)])
    use(world, acme=2, east=6)

    assert usage_lines(world)["acme"] == [
        *((None, "2", "1.00"), ("east", "6", "3.00")),
        *((None, "4", "4.00"), ("east", "36", "36.00")),
    ]


def test_a_minimum_of_the_parent_counts_what_children_are_billed():
    world = family("CHILD")
    world.plan("storage", minimum_spend=Decimal(10))
    world.pricing("storage", "gb", [(0, 0, 1)])
    use(world, acme=2, east=5)

    assert usage_lines(world) == {
        "acme": [(None, "2", "2.00"), (None, "1", "3.00")],
        "east": [(None, "5", "5.00")],
        "west": [],
    }


def test_periods_of_a_childs_plan_are_counted_from_the_parents_epoch():
    world = family("PARENT_SUMMARY", ())
    world.add(
        world.records[derived_id("Account", "acme")].entity.model_copy(
            update={"bill_epoch": instant("2026-09-15T00:00:00Z").date()}
        ),
        "acme",
    )
    for code in ("here", "there"):
        world.account(code, parent="acme")
    world.subscribe("here", "storage", child_billing_mode="PARENT_SUMMARY")
    world.subscribe("there", "storage", child_billing_mode="CHILD")

    dates = {(each.account_code, str(each.bill_date)) for each in world.bills("2026-10")}
    assert dates == {("acme", "2026-10-15"), ("there", "2026-11-01")}


def test_bills_pin_the_accounts_that_they_were_made_from():
    world = family("CHILD")
    world.pricing("storage", "gb", [(0, 0, 1)])
    seat = world.counter("seats")
    world.counter_pricing("storage", "seats", [(0, 0, 1)])
    adjustment = world.adjust("west", "seats", "2026-09-01", 2)
    use(world, acme=2, east=5)

    ids = {derived_id("Account", code) for code in ("acme", "east", "west")}
    for bill in world.bills("2026-10"):
        assert {*ids, adjustment, seat} <= bill.pins.versions.keys()


def test_usage_of_a_child_is_reported_where_neither_plan_prices_it():
    world = family()
    world.pricing("storage", "gb", [(0, 0, 1)], start_date=instant("2026-10-11T00:00:00Z"))
    use(world, acme=2, east=5)

    found = {row.account_code: (row.reason, row.quantity) for row in world.unpriced("2026-10")}
    assert found == {
        "acme": (Uncovered.NO_PRICING, Decimal(2)),
        "east": (Uncovered.NO_PRICING, Decimal(5)),
    }


def test_a_child_whose_lines_stand_on_the_parents_bill_has_none_of_its_own():
    world = family("PARENT_SUMMARY", ("east",))
    world.subscribe("east", "storage", child_billing_mode="PARENT_BREAKDOWN")
    told = {each.account_id for each in world.made("2026-10")}

    [east] = world.without("2026-10", told)
    assert (east.account_code, east.reason) == ("east", "its plan is billed to its parent 'acme'")


def table_of(heading):
    """The rows of the first table below a heading of the page, by their first cell."""
    text = PAGE.read_text().split(f"\n{heading}\n", 1)[1]
    lines = text[text.index("\n|") :].strip().splitlines()
    rows = takewhile(lambda line: line.startswith("|"), lines)
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0]: row[1:] for row in cells[2:]}


def test_the_example_of_the_page_is_what_bills_say():
    table = table_of("### A parent with three children")
    used = {code: Decimal(cells[0]) for code, cells in table.items() if code != "sum"}
    for column, mode in enumerate(MODES, start=1):
        world = family(mode, tuple(used)[1:])
        world.pricing("storage", "gb", [(0, 0, 1), (50, 0, "0.333")])
        use(world, **used)
        bills = [each for each in world.bills("2026-10") if isinstance(each, Bill)]
        lines = [(bill, line) for bill in bills for line in bill.lines]
        found = {
            line.members.get("childAccountCode", bill.account_code): line.converted_subtotal
            for bill, line in lines
        }
        said = {code: cells[column] for code, cells in table.items() if cells[column]}
        assert {code: f"{amount:.2f}" for code, amount in found.items()} == {
            code: amount for code, amount in said.items() if code != "sum"
        }
        assert f"{sum(found.values()):.2f}" == said["sum"]


@pytest.mark.parametrize(
    ("mode", "billed"),
    [("PARENT_SUMMARY", {"acme", "east"}), ("CHILD", {"acme", "east", "west"})],
)
def test_what_a_child_used_changes_the_bills_of_whom_its_pool_is_billed_to(mode, billed):
    """The bills of October of siblings change with their shares."""
    world = family(mode)
    month = Month(2026, 10)
    found = months_billed_with(world.configuration, {month: {derived_id("Account", "east")}})
    assert found == {month: {derived_id("Account", code) for code in billed}}


def on_a_plan_without_periods(code, **more):
    """A family that pays for gigabytes; one account is on a plan without billing periods, too."""
    world = family()
    world.pricing("storage", "gb", [(0, 0, 1)])
    world.add(Product(name="Odd", code="odd"), "odd")
    world.plan("odd", {"bill_frequency": "AD_HOC", **more})
    world.pricing("odd", "gb", [(0, 0, 1)])
    world.subscribe(code, "odd")
    use(world, acme=2, east=5)
    return world


def test_a_plan_of_another_product_without_periods_changes_no_bill_of_a_pool():
    world = on_a_plan_without_periods("acme", product="odd")

    assert usage_lines(world)["acme"] == [(None, "2", "2.00"), ("east", "5", "5.00")]
    assert world.unpriced("2026-10") == []


def test_a_child_on_a_plan_without_periods_is_out_of_the_pool():
    world = on_a_plan_without_periods("east")

    [row] = world.unpriced("2026-10")
    assert (row.account_code, row.reason, row.quantity) == ("east", Uncovered.NO_BILLING_PERIODS, 5)
    assert usage_lines(world)["acme"] == [(None, "2", "2.00")]


def test_usage_of_children_names_the_plan_of_their_parent_without_periods():
    world = family()
    world.add(Product(name="Odd", code="odd"), "odd")
    world.plan("odd", {"bill_frequency": "MIXED", "product": "odd"})
    world.pricing("odd", "gb", [(0, 0, 1)])
    world.subscribe("acme", "odd")
    use(world, acme=2, east=5)

    found = {row.account_code: (row.reason, row.detail) for row in world.unpriced("2026-10")}
    detail = "the plan 'odd' of the frequency MIXED has no billing periods"
    assert found == dict.fromkeys(("acme", "east"), (Uncovered.NO_BILLING_PERIODS, detail))
    # East is on no plan itself.
    assert "east" not in {row.account_code for row in world.without("2026-10", ())}


def test_children_of_a_parent_that_is_billed_wait_for_nobody():
    world = family()
    world.pricing("storage", "gb", [(0, 0, 1)])
    world.subscribe("west", "storage")

    found = {row.account_code: row.reason for row in world.without("2026-10", ())}

    assert found["west"] == "its plan is billed to its parent 'acme'"
    assert "east" not in found
