"""What bills of a month pay for units of usage on average: a guess for usage that has no price."""

from collections.abc import Collection
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import literal, select

from meterlake.model.bills.bill import LineItemType
from meterlake.model.values import wire
from meterlake.model.values.money import ZERO, exact
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE


class PaidUnits(NamedTuple):
    """What all lines of an aggregation in one currency come to, and for how many units."""

    currency: str
    amount: Decimal
    units: Decimal


def paid_units(
    reader: Reader, month: str, aggregation_ids: Collection[str]
) -> dict[str, PaidUnits]:
    """What the bills of a month pay for the usage of aggregations, in the currency with most units."""
    if not aggregation_ids:
        return {}
    aggregation = member_text(BILL_LINE.c.body, literal("aggregationId"))
    query = select(BILL_LINE.c.body, BILL.c.currency).join_from(BILL_LINE, BILL)
    query = query.where(
        BILL.c.org == reader.org_id,
        BILL.c.period == month,
        aggregation.in_(list(aggregation_ids)),
    )
    sums: dict[tuple[str, str], PaidUnits] = {}
    with exact():
        for row in reader.connection.execute(query):
            line = wire.loads(row.body)
            if line["lineItemType"] != LineItemType.USAGE or line.get("units") is None:
                continue
            key = (line["aggregationId"], row.currency)
            before = sums.get(key, PaidUnits(row.currency, ZERO, ZERO))
            sums[key] = PaidUnits(
                row.currency,
                before.amount + Decimal(line["convertedSubtotal"]),
                before.units + Decimal(line["units"]),
            )
    found: dict[str, PaidUnits] = {}
    for (id_, _), paid in sorted(sums.items(), key=lambda each: each[1].units):
        if paid.units > 0:
            found[id_] = paid
    return found
