"""The measurements behind a line: those of the bill's snapshot that its quantity was made of."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.customers.contracts import Contract
from meterlake.model.values import wire
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bills import usage_file
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.memos.memos import line_id
from tests.bills import aggregation, price_egress, subscribe
from tests.homes import EGRESS, HEADER, a_home, configure, csv_row

pytestmark = pytest.mark.usefixtures("home_database")

SEPTEMBER = Month(2026, 9)
CONTRACT = {
    "code": "eu-only",
    "name": "Only Europe",
    "accountId": "acme",
    "startDate": "2026-01-01",
    "endDate": "2027-01-01",
}


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        price_egress(opened)
        yield opened


def ingest(home, *rows):
    """Ingest (uid, gigabytes, day of September, region)."""
    text = "".join(
        csv_row(uid, gb, ts=f"2026-09-{day:02}T10:00:00Z", region=region)
        for uid, gb, day, region in rows
    )
    assert home.ingest(f"{rows[0][0]}.csv", HEADER + text).rejected == 0


USED = (("1", 10, 3, "eu"), ("2", 20, 20, "us"), ("3", "0.5", 25, "ap"))
LATER = (("4", 1000, 4, "eu"), ("5", 2000, 5, "us"))


def files(home):
    """Every line with its measurements, by the description of the line and its first day."""
    return {
        (
            each["lineItem"]["description"],
            each["lineItem"]["servicePeriodStartDate"][:10],
        ): each
        for each in all_files(home)
    }


def all_files(home):
    found = []
    with home.organization.reading() as reader:
        stored = bills.of_period(reader, "2026-09")
    for each in stored:
        for line in each.content.lines:
            file = usage_file(home.organization, each.id, line_id(each.id, line.key))
            content = wire.loads(home.stores.objects.path(file.key).read_bytes())
            found.append(content)
    return found


def uids(content):
    return sorted(row["uid"] for row in content["data"])


def total(content):
    return sum(Decimal(row["measure.gb"]) for row in content["data"])


def update(home, kind, code, **changes):
    with home.organization.transaction("test") as t:
        found = t.find(kind, code)
        document = found.entity.to_wire() | changes
        t.update(found.id, found.version, kind.from_wire(document))


@pytest.mark.long
def test_later_usage_is_not_there(home):
    subscribe(home, "acme")
    ingest(home, *USED)
    bill(home.organization, SEPTEMBER)
    ingest(home, *LATER)

    usage = files(home)["Sent", "2026-09-01"]
    assert uids(usage) == ["1", "2", "3"]
    assert total(usage) == usage["lineItem"]["quantity"] == Decimal("30.5")

    bill(home.organization, SEPTEMBER)
    again = files(home)["Sent", "2026-09-01"]
    assert total(again) == again["lineItem"]["quantity"] == Decimal("3030.5")


@pytest.mark.long
def test_fields_that_came_later_and_codes_of_now_change_nothing(home):
    subscribe(home, "acme")
    ingest(home, *USED)
    bill(home.organization, SEPTEMBER)
    more = {"category": "OTHER", "code": "note", "name": "Note"}
    fields = [*EGRESS["dataFields"], more]
    configure(home.organization, meters=[EGRESS | {"dataFields": fields}])
    late = "meter,account,uid,ts,measure.gb,where.region,other.note\n"
    row = csv_row("9", 1).strip() + ",hello\n"
    assert home.ingest("late.csv", late + row).rejected == 0
    update(home, Meter, "egress", name="Renamed")

    usage = files(home)["Sent", "2026-09-01"]
    assert uids(usage) == ["1", "2", "3"]
    assert "other.note" not in usage["data"][0]


@pytest.mark.long
def test_a_line_has_its_own_time(home):
    subscribe(home, "acme", start="2026-09-10T00:00:00Z")
    ingest(home, *USED)
    bill(home.organization, SEPTEMBER)

    usage = files(home)["Sent", "2026-09-10"]
    assert uids(usage) == ["2", "3"]
    assert total(usage) == usage["lineItem"]["quantity"]


@pytest.mark.long
def test_a_line_has_its_own_segment_as_it_was(home):
    shared = {"segmentedFields": ["region"]}
    some = [{"region": "eu"}, {"region": "us"}, {"region": "*"}]
    configure(
        home.organization,
        aggregations=[aggregation("parted", "SUM", **shared, segments=some)],
        pricings=[
            {
                "code": f"parted-{each['region']}",
                "planId": "basic",
                "segment": each,
                "aggregationId": "parted",
                "startDate": "2026-01-01T00:00:00Z",
                "cumulative": True,
                "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}],
            }
            for each in some
        ],
    )
    subscribe(home, "acme")
    ingest(home, *USED)
    bill(home.organization, SEPTEMBER)
    ingest(home, *LATER)
    update(home, Aggregation, "parted", name="Parted otherwise")

    found = {
        each["lineItem"]["segment"]["region"]: each
        for each in files(home).values()
        if "segment" in each["lineItem"]
    }
    assert {region: uids(each) for region, each in found.items()} == {
        "eu": ["1"],
        "us": ["2"],
        "*": ["3"],
    }
    assert all(total(each) == each["lineItem"]["quantity"] for each in found.values())


@pytest.mark.long
def test_a_line_has_what_passed_the_filters_of_its_contract(home):
    only_eu = [{"dimensionCode": "region", "value": "eu", "mode": "INCLUDE"}]
    configure(home.organization, contracts=[CONTRACT | {"usageFilters": only_eu}])
    subscribe(home, "acme")
    with home.organization.transaction("test") as t:
        [record] = t.all(AccountPlan)
        contract = t.find(Contract, "eu-only")
        t.update(
            *(record.id, record.version),
            record.entity.model_copy(update={"contract_id": contract.id}),
        )
    ingest(home, *USED)
    bill(home.organization, SEPTEMBER)
    update(home, Contract, "eu-only", usageFilters=[])

    usage = files(home)["Sent", "2026-09-01"]
    assert uids(usage) == ["1"]
    assert total(usage) == usage["lineItem"]["quantity"] == 10


@pytest.mark.long
def test_an_average_over_time_has_what_holds_when_its_time_begins(home):
    configure(
        home.organization,
        aggregations=[aggregation("stored", "TIME_WEIGHTED_AVERAGE")],
        pricings=[
            {
                "code": "stored",
                "planId": "basic",
                "aggregationId": "stored",
                "startDate": "2026-01-01T00:00:00Z",
                "cumulative": True,
                "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}],
            }
        ],
    )
    subscribe(home, "acme", start="2026-09-10T00:00:00Z")
    ingest(home, ("0", 5, 1, "eu"), *USED)
    bill(home.organization, SEPTEMBER)

    found = files(home)
    assert uids(found["Stored", "2026-09-10"]) == ["1", "2", "3"]
    assert uids(found["Sent", "2026-09-10"]) == ["2", "3"]


BANDS = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}]


def price_compound(home, *aggregations, calculation, **more):
    """A compound aggregation of others, some of another meter, and a price for it."""
    home.clock.time = datetime.now(UTC) + timedelta(hours=1)  # After the meters came.
    configure(
        home.organization,
        meters=[EGRESS, {**EGRESS, "code": "ingress", "name": "Ingress"}],
        aggregations=list(aggregations),
        compoundAggregations=[
            {
                "code": "both",
                "name": "Both",
                "calculation": calculation,
                "rounding": "NONE",
                "quantityPerUnit": 1,
                "unit": "GB",
            }
        ],
        pricings=[
            {
                "code": "both",
                "planId": "basic",
                "compoundAggregationId": "both",
                "startDate": "2026-01-01T00:00:00Z",
                "cumulative": True,
                "pricingBands": BANDS,
                **more,
            }
        ],
    )
    subscribe(home, "acme")


def ingest_ingress(home, *rows):
    text = "".join(
        csv_row(uid, gb, ts=f"2026-09-{day:02}T11:00:00Z", region=region, meter="ingress")
        for uid, gb, day, region in rows
    )
    assert home.ingest(f"ingress-{rows[0][0]}.csv", HEADER + text).rejected == 0


@pytest.mark.long
def test_a_line_of_a_compound_aggregation_has_the_measurements_of_its_meters(home):
    incoming = aggregation("incoming", "SUM") | {"meterId": "ingress"}
    largest = aggregation("largest", "MAX")
    sums = "aggregation.sent + aggregation.incoming + 0 * aggregation.largest"
    price_compound(home, incoming, largest, calculation=sums)
    ingest(home, *USED)
    ingest_ingress(home, ("i1", 100, 3, "eu"), ("i2", 200, 20, "us"))
    bill(home.organization, SEPTEMBER)
    ingest_ingress(home, ("late", 1000, 3, "eu"))

    usage = files(home)["Both", "2026-09-01"]
    assert sorted((row["meter"], row["uid"]) for row in usage["data"]) == [
        *(("egress", uid) for uid in ("1", "2", "3")),
        *(("ingress", uid) for uid in ("i1", "i2")),
    ]
    assert total(usage) == usage["lineItem"]["quantity"] == Decimal("330.5")
    assert usage["hasMoreData"] is False
    received = [row["receivedAt"] for row in usage["data"]]
    assert received == sorted(received, reverse=True)


@pytest.mark.long
def test_a_part_without_segments_counts_for_each_segment_of_a_compound_aggregation(home):
    some = [{"region": "eu"}, {"region": "us"}]
    parted = aggregation("parted", "SUM", segmentedFields=["region"], segments=some)
    incoming = aggregation("incoming", "SUM") | {"meterId": "ingress"}
    price_compound(
        *(home, parted, incoming),
        calculation="aggregation.parted + aggregation.incoming",
        segment={"region": "us"},
    )
    ingest(home, *USED)
    ingest_ingress(home, ("i1", 100, 3, "eu"), ("i2", 200, 20, "us"))
    bill(home.organization, SEPTEMBER)

    [usage] = [each for each in files(home).values() if "segment" in each["lineItem"]]
    assert uids(usage) == ["2", "i1", "i2"]
    assert total(usage) == usage["lineItem"]["quantity"] == 320


@pytest.mark.long
def test_usage_beyond_a_commitment_has_the_measurements_of_all_of_it(home):
    configure(
        home.organization,
        commitments=[
            {
                "accountId": "acme",
                "startDate": "2026-01-01",
                "endDate": "2027-01-01",
                "currency": "USD",
                "amount": 10,
                "amountPrePaid": 10,
                "separateOverageUsage": True,
                "lineItemTypes": ["USAGE"],
            }
        ],
    )
    subscribe(home, "acme")
    ingest(home, *USED)
    bill(home.organization, SEPTEMBER)

    found = {each["lineItem"]["lineItemType"]: each for each in all_files(home)}
    assert found["OVERAGE_USAGE"]["lineItem"]["quantity"] == Decimal("20.5")
    assert uids(found["OVERAGE_USAGE"]) == uids(found["USAGE"]) == ["1", "2", "3"]
    assert found["COMMITMENT_CONSUMED"]["data"] == []


@pytest.mark.long
def test_what_is_no_usage_has_no_measurements(home):
    subscribe(home, "acme")
    ingest(home, *USED)
    bill(home.organization, SEPTEMBER)

    standing = files(home)["Standing Charge", "2026-09-01"]
    assert (standing["data"], standing["hasMoreData"]) == ([], False)


@pytest.fixture
def family(home):
    """A parent on a plan with two children, one of which has a plan of its own from the 20th on."""
    home.clock.time = datetime.now(UTC) + timedelta(hours=1)  # After the accounts came.
    children = [
        {
            "code": code,
            "name": code.title(),
            "parentAccountId": "acme",
            "emailAddress": "a@b.example",
        }
        for code in ("north", "south")
    ]
    configure(home.organization, accounts=children)
    subscribe(home, "south", start="2026-09-20T00:00:00Z")
    rows = [
        csv_row(f"{account}-{day}", gb, account, ts=f"2026-09-{day:02}T10:00:00Z")
        for account, gb in (("acme", 1), ("north", 20), ("south", 300))
        for day in (5, 25)
    ]
    assert home.ingest("family.csv", HEADER + "".join(rows)).rejected == 0
    return home


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("PARENT_SUMMARY", {"acme-25 acme-5 north-25 north-5 south-5", "south-25"}),
        ("PARENT_BREAKDOWN", {"acme-25 acme-5", "north-25 north-5", "south-5", "south-25"}),
        ("CHILD", {"acme-25 acme-5", "north-25 north-5", "south-5", "south-25"}),
    ],
)
def test_a_line_of_a_pool_has_the_measurements_of_its_accounts(family, mode, expected):
    home = family
    subscribe(home, "acme")
    with home.organization.transaction("test") as t:
        record = t.find(AccountPlan, "acme-basic")
        document = record.entity.to_wire() | {"childBillingMode": mode}
        t.update(record.id, record.version, AccountPlan.from_wire(document))
    home.clock.advance(hours=1)
    bill(home.organization, SEPTEMBER)
    usage = [each for each in all_files(home) if each["lineItem"]["lineItemType"] == "USAGE"]

    assert {" ".join(uids(each)) for each in usage} == expected
    assert len(usage) == len(expected)
    for each in usage:
        assert total(each) == each["lineItem"]["quantity"]
