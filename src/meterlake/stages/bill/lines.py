"""One charge, one line: exact until it is rounded once to the billing currency."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from decimal import Decimal
from typing import Final

from meterlake.model.billing import BandUsage, Line, LineItemType, MadeFrom, Quantity
from meterlake.model.money import LAKE_INTEGER_DIGITS, ONE, ZERO, divide, exact
from meterlake.model.period import Period, share
from meterlake.model.pricing import Pricing
from meterlake.stages.bill.currencies import Amount, Conversion, Currencies, Unbillable
from meterlake.stages.bill.terms import Charge, DueBill, Subscription

# Prices a quantity: pricing, quantity, quantity per unit.
Price = Callable[[Pricing, Quantity, Decimal], tuple[BandUsage, ...]]
# Quantities by account id, aggregation id and period.
Quantities = Mapping[tuple[str, str, Period], Quantity]

STANDING_CHARGE_UNIT: Final = "standing charge"


@dataclass(frozen=True, slots=True)
class Lines:
    """Makes the lines of bills, all of the same snapshot and prices."""

    zone: tzinfo
    snapshot: int
    currencies: Currencies
    quantities: Quantities
    price: Price

    def of(self, bill: DueBill, currency: str) -> tuple[Line, ...]:
        """The lines of a bill in their order: plan by plan, standing charges first.

        Raises:
            Unbillable: One of them cannot be made.
        """
        lines: list[Line] = []
        for subscription in bill.subscriptions:
            conversion = self.currencies.conversion(subscription.terms.currency, currency)
            for active, whole in _charged(subscription):
                counted = share(active, whole, self.zone)
                if counted[0]:
                    made = self._standing_charge(subscription, active, counted, conversion)
                    lines.append(replace(made, sequence_number=len(lines) + 1))
            for charge in bill.charges:
                quantity = self._quantity(charge) if charge.subscription is subscription else None
                if quantity is not None:
                    lines.append(self._usage(charge, quantity, conversion, len(lines) + 1))
        return tuple(lines)

    def _quantity(self, charge: Charge) -> Quantity | None:
        """What was used, or the default where nothing was; None if there is no default."""
        account_id, aggregation = charge.account_id, charge.tariff.aggregation
        quantity = self.quantities.get((account_id, aggregation.id, charge.period))
        if quantity is None and aggregation.entity.default_value is not None:
            value = aggregation.entity.default_value
            return Quantity.of(account_id, aggregation, charge.period, value)
        if quantity is not None and quantity.overflows:
            name = aggregation.entity.code or aggregation.entity.name
            raise Unbillable(f"{name!r} adds up to more than {LAKE_INTEGER_DIGITS} integer digits")
        return quantity

    def _standing_charge(
        self,
        subscription: Subscription,
        active: Period,
        counted: tuple[int, int],
        conversion: Conversion,
    ) -> Line:
        terms, (active_days, period_days) = subscription.terms, counted
        with exact():
            amount = Amount(terms.standing_charge * active_days, period_days)
        subtotal, converted = self._rounded(amount, conversion)
        return Line(
            type=LineItemType.STANDING_CHARGE,
            description=terms.standing_charge_description,
            plan_id=terms.plan.id,
            service_period=active,
            quantity=ONE,
            units=ONE,
            unit=STANDING_CHARGE_UNIT,
            currency=conversion.source,
            subtotal=subtotal,
            conversion_rate=conversion.rate,
            converted_subtotal=converted,
            average_unit_price=subtotal,
            product=terms.product,
            accounting_product=terms.standing_charge_product,
            made_from=MadeFrom(
                snapshot=self.snapshot,
                account_plan_id=subscription.account_plan.id,
                account_plan_version=subscription.account_plan.version,
                plan_version=terms.plan.version,
                active_days=active_days,
                period_days=period_days,
            ),
        )

    def _usage(
        self, charge: Charge, quantity: Quantity, conversion: Conversion, number: int
    ) -> Line:
        tariff, subscription = charge.tariff, charge.subscription
        aggregation, pricing = tariff.aggregation.entity, tariff.pricing.entity
        bands = self.price(pricing, quantity, aggregation.quantity_per_unit)
        with exact():
            amount = sum((band.subtotal for band in bands), ZERO)
        subtotal, converted = self._rounded(Amount(amount), conversion)
        return Line(
            type=LineItemType.USAGE,
            sequence_number=number,
            description=pricing.description or aggregation.name,
            plan_id=subscription.terms.plan.id,
            service_period=charge.period,
            quantity=quantity.value,
            units=quantity.units,
            unit=quantity.unit,
            currency=conversion.source,
            subtotal=subtotal,
            conversion_rate=conversion.rate,
            converted_subtotal=converted,
            average_unit_price=divide(amount, quantity.units) if quantity.units else ZERO,
            product=subscription.terms.product,
            accounting_product=tariff.accounting_product,
            aggregation_id=tariff.aggregation.id,
            meter_id=tariff.meter.id,
            pricing_id=tariff.pricing.id,
            bands=bands,
            made_from=MadeFrom(
                snapshot=self.snapshot,
                account_plan_id=subscription.account_plan.id,
                account_plan_version=subscription.account_plan.version,
                plan_version=subscription.terms.plan.version,
                measurements=quantity.measurements,
                aggregation_version=tariff.aggregation.version,
                meter_version=tariff.meter.version,
                pricing_version=tariff.pricing.version,
            ),
        )

    def _rounded(self, amount: Amount, conversion: Conversion) -> tuple[Decimal, Decimal]:
        """The amount in the pricing currency for the eye, and in the billing currency to pay."""
        subtotal = self.currencies.round(amount, conversion.source)
        if conversion.source == conversion.target:
            return subtotal, subtotal
        return subtotal, self.currencies.round(amount.times(conversion.rate), conversion.target)


def _charged(subscription: Subscription) -> Iterator[tuple[Period, Period]]:
    """For which parts of which regular periods the standing charge is due."""
    if subscription.terms.standing_charge:
        for whole in subscription.regular:
            active = whole.intersection(subscription.period.start, subscription.period.end)
            if active is not None:
                yield active, whole
