"""What quantities and billing came to, as the runs of flows show it."""

from collections import defaultdict
from decimal import Decimal, localcontext
from typing import Final

from flows.assets import MadeAsset
from flows.outcome import Row
from meterlake.model.usage.quantity import quantity_text, units_text
from meterlake.pipeline.billing.run import BillResult
from meterlake.pipeline.config.months import days_text
from meterlake.pipeline.usage.aggregate import AggregateResult
from meterlake.stages.bill.pricing.currencies import Currencies

# More than any sum of quantities has: it is exact.
_DIGITS: Final = 100


def quantities_of(found: AggregateResult) -> MadeAsset:
    """The quantities of a month as an asset; the control totals are sums by aggregation."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    with localcontext() as context:
        context.prec = _DIGITS
        for each in found.quantities:
            sums[each.aggregation_id] += each.value
    totals = {id_: _plain(total) for id_, total in sorted(sums.items())}
    metadata = {"snapshot": found.snapshot, "rows": len(found.rows), "totals": totals}
    return MadeAsset("quantities", found.run.name, metadata)


def _plain(number: Decimal) -> str:
    digits = f"{number:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def bills_of(billed: BillResult) -> MadeAsset:
    """The bills of a month as an asset; the control totals are sums by currency."""
    totals = {currency: f"{total:f}" for currency, total in billed.totals.items()}
    metadata = {"snapshot": billed.snapshot, "rows": len(billed.bills), "totals": totals}
    return MadeAsset("bills", days_text(billed.days), metadata)


def counts_of(billed: BillResult) -> Row:
    """What became of the bills, and how much is on none."""
    counts: Row = {}
    for each in billed.bills:
        counts[each.stored.value] = counts.get(each.stored.value, 0) + 1
    return {
        "bills": len(billed.bills),
        "of which": ", ".join(f"{count} {stored}" for stored, count in sorted(counts.items())),
        "total": ", ".join(f"{total:,f} {currency}" for currency, total in billed.totals.items()),
        "failed accounts": len(billed.failures),
        "unpriced": len(billed.unpriced),
        "snapshot": billed.snapshot,
        "job": billed.job_id,
    }


def unpriced_of(billed: BillResult) -> list[Row]:
    """Usage that no bill charges for."""
    return [
        {
            "account": each.account_code or each.account_id,
            "meter": each.meter_code,
            "aggregation": each.aggregation_code,
            "quantity": quantity_text(each.quantity, each.quantity_unit),
            "units to price": units_text(each.units, each.unit),
            "measurements": each.measurements,
            "unpriced because": each.why,
        }
        for each in billed.unpriced
    ]


def left_of(billed: BillResult, currencies: Currencies) -> list[Row]:
    """The bills that came out as other ones and were left as they were, because of their status."""
    return [
        {
            "account": each.account_code,
            "bill date": str(each.bill_date),
            "total": currencies.money(each.total, each.currency),
            "would be": currencies.money(*each.would_be),
            "status": each.stored.value,
            "what differs": each.difference,
        }
        for each in billed.bills
        if each.would_be is not None
    ]


def failed_of(billed: BillResult) -> list[str]:
    """The accounts that could not be billed, and why."""
    return [f"account {each.account_code}: {each.reason}" for each in billed.failures]
