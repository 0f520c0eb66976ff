"""Quantities: what was measured, or a formula gives, or stands in where nothing was used."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from meterlake.model.bills.bill import Quantity
from meterlake.model.bills.explanation import DerivationRule, ExplainedNumber
from meterlake.model.calculation import parse
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.scopes.compound import AGGREGATION, CompoundScope, names_of
from meterlake.model.usage.quantity_unit import quantity_unit
from meterlake.model.values.entity import Record
from meterlake.model.values.money import QUOTIENT_DIGITS
from meterlake.model.values.period import Period
from meterlake.stages.bill.charges.line_draft import BilledQuantityKey
from meterlake.stages.bill.explain.context import ExplainedBill, entity_facts, period_facts
from meterlake.stages.bill.explain.numbers import cite, omit_unknown, to_units
from meterlake.stages.bill.terms.terms import PricedUsage


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
            return self._explain_calculated(record, found)
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
            facts=omit_unknown(self._facts(record, meter, found)),
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

    def _facts(
        self, record: Record[Aggregation], meter: Record[Meter], found: Quantity
    ) -> dict[str, Any]:
        return {
            "aggregation": entity_facts(record),
            "kind": record.entity.aggregation.value,
            "field": record.entity.target_field,
            "meter": entity_facts(meter),
            "accounts": list(self._accounts(found.account_id, found.period)),
            "period": period_facts(found.period),
            "segment": None if found.segment is None else dict(found.segment),
            "filters": None if found.selection is None else _filters(found.selection),
            "measurementCount": found.measurements,
            "snapshot": self.bill.inputs.snapshot,
        }

    def _accounts(self, usage_id: str, period: Period) -> Iterator[str]:
        """The codes of the accounts whose usage it is."""
        pool = self.charge.plan_period.pool
        if pool is None:
            yield self.bill.inputs.configuration.get(Account, usage_id).entity.code
            return
        for each in pool.used_members(period):
            if usage_id in {pool.usage_id, each.usage_id}:
                yield each.account.entity.code

    def _explain_calculated(
        self, record: Record[CompoundAggregation], found: Quantity
    ) -> ExplainedNumber:
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
            options={"formula": record.entity.calculation, **({"texts": texts} if texts else {})},
            facts={"aggregation": entity_facts(record), "period": period_facts(found.period)},
        )

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


def _filters(selection: UsageSelection) -> list[dict[str, Any]]:
    return [
        {"field": each.dimension, "include": list(each.included), "exclude": list(each.excluded)}
        for found in selection.alternatives
        for each in found
    ]
