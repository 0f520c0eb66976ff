"""STEPS: the lines of a bill, one kind of charge after the other, and what ends each line.

A new kind of line is a module with a step and a row of STEPS.
"""

from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from typing import Final

from meterlake.model.billing import Line, MadeFrom
from meterlake.stages.bill.currencies import Amount, Conversion, Currencies
from meterlake.stages.bill.line_draft import BillStep, Charged, LineDraft, Price, Quantities
from meterlake.stages.bill.standing_charges import standing_charges
from meterlake.stages.bill.terms import DueBill, PlanPeriod
from meterlake.stages.bill.usage_charges import usage_charges

# In the order of a plan's lines: what is due in any case stands above what depends on usage.
STEPS: Final[tuple[BillStep, ...]] = (
    standing_charges,
    usage_charges,
)


@dataclass(frozen=True, slots=True)
class LineMaker:
    """Makes the lines of bills, all of the same snapshot and prices."""

    zone: tzinfo
    snapshot: int
    currencies: Currencies
    quantities: Quantities
    price: Price

    def of(self, bill: DueBill, currency: str) -> tuple[Line, ...]:
        """The lines of a bill in their order: plan by plan, step by step.

        Raises:
            CannotBill: One of them cannot be made.
        """
        lines: list[Line] = []
        for plan_period in bill.plan_periods:
            conversion = self.currencies.conversion(plan_period.terms.currency, currency)
            charged = Charged(bill, plan_period, self.quantities, self.price, self.zone)
            for step in STEPS:
                for drafted in step(charged):
                    number = len(lines) + 1
                    lines.append(self._finish(drafted, plan_period, conversion, number))
        return tuple(lines)

    def _finish(
        self, drafted: LineDraft, plan_period: PlanPeriod, conversion: Conversion, number: int
    ) -> Line:
        """Convert, round, number and pin a line."""
        subtotal, converted = self._round(drafted.amount, conversion)
        average, terms = drafted.average_unit_price, plan_period.terms
        return Line(
            type=drafted.type,
            sequence_number=number,
            description=drafted.description,
            plan_id=terms.plan.id,
            service_period=drafted.service_period,
            quantity=drafted.quantity,
            units=drafted.units,
            unit=drafted.unit,
            currency=conversion.source,
            subtotal=subtotal,
            conversion_rate=conversion.rate,
            converted_subtotal=converted,
            average_unit_price=subtotal if average is None else average,
            product=terms.product,
            accounting_product=drafted.accounting_product,
            aggregation_id=drafted.aggregation_id,
            meter_id=drafted.meter_id,
            pricing_id=drafted.pricing_id,
            bands=drafted.bands,
            made_from=MadeFrom(
                snapshot=self.snapshot,
                account_plan_id=plan_period.account_plan.id,
                account_plan_version=plan_period.account_plan.version,
                plan_version=terms.plan.version,
                **drafted.pins,
            ),
        )

    def _round(self, amount: Amount, conversion: Conversion) -> tuple[Decimal, Decimal]:
        """The amount in the pricing currency for the eye, and in the billing currency to pay."""
        subtotal = self.currencies.round(amount, conversion.source)
        if conversion.source == conversion.target:
            return subtotal, subtotal
        return subtotal, self.currencies.round(amount.times(conversion.rate), conversion.target)
