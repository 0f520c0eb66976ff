"""A home whose bills have all kinds of lines, for tests of statements."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from meterlake.model.bills.statements import StatementContent, StatementFormat, StatementOrder
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.configuration.statements import StatementDefinition
from meterlake.model.customers.accounts import Account
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.statements.content import read_bill, read_content
from meterlake.pipeline.statements.files import write_format
from meterlake.stores.state.billing.bills import bills
from tests.bills import aggregation
from tests.homes import HEADER, Home, a_home, configure, csv_row

SEPTEMBER = Month(2026, 9)
START = "2026-01-01T00:00:00Z"
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# Beside the plan of `tests.bills`: what is of one price, of a peak, of segments, and a credit.
_AGGREGATIONS = [
    aggregation("sent", "SUM"),
    aggregation("peak", "MAX"),
    aggregation(
        "where_sent",
        "SUM",
        segmentedFields=["region"],
        segments=[{"region": "eu"}, {"region": "*"}],
    ),
    aggregation("regions", "UNIQUE", targetField="region", unit="regions"),
    aggregation("mean", "MEAN"),
]
_COMPOUND = {
    "code": "twice",
    "name": "Twice",
    "rounding": "NONE",
    "quantityPerUnit": 1,
    "unit": "GB",
    "calculation": "aggregation.sent * 2 + aggregation.peak",
    "productId": None,
}


def pricing(code: str, price: Any, **more: Any) -> dict[str, Any]:
    """A price of an aggregation on the plan `basic`."""
    bands = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": price}]
    found = {"code": code, "planId": "basic", "aggregationId": code, "startDate": START}
    return {**found, "cumulative": True, "pricingBands": bands, **more}


def _prices() -> list[dict[str, Any]]:
    tiers = [
        {"lowerLimit": 0, "fixedPrice": 2, "unitPrice": Decimal("0.5")},
        {"lowerLimit": 10, "fixedPrice": 0, "unitPrice": Decimal("0.25")},
    ]
    segment = {"aggregationId": "where_sent"}
    compound = {"aggregationId": None, "compoundAggregationId": "twice"}
    found = [
        pricing("sent", 0, pricingBands=tiers),
        pricing("peak", 1),
        pricing("in-eu", Decimal("0.1"), **segment, segment={"region": "eu"}),
        pricing("elsewhere", Decimal("0.2"), **segment, segment={"region": "*"}),
        pricing("regions", 3),
        pricing("mean", Decimal("0.01"), type="PRODUCT_CREDIT"),
        pricing("twice", Decimal("0.001"), **compound),
    ]
    return [{name: value for name, value in each.items() if value is not None} for each in found]


def configure_everything(home: Home) -> None:
    """Bands, segments, a compound, counters, a standing charge, a minimum, a credit, a family."""
    template = {"code": "cloud", "name": "Cloud", "productId": "cloud", "currency": "USD"}
    compound = {name: value for name, value in _COMPOUND.items() if value is not None}
    people = {"name": "=1+1", "emailAddress": "a@b.example"}
    configure(
        home.organization,
        organizationConfig={
            "daysBeforeBillDue": 14,
            "currency": "USD",
            "timezone": "Europe/Berlin",
            "billPrefix": "INV-",
            "sequenceStartNumber": 7,
            "standingChargeBillInAdvance": False,
            "minimumSpendBillInAdvance": False,
        },
        products=[{"code": "cloud", "name": "Cloud"}],
        aggregations=_AGGREGATIONS,
        compoundAggregations=[compound],
        planTemplates=[
            {**template, "standingCharge": 31, "minimumSpend": 100, "billFrequency": "MONTHLY"}
        ],
        plans=[{"code": "basic", "name": "Basic", "planTemplateId": "cloud"}],
        pricings=_prices(),
        counters=[{"code": "seats", "name": "Seats", "unit": "seats", "productId": "cloud"}],
        counterPricings=[
            {
                "code": "seats",
                "planId": "basic",
                "counterId": "seats",
                "startDate": START,
                "runningTotalBillInAdvance": False,
                "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 5}],
            }
        ],
        accounts=[
            {"code": "corp", **people},
            {"code": "corp-a", **people, "parentAccountId": "corp"},
            {"code": "corp-b", **people, "parentAccountId": "corp"},
        ],
        accountPlans=[
            {
                "code": "corp-basic",
                "accountId": "corp",
                "planId": "basic",
                "startDate": START,
                "childBillingMode": "PARENT_SUMMARY",
            },
        ],
        counterAdjustments=[
            {"counterId": "seats", "accountId": "corp", "date": "2026-08-10", "value": 3},
            {"counterId": "seats", "accountId": "corp", "date": "2026-09-16", "value": 4},
        ],
    )


# Two days of Berlin, one of them with the last moment of August in UTC.
USAGE = (
    ("1", "corp", "12.5", "2026-08-31T22:00:00Z", "eu"),
    ("2", "corp-a", "0.125", "2026-09-01T21:59:59Z", "us"),
    ("3", "corp-b", "7", "2026-09-30T21:00:00Z", "eu"),
    ("4", "corp", "3", "2026-09-30T22:00:00Z", "eu"),
    ("5", "corp-b", "0.5", "2026-09-30T20:00:00Z", "'us"),
)


def use(home: Home, rows: Any = USAGE) -> None:
    """Ingest (uid, account, gigabytes, when, region)."""
    lines = [csv_row(uid, gb, who, ts=ts, region=region) for uid, who, gb, ts, region in rows]
    assert home.ingest(f"{rows[0][0]}.csv", HEADER + "".join(lines)).rejected == 0


@contextmanager
def a_billed_home(folder: Path) -> Iterator[Home]:
    """A home whose account corp has a bill of September 2026 with all of that."""
    with a_home(folder) as home:
        configure_everything(home)
        use(home)
        result = bill(home.organization, SEPTEMBER)
        assert not result.failures, result.failures
        yield home


def bill_ids(home: Home) -> list[str]:
    """The ids of all bills."""
    with home.organization.reading() as reader:
        return [each.id for each in bills.of_period(reader)]


def content_of(home: Home, bill_id: str, *meter_ids: str) -> StatementContent:
    """What the statement of a bill says."""
    with home.organization.reading() as reader:
        found = read_bill(reader, bill_id)
    order = StatementOrder(bill_id, meter_ids=meter_ids)
    return read_content(home.organization, found, order)


def document_of(content: StatementContent) -> dict[str, Any]:
    """A statement as whoever reads the JSON sees it."""
    found: dict[str, Any] = json.loads(write_format(content, StatementFormat.JSON))
    return found


def define(home: Home, account: str | None = None, **definition: Any) -> str:
    """Have the statements of the organization, or of an account, made up in a way; the id."""
    with home.organization.transaction("test") as transaction:
        created = transaction.create(StatementDefinition.from_wire(definition))
        if account is None:
            [owner] = transaction.all(OrganizationConfig)
            change = {"default_statement_definition_id": created.id}
        else:
            owner = transaction.find(Account, account)
            change = {"statement_definition_id": created.id}
        entity = owner.entity.model_copy(update=change)
        transaction.update(owner.id, owner.version, entity)
    return created.id


def name_ids(text: str) -> str:
    """A text with its ids numbered as they come, since they are others every time."""
    numbers: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        number = len(numbers) + 1
        return numbers.setdefault(match[0], f"00000000-0000-4000-8000-{number:012}")

    return _ID.sub(name, text)
