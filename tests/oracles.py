"""What aggregations mean, in plain Python: one function per reducer, none of it shared with `src`.

A function gets the measurements of one group that have a value, as (ts, uid, value) in any order;
there is at least one.
"""

from fractions import Fraction

from meterlake.model.catalog import Reduce


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
}


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
