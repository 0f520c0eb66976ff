"""An organization with every kind of quantity there is, to see what corrections do to them."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.model.values.period import Month, format_instant
from meterlake.pipeline.usage.aggregate import aggregate, segment_text
from tests.bills import aggregation, price_egress, subscribe
from tests.homes import HEADER, Home, configure, csv_row

DAILY, WEEKLY, ANNUALLY = (BillingFrequency(n) for n in ("DAILY", "WEEKLY", "ANNUALLY"))
# Months from before the first measurement, whose quarters reach far, to the current one.
RUNS = [
    *(PeriodSpec.month(Month(2026, month)) for month in range(5, 11)),
    PeriodSpec.on(DAILY, date(2026, 9, 13)),
    PeriodSpec.on(WEEKLY, date(2026, 9, 10)),
    PeriodSpec.on(ANNUALLY, date(2026, 9, 10)),
    PeriodSpec.between(date(2026, 8, 20), date(2026, 9, 12)),
]
# Enough for what a few accounts use in September.
FEW_RUNS = [
    PeriodSpec.month(Month(2026, 8)),
    PeriodSpec.month(Month(2026, 9)),
    PeriodSpec.on(WEEKLY, date(2026, 9, 3)),
]
ACCOUNTS = ("acme", "bolt", "tenth", "quarter", "parent", "child")


def prepared(home: Home) -> None:
    """Configure it, and put measurements in."""
    home.clock.time = datetime(2026, 10, 31, tzinfo=UTC)
    price_egress(home)
    every = {"name": "X", "emailAddress": "a@b.example"}
    segments = [{"region": "eu"}, {"region": "*"}]
    configure(
        home.organization,
        organizationConfig={"timezone": "America/New_York", "daysBeforeBillDue": 30},
        customFields={"account": {"factor": 2}},
        accounts=[
            every | {"code": "tenth", "billEpoch": "2022-01-10"},
            every | {"code": "quarter", "customFields": {"factor": 10}},
            every | {"code": "parent"},
            every | {"code": "child", "parentAccountId": "parent"},
        ],
        aggregations=[
            aggregation("least", "MIN", defaultValue=7, quantityPerUnit=3, rounding="UP"),
            aggregation("held", "TIME_WEIGHTED_AVERAGE"),
            aggregation("last", "LATEST"),
            aggregation("parts", "SUM", segmentedFields=["region"], segments=segments),
            aggregation("own", "CUSTOM_SQL", customSql="SELECT sum(gb * gb) FROM measurements"),
        ],
        compoundAggregations=[
            compound(
                "scaled", "aggregation.sent * customFields.account.factor + aggregation.least"
            ),
            compound("none", "isnull(aggregation.last, 5)", evaluateNullAggregations=True),
            compound("pieces", "aggregation.parts + aggregation.own"),
        ],
        planTemplates=[
            {
                "code": "quarterly",
                "name": "Q",
                "productId": "cloud",
                "currency": "USD",
                "standingCharge": 0,
                "billFrequency": "MONTHLY",
                "billFrequencyInterval": 3,
            }
        ],
        plans=[{"code": "quarterly", "name": "Q", "planTemplateId": "quarterly"}],
        accountPlans=[
            {
                "code": "quarter",
                "accountId": "quarter",
                "planId": "quarterly",
                "startDate": "2026-01-01T00:00:00Z",
                "billEpoch": "2026-02-20",
            }
        ],
    )
    subscribe(home, "acme", "parent")
    for name in ("a.csv", "b.csv"):
        receipt = home.ingest(name, HEADER + "".join(rows(name)))
        assert receipt.rejected == 0


def prepared_small(home: Home) -> None:
    """The same with less of each."""
    price_egress(home)
    every = {"name": "X", "emailAddress": "a@b.example"}
    configure(
        home.organization,
        accounts=[
            every | {"code": "tenth", "billEpoch": "2022-01-10"},
            every | {"code": "parent"},
            every | {"code": "child", "parentAccountId": "parent"},
        ],
        aggregations=[
            aggregation("least", "MIN", defaultValue=7, quantityPerUnit=3, rounding="UP"),
            aggregation("parts", "SUM", segmentedFields=["region"], segments=[{"region": "eu"}]),
        ],
        compoundAggregations=[compound("both", "aggregation.sent + aggregation.least")],
    )
    subscribe(home, "acme", "parent")
    used = [("acme", 3), ("tenth", 4), ("tenth", 15), ("parent", 4), ("child", 4)]
    lines = [
        csv_row(f"s{number}", number + 1, account, ts=f"2026-09-{day:02}T12:00:00Z")
        for number, (account, day) in enumerate(used)
    ]
    assert home.ingest("s.csv", HEADER + "".join(lines)).rejected == 0


def compound(code: str, calculation: str, **changes: Any) -> dict[str, Any]:
    """A compound aggregation."""
    found = {"code": code, "name": code, "calculation": calculation, "rounding": "NONE"}
    return {**found, "quantityPerUnit": 1, "unit": "GB", **changes}


def rows(name: str) -> list[str]:
    """The lines of a file; each account has some, at the edges of its periods too."""
    found = []
    for number in range(48):
        account = ACCOUNTS[number % len(ACCOUNTS)]
        odd = name == "b.csv"
        instant = datetime(2026, 8, 1 + number % 28, 4 - odd, 59 * odd, tzinfo=UTC)
        instant = instant.replace(month=8 + number % 3)
        region = "eu" if number % 5 < 3 else "us"
        gb = f"{number * 7 % 11}.{number % 10}{odd:d}"
        found.append(
            csv_row(f"{name}{number}", gb, account, ts=format_instant(instant), region=region)
        )
    return found


def aggregated(
    home: Home, runs: Sequence[PeriodSpec] = RUNS
) -> dict[tuple[Any, ...], tuple[str, str]]:
    """All quantities, by run and by what tells them apart."""
    found = {}
    for asked in runs:
        result = aggregate(home.organization, asked)
        for row in result.rows:
            each = row.quantity
            place = (
                *(result.run.frequency.value, result.run.name),
                *(each.account_id, each.aggregation_id, segment_text(each.segment)),
                *(format_instant(each.period.start), format_instant(each.period.end)),
            )
            assert place not in found
            found[place] = (plain(each.value), plain(each.units))
    return found


def changed(
    before: dict[tuple[Any, ...], Any], after: dict[tuple[Any, ...], Any]
) -> dict[tuple[Any, ...], Any]:
    """What differs: before and after."""
    places = before.keys() | after.keys()
    return {
        place: (before.get(place), after.get(place))
        for place in places
        if before.get(place) != after.get(place)
    }


def foreseen(summary: dict[str, Any]) -> dict[tuple[Any, ...], Any]:
    """What a staged backfill says of it."""
    assert summary["quantitiesChanged"] == len(summary["quantities"])
    return {
        (
            *(each["frequency"], each["month"], each["accountId"], each["aggregationId"]),
            wire.dumps_sorted(each["segment"]) if "segment" in each else None,
            *(each["start"], each["end"]),
        ): tuple(
            side and (side["quantity"], side["units"]) for side in (each["before"], each["after"])
        )
        for each in summary["quantities"]
    }
