"""What billing makes: quantities, lines with the bands they were priced in, and bills with their pins.

There are many quantities, bands and lines: they are tuples, which are made three times as fast as
frozen dataclasses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import msgspec

from meterlake.model.bills.ledger import Consumption
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.values import wire
from meterlake.model.values.entity import Record
from meterlake.model.values.ids import derived_id
from meterlake.model.values.money import (
    EXACT,
    LAKE_INTEGER_DIGITS,
    ONE,
    ZERO,
    divide,
    exact,
    plain,
    round_units,
)
from meterlake.model.values.period import Period


class LineItemType(StrEnum):
    """What a line is for.

    Their lines are made by the steps of `stages/bill/lines.py`, in the order of the steps. Nothing
    makes `CREDIT_DEDUCTION`, which the contract names.
    """

    USAGE = "USAGE"
    COUNTER_RUNNING_TOTAL_CHARGE = "COUNTER_RUNNING_TOTAL_CHARGE"
    COUNTER_ADJUSTMENT_DEBIT = "COUNTER_ADJUSTMENT_DEBIT"
    COUNTER_ADJUSTMENT_CREDIT = "COUNTER_ADJUSTMENT_CREDIT"
    STANDING_CHARGE = "STANDING_CHARGE"
    MINIMUM_SPEND = "MINIMUM_SPEND"
    MINIMUM_SPEND_REFUND = "MINIMUM_SPEND_REFUND"
    COMMITMENT_FEE = "COMMITMENT_FEE"
    BALANCE_FEE = "BALANCE_FEE"
    AD_HOC = "AD_HOC"
    USAGE_CREDIT = "USAGE_CREDIT"
    COMMITMENT_CONSUMED = "COMMITMENT_CONSUMED"
    BALANCE_CONSUMED = "BALANCE_CONSUMED"
    OVERAGE_SURCHARGE = "OVERAGE_SURCHARGE"
    OVERAGE_USAGE = "OVERAGE_USAGE"
    CREDIT_MEMO = "CREDIT_MEMO"
    DEBIT_MEMO = "DEBIT_MEMO"
    MANUAL_ADJUSTMENT = "MANUAL_ADJUSTMENT"
    CREDIT_DEDUCTION = "CREDIT_DEDUCTION"


# The lines of what was paid before: of commitments and balances.
DRAWING_TYPES: Final = (LineItemType.COMMITMENT_CONSUMED, LineItemType.BALANCE_CONSUMED)


# What a plan charges for counters.
COUNTER_TYPES: Final = (
    LineItemType.COUNTER_RUNNING_TOTAL_CHARGE,
    LineItemType.COUNTER_ADJUSTMENT_DEBIT,
    LineItemType.COUNTER_ADJUSTMENT_CREDIT,
)


# Field codes of an aggregation and their values, sorted by code.
Segment = tuple[tuple[str, str], ...]


def _unchanged(value: Any) -> Any:
    return value


class Query(NamedTuple):
    """SQL text and the values of its parameters."""

    sql: str
    parameters: dict[str, Any]


class Quantity(NamedTuple):
    """The number that one aggregation yields for one account and one period.

    Attributes:
        value: The exact number before `quantityPerUnit` and rounding.
        units: What is priced: the value per unit, rounded as the aggregation says.
        measurements: How many measurements of the meter the account has in the period, and in the
            segment if there is one; 0 if the value is the aggregation's default.
        mean: Sum and count of the values that a MEAN was divided from; of a time-weighted average
            the sum of value times microseconds, and the microseconds.
        segment: Field codes and values of the segment, sorted; None if the aggregation has none.
        selection: Which measurements count; all if None.
    """

    account_id: str
    meter_id: str
    aggregation_id: str
    aggregation_version: int
    period: Period
    value: Decimal
    units: Decimal
    unit: str
    measurements: int
    mean: tuple[Decimal, int] | None = None
    segment: Segment | None = None
    selection: UsageSelection | None = None

    @classmethod
    def of(
        cls,
        account_id: str,
        aggregation: Record[Aggregation],
        period: Period,
        value: Decimal,
        measurements: int = 0,
        mean: tuple[Decimal, int] | None = None,
    ) -> Self:
        """The quantity of a value, with its units; without a segment."""
        return cls(
            account_id=account_id,
            meter_id=aggregation.entity.meter_id,
            aggregation_id=aggregation.id,
            aggregation_version=aggregation.version,
            period=period,
            value=value,
            units=units_of(value, aggregation.entity),
            unit=aggregation.entity.unit,
            measurements=measurements,
            mean=mean,
        )

    @property
    def overflows(self) -> bool:
        """Whether the value has more integer digits than the lake keeps."""
        return _is_long(self.value)

    @property
    def stored_mean(self) -> tuple[Decimal, int] | None:
        """The sum and count as the lake keeps them: None if the sum has too many integer digits.

        A value held for a month is multiplied by some 10^12 microseconds: the sum of a value that
        fits, such as 40 terabytes, may not. The value itself was divided exactly.
        """
        return None if self.mean is None or _is_long(self.mean[0]) else self.mean


@dataclass(frozen=True, slots=True)
class MeterUsage:
    """What one account used of a meter in one period.

    Attributes:
        measurements: How many there are; 0 where a value is only held into the period.
        quantities: One for every aggregation of the meter that has values, and for every segment
            of one that is segmented.
        unmatched: What segmented aggregations yield for the measurements that match none of their
            segments; it is in no other quantity, and has no segment.
        statement: What gave the numbers; anyone can run it again.
        selection: Which measurements count; all if None.
    """

    account_id: str
    period: Period
    measurements: int
    quantities: list[Quantity] = field(default_factory=list)
    unmatched: list[Quantity] = field(default_factory=list)
    statement: Query | None = field(default=None, compare=False, repr=False)
    selection: UsageSelection | None = None


def units_of(value: Decimal, aggregation: Aggregation | CompoundAggregation) -> Decimal:
    """The units of a value: per `quantityPerUnit`, then rounded as the aggregation says."""
    per_unit = aggregation.quantity_per_unit
    return round_units(value if per_unit == ONE else divide(value, per_unit), aggregation.rounding)


class _Templates(dict[Any, wire.Template]):
    """Templates of JSON by all that is the same in it."""

    def add(self, key: Any, value: Any) -> wire.Template:
        """Make a new one; they are forgotten when there are very many."""
        if len(self) >= _TEMPLATES_MAX:
            self.clear()
        found = self[key] = wire.Template(value)
        return found


_TEMPLATES_MAX: Final = 4096
_BANDS: Final = _Templates()
_LINES: Final = _Templates()


class BandUsage(NamedTuple):
    """What one band of a pricing charges for its part of the units; exact amounts.

    Attributes:
        units: The units that fall into the band.
        quantity: The part of the quantity that they stand for; over all bands it adds up.
        fixed_price: The band's fixed price if it is charged, else 0.
    """

    lower_limit: Decimal
    units: Decimal
    quantity: Decimal
    unit_price: Decimal
    fixed_price: Decimal
    unit_subtotal: Decimal
    subtotal: Decimal
    band_id: str | None = None

    def to_wire(
        self, conversion_rate: Decimal, number: Callable[[Decimal], Any] = _unchanged
    ) -> dict[str, Any]:
        """The band as `BillLineItemPricingBandUsage`, its numbers as a function makes them."""
        converted = EXACT.multiply(self.subtotal, conversion_rate)
        members: dict[str, Any] = {
            "lowerLimit": number(self.lower_limit),
            "fixedPrice": number(self.fixed_price),
            "unitPrice": number(self.unit_price),
            "unitSubtotal": number(self.unit_subtotal),
            "bandUnits": number(self.units),
            "bandQuantity": number(self.quantity),
            "bandSubtotal": number(self.subtotal),
            "convertedBandSubtotal": number(converted),
        }
        return members if self.band_id is None else {"pricingBandId": self.band_id, **members}

    def to_json(self, conversion_rate: Decimal) -> str:
        """The same as canonical JSON."""
        template = _BANDS.get(self.band_id)
        if template is None:
            members = self.to_wire(conversion_rate, lambda _: wire.HOLE)
            template = _BANDS.add(self.band_id, members)
        digits = wire.digits
        return template.fill(
            digits(self.quantity),
            digits(self.subtotal),
            digits(self.units),
            digits(EXACT.multiply(self.subtotal, conversion_rate)),
            digits(self.fixed_price),
            digits(self.lower_limit),
            digits(self.unit_price),
            digits(self.unit_subtotal),
        )


@dataclass(frozen=True, slots=True)
class ProductName:
    """A product as lines name it."""

    id: str
    name: str
    code: str


def _product_members(name: str, product: ProductName | None) -> dict[str, str]:
    if product is None:
        return {}
    return {f"{name}Id": product.id, f"{name}Name": product.name, f"{name}Code": product.code}


# Members that tell lines of the same type, plan, subject and time apart.
_IDENTIFYING: Final = ("childAccountId",)
NO_MEMBERS: Final[Mapping[str, Any]] = MappingProxyType({})
# Keys of lines are in an index, and PostgreSQL has none of more than 2,704 bytes; texts of segments
# may be longer together.
LINE_KEY_BYTES_MAX: Final = 2_600
_ID_CHARACTERS: Final = 36


class MadeFrom(NamedTuple):
    """What a line was made from, beyond the ids that it shows anyway.

    It is kept with the line, but a line that comes out the same from something else is the same
    line: a bill does not change because another snapshot was read.

    Attributes:
        posted: What a source pays, in its own currency.
        draws: The keys of the lines that it pays for, and how much of each.
        source: The account of the ledger that it pays from.
        source_currency: Its own currency.
    """

    snapshot: int
    account_plan_id: str | None = None
    account_plan_version: int | None = None
    plan_version: int | None = None
    measurements: int | None = None
    aggregation_version: int | None = None
    meter_version: int | None = None
    pricing_version: int | None = None
    active_days: int | None = None
    period_days: int | None = None
    posted: Decimal | None = None
    draws: tuple[tuple[str, str], ...] = ()
    source: str | None = None
    source_currency: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """The provenance under camelCase names."""
        return _present(
            snapshot=self.snapshot,
            accountPlanId=self.account_plan_id,
            accountPlanVersion=self.account_plan_version,
            planVersion=self.plan_version,
            measurements=self.measurements,
            aggregationVersion=self.aggregation_version,
            meterVersion=self.meter_version,
            pricingVersion=self.pricing_version,
            activeDays=self.active_days,
            periodDays=self.period_days,
            posted=None if self.posted is None else plain(self.posted),
            draws=[list(each) for each in self.draws] or None,
            source=self.source,
            sourceCurrency=self.source_currency,
        )

    def to_json(self) -> msgspec.Raw:
        """The same as canonical JSON; it has texts and whole numbers only."""
        return wire.dumps_ready(self.to_wire())


class Line(NamedTuple):
    """One row of a bill.

    Attributes:
        plan_id: The plan that charges it; like the product, None if none does.
        subject: What is charged, by id: an aggregation, a counter, a source of money, a charge.
        members: Members of `BillLineItem` that only some types have, by wire name.
        apart: What else tells it from lines of the same type, account plan, subject and time.
        subtotal: The exact amount rounded to the pricing currency, for people to read.
        converted_subtotal: The exact amount in the billing currency, rounded once; it is what
            the customer pays.
    """

    type: LineItemType
    description: str
    plan_id: str | None
    service_period: Period
    quantity: Decimal
    units: Decimal
    unit: str
    currency: str
    subtotal: Decimal
    conversion_rate: Decimal
    converted_subtotal: Decimal
    average_unit_price: Decimal
    product: ProductName | None
    accounting_product: ProductName | None
    made_from: MadeFrom
    subject: str | None = None
    aggregation_id: str | None = None
    meter_id: str | None = None
    pricing_id: str | None = None
    bands: tuple[BandUsage, ...] = ()
    sequence_number: int = 0
    segment: Segment | None = None
    members: Mapping[str, Any] = NO_MEMBERS
    apart: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What identifies the line within its bill, however often the bill is calculated."""
        start = wire.instant(self.service_period.start)
        parts = [self.type, self.made_from.account_plan_id or "", self.subject or "", start]
        if self.segment is not None:
            parts.append(wire.dumps_sorted(dict(self.segment)))
        parts += [str(self.members[name]) for name in _IDENTIFYING if name in self.members]
        key = "/".join([*parts, *self.apart])
        if len(data := key.encode()) <= LINE_KEY_BYTES_MAX:
            return key
        beginning = data[: LINE_KEY_BYTES_MAX - _ID_CHARACTERS - 1].decode(errors="ignore")
        return f"{beginning}/{derived_id('line', key)}"

    def to_wire(self) -> dict[str, Any]:
        """The line as `BillLineItem`, without an id; `made_from` is kept beside it."""
        return self._members(_unchanged, _unchanged, self.members)

    def to_json(self) -> msgspec.Raw:
        """The same as canonical JSON, in a fraction of the time: there are very many lines."""
        if not self.members and self.segment is None:
            return msgspec.Raw(self._fill_template())
        own = wire.ready(dict(self.members)) if self.members else NO_MEMBERS
        return wire.dumps_ready(self._members(wire.number, wire.instant, own))

    def _fill_template(self) -> str:
        """The JSON of a line without members of its own; most lines of a run are of few kinds."""
        key = (
            *(self.type, self.description, self.unit, self.currency, self.service_period),
            *(self.product, self.accounting_product, self.plan_id),
            *(self.aggregation_id, self.meter_id, self.pricing_id),
        )
        template = _LINES.get(key)
        if template is None:
            # The members, with holes where lines of the same kind differ.
            template = _LINES.add(
                key,
                self._members(lambda _: wire.HOLE, wire.instant, NO_MEMBERS)
                | {"sequenceNumber": wire.HOLE, "usagePerPricingBand": [wire.HOLE]},
            )
        rate, digits = self.conversion_rate, wire.digits
        return template.fill(
            digits(self.average_unit_price),
            digits(rate),
            digits(self.converted_subtotal),
            digits(self.quantity),
            self.sequence_number,
            digits(self.subtotal),
            digits(self.units),
            ",".join([band.to_json(rate) for band in self.bands]),
        )

    def _members(
        self,
        number: Callable[[Decimal], Any],
        instant: Callable[[datetime], Any],
        own: Mapping[str, Any],
    ) -> dict[str, Any]:
        """All members, numbers and instants as functions make them, with those of the line's type."""
        members: dict[str, Any] = {
            "sequenceNumber": self.sequence_number,
            "lineItemType": self.type.value,
            "description": self.description,
            "quantity": number(self.quantity),
            "units": number(self.units),
            "unit": self.unit,
            "subtotal": number(self.subtotal),
            "currency": self.currency,
            "conversionRate": number(self.conversion_rate),
            "convertedSubtotal": number(self.converted_subtotal),
            "averageUnitPrice": number(self.average_unit_price),
            **_product_members("product", self.product),
            **_product_members("accountingProduct", self.accounting_product),
            "aggregationId": self.aggregation_id,
            "meterId": self.meter_id,
            "planId": self.plan_id,
            "pricingId": self.pricing_id,
            "usagePerPricingBand": [
                band.to_wire(self.conversion_rate, number) for band in self.bands
            ],
            "servicePeriodStartDate": instant(self.service_period.start),
            "servicePeriodEndDate": instant(self.service_period.end),
        }
        members |= own
        if self.segment is not None:
            members["segment"] = dict(self.segment)
        # Looking at each of so many costs as much as gathering them; the rest is never absent.
        if None in {self.aggregation_id, self.meter_id, self.pricing_id, self.plan_id}:
            return _present(**members)
        return members


@dataclass(frozen=True, slots=True)
class Pins:
    """What a bill was made from: the same pins give the same bill, for ever.

    Attributes:
        snapshot: The lake's snapshot.
        versions: The version of every entity that the bill used, by id.
        code: The version of meterlake.
        overrides: What the run took instead of the organization's settings, under wire names.
        returns: What goes back to commitments and balances, since lines of locked bills are lower.
    """

    snapshot: int
    versions: Mapping[str, int]
    code: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    returns: Sequence[Mapping[str, Any]] = ()

    def to_wire(self) -> dict[str, Any]:
        """The pins as plain data."""
        pins = {"snapshot": self.snapshot, "versions": dict(self.versions), "code": self.code}
        given = {"overrides": dict(self.overrides), "returns": [dict(e) for e in self.returns]}
        return pins | {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What an account owes for one period.

    It is the same bill as any other of its account, bill date, frequency and interval. What
    people did with it since (status, lock) is not here.

    Attributes:
        period: The service period, as instants.
        start_date: Its first day in `timezone`.
        end_date: The day after its last.
        draws: What its lines draw from commitments and balances.
        conversions: The rates that its lines were converted with: (from, to) to multiplier.
        grouping_key: What tells bills of contracts apart: the id of a contract or a grouping key.
    """

    account_id: str
    account_code: str
    period: Period
    start_date: date
    end_date: date
    bill_date: date
    due_date: date
    external_invoice_date: date
    timezone: str
    currency: str
    pins: Pins
    lines: tuple[Line, ...] = ()
    draws: tuple[Consumption, ...] = ()
    conversions: Mapping[tuple[str, str], Decimal] = field(default_factory=dict)
    purchase_order_number: str | None = None
    billing_frequency: BillingFrequency = BillingFrequency.MONTHLY
    bill_frequency_interval: int = 1
    grouping_key: str = ""

    @property
    def last_day(self) -> date:
        """The last day of its period."""
        return self.bill_date - timedelta(days=1)

    @property
    def total(self) -> Decimal:
        """The sum of the rounded lines."""
        with exact():
            return sum((line.converted_subtotal for line in self.lines), ZERO)

    def header(self) -> dict[str, Any]:
        """The bill as `BillResponse`, without its lines and what only the store of bills knows."""
        return _present(
            accountId=self.account_id,
            accountCode=self.account_code,
            startDate=self.start_date,
            endDate=self.end_date,
            startDateTimeUTC=self.period.start,
            endDateTimeUTC=self.period.end,
            billDate=self.bill_date,
            dueDate=self.due_date,
            externalInvoiceDate=self.external_invoice_date,
            billingFrequency=self.billing_frequency.value,
            billFrequencyInterval=self.bill_frequency_interval,
            timezone=self.timezone,
            currency=self.currency,
            currencyConversions=[
                {"from": source, "to": target, "multiplier": multiplier}
                for (source, target), multiplier in sorted(self.conversions.items())
            ],
            purchaseOrderNumber=self.purchase_order_number,
            billTotal=self.total,
        )

    def to_wire(self) -> dict[str, Any]:
        """The bill as `BillResponse`, with its lines."""
        return self.header() | {"lineItems": [line.to_wire() for line in self.lines]}


class BilledTime(NamedTuple):
    """The bill date and the service period of a bill on which something stands."""

    bill_date: date
    period: Period


@dataclass(frozen=True, slots=True)
class Failure:
    """An account whose bill could not be made, and why."""

    account_id: str
    account_code: str
    reason: str


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _is_long(number: Decimal) -> bool:
    return bool(number) and number.adjusted() >= LAKE_INTEGER_DIGITS
