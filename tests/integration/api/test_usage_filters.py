"""Usage filters of contracts over HTTP: saved, billed, and what passes none of them reported."""

import m3ter
import pytest

from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill, run_bill_job
from meterlake.pipeline.usage.aggregate import aggregate
from tests.bills import aggregation, price_egress
from tests.homes import ACCOUNTS, EGRESS, configure, ndjson, wire_row
from tests.served import served

pytestmark = pytest.mark.usefixtures("home_database")

EU = {"dimension_code": "region", "mode": "INCLUDE", "value": "eu"}
QUOTED = {"dimension_code": "region", "mode": "EXCLUDE", "value": "it's"}
ROWS = [
    wire_row("a", 40),
    wire_row("b", 2.5),
    wire_row("c", 5, where={"region": "us"}),
    wire_row("d", 7, where={"region": "it's"}),
]


def use_egress(home):
    configure(home.organization, meters=[EGRESS], accounts=ACCOUNTS)
    price_egress(home)
    home.ingest("rows.ndjson", ndjson(ROWS))


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home", use_egress) as found:
        yield found


@pytest.fixture
def sdk(server):
    with server.sdk() as client:
        yield client


def contract_of(sdk, *usage_filters):
    [acme] = sdk.accounts.list(codes=["acme"])
    return sdk.contracts.create(
        account_id=acme.id,
        name="Europe",
        code="europe",
        start_date="2026-01-01",
        end_date="2027-01-01",
        usage_filters=usage_filters,
    )


def subscribe_to(sdk, contract):
    [plan] = sdk.plans.list()
    sdk.account_plans.create(
        account_id=contract.account_id,
        plan_id=plan.id,
        contract_id=contract.id,
        start_date="2026-01-01T00:00:00Z",
    )


def billed(server, sdk):
    """The quantity and the version of the bill of September."""
    job = sdk.bill_jobs.create(bill_date="2026-10-01")
    run_bill_job(server.stores, job.id)
    [found] = sdk.bills.list()
    [line] = (each for each in found.line_items if each.line_item_type == "USAGE")
    return line.quantity, found.version


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"dimension_code": "gb"}, r"usageFilters\[0\].dimensionCode: 'gb'.*WHO, WHAT, WHERE"),
        ({"dimension_code": "nowhere"}, r"usageFilters\[0\].dimensionCode: 'nowhere'"),
        ({"value": ""}, r"usageFilters\[0\].value"),
        ({"mode": "ONLY"}, r"usageFilters\[0\].mode: 'ONLY'"),
    ],
)
def test_a_filter_that_looks_at_no_text_field_is_refused_by_its_field(sdk, wrong, field):
    with pytest.raises(m3ter.BadRequestError, match=field):
        contract_of(sdk, EU | wrong)
    assert not list(sdk.contracts.list())


@pytest.mark.long
def test_a_plan_under_a_contract_is_charged_for_what_passes_its_filters(server, sdk):
    contract = contract_of(sdk, EU)
    subscribe_to(sdk, contract)
    assert billed(server, sdk) == (42.5, 1)

    # Another filter is another quantity, and another version of the bill.
    sdk.contracts.update(
        contract.id,
        account_id=contract.account_id,
        name=contract.name,
        code=contract.code,
        start_date="2026-01-01",
        end_date="2027-01-01",
        usage_filters=[QUOTED],
        version=contract.version,
    )
    assert billed(server, sdk) == (47.5, 2)


@pytest.mark.long
def test_what_passes_the_filters_of_no_plan_is_reported(server, sdk):
    subscribe_to(sdk, contract_of(sdk, EU))

    result = bill(server.organization, Month(2026, 9))
    assert [(each.reason.value, each.quantity) for each in result.unpriced] == [
        ("UsageFilters", 12)
    ]


@pytest.mark.long
def test_custom_sql_and_an_average_over_time_see_what_passes(server, sdk):
    """The same with the stored quantities of the month, which are those of all usage."""
    configure(
        server.organization,
        aggregations=[
            aggregation("rows", "CUSTOM_SQL", customSql="SELECT count(*) FROM measurements"),
            aggregation("held", "TIME_WEIGHTED_AVERAGE"),
        ],
        pricings=[
            {
                "code": code,
                "planId": "basic",
                "aggregationId": code,
                "startDate": "2026-01-01T00:00:00Z",
                "cumulative": True,
                "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}],
            }
            for code in ("rows", "held")
        ],
    )
    us = EU | {"value": "us"}
    subscribe_to(sdk, contract_of(sdk, us))
    aggregate(server.organization, Month(2026, 9))
    job = sdk.bill_jobs.create(bill_date="2026-10-01")
    run_bill_job(server.stores, job.id)

    [found] = sdk.bills.list()
    # 5 since 10 o'clock of the 3rd; what the other regions used then ends it no more.
    assert {
        each.description: each.quantity
        for each in found.line_items
        if each.line_item_type == "USAGE"
    } == {"Sent": 5, "Rows": 1, "Held": 5}
