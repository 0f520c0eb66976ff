"""What plans charge in a period: their own prices before their templates', worked out once a plan."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from meterlake.model.bills.bill import NO_MEMBERS, ProductName, Segment
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter, Product
from meterlake.model.catalog.counters import Counter, CounterPricing
from meterlake.model.catalog.plans import (
    BillingFrequency,
    Plan,
    PlanGroup,
    PlanTemplate,
    Pricing,
)
from meterlake.model.configuration.organization import CustomFields, OrganizationConfig
from meterlake.model.customers.recurring_period import RECURRING
from meterlake.model.scopes.compound import CompoundScope
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Period, uncovered_periods
from meterlake.stages.bill.periods.service_periods import Every

STANDING_CHARGE: Final = "Standing Charge"


# Meter, aggregation and segment.
PricedKey = tuple[str, str, Segment | None]


@dataclass(frozen=True, slots=True)
class ApplicablePricing:
    """A pricing, and the part of a period in which it applies to a plan.

    Attributes:
        aggregation: What it prices.
        meter: The meter of the aggregation; None of a compound one.
        parts: The simple aggregations whose usage it charges for: those that a compound one reads.
    """

    pricing: Record[Pricing]
    aggregation: Record[Aggregation] | Record[CompoundAggregation]
    meter: Record[Meter] | None
    parts: tuple[Record[Aggregation], ...]
    accounting_product: ProductName
    period: Period

    @property
    def is_compound(self) -> bool:
        """Whether it prices a compound aggregation."""
        return self.meter is None

    @property
    def members(self) -> Mapping[str, Any]:
        """The members of its lines that those of a simple aggregation do not have."""
        return {"compoundAggregationId": self.aggregation.id} if self.is_compound else NO_MEMBERS

    @property
    def default_value(self) -> Decimal | None:
        """The quantity of whoever used nothing; a compound one has the defaults of its parts in it."""
        entity = self.aggregation.entity
        return entity.default_value if isinstance(entity, Aggregation) else None

    @property
    def charged_usage(self) -> Iterator[PricedKey]:
        """The usage that it charges for."""
        for part in self.parts:
            whole = self.is_compound and not part.entity.segments
            yield part.entity.meter_id, part.id, None if whole else self.segment

    @property
    def order(self) -> tuple[Any, ...]:
        """Where its lines stand among those of the plan, beside their times."""
        aggregation, pricing = self.aggregation, self.pricing
        return (
            *(aggregation.entity.code or aggregation.entity.name, aggregation.id),
            *(pricing.entity.start_date, pricing.created),
            self.segment or (),
        )

    @property
    def segment(self) -> Segment | None:
        """The segment that it prices, as quantities name it; None if it prices them all as one."""
        segment = self.pricing.entity.segment
        return tuple(sorted(segment.items())) if segment else None

    @property
    def description(self) -> str:
        """What its usage is called on a bill."""
        pricing = self.pricing.entity
        if pricing.description or not pricing.segment:
            return pricing.description or self.aggregation.entity.name
        values = ", ".join(pricing.segment[name] for name in sorted(pricing.segment))
        return f"{self.aggregation.entity.name} ({values})"


@dataclass(frozen=True, slots=True)
class ApplicableCounterPricing:
    """A pricing of a counter, and the part of a period in which it applies to a plan."""

    pricing: Record[CounterPricing]
    counter: Record[Counter]
    accounting_product: ProductName
    period: Period

    @property
    def order(self) -> tuple[Any, ...]:
        """Where its lines stand among those of the plan, beside their times."""
        counter, pricing = self.counter, self.pricing
        name = counter.entity.code or counter.entity.name
        return name, counter.id, pricing.entity.start_date, pricing.created


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """What a plan charges in a period, with what it takes over from its template.

    Attributes:
        applicable_pricings: In the order of a bill's lines.
        versions: The version of every entity that the terms come from, by id.
    """

    plan: Record[Plan]
    product: ProductName
    currency: str
    bill_frequency: BillingFrequency
    standing_charge: Decimal
    standing_charge_description: str
    standing_charge_product: ProductName
    standing_charge_in_advance: bool
    standing_charge_every: Every
    minimum_spend: Decimal | None
    minimum_spend_description: str
    minimum_spend_product: ProductName
    minimum_spend_in_advance: bool
    applicable_pricings: tuple[ApplicablePricing, ...]
    counter_pricings: tuple[ApplicableCounterPricing, ...]
    versions: dict[str, int]

    @property
    def has_periods(self) -> bool:
        """Whether it is billed by periods; else it charges for nothing."""
        return self.bill_frequency in RECURRING

    @property
    def has_spanning_bands(self) -> bool:
        """Whether the bands of any pricing reach over the whole time on the plan."""
        return any(each.pricing.entity.tiers_span_plan for each in self.applicable_pricings)


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """What a plan group charges beside its plans, or in place of them.

    Attributes:
        standing_charge: In place of those of its plans; None if it has none of its own.
        minimum_spend: On top of those of its plans.
    """

    group: Record[PlanGroup]
    standing_charge: Decimal | None
    standing_charge_description: str
    standing_charge_product: ProductName | None
    standing_charge_in_advance: bool
    minimum_spend: Decimal | None
    minimum_spend_description: str
    minimum_spend_product: ProductName | None
    minimum_spend_in_advance: bool

    @property
    def currency(self) -> str:
        """In which it charges."""
        return self.group.entity.currency


class PlanCatalog:
    """The terms of the plans of a configuration, by period."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.organization = configuration.single(OrganizationConfig).entity
        self._known: dict[tuple[str, Period], PlanTerms] = {}
        self._groups: dict[str, GroupTerms] = {}

    def terms(self, plan_id: str, period: Period) -> PlanTerms:
        """The terms of a plan in a period."""
        if (plan_id, period) not in self._known:
            plan = self.configuration.get(Plan, plan_id)
            self._known[plan_id, period] = self._work_out(plan, period)
        return self._known[plan_id, period]

    def group_terms(self, plan_group_id: str) -> GroupTerms:
        """The terms of a plan group."""
        if plan_group_id not in self._groups:
            group = self.configuration.get(PlanGroup, plan_group_id)
            own, organization = group.entity, self.organization
            self._groups[plan_group_id] = GroupTerms(
                group=group,
                standing_charge=own.standing_charge,
                standing_charge_description=own.standing_charge_description or STANDING_CHARGE,
                standing_charge_product=self.product(own.standing_charge_accounting_product_id),
                standing_charge_in_advance=_first_said(
                    own.standing_charge_bill_in_advance,
                    organization.standing_charge_bill_in_advance,
                ),
                minimum_spend=own.minimum_spend,
                minimum_spend_description=own.minimum_spend_description
                or f"{own.name} Minimum Spend Adjustment",
                minimum_spend_product=self.product(own.minimum_spend_accounting_product_id),
                minimum_spend_in_advance=_first_said(
                    own.minimum_spend_bill_in_advance, organization.minimum_spend_bill_in_advance
                ),
            )
        return self._groups[plan_group_id]

    def product(self, product_id: str | None) -> ProductName | None:
        """A product as lines name it; None without one."""
        return _name(self.configuration.get(Product, product_id)) if product_id else None

    def _work_out(self, plan: Record[Plan], period: Period) -> PlanTerms:
        template = self.configuration.get(PlanTemplate, plan.entity.plan_template_id)
        product = self.configuration.get(Product, template.entity.product_id)
        applicable_pricings = sorted(self._tariffs(plan, template, product, period), key=_place)
        own, inherited = plan.entity, template.entity
        charge = own.standing_charge
        charge_product = self._accounting(own.standing_charge_accounting_product_id, product)
        minimum_product = self._accounting(own.minimum_spend_accounting_product_id, product)
        counter_pricings = tuple(
            sorted(
                self._counter_pricings(plan, template, product, period),
                key=lambda applicable: (*applicable.order, applicable.period),
            )
        )
        used: list[Record[Any]] = [plan, template, product]
        return PlanTerms(
            plan=plan,
            product=_name(product),
            currency=inherited.currency,
            bill_frequency=inherited.bill_frequency,
            standing_charge=inherited.standing_charge if charge is None else charge,
            standing_charge_description=own.standing_charge_description
            or inherited.standing_charge_description
            or STANDING_CHARGE,
            standing_charge_product=charge_product,
            standing_charge_in_advance=_first_said(
                own.standing_charge_bill_in_advance,
                inherited.standing_charge_bill_in_advance,
                self.organization.standing_charge_bill_in_advance,
            ),
            standing_charge_every=Every(
                inherited.standing_charge_interval, inherited.standing_charge_offset
            ),
            minimum_spend=inherited.minimum_spend
            if own.minimum_spend is None
            else own.minimum_spend,
            minimum_spend_description=own.minimum_spend_description
            or inherited.minimum_spend_description
            or f"{product.entity.name} Minimum Spend Adjustment",
            minimum_spend_product=minimum_product,
            minimum_spend_in_advance=_first_said(
                own.minimum_spend_bill_in_advance,
                inherited.minimum_spend_bill_in_advance,
                self.organization.minimum_spend_bill_in_advance,
            ),
            applicable_pricings=tuple(applicable_pricings),
            counter_pricings=counter_pricings,
            versions=self._versions(
                [*used, *_records(counter_pricings)],
                applicable_pricings,
                (
                    *(charge_product, minimum_product),
                    *(each.accounting_product for each in counter_pricings),
                ),
            ),
        )

    def _counter_pricings(
        self,
        plan: Record[Plan],
        template: Record[PlanTemplate],
        product: Record[Product],
        whole: Period,
    ) -> Iterator[ApplicableCounterPricing]:
        taken: dict[tuple[Any, ...], list[Period]] = defaultdict(list)
        for pricing, period in self._counter_prices("plan_id", plan.id, whole):
            taken[pricing.entity.hiding_key].append(period)
            yield self._counter_pricing(pricing, period, product)
        for pricing, period in self._counter_prices("plan_template_id", template.id, whole):
            for part in uncovered_periods(period, taken[pricing.entity.hiding_key]):
                yield self._counter_pricing(pricing, part, product)

    def _counter_prices(
        self, field: str, id: str, whole: Period
    ) -> Iterator[tuple[Record[CounterPricing], Period]]:
        for pricing in self.configuration.where(CounterPricing, field, id):
            period = whole.intersection(pricing.entity.start_date, pricing.entity.end_date)
            if period is not None:
                yield pricing, period

    def _counter_pricing(
        self, pricing: Record[CounterPricing], period: Period, product: Record[Product]
    ) -> ApplicableCounterPricing:
        return ApplicableCounterPricing(
            pricing=pricing,
            counter=self.configuration.get(Counter, pricing.entity.counter_id),
            accounting_product=self._accounting(pricing.entity.accounting_product_id, product),
            period=period,
        )

    def _tariffs(
        self,
        plan: Record[Plan],
        template: Record[PlanTemplate],
        product: Record[Product],
        whole: Period,
    ) -> Iterator[ApplicablePricing]:
        taken: dict[tuple[Any, ...], list[Period]] = defaultdict(list)
        for pricing, period in self._prices("plan_id", plan.id, whole):
            taken[pricing.entity.hiding_key].append(period)
            yield self._tariff(pricing, period, product)
        for pricing, period in self._prices("plan_template_id", template.id, whole):
            own = taken[pricing.entity.hiding_key]
            for part in uncovered_periods(period, own):
                yield self._tariff(pricing, part, product)

    def _prices(
        self, field: str, id: str, whole: Period
    ) -> Iterator[tuple[Record[Pricing], Period]]:
        for pricing in self.configuration.where(Pricing, field, id):
            period = whole.intersection(pricing.entity.start_date, pricing.entity.end_date)
            if period is not None:
                yield pricing, whole if period == whole else period

    def _tariff(
        self, pricing: Record[Pricing], period: Period, product: Record[Product]
    ) -> ApplicablePricing:
        aggregation, parts = _priced_aggregation(pricing.entity, self.configuration)
        entity = aggregation.entity
        meter_id = entity.meter_id if isinstance(entity, Aggregation) else None
        accounting_id = pricing.entity.accounting_product_id or entity.accounting_product_id
        return ApplicablePricing(
            pricing=pricing,
            aggregation=aggregation,
            meter=None if meter_id is None else self.configuration.get(Meter, meter_id),
            parts=parts,
            accounting_product=self._accounting(accounting_id, product),
            period=period,
        )

    def _accounting(self, product_id: str | None, default: Record[Product]) -> ProductName:
        return _name(self.configuration.get(Product, product_id) if product_id else default)

    def _versions(
        self,
        used: list[Record[Any]],
        applicable_pricings: Iterable[ApplicablePricing],
        charge_products: Iterable[ProductName],
    ) -> dict[str, int]:
        records, products = list(used), list(charge_products)
        for applicable_pricing in applicable_pricings:
            records += [applicable_pricing.pricing, applicable_pricing.aggregation]
            records += applicable_pricing.parts
            meters = (part.entity.meter_id for part in applicable_pricing.parts)
            records += [self.configuration.get(Meter, each) for each in meters]
            if applicable_pricing.is_compound:
                records += self.configuration.all(CustomFields)
            products.append(applicable_pricing.accounting_product)
        records += [self.configuration.get(Product, product.id) for product in products]
        return {record.id: record.version for record in records}


def _first_said(*settings: bool | None) -> bool:
    """The first setting of a cascade that says anything."""
    return next(each for each in settings if each is not None)


def _name(product: Record[Product]) -> ProductName:
    return ProductName(product.id, product.entity.name, product.entity.code)


def _records(counter_pricings: Iterable[ApplicableCounterPricing]) -> Iterator[Record[Any]]:
    for each in counter_pricings:
        yield each.pricing
        yield each.counter


def priced_parts(configuration: Configuration) -> frozenset[str]:
    """The ids of the simple aggregations that have a price, or are parts of compounds that have."""
    pricings = configuration.all(Pricing)
    return frozenset(
        part.id for each in pricings for part in _priced_aggregation(each.entity, configuration)[1]
    )


def _priced_aggregation(
    pricing: Pricing, configuration: Configuration
) -> tuple[Record[Aggregation] | Record[CompoundAggregation], tuple[Record[Aggregation], ...]]:
    """What a pricing is for, and the simple aggregations of it."""
    if pricing.aggregation_id is not None:
        simple = configuration.get(Aggregation, pricing.aggregation_id)
        return simple, (simple,)
    assert pricing.compound_aggregation_id is not None, pricing
    compound = configuration.get(CompoundAggregation, pricing.compound_aggregation_id)
    return compound, tuple(CompoundScope(compound.entity, configuration).parts())


def _place(applicable_pricing: ApplicablePricing) -> tuple[Any, ...]:
    """Where a pricing stands among the others on a bill."""
    return (
        *applicable_pricing.order,
        applicable_pricing.period,
        applicable_pricing.pricing.id,
    )
