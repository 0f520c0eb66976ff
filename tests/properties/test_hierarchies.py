"""Parents and children: nothing is lost, nothing is charged twice, whoever's line shows it."""

from datetime import datetime, timedelta
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.bills.bill import Bill, LineItemType
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import Month
from meterlake.stages.bill import BillSelection, Provenance, billing_terms, make_bills
from tests.billing_world import World, instant
from tests.laws import examples

MONTH = Month(2026, 10)
MODES = ("PARENT_SUMMARY", "PARENT_BREAKDOWN", "CHILD")
FAMILY = ("acme", "a", "b", "c")
REDUCES = ("SUM", "MAX", "UNIQUE", "COUNT", "MEAN", "LATEST")
TIERS = [(0, 0, "1.333"), (10, "0.07", "0.5"), (60, 0, "0.0391")]

hours = st.integers(0, 743)
uses = st.lists(
    st.tuples(st.sampled_from(FAMILY), hours, st.decimals(0, 90, places=2)), max_size=14
)
# When children get a plan of their own, and in which mode.
own_plans = st.dictionaries(
    st.sampled_from(FAMILY[1:]), st.tuples(hours, st.sampled_from(MODES)), max_size=2
)


def at(hour):
    return (datetime(2026, 10, 1) + timedelta(hours=hour)).isoformat() + "Z"


def family(mode, used, own=(), reduce="SUM", **plan):
    """A parent on a plan, with three children some of which get plans of their own."""
    world = World()
    world.aggregation("gb", reduce=reduce)
    for code in ("storage", "own"):
        world.plan(code, {"standing_charge": Decimal(31)})
        world.pricing(code, "gb", TIERS)
    world.account("acme")
    for code in FAMILY[1:]:
        world.account(code, parent="acme")
    world.subscribe("acme", "storage", child_billing_mode=mode, **plan)
    for code, (hour, own_mode) in dict(own).items():
        world.subscribe(code, "own", child_billing_mode=own_mode, start_date=instant(at(hour)))
    for account, hour, n in used:
        world.use(account, at(hour), n)
    return world


def total(bills, *types):
    return sum(
        line.converted_subtotal
        for bill in bills
        for line in bill.lines
        if not types or line.type in types
    )


def rows(bills):
    """What bills say, without the order of accounts that were made at once."""
    return {
        bill.account_code: [
            (
                *(str(line.type), line.members.get("childAccountCode"), line.service_period),
                *(line.quantity, line.units, line.subtotal, line.converted_subtotal),
            )
            for line in bill.lines
        ]
        for bill in bills
    }


@given(uses, own_plans, st.sampled_from(REDUCES))
@settings(max_examples=examples(25), deadline=None)
def test_a_summary_and_a_breakdown_add_up_to_the_same(used, own, reduce):
    """Bills of children only differ by the rounding of each share."""
    summary, breakdown, child = (family(mode, used, own, reduce).bills("2026-10") for mode in MODES)
    assert total(breakdown) == total(summary)
    lines = sum(line.type is LineItemType.USAGE for bill in child for line in bill.lines)
    assert abs(total(child) - total(summary)) <= Decimal("0.005") * lines


@given(uses, own_plans, st.sampled_from(MODES), hours, st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_all_usage_is_on_one_bill_or_reported(used, own, mode, start, begins_later):
    """Quantities of sums on all bills, and what has no price, are all that was used."""
    plan = {"start_date": instant(at(start))} if begins_later else {}
    world = family(mode, used, own, **plan)
    billed = sum(
        line.quantity
        for bill in world.bills("2026-10")
        for line in bill.lines
        if line.type is LineItemType.USAGE
    )
    unpriced = sum(row.quantity for row in world.unpriced("2026-10"))
    assert billed + unpriced == sum(n for _, _, n in used)


@given(uses, own_plans, st.sampled_from(MODES), st.sampled_from(REDUCES), st.randoms())
@settings(max_examples=examples(20), deadline=None)
def test_the_order_of_accounts_changes_nothing(used, own, mode, reduce, shuffle):
    world = family(mode, used, own, reduce)
    found = rows(world.bills("2026-10"))
    records = list(world.records.items())
    shuffle.shuffle(records)
    world.records = dict(records)
    assert rows(world.bills("2026-10")) == found


@given(uses, own_plans, st.sampled_from(MODES), st.sets(st.sampled_from(FAMILY), min_size=1))
@settings(max_examples=examples(20), deadline=None)
def test_bills_of_chosen_accounts_are_those_of_all(used, own, mode, chosen):
    """A child's share needs what the others used, also where these have no bill of the run."""
    world = family(mode, used, own)
    ids = {derived_id("Account", code) for code in chosen}
    terms = billing_terms(world.configuration, BillSelection(MONTH, account_ids=ids))
    found = list(make_bills(terms, world.usage(terms), Provenance(7, "1.0")))
    every = [each for each in world.bills("2026-10") if each.account_code in chosen]
    assert rows(found) == rows(every)
    assert [each.pins for each in found] == [each.pins for each in every]


@given(uses, own_plans, st.sampled_from(MODES))
@settings(max_examples=examples(20), deadline=None)
def test_a_bill_is_the_sum_of_its_lines_which_are_told_apart(used, own, mode):
    for bill in family(mode, used, own).bills("2026-10"):
        assert isinstance(bill, Bill)
        assert bill.header()["billTotal"] == total([bill])
        assert len({line.key for line in bill.lines}) == len(bill.lines)
        assert [line.sequence_number for line in bill.lines] == [*range(1, len(bill.lines) + 1)]
