"""What billing came to, as the runs of flows show it."""

from flows.outcome import Row
from meterlake.model.quantity_unit import quantity_text, units_text
from meterlake.pipeline.billing.run import BillResult


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


def failed_of(billed: BillResult) -> list[str]:
    """The accounts that could not be billed, and why."""
    return [f"account {each.account_code}: {each.reason}" for each in billed.failures]
