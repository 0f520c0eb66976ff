"""A small home with one of everything, made without ingesting or billing."""

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Self

from meterlake.model.catalog.catalog import Aggregation, Meter, Product
from meterlake.model.catalog.plans import Plan, PlanTemplate, Pricing
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.measurements.measurement import Category, Field, MeterFields
from meterlake.model.values.sql import identifier
from meterlake.pipeline.home.setup import init_home
from meterlake.settings import Settings
from meterlake.stores import Organization, Stores, open_stores
from meterlake.stores.lake.backends.location import open_lake
from meterlake.stores.lake.lake import Lake
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey, LineContent
from tests.databases import state_of

START = datetime(2026, 11, 3, 10, 30, tzinfo=UTC)
FIELDS = (
    Field(Category.MEASURE, "bytes"),
    Field(Category.COST, "egress"),
    Field(Category.WHAT, "region"),
    Field(Category.METADATA, "note"),
)
# uid, account, ts, ets, measure.bytes, cost.egress, what.region, metadata.note
ROWS: list[Sequence[Any]] = [
    ("u-3", "acme", "2026-10-31 23:30:00", None, "1.5", "0", "eu", None),
    (
        "u-1",
        "acme",
        "2026-10-01 00:00:00.000001",
        "2026-10-01 01:00:00",
        "-0.000000000001",
        None,
        None,
        None,
    ),
    (
        "U-2",
        "zoë's",
        "2026-09-30 22:30:00",
        None,
        "99999999999999999999999999.999999999999",
        "7",
        'q"uo,te',
        "a\nb",
    ),
    ("u-4", "acme", "2026-10-15 12:00:00.120", None, "100", "20.50", "ü€😀\\", " "),
    ("ü", "acme", "2026-11-01 00:00:00", None, None, "1000000", "=1+1", "\x01"),
]


@dataclass
class Clock:
    """A clock that tests set."""

    time: datetime = START

    def __call__(self) -> datetime:
        return self.time

    def later(self, **span: float) -> None:
        self.time += timedelta(**span)


@dataclass
class Home:
    """An open home with one organization."""

    stores: Stores
    org_id: str
    clock: Clock
    meter_id: str
    accounts: dict[str, str] = field(default_factory=dict)

    @property
    def organization(self) -> Organization:
        return self.stores.organization(self.org_id)

    @property
    def lake(self) -> Lake:
        return self.organization.lake

    @classmethod
    def of(cls, stores: Stores, clock: Clock) -> Self:
        """The home that `furnish` has furnished before."""
        organization = stores.find_organization()
        configuration = organization.configuration()
        accounts = {each.entity.code: each.id for each in configuration.all(Account)}
        [meter] = [each.id for each in configuration.all(Meter) if each.entity.code == "disk"]
        return cls(stores, organization.id, clock, meter, accounts)

    def meter(self, code: str, fields: Sequence[Field] = FIELDS) -> MeterFields:
        """Create a meter and what the lake needs to know of it."""
        document = meter_document(code, fields)
        with self.organization.transaction("test") as transaction:
            record = transaction.create(Meter.from_wire(document))
        return MeterFields(record.id, record.version, code, tuple(fields))

    def meter_fields(self) -> MeterFields:
        """What the lake needs to know of the meter `disk`."""
        return MeterFields(self.meter_id, 1, "disk", FIELDS)

    def store(self, meter: MeterFields, rows: Iterable[Sequence[Any]]) -> None:
        """Commit measurements in the order in which they are given."""
        names = ["uid", "account_id", "ts", "ets", *(each.column for each in meter.fields)]
        names += ["received_at", "source", "row", "part"]
        listed = ", ".join(identifier(name) for name in names)
        marks = ", ".join("?" * len(names))
        with self.lake.lock(), self.lake.transaction() as connection:
            self.lake.ensure_meter_table(connection, meter)
            for number, (uid, account, *rest) in enumerate(rows, start=1):
                values = [uid, self.accounts.get(account, account), *rest]
                connection.execute(
                    f"INSERT INTO lake.{identifier(meter.table)} ({listed}) VALUES ({marks})",
                    [*values, "2026-11-02 08:00:00", "source-1", number, 0],
                )


def meter_document(code: str, fields: Sequence[Field]) -> dict[str, Any]:
    return {
        "name": f"The {code}",
        "code": code,
        "dataFields": [
            {
                "category": each.category.value,
                "code": each.code,
                "name": each.code.title(),
                **({"unit": "By"} if each.category.numeric else {}),
            }
            for each in fields
        ],
        "derivedFields": [],
    }


def make_home(folder: Path, **settings: Any) -> tuple[Settings, Clock]:
    """Make a home with one organization, `Small & Söhne`, in Berlin's time."""
    made, clock = Settings(home=folder, **state_of(folder) | settings), Clock()

    def make_lake(org_id: str) -> None:
        with closing(open_lake(made, org_id)) as lake:
            lake.create()

    init_home(made, "Small & Söhne", make_lake, clock)
    return made, clock


def furnish(stores: Stores, clock: Clock) -> Home:
    """Create a product with a meter, an aggregation, a plan, a price; two accounts; a bill."""
    organization = stores.find_organization()
    home = Home(stores, organization.id, clock, "")
    with organization.transaction("test") as t:
        config = t.all(OrganizationConfig)[0]
        berlin = config.entity.to_wire() | {"timezone": "Europe/Berlin"}
        t.update(config.id, config.version, OrganizationConfig.from_wire(berlin))
        product = t.create(Product.from_wire({"name": "Storage", "code": "storage"}))
        meter = t.create(Meter.from_wire(meter_document("disk", FIELDS)))
        aggregation = t.create(
            Aggregation.from_wire(
                {
                    "name": "Bytes",
                    "code": "bytes_sum",
                    "meterId": meter.id,
                    "targetField": "bytes",
                    "aggregation": "SUM",
                    "rounding": "NONE",
                    "quantityPerUnit": Decimal(1000),
                    "unit": "kB",
                }
            )
        )
        template = t.create(
            PlanTemplate.from_wire(
                {
                    "name": "Base",
                    "productId": product.id,
                    "currency": "USD",
                    "standingCharge": Decimal("9.90"),
                    "billFrequency": "MONTHLY",
                }
            )
        )
        plan = t.create(
            Plan.from_wire({"name": "Pro", "code": "pro", "planTemplateId": template.id})
        )
        pricing = t.create(
            Pricing.from_wire(
                {
                    "planId": plan.id,
                    "aggregationId": aggregation.id,
                    "startDate": "2026-01-01T00:00:00Z",
                    "pricingBands": [
                        {
                            "lowerLimit": 0,
                            "fixedPrice": 0,
                            "unitPrice": Decimal("0.00000000000000000001"),
                        }
                    ],
                }
            )
        )
        for code in ("acme", "zoë's"):
            account = {
                "name": f"{code}, Inc.",
                "code": code,
                "emailAddress": "billing@example.com",
                "address": {"addressLine1": 'Street "1"', "country": "DE"},
            }
            home.accounts[code] = t.create(Account.from_wire(account)).id
        t.create(
            AccountPlan.from_wire(
                {
                    "accountId": home.accounts["acme"],
                    "planId": plan.id,
                    "startDate": "2026-01-01T00:00:00Z",
                }
            )
        )
        bills.put(t, _bill(home.accounts["acme"], aggregation.id, meter.id, pricing.id))
    home.meter_id = meter.id
    fields = MeterFields(meter.id, meter.version, "disk", FIELDS)
    home.store(fields, ROWS)
    with home.lake.lock(), home.lake.transaction() as connection:
        for run, value in (("run-1", "1"), ("run-2", "0.66666666666666666667")):
            connection.execute(
                "INSERT INTO lake.quantity (run_id, month, period_start, period_end, account_id,"
                " meter_id, aggregation_id, aggregation_version, value, value_sum, value_count,"
                " quantity, units, unit, measurements, snapshot, computed_at) VALUES (?, '2026-10', '2026-09-30 22:00:00',"
                " '2026-10-31 23:00:00', ?, ?, ?, 1, NULL, NULL, NULL, ?, ?, 'kB', 3, 1, ?)",
                [
                    run,
                    home.accounts["acme"],
                    meter.id,
                    aggregation.id,
                    value,
                    value,
                    f"2026-11-0{run[-1]} 00:00:00",
                ],
            )
    return home


@cache
def small_home(database: str) -> Path:  # noqa: ARG001
    """Make a small home with one of everything, once for each kind of home."""
    folder = Path(tempfile.mkdtemp(prefix="meterlake-small-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made, clock = make_home(folder / "home")
    with open_stores(made, clock) as stores:
        furnish(stores, clock)
    return folder / "home"


def _bill(account_id: str, aggregation_id: str, meter_id: str, pricing_id: str) -> BillContent:
    line = {
        "lineItemType": "USAGE",
        "description": "Bytes",
        "quantity": Decimal("0.66666666666666666667"),
        "units": Decimal("0.66666666666666666667"),
        "unit": "kB",
        "subtotal": Decimal("12.34"),
        "currency": "EUR",
        "conversionRate": Decimal("1.1"),
        "convertedSubtotal": Decimal("13.57"),
        "averageUnitPrice": Decimal("18.51"),
        "productCode": "storage",
        "aggregationId": aggregation_id,
        "meterId": meter_id,
        "pricingId": pricing_id,
        "usagePerPricingBand": [{"lowerLimit": 0, "unitPrice": Decimal("18.51")}],
        "servicePeriodStartDate": "2026-09-30T22:00:00Z",
        "servicePeriodEndDate": "2026-10-31T23:00:00Z",
    }
    charge = {
        "lineItemType": "STANDING_CHARGE",
        "description": "Base",
        "quantity": 1,
        "units": 1,
        "unit": "",
        "subtotal": Decimal("9.90"),
        "currency": "USD",
        "conversionRate": 1,
        "convertedSubtotal": Decimal("9.90"),
        "averageUnitPrice": Decimal("9.90"),
        "servicePeriodStartDate": "2026-09-30T22:00:00Z",
        "servicePeriodEndDate": "2026-10-31T23:00:00Z",
    }
    return BillContent(
        key=BillKey(account_id, date(2026, 11, 1), "MONTHLY", 1),
        period="2026-10",
        currency="USD",
        total=Decimal("23.47"),
        body={
            "accountCode": "acme",
            "startDate": "2026-10-01",
            "endDate": "2026-11-01",
            "dueDate": "2026-12-01",
            "startDateTimeUTC": "2026-09-30T22:00:00Z",
            "endDateTimeUTC": "2026-10-31T23:00:00Z",
            "timezone": "Europe/Berlin",
            "currencyConversions": [{"from": "EUR", "to": "USD", "multiplier": Decimal("1.1")}],
        },
        pins={"snapshot": 3, "versions": {meter_id: 1}},
        lines=[
            LineContent("usage", line, {"snapshot": 3}),
            LineContent("charge", charge, {"snapshot": 3}),
        ],
    )
