"""The bills that a backfill touches are shown with what they would come to."""

from datetime import UTC, datetime

from meterlake.model.backfill import Mode, Wanted
from meterlake.model.period import Month, Period
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.bill import bill
from tests.bills import a_home_to_bill


def test_a_bill_is_shown_with_its_amount_before_and_after(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        made = bill(home.stores, home.org_id, Month(2026, 9))
        totals = {each.account_code: each.total for each in made.bills}
        [[source]] = home.query("SELECT DISTINCT identity FROM lake.source")
        wanted = Wanted(Mode.RETRACT, "wrong", source=source)

        found = backfill.start(home.stores, home.org_id, Order(wanted, "ann", "b"))
        backfill.apply(home.stores, home.org_id, "b", "ann")
        again = bill(home.stores, home.org_id, Month(2026, 9))

    shown = {each["account"]: each for each in found.summary["bills"]}
    assert set(shown) == {"acme", "bolt"}
    for code, entry in shown.items():
        assert entry["status"] == "PENDING"
        assert entry["billed"] == entry["before"] == f"{totals[code].normalize():f}"
    # What was foreseen is what the bills are then.
    assert {code: entry["after"] for code, entry in shown.items()} == {
        each.account_code: f"{each.total.normalize():f}" for each in again.bills
    }


def test_bills_of_quantities_that_change_are_shown(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        bill(home.stores, home.org_id, Month(2026, 9))
        window = Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
        order = Order(Wanted(Mode.REAGGREGATE, window=window), "ann", "q")

        found = backfill.start(home.stores, home.org_id, order)

    # The month was billed, and never aggregated.
    shown = {each["account"]: each for each in found.summary["bills"]}
    assert {each["account"] for each in found.summary["quantities"]} >= set(shown) != set()
    assert found.summary["billsTouched"] == len(shown)
    for entry in shown.values():
        assert entry["billed"] == entry["before"] == entry["after"]
