"""What exports show of configuration, its changes and quantities, as documents in the shape of the wire."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.catalog.plans import Pricing
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.model.resources import resource_of, response
from meterlake.model.values.entity import Configuration, Deletion, Entity, Record
from meterlake.model.values.secrets import mask_secrets

Document = dict[str, Any]
# The codes of some kinds of configuration by id.
Codes = Mapping[type[Entity], Mapping[str, str]]

# The newest run of every period; `quantity_document` reads its rows.
_QUANTITIES: Final = """
    WITH runs AS (
        -- A snapshot of an older version has no such columns: its runs are of months.
        FROM lake.quantity AT (VERSION => {0:d})
        UNION ALL BY NAME SELECT NULL::VARCHAR AS frequency, NULL::VARCHAR AS period,
            NULL::VARCHAR AS segment, NULL::VARCHAR AS pooled WHERE false
    ), quantities AS (
        SELECT * REPLACE (
            coalesce(frequency, 'MONTHLY') AS frequency, coalesce(period, month) AS period
        ) FROM runs
    )
    SELECT q.month, q.frequency, q.period, q.account_id, q.meter_id, q.aggregation_id,
        q.aggregation_version, q.segment, q.period_start, q.period_end, q.quantity, q.units,
        q.unit, q.measurements, q.snapshot, q.computed_at
    FROM quantities q SEMI JOIN (
        SELECT arg_max(run_id, (computed_at, run_id)) AS run_id
        FROM quantities GROUP BY frequency, period
    ) newest USING (run_id)
    WHERE q.period_start >= ? AND q.period_start < ? AND q.pooled IS DISTINCT FROM 'child'
    ORDER BY q.frequency <> 'MONTHLY', q.frequency, q.period, q.account_id, q.aggregation_id,
        q.period_start, q.segment"""
# What tells one band from another.
_OF_BAND: Final = ("pricingId", "overage", "sequenceNumber", "id")
# What a band shows of its pricing.
_OF_PRICING: Final = (
    "planId",
    "planTemplateId",
    "aggregationId",
    "compoundAggregationId",
    "segment",
    "type",
    "startDate",
    "endDate",
)


def quantities_query(snapshot: int) -> str:
    """SQL of the current quantities that begin between two instants, given as naive UTC."""
    return _QUANTITIES.format(snapshot)


def quantity_document(row: Sequence[Any], codes: Codes) -> Document:
    """One row of `quantities_query`, with the codes that people know."""
    month, frequency, period, account, meter, aggregation, version, *rest = row
    segment, start, end, quantity, units, unit, measurements, snapshot, computed = rest
    return {
        "month": month,
        "frequency": frequency,
        "period": period,
        "account": codes[Account].get(account),
        "accountId": account,
        "meter": codes[Meter].get(meter),
        "meterId": meter,
        "aggregation": codes[Aggregation].get(aggregation)
        or codes[CompoundAggregation].get(aggregation),
        "aggregationId": aggregation,
        "aggregationVersion": version,
        "segment": segment,
        "startDateTimeUTC": _utc(start),
        "endDateTimeUTC": _utc(end),
        "quantity": Decimal(quantity),
        "units": Decimal(units),
        "unit": unit,
        "measurements": measurements,
        "snapshot": snapshot,
        "computedAt": _utc(computed),
    }


def _utc(instant: datetime) -> datetime:
    return instant.replace(tzinfo=UTC)


def entity_documents(kind: type[Entity], configuration: Configuration) -> list[Document]:
    """Every entity of a kind as the wire shows it, in the order of creation; secrets are masked."""
    records = sorted(configuration.all(kind), key=lambda each: (each.created, each.id))
    return [response(mask_secrets(record), configuration) for record in records]


def computed_differs(record: Record[Any], now: Configuration, before: Configuration) -> bool:
    """Whether what is computed of an entity has changed, because what it refers to has."""
    computed = resource_of(record.entity).computed
    if computed is None:
        return False
    try:
        return computed(record, now) != computed(record, before)
    except NotFound:
        return True  # Something that it refers to is younger.


def band_documents(record: Record[Pricing]) -> Iterator[Document]:
    """The bands of a pricing, each with what is priced and when; those of the overage last."""
    pricing = record.entity.to_wire()
    shared: Document = {
        "version": record.version,
        **{name: pricing[name] for name in _OF_PRICING if name in pricing},
        "createdBy": record.created_by,
        "dtCreated": record.created,
        "lastModifiedBy": record.modified_by,
        "dtLastModified": record.modified,
    }
    for band in _bands(record):
        yield {**band, **shared}


def band_deletions(
    before: Record[Pricing], after: Record[Pricing] | Deletion
) -> Iterator[Document]:
    """The bands that a pricing had and has no more."""
    left: set[tuple[bool, int]] = set()
    gone = after
    if isinstance(gone, Record):
        left = {_key(band) for band in _bands(gone)}
        gone = Deletion(gone.id, gone.version, gone.modified, gone.modified_by)
    envelope = {name: value for name, value in gone.to_wire().items() if name != "id"}
    for band in _bands(before):
        if _key(band) not in left:
            yield {**{name: band[name] for name in _OF_BAND if name in band}, **envelope}


def _bands(record: Record[Pricing]) -> Iterator[Document]:
    """The bands as the wire has them, each with its place in the pricing."""
    pricing = record.entity.to_wire()
    for overage, name in ((False, "pricingBands"), (True, "overagePricingBands")):
        for number, band in enumerate(pricing[name], start=1):
            yield {
                "pricingId": record.id,
                "overage": overage,
                "sequenceNumber": number,
                **band,
            }


def _key(band: Document) -> tuple[bool, int]:
    return band["overage"], band["sequenceNumber"]
