"""The law of staging: what is shown is what aggregating says before, and what it says after."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.values.period import Period
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from tests.homes import HEADER, configure, csv_row
from tests.integration.pipeline.backfill.usage_world import (
    FEW_RUNS,
    RUNS,
    aggregated,
    changed,
    foreseen,
    prepared,
    prepared_small,
    rows,
)

SEPTEMBER = Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))


def holds(home, order, runs=RUNS):
    """Stage and apply; what was shown, and what has changed."""
    before = aggregated(home, runs)
    staged = backfill.start(home.organization, order)
    backfill.apply(home.organization, staged.id, "ann")
    home.clock.advance(seconds=1)
    return foreseen(staged.summary), changed(before, aggregated(home, runs))


def retraction(uids):
    return Order(BackfillSpec(Mode.RETRACT, "wrong", uids=tuple(uids)), "ann", "law")


@pytest.mark.slow
def test_what_users_are_billed_for_is_shown(copies):
    with copies(prepared_small) as home:
        ids = home.account_codes()
        shown, found = holds(home, retraction(["s0", "s1", "s4"]), FEW_RUNS)

    assert shown == found
    assert {(place[1], ids[place[2]], place[5][:10]) for place in shown} == {
        ("2026-09", "acme", "2026-09-01"),
        ("2026-08", "tenth", "2026-08-10"),
        ("2026-09", "parent", "2026-09-01"),
        ("2026-09", "child", "2026-09-01"),
        ("2026-09-01", "acme", "2026-09-01"),
        ("2026-09-01", "parent", "2026-09-01"),
        ("2026-09-01", "child", "2026-09-01"),
    }
    # Whoever is on a plan and used nothing has defaults, and compounds of them.
    defaults = [after for place, (_, after) in shown.items() if ids[place[2]] == "acme"]
    assert ("7", "3") in defaults


@pytest.mark.slow
def test_what_retracting_shows_is_what_aggregating_finds(copies):
    with copies(prepared) as home:
        shown, found = holds(home, retraction(f"b.csv{n}" for n in range(12, 36)))

    assert shown == found
    # All kinds of quantities are among them, and all frequencies.
    assert {place[0] for place in shown} == {"MONTHLY", "DAILY", "WEEKLY", "ANNUALLY", "AD_HOC"}
    assert {place[4] for place in shown} == {None, '{"region":"*"}', '{"region":"eu"}'}
    # Two months, those of the tenth, a quarter, and what only the parent has.
    assert len({place[5:] for place in shown if place[0] == "MONTHLY"}) >= 6
    assert len({place[3] for place in shown}) == 10


@pytest.mark.slow
def test_what_replacing_shows_is_what_aggregating_finds(copies, tmp_path):
    with copies(prepared) as home:
        path = tmp_path / "new.csv"
        kept = [row for row in rows("b.csv") if "2026-09" in row]
        new = csv_row("n1", 3, account="newcomer", ts="2026-09-10T12:00:00Z")
        path.write_text(HEADER + "".join(kept[::2]) + new)
        wanted = BackfillSpec(Mode.REPLACE, window=SEPTEMBER, files=("new.csv",))

        shown, found = holds(home, Order(wanted, "ann", "law", [path]))

    assert shown == found != {}


@pytest.mark.slow
def test_what_deriving_again_shows_is_what_aggregating_finds(copies):
    meter = {
        "code": "egress",
        "name": "Egress",
        "dataFields": [
            {"category": "MEASURE", "code": "gb", "name": "Sent"},
            {"category": "WHERE", "code": "region", "name": "Region"},
        ],
        "derivedFields": [
            {"category": "MEASURE", "code": "twice", "name": "Twice", "calculation": "gb * 2"}
        ],
    }
    with copies(prepared) as home:
        configure(home.organization, meters=[meter])
        twice = {"name": "T", "meterId": "egress", "targetField": "twice", "aggregation": "SUM"}
        more = {"rounding": "NONE", "quantityPerUnit": 1, "unit": "GB", "code": "twice"}
        configure(home.organization, aggregations=[twice | more])
        wanted = BackfillSpec(Mode.REDERIVE, window=SEPTEMBER)

        shown, found = holds(home, Order(wanted, "ann", "law"))

    assert shown == found != {}


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(chosen=st.sets(st.tuples(st.sampled_from("ab"), st.integers(0, 47)), min_size=1, max_size=9))
def test_whatever_is_withdrawn_it_is_shown(copies, chosen):
    with copies(prepared) as home:
        shown, found = holds(home, retraction(f"{name}.csv{n}" for name, n in sorted(chosen)))

    assert shown == found
