"""Bills of one line that are stored as if they had been calculated, and how to read them again."""

import csv
import gzip
import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import httpx

from meterlake.model.bills.bill import BandUsage, Bill, Line, MadeFrom, Pins
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.values.period import Period
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.run import export


def an_id(name: str) -> str:
    """An id that is always the same."""
    return str(uuid5(NAMESPACE_OID, name))


def a_line(kind, amount, day, product, members):
    """A line of a day that costs an amount; members are those that only some lines have."""
    amount = Decimal(amount)
    own = dict(members)
    shown = {name: own.pop(name, None) for name in ("aggregationId", "meterId", "pricingId")}
    segment = own.pop("segment", None)
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    band = BandUsage(*(Decimal(each) for each in (0, 1, 1)), amount, Decimal(0), amount, amount)
    return Line(
        type=kind,
        description=f"{kind} of COMMITMENT_CONSUMED or not",
        plan_id=an_id("plan"),
        service_period=Period(start, start + timedelta(days=1)),
        quantity=Decimal(1),
        units=Decimal(1),
        unit="GB",
        currency="USD",
        subtotal=amount,
        conversion_rate=Decimal(1),
        converted_subtotal=amount,
        average_unit_price=amount,
        product=product,
        accounting_product=product,
        made_from=MadeFrom(snapshot=1),
        aggregation_id=shown["aggregationId"],
        meter_id=shown["meterId"],
        pricing_id=shown["pricingId"],
        bands=(band,) if shown["aggregationId"] else (),
        sequence_number=1,
        segment=None if segment is None else tuple(segment.items()),
        members=own,
    )


def a_bill(account_id, line):
    """A bill of the day of its only line."""
    start = line.service_period.start
    day = start.date()
    return Bill(
        account_id=account_id,
        account_code="acme",
        period=line.service_period,
        start_date=day,
        end_date=day + timedelta(days=1),
        bill_date=day + timedelta(days=1),
        due_date=day + timedelta(days=15),
        external_invoice_date=day + timedelta(days=1),
        timezone="UTC",
        currency="USD",
        pins=Pins(1, {}, "test"),
        lines=(line,),
        billing_frequency=BillingFrequency.DAILY,
    )


def exported(server, type_, format_):
    """The text of an export of one type."""
    request = ExportRequest(source=Source.OPERATIONAL, format=Format(format_), types=(type_,))
    done = export(server.organization, request)
    [file] = done.manifest["files"]
    return gzip.decompress(Path(done.url, file["key"]).read_bytes()).decode()


def downloaded(http, days, **more):
    """The rows of the CSV file of the bills of some days."""
    answer = http.post("/bills/download/csv/url", json={**days, **more})
    return list(csv.DictReader(io.StringIO(httpx.get(answer.json()["downloadUrl"]).text)))
