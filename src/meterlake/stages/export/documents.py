"""What exports show of configuration and quantities, as documents in the shape of the wire."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.customers.accounts import Account
from meterlake.model.resources import response
from meterlake.model.values.entity import Configuration, Entity, Record
from meterlake.model.values.secrets import MASK, with_secrets

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


def entity_document(record: Record[Any], configuration: Configuration) -> Document:
    """An entity as the wire shows it; secrets are masked.

    Raises:
        NotFound: Something that it refers to is missing in `around`.
    """
    entity = with_secrets(record.entity, lambda _: MASK)
    return response(replace(record, entity=entity), configuration)


def entity_documents(kind: type[Entity], configuration: Configuration) -> list[Document]:
    """Every entity of a kind as the wire shows it, in the order of creation."""
    records = sorted(configuration.all(kind), key=lambda each: (each.created, each.id))
    return [entity_document(record, configuration) for record in records]
