"""What aggregations mean, in plain Python: one function per reducer, none of it shared with `src`.

A function gets the measurements of one group that have a value, as (ts, uid, value) in any order;
there is at least one.
"""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from meterlake.model.catalog.catalog import Reduce

# Not a multiple of anything, so that ranks fall between the values.
PERCENTILE = Decimal("33.4")


def _sum(rows):
    total = Fraction(0)
    for _, _, value in rows:
        total += Fraction(value)
    return total


def _latest(rows):
    newest = rows[0]
    for row in rows:
        if (row[0], row[1]) > (newest[0], newest[1]):
            newest = row
    return Fraction(newest[2])


ORACLES = {
    Reduce.SUM: _sum,
    Reduce.MIN: lambda rows: min(Fraction(value) for _, _, value in rows),
    Reduce.MAX: lambda rows: max(Fraction(value) for _, _, value in rows),
    Reduce.COUNT: lambda rows: Fraction(len(rows)),
    Reduce.LATEST: _latest,
    Reduce.MEAN: lambda rows: _sum(rows) / len(rows),
    Reduce.UNIQUE: lambda rows: Fraction(len({value for _, _, value in rows})),
    # The tests ask for this percentile.
    Reduce.PERCENTILE: lambda rows: percentile(rows, PERCENTILE),
}


def percentile(rows, share):
    """The smallest value such that at least `share` percent are not larger: by counting, slowly."""
    values = sorted(Fraction(value) for _, _, value in rows)
    for value in values:
        below = sum(1 for other in values if other <= value)
        if Fraction(below, len(values)) >= Fraction(share) / 100:
            return value
    raise AssertionError(share)


def time_weighted(rows, start, end):
    """Value times microseconds, and microseconds, within a period; None if there are none.

    Args:
        rows: All measurements before the end that have a value: (ts, uid, value, ets or None).
        start: The start of the period.
        end: Its end.
    """
    last = {}
    for row in rows:
        if row[0] not in last or row[1] > last[row[0]][1]:
            last[row[0]] = row
    total, held = Fraction(0), 0
    instants = sorted(last)
    for ts, _, value, ets in last.values():
        upcoming = [other for other in instants if other > ts]
        until = ets if ets is not None else min(upcoming, default=end)
        microseconds = (min(until, end) - max(ts, start)) // timedelta(microseconds=1)
        if microseconds > 0:
            total += Fraction(value) * microseconds
            held += microseconds
    return (total, held) if held else None


def segment_of(values, fields, segments):
    """The segment that matches best; None if none does.

    Args:
        values: The value of each field, or None.
        fields: The segmented fields in their order.
        segments: Maps of field to value or `*`; a field that is left out is `*`.
    """
    best = None
    for segment in segments:
        wanted = [segment.get(field, "*") for field in fields]
        if all(want in ("*", values[field]) for field, want in zip(fields, wanted, strict=True)):
            exact = [want != "*" for want in wanted]
            if best is None or (sum(exact), exact) > best[0]:
                best = (sum(exact), exact), segment
    return best and best[1]


def tiered(units, bands):
    """Walk the units up the bands; bands are (lower, fixed, unit price), all Fractions."""
    if units < 0:
        return units * bands[0][2]
    amount = Fraction(0)
    for number, (lower, fixed, unit_price) in enumerate(bands):
        upper = bands[number + 1][0] if number + 1 < len(bands) else None
        if units > lower:
            top = units if upper is None or units < upper else upper
            amount += fixed + (top - lower) * unit_price
    return amount


def volume(units, bands):
    """All units at the price of the highest band below them."""
    if units < 0:
        return units * bands[0][2]
    reached = [band for band in bands if band[0] < units]
    if not reached:
        return Fraction(0)
    _, fixed, unit_price = reached[-1]
    return fixed + units * unit_price


def half_up(number, places):
    """Round a Fraction half away from zero."""
    scaled = abs(number) * 10**places
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    if 2 * rest >= scaled.denominator:
        whole += 1
    return Fraction(whole if number >= 0 else -whole, 10**places)
