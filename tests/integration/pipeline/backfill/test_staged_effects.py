"""What a staged backfill would do to bills: all line types, also of custom SQL, before it is applied."""

import random
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.model.errors import Conflict, NotFound
from meterlake.model.values.period import Month, Period
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.backfill.staged_effects import BackfillChoice, compare_backfill
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.config.apply_configuration import export
from meterlake.stores.state.billing.bills import bills
from tests.billing_oracle.worlds import FEATURES, random_world
from tests.bills import a_home_to_bill, aggregation, use
from tests.homes import HEADER, configure, csv_row
from tests.integration.pipeline.billing.test_kept_bills import bill_world
from tests.integration.pipeline.billing.test_what_if import stored_sums, sums_of
from tests.stored_worlds import MONTHS, store_world

SEPTEMBER = Month(2026, 9)
WINDOW = Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
STAGED = BackfillChoice("b")
SEEDS = (2, 20)


@pytest.fixture
def home(tmp_path):
    """A home with a price for custom SQL and a minimum, of which September is billed."""
    with a_home_to_bill(tmp_path) as home:
        bands = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": Decimal("0.25")}]
        configure(
            home.organization,
            aggregations=[
                aggregation("own", "CUSTOM_SQL", customSql="SELECT sum(gb * gb) FROM measurements")
            ],
            pricings=[
                {
                    "code": "own",
                    "planId": "basic",
                    "aggregationId": "own",
                    "startDate": "2026-01-01T00:00:00Z",
                    "cumulative": True,
                    "minimumSpend": 1000,
                    "pricingBands": bands,
                }
            ],
        )
        use(home, ("late", "acme", 3))
        bill(home.organization, SEPTEMBER)
        yield home


def stored(home):
    """What the lines of the bills of September come to, by account and type."""
    sums = defaultdict(Decimal)
    with home.organization.reading() as reader:
        for each in bills.of_period(reader, str(SEPTEMBER)):
            for line in each.content.lines:
                key = each.content.body["accountCode"], line.body["lineItemType"]
                sums[key] += Decimal(line.body["convertedSubtotal"])
    return {key: amount for key, amount in sums.items() if amount}


def compared(home, choice=STAGED):
    with compare_backfill(home.organization, choice) as found:
        changes = list(found.changes())
    sides = [defaultdict(Decimal), defaultdict(Decimal)]
    for each in changes:
        for side, amount in zip(sides, (each.before, each.after), strict=True):
            if amount:
                side[each.key.account, each.key.line_item_type] += amount
    return *map(dict, sides), found.summary


def wanted(home, mode, tmp_path):
    """A backfill of a mode, and its files."""
    if mode is Mode.RETRACT:
        query = "SELECT identity FROM lake.source WHERE name = 'late.csv'"
        return BackfillSpec(mode, "wrong", source=home.query(query)[0][0]), ()
    file = tmp_path / "better.csv"
    file.write_text(HEADER + csv_row("1", "41", "acme") + csv_row("9", "6", "bolt"))
    return BackfillSpec(mode, "better", window=WINDOW, files=(file.name,)), (file,)


@pytest.mark.long
@pytest.mark.parametrize("mode", [Mode.RETRACT, pytest.param(Mode.REPLACE, marks=pytest.mark.slow)])
def test_what_a_backfill_would_come_to_is_what_it_comes_to(home, tmp_path, mode):
    spec, files = wanted(home, mode, tmp_path)
    staged = backfill.start(home.organization, Order(spec, "ann", "b", files))
    before = stored(home)

    was, would_be, summary = compared(home)

    touched = {account for account, _ in was}
    assert was == {key: amount for key, amount in before.items() if key[0] in touched}
    assert (summary.stored.differing, summary.backfill) == (0, "b")
    assert stored(home) == before
    assert backfill.show(home.organization, "b") == staged
    backfill.apply(home.organization, "b", "ann")
    bill(home.organization, SEPTEMBER)
    assert stored(home) == {k: v for k, v in before.items() if k[0] not in touched} | would_be
    assert would_be["acme", "MINIMUM_SPEND"] != was["acme", "MINIMUM_SPEND"]


@pytest.mark.slow
def test_a_derived_field_that_is_calculated_again_is_priced_before_it_is_stored(tmp_path):
    """Fields that came later are priced as if all measurements had them."""
    with a_home_to_bill(tmp_path) as home:
        exported = export(home.stores.state, home.org_id)
        [meter] = [each for each in exported["meters"] if each["code"] == "egress"]
        twice = {"category": "MEASURE", "code": "twice", "name": "Twice", "unit": "GB"}
        derived = [{**twice, "calculation": "gb * 2"}]
        price = {
            "code": "twice",
            "planId": "basic",
            "aggregationId": "twice",
            "startDate": "2026-01-01T00:00:00Z",
            "cumulative": True,
            "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}],
        }
        configure(home.organization, meters=[{**meter, "derivedFields": derived}])
        configure(
            home.organization,
            aggregations=[aggregation("twice", "SUM", targetField="twice")],
            pricings=[price],
        )
        bill(home.organization, SEPTEMBER)
        spec = BackfillSpec(Mode.REDERIVE, window=WINDOW)
        backfill.start(home.organization, Order(spec, "ann", "b"))

        was, would_be, _ = compared(home)

        assert was == stored(home)
        backfill.apply(home.organization, "b", "ann")
        bill(home.organization, SEPTEMBER)
        assert would_be == stored(home)
        # 42.5 at 1, and twice as much again.
        assert would_be["acme", "USAGE"] == Decimal("127.5")


@pytest.mark.slow
def test_what_is_not_staged_or_changes_nothing_is_refused(home):
    with pytest.raises(NotFound):
        compared(home, BackfillChoice("none"))
    spec = BackfillSpec(Mode.REAGGREGATE, window=WINDOW)
    backfill.start(home.organization, Order(spec, "ann", "b"))
    with pytest.raises(Conflict, match="changes no measurements"):
        compared(home)
    backfill.drop(home.organization, "b", "ann")
    with pytest.raises(Conflict, match="is DROPPED and cannot be looked at"):
        compared(home)


# All that a measurement may change, and the months in which it may.
PRICED = {
    *("USAGE", "MINIMUM_SPEND", "USAGE_CREDIT", "COMMITMENT_CONSUMED", "BALANCE_CONSUMED"),
    *("MINIMUM_SPEND_REFUND", "OVERAGE_SURCHARGE", "OVERAGE_USAGE"),
}
ALL_MONTHS = (MONTHS[0], MONTHS[-1])


def check_world(folder, seed):
    """What a retraction would do to bills is what it does; the line types that change."""
    described = random_world(seed, sorted(FEATURES), rows=80)
    rng = random.Random(seed)
    uids = tuple(each["uid"] for each in rng.sample(described.measurements, 20))
    with store_world(described, folder) as world:
        world.clock.time = datetime(2022, 12, 2, tzinfo=UTC)
        bill_world(world)
        spec = BackfillSpec(Mode.RETRACT, "wrong", uids=uids)
        backfill.start(world.organization, Order(spec, "ann", "b"))
        choice = BackfillChoice("b", ALL_MONTHS, by_month=True)
        with compare_backfill(world.organization, choice) as found:
            changes, summary = list(found.changes()), found.summary
        codes = {each.key.account for each in changes}
        assert sums_of(changes, "before") == of_accounts(stored_sums(world), codes), seed
        assert (summary.not_priced, summary.stored.differing) == ([], 0), seed
        backfill.apply(world.organization, "b", "ann")
        bill_world(world)
        assert sums_of(changes, "after") == of_accounts(stored_sums(world), codes), seed
    return {each.key.line_item_type for each in changes if each.difference}


def of_accounts(sums, codes):
    return {key: amount for key, amount in sums.items() if key[1] in codes}


@pytest.mark.slow
def test_a_backfill_of_random_organizations_changes_lines_of_all_types_as_it_said(tmp_path):
    changed = set()
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        changed |= check_world(folder, seed)
    assert changed >= PRICED
