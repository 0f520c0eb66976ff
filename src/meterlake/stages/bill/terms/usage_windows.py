"""Whose usage of which times the bills of a run need, so that each meter is read as seldom as possible.

Usage that no bill charges for: reported, so that it is never lost.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any, Final

from meterlake.model.bills.bill import MeterUsage, Quantity
from meterlake.model.bills.billed_usage import UsageOwner, UsageWindows
from meterlake.model.bills.unbilled import Uncovered, Unpriced
from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.usage.quantity import quantity_unit
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Period, local_date, uncovered_periods
from meterlake.stages.bill.hierarchies import AccountPool
from meterlake.stages.bill.pricing.applicable_pricing import PricedKey
from meterlake.stages.bill.terms.no_bill import describe_no_periods
from meterlake.stages.bill.terms.terms import (
    AccountTerms,
    BillingTerms,
    UsagePart,
    UsagePricing,
    distinct_charges,
)


class PriceGaps:
    """Where in a month usage has no price; worked out once for accounts of the same plans."""

    def __init__(self, month: Period) -> None:
        self.month = month
        self._known: dict[tuple[UsagePricing, ...], Mapping[PricedKey, Sequence[UsagePart]]] = {}

    def of(self, account_terms: AccountTerms) -> Mapping[PricedKey, Sequence[UsagePart]]:
        """The parts of the month without a price, of everything that has one at some time.

        Where only contracts with usage filters have a price, what passes none of them has none.
        """
        usage = account_terms.priced_usage
        found = self._known.get(usage)
        if found is None:
            # The periods in which there is a price, and for which measurements.
            covered = defaultdict(list)
            for each in usage:
                for pricing, period in each.parts:
                    for key in pricing.charged_usage:
                        covered[key].append(UsagePart(period, each.selection))
            found = self._known[usage] = {
                key: tuple(_uncovered_parts(self.month, parts)) for key, parts in covered.items()
            }
        return found


def _uncovered_parts(month: Period, covered: Iterable[UsagePart]) -> Iterator[UsagePart]:
    covered = list(covered)
    whole = (each.period for each in covered if each.selection is None)
    filtered = [each for each in covered if each.selection is not None]
    for gap in uncovered_periods(month, whole):
        yield from _rests(gap, filtered) if filtered else [UsagePart(gap)]


def _rests(gap: Period, filtered: Iterable[UsagePart]) -> Iterator[UsagePart]:
    """The parts of a time in each of which the same filters hold, with what passes none of them."""
    within = [
        (each.selection, period)
        for each in filtered
        if each.selection and (period := gap.intersection(each.period.start, each.period.end))
    ]
    edges = {gap.start, gap.end, *(at for _, each in within for at in (each.start, each.end))}
    held = [
        (Period(start, end), frozenset(s for s, each in within if start in each))
        for start, end in pairwise(sorted(edges))
    ]
    for selections, periods in groupby(held, key=lambda each: each[1]):
        first, *others = [period for period, _ in periods]
        rest = UsageSelection.rest_of(selections) if selections else None
        yield UsagePart(Period(first.start, others[-1].end if others else first.end), rest)


# By the ids of the aggregations that are needed, whose usage and which parts of it.
_UsageParts = dict[frozenset[str], list[tuple[str, UsagePart]]]
# The same by meter, and by whether all measurements count.
_PartsOfMeters = dict[tuple[str, bool], _UsageParts]
# By the id of usage of pools, whose measurements count when.
_PoolTimes = Mapping[str, Sequence[tuple[str, str, Period]]]
# By meter, whose usage and which part of it, the ids of the aggregations.
_Needs = Mapping[tuple[str, tuple[str, UsagePart]], set[str]]


def find_windows(
    account_terms_of: Mapping[str, AccountTerms], month: Period
) -> dict[str, list[UsageWindows]]:
    """What bills charge, and where the month has no price, but for the month as a whole."""
    gaps, known = PriceGaps(month), account_terms_of.values()
    found = _parts_of_unrelated((each for each in known if each.is_alone), gaps)
    related = [each for each in known if not each.is_alone]
    needs = _needs_of_related(related, account_terms_of, gaps)
    times = {usage_id: rows for pool in _pools(related) for usage_id, rows in pool.times()}
    for (meter_id, pair), ids in needs.items():
        if pair[0] not in times:
            by_ids = found[meter_id, pair[1].selection is None]
            by_ids.setdefault(frozenset(ids), []).append(pair)
    windows: dict[str, list[UsageWindows]] = defaultdict(list)
    for (meter_id, _), by_ids in found.items():
        windows[meter_id] += _join_windows(by_ids)
    for meter_id, pooled in _pooled_windows(needs, times):
        windows[meter_id].append(pooled)
    return windows


def _parts_of_unrelated(
    account_terms_of: Iterable[AccountTerms], gaps: PriceGaps
) -> _PartsOfMeters:
    """What accounts need by themselves, worked out once for those that are charged alike."""
    alike: dict[Any, list[AccountTerms]] = defaultdict(list)
    for each in account_terms_of:
        alike[each.usage_pricings, each.source_periods].append(each)
    found: _PartsOfMeters = defaultdict(dict)
    for same in alike.values():
        needs: dict[tuple[str, UsagePart], set[str]] = defaultdict(set)
        for meter_id, aggregation_id, part in _parts(same[0], gaps):
            needs[meter_id, part].add(aggregation_id)
        for (meter_id, part), ids in needs.items():
            by_ids = found[meter_id, part.selection is None]
            by_ids.setdefault(frozenset(ids), []).extend((each.account.id, part) for each in same)
    return found


def _needs_of_related(
    related: Sequence[AccountTerms], known: Collection[str], gaps: PriceGaps
) -> _Needs:
    """What accounts with parents or children need: several may need the same."""
    needs: dict[tuple[str, tuple[str, UsagePart]], set[str]] = defaultdict(set)
    for each in related:
        for (meter_id, aggregation_id, _), uncovered in gaps.of(each).items():
            for part in uncovered:
                needs[meter_id, (each.account.id, part)].add(aggregation_id)
    for charge in distinct_charges(related):
        parts = list(charge.usage_parts)
        for meter_id, aggregation_id, _ in charge.applicable_pricing.charged_usage:
            for pair in parts:
                needs[meter_id, pair].add(aggregation_id)
    # The month as a whole is read of all accounts that the run is about.
    month = UsagePart(gaps.month)
    return {
        (meter_id, pair): ids
        for (meter_id, pair), ids in needs.items()
        if pair[1] != month or pair[0] not in known
    }


def _pooled_windows(needs: _Needs, times: _PoolTimes) -> Iterator[tuple[str, UsageWindows]]:
    """By meter, one scan for all that pools need of it, and one for what they need by filters."""
    pairs_of: dict[tuple[str, bool], list[tuple[str, UsagePart]]] = defaultdict(list)
    ids_of: dict[tuple[str, bool], set[str]] = defaultdict(set)
    for (meter_id, pair), ids in needs.items():
        if pair[0] in times:
            key = (meter_id, pair[1].selection is None)
            pairs_of[key].append(pair)
            ids_of[key] |= ids
    for key, pairs in pairs_of.items():
        usage_ids = dict.fromkeys(usage_id for usage_id, _ in pairs)
        rows = tuple(row for usage_id in usage_ids for row in times[usage_id])
        yield key[0], _window(pairs, frozenset(ids_of[key]))._replace(pools=rows)


def _pools(account_terms_of: Iterable[AccountTerms]) -> Iterable[AccountPool]:
    """The pools whose usage is charged on any bill."""
    found = {
        charge.plan_period.pool.usage_id: charge.plan_period.pool
        for charge in distinct_charges(each for each in account_terms_of if not each.is_alone)
        if charge.plan_period.pool is not None
    }
    return found.values()


def find_usage_owners(account_terms_of: Iterable[AccountTerms]) -> dict[str, UsageOwner]:
    """Of a pool the account on the plan; of a part the account itself, and the plans of the pool."""
    found = {}
    for pool in _pools(account_terms_of):
        owner_id = pool.owner.id
        found[pool.usage_id] = UsageOwner(owner_id, owner_id)
        for each in pool.members:
            found[each.usage_id] = UsageOwner(each.account.id, owner_id)
    return found


def _join_windows(by_ids: _UsageParts) -> list[UsageWindows]:
    """The most frequent case by itself, and all others together: each takes a scan."""
    first, *others = sorted(by_ids, key=lambda ids: -len(by_ids[ids]))
    windows = [_window(by_ids[first], first)]
    if others:
        rest = [pair for ids in others for pair in by_ids[ids]]
        windows.append(_window(rest, frozenset().union(*others)))
    return windows


def _window(parts: list[tuple[str, UsagePart]], aggregation_ids: frozenset[str]) -> UsageWindows:
    """The window of parts of which all have a selection, or none."""
    selections = tuple(part.selection for _, part in parts if part.selection is not None)
    pairs = [(usage_id, part.period) for usage_id, part in parts]
    return UsageWindows(pairs, aggregation_ids, selections)


def _parts(account_terms: AccountTerms, gaps: PriceGaps) -> Iterator[tuple[str, str, UsagePart]]:
    """Meter, aggregation and time of what an account's bills need beside the whole month."""
    month = UsagePart(gaps.month)
    for (meter_id, aggregation_id, _), uncovered in gaps.of(account_terms).items():
        yield from ((meter_id, aggregation_id, part) for part in uncovered if part != month)
    for bill in account_terms.bills:
        for charge in bill.charges:
            pricing = charge.applicable_pricing
            for _, part in charge.usage_parts:
                if part != month:
                    for meter_id, aggregation_id, _ in pricing.charged_usage:
                        yield meter_id, aggregation_id, part


# A reason, and more about it.
_Why = tuple[Uncovered, str | None]


def unpriced_usage(
    terms: BillingTerms, folded: Mapping[str, Sequence[MeterUsage]]
) -> Iterator[Unpriced]:
    """Report what accounts used while nothing gave it a price that is billed.

    Usage of an aggregation has a price where the aggregation has one, or a compound one that reads
    it. An aggregation that is priced nowhere is there to be looked at; only a meter of which nothing
    is priced anywhere is reported, without an aggregation.

    Args:
        terms: What holds in the month.
        folded: By meter, what was used in the month and in its windows.
    """
    for meter_id, used in sorted(folded.items()):
        meter = terms.configuration.get(Meter, meter_id)
        aggregations = terms.configuration.where(Aggregation, "meter_id", meter_id)
        priced = {a.id: a for a in aggregations if a.id in terms.priced}
        report = _Report(terms, meter, priced, PriceGaps(terms.period))
        for each in used:
            if each.account_id in terms.usage_owners:
                continue  # What its members used is there, too.
            # Of others, what the bills of the run need of them is read, and no more.
            if not terms.restricted or each.account_id in terms.account_terms_of:
                yield from report.of(each)


@dataclass(frozen=True, slots=True)
class _Report:
    """The report on one meter.

    Attributes:
        priced: Those of its aggregations that are priced anywhere, alone or as parts.
    """

    terms: BillingTerms
    meter: Record[Meter]
    priced: Mapping[str, Record[Aggregation]]
    gaps: PriceGaps

    def of(self, used: MeterUsage) -> Iterator[Unpriced]:
        if not self.priced:
            if used.period == self.terms.period and used.selection is None:
                yield self._row(used, (Uncovered.METER_NOT_PRICED, None))
            return
        account_terms = self.terms.account_terms_of.get(used.account_id)
        gaps = self.gaps.of(account_terms) if account_terms else {}
        whole = (UsagePart(self.terms.period),)
        part = UsagePart(used.period, used.selection)
        for quantity in used.quantities:
            key = (self.meter.id, quantity.aggregation_id, quantity.segment)
            if part in gaps.get(key, whole) and quantity.aggregation_id in self.priced:
                yield self._row(used, self._reason(account_terms, used, key), quantity)

    def _row(self, used: MeterUsage, why: _Why, quantity: Quantity | None = None) -> Unpriced:
        account_terms = self.terms.account_terms_of.get(used.account_id)
        row = Unpriced(
            account_id=used.account_id,
            account_code=account_terms.account.entity.code if account_terms else None,
            meter_id=self.meter.id,
            meter_code=self.meter.entity.code,
            period=used.period,
            measurements=used.measurements,
            reason=why[0],
            detail=why[1],
        )
        if quantity is None:
            return row
        aggregation = self.priced[quantity.aggregation_id].entity
        return replace(
            row,
            aggregation_id=quantity.aggregation_id,
            aggregation_code=aggregation.code,
            quantity=quantity.value,
            quantity_unit=quantity_unit(aggregation, self.meter.entity),
            units=quantity.units,
            unit=quantity.unit,
        )

    def _reason(self, account_terms: AccountTerms | None, used: MeterUsage, key: PricedKey) -> _Why:
        reason, detail = _reason(account_terms, used, key)
        if account_terms is None or detail or reason not in _BEFORE:
            return reason, detail
        starts = [
            part.start
            for each in account_terms.priced_usage
            for pricing, part in each.parts
            if key in pricing.charged_usage and part.start >= used.period.end
        ]
        if not starts:
            return reason, None
        first = min(starts)
        what = "plan" if any(each.start == first for each in account_terms.held) else "price"
        day = local_date(first, self.terms.zone)
        return reason, f"used before the {what} began on {day.day} {day:%b %Y}"


# Reasons that a later plan or price may explain.
_BEFORE: Final = (Uncovered.NO_PRICING, Uncovered.NO_ACCOUNT_PLAN)


def _reason(account_terms: AccountTerms | None, used: MeterUsage, key: PricedKey) -> _Why:
    if account_terms is None:
        return Uncovered.NO_ACCOUNT, None
    if used.selection is not None:
        return Uncovered.FILTERED, "it passes the usage filters of no contract"
    period = used.period
    for each in account_terms.unbilled:
        if any(
            key in pricing.charged_usage and part.intersection(period.start, period.end)
            for pricing, part in each.usage.parts
        ):
            return Uncovered.NO_BILLING_PERIODS, describe_no_periods(each.terms)
    subscribed = any(each.intersection(period.start, period.end) for each in account_terms.held)
    return (Uncovered.NO_PRICING if subscribed else Uncovered.NO_ACCOUNT_PLAN), None
