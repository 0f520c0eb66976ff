"""Usage: quantities priced by bands, the shares of pools, and what is beyond sources.

Quantities: what was measured, or a formula gives, or stands in where nothing was used.
"""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from meterlake.model.bills.bill import Quantity
from meterlake.model.bills.explanation import DerivationRule, ExplainedNumber, number_of
from meterlake.model.calculation import parse
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.customers.accounts import Account
from meterlake.model.scopes.compound import AGGREGATION, CompoundScope, names_of
from meterlake.model.usage.quantity import quantity_unit
from meterlake.model.values.entity import Record
from meterlake.model.values.money import QUOTIENT_DIGITS, ZERO
from meterlake.model.values.period import Period
from meterlake.stages.bill.charges.line_draft import BilledQuantityKey, LineDraft
from meterlake.stages.bill.charges.pooled_usage import PoolPart, UsageShare
from meterlake.stages.bill.explain.context import (
    ExplainedBill,
    entity_facts,
    period_facts,
    pricing_facts,
)
from meterlake.stages.bill.explain.numbers import (
    cite,
    derive,
    multiply,
    omit_unknown,
    split_part,
    subtract,
    to_units,
    total,
    with_key,
)
from meterlake.stages.bill.explain.prices import explain_price
from meterlake.stages.bill.terms.terms import PricedUsage


def explain_usage(bill: ExplainedBill, charge: PricedUsage, key: str) -> ExplainedNumber:
    """What usage costs, in the currency of its plan.

    Args:
        bill: The bill.
        charge: The usage.
        key: Names the numbers of it.
    """
    if not charge.spans:
        return _price(bill, charge, charge.period, key)
    until_end, *until_start = (
        _price(bill, charge, each, f"{key} until {each.end.isoformat()}") for each in charge.spans
    )
    return subtract("since the plan's start", until_end, until_start, until_end.unit)


def _price(bill: ExplainedBill, charge: PricedUsage, period: Period, key: str) -> ExplainedNumber:
    currency = charge.plan_period.terms.currency
    units = QuantityExplainer(bill, charge).units(charge.usage_id, period)
    if units is None:
        return cite("nothing was used", ZERO, currency, period=period_facts(period))
    pricing = charge.applicable_pricing.pricing.entity
    return explain_price(
        "price",
        with_key(units, f"{key} units"),
        pricing.pricing_bands,
        pricing.cumulative,
        currency,
        **pricing_facts(charge.applicable_pricing.pricing),
        plan=entity_facts(charge.plan_period.terms.plan),
        tiersSpanPlan=pricing.tiers_span_plan or None,
    )


def explain_part(bill: ExplainedBill, part: PoolPart) -> ExplainedNumber:
    """What one account is charged of what a pool used: the exact share, in the plan's currency.

    Where the rounded amount of the pool is split, it is the rounded share in the billing currency.
    """
    whole = _whole_of_pool(bill, part)
    weights = _weights(bill, part)
    if not part.is_rounded_together:
        product = multiply("by weight", whole, weights[0], unit=whole.unit)
        return derive("exact share", DerivationRule.QUOTIENT, (product, weights[1]), whole.unit)
    value = next(each.amount for each in bill.lines().values() if each.draft.basis is part)
    return split_part("share of the pool", whole, weights, value, bill.places)


def _whole_of_pool(bill: ExplainedBill, part: PoolPart) -> ExplainedNumber:
    charge = part.whole.subject.usage
    assert charge is not None
    key = f"pool {'/'.join(map(str, charge.identity[:3]))}/{charge.period.start.isoformat()}"

    def explain() -> ExplainedNumber:
        found = explain_usage(bill, charge, key)
        if part.is_rounded_together:
            found = bill.finish("pool", found, charge.plan_period.terms.currency)
        return with_key(found, key, "amount of the pool")

    return bill.explain_once(key, explain)


def _weights(bill: ExplainedBill, part: PoolPart) -> tuple[ExplainedNumber, ExplainedNumber]:
    """The weight of an account, and the sum of those of all."""
    charge = part.whole.subject.usage
    assert charge is not None
    # Its weight is its quantity, unless they sum to 0.
    own = _weight(part.share)
    if part.share.quantity is not None and part.share.quantity.value == part.share.weight:
        explainer = QuantityExplainer(bill, charge)
        found = explainer.quantity(part.share.usage_id, charge.period, default=False)
        own = own if found is None else found
    key = f"weights {'/'.join(map(str, charge.identity[:3]))}/{charge.period.start.isoformat()}"

    def explain() -> ExplainedNumber:
        return total("quantities of all accounts", map(_weight, part.shares), own.unit, key)

    return own, bill.explain_once(key, explain)


def _weight(share: UsageShare) -> ExplainedNumber:
    return cite(f"quantity of {share.account.entity.code}", share.weight)


def explain_drafted_usage(bill: ExplainedBill, drafted: LineDraft, key: str) -> ExplainedNumber:
    """What a line of usage comes to before it is converted and rounded."""
    if isinstance(drafted.basis, PoolPart):
        return explain_part(bill, drafted.basis)
    if drafted.subject.usage is None:
        # Nobody has said how lines of this kind are explained.
        amount = Fraction(drafted.charged.amount.dividend) / drafted.charged.amount.divisor
        return cite("exact amount", number_of(amount)[0])
    return replace(explain_usage(bill, drafted.subject.usage, key), name="exact amount")


class QuantityExplainer:
    """Explains what a charge prices."""

    def __init__(self, bill: ExplainedBill, charge: PricedUsage) -> None:
        """Begin.

        Args:
            bill: The bill.
            charge: Says of which aggregation, segment and measurements.
        """
        self.bill = bill
        self.charge = charge
        self.applicable = charge.applicable_pricing
        self.selection = charge.plan_period.usage.selection

    def units(
        self, usage_id: str, period: Period, *, default: bool = True
    ) -> ExplainedNumber | None:
        """The units that somebody used in a time; None if nothing was and nothing stands in.

        Args:
            usage_id: Whose: of an account or a pool.
            period: When.
            default: Whether the default value stands in where nothing was used.
        """
        entity = self.applicable.aggregation.entity
        quantity = self.quantity(usage_id, period, default=default)
        if quantity is None:
            return None
        return to_units(quantity, entity.quantity_per_unit, entity.rounding, entity.unit)

    def quantity(
        self, usage_id: str, period: Period, *, default: bool = True
    ) -> ExplainedNumber | None:
        """The same before it is divided and rounded."""
        record, segment = self.applicable.aggregation, self.applicable.segment
        found = self.bill.inputs.quantities.get(
            BilledQuantityKey(usage_id, record.id, period, segment, self.selection)
        )
        if found is None:
            value = self.applicable.default_value if default else None
            unit = quantity_unit(record.entity) or ""
            facts = {"aggregation": entity_facts(record), "period": period_facts(period)}
            return None if value is None else cite("default value", value, unit, **facts)
        if isinstance(record.entity, CompoundAggregation):
            scope = CompoundScope(record.entity, self.bill.inputs.configuration)
            names = names_of(parse(record.entity.calculation))
            fields = {**scope.constants(), **scope.own_defaults}
            fields |= self.bill.fields(record, (found.account_id, found.period))
            shown = {name: each for name, each in fields.items() if name in names}
            parts = [self._part(each, found) for each in scope.parts()]
            parts += [cite(name, each) for name, each in shown.items() if isinstance(each, Decimal)]
            texts = {name: each for name, each in shown.items() if not isinstance(each, Decimal)}
            return ExplainedNumber(
                name=f"{record.entity.code or record.entity.name}",
                value=found.value,
                unit=quantity_unit(record.entity) or "",
                rule=DerivationRule.CALCULATION,
                operands=tuple(parts),
                options={
                    "formula": record.entity.calculation,
                    **({"texts": texts} if texts else {}),
                },
                facts={"aggregation": entity_facts(record), "period": period_facts(found.period)},
            )
        return self._explain_measured(record, found)

    def _explain_measured(self, record: Record[Any], found: Quantity) -> ExplainedNumber:
        aggregation: Aggregation = record.entity
        meter = self.bill.inputs.configuration.get(Meter, aggregation.meter_id)
        unit = quantity_unit(aggregation, meter.entity) or aggregation.unit
        kind = aggregation.aggregation.value
        name = aggregation.code or aggregation.name
        measured = ExplainedNumber(
            name=f"{kind} {name}",
            value=found.value,
            unit=unit,
            rule=DerivationRule.MEASURED,
            facts=omit_unknown(
                {
                    "aggregation": entity_facts(record),
                    "kind": record.entity.aggregation.value,
                    "field": record.entity.target_field,
                    "meter": entity_facts(meter),
                    "accounts": list(self._accounts(found.account_id, found.period)),
                    "period": period_facts(found.period),
                    "segment": None if found.segment is None else dict(found.segment),
                    "filters": None
                    if found.selection is None
                    else [
                        {
                            "field": each.dimension,
                            "include": list(each.included),
                            "exclude": list(each.excluded),
                        }
                        for alternative in found.selection.alternatives
                        for each in alternative
                    ],
                    "measurementCount": found.measurements,
                    "snapshot": self.bill.inputs.snapshot,
                }
            ),
            source=found,
        )
        if found.mean is None:
            return measured
        total, count = found.mean
        parts = [
            ExplainedNumber(name=name, value=each, rule=DerivationRule.MEASURED)
            for name, each in zip(_PARTS[kind], (total, Decimal(count)), strict=True)
        ]
        options = {"digits": QUOTIENT_DIGITS}
        rule = DerivationRule.QUOTIENT
        return replace(measured, rule=rule, operands=tuple(parts), options=options)

    def _accounts(self, usage_id: str, period: Period) -> Iterator[str]:
        """The codes of the accounts whose usage it is."""
        pool = self.charge.plan_period.pool
        if pool is None:
            yield self.bill.inputs.configuration.get(Account, usage_id).entity.code
            return
        for each in pool.used_members(period):
            if usage_id in {pool.usage_id, each.usage_id}:
                yield each.account.entity.code

    def _part(self, part: Record[Aggregation], whole: Quantity) -> ExplainedNumber:
        segment = whole.segment if part.entity.segments else None
        found = self.bill.inputs.quantities.get(
            BilledQuantityKey(whole.account_id, part.id, whole.period, segment, whole.selection)
        )
        name = f"{AGGREGATION}.{part.entity.code}"
        if found is None:
            default, of = part.entity.default_value, entity_facts(part)
            return cite(name, default, aggregation=of, note="nothing was used")
        return replace(self._explain_measured(part, found), name=name)


_PARTS = {
    "MEAN": ("sum of the values", "count of the values"),
    "TIME_WEIGHTED_AVERAGE": ("sum of value × microseconds", "microseconds"),
}
