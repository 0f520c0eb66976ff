"""Prices of plans multiplied from a day on: what each band costs then, and the documents for it.

A price in force on the day ends there, and one with the new bands begins; a price that begins on
the day gets the new bands itself. A plan may get a price of its own in place of its template's.
Prices that begin later, and credits, stay as they are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final, NamedTuple

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation
from meterlake.model.catalog.counters import Counter, CounterPricing
from meterlake.model.catalog.plans import (
    Plan,
    PlanTemplate,
    PriceChange,
    PriceFactor,
    PriceScale,
    Pricing,
    PricingBand,
    PricingType,
)
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Invalid
from meterlake.model.resources import code_of, resource_of
from meterlake.model.resources.proposal import Document
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.ids import CODE_MAX
from meterlake.model.values.money import RoundingMode, exact, plain, round_amount
from meterlake.model.values.period import format_instant, local_date, midnight, zone
from meterlake.stages.config.template_prices import (
    KeptCharge,
    SharedTemplate,
    inherited_prices,
    kept_charges,
    shared_templates,
)

# As many decimals more than the old price has, unless the scale says how many.
_MORE_DECIMALS: Final = 2
_DECIMALS_MAX: Final = 20
_MARK: Final = 16


class ScaledBand(NamedTuple):
    """A band with its old and its new prices."""

    old: PricingBand
    new: PricingBand

    def to_wire(self) -> dict[str, Any]:
        """The band under camelCase names."""
        return {
            "lowerLimit": self.old.lower_limit,
            "fixedPrice": {"old": self.old.fixed_price, "new": self.new.fixed_price},
            "unitPrice": {"old": self.old.unit_price, "new": self.new.unit_price},
        }


@dataclass(frozen=True, slots=True)
class ScaledPrice:
    """A price that changes.

    Attributes:
        record: The price as it is.
        plan: The code of its plan or template.
        priced: What it prices: the code, or the name of what has none.
        name: What people call that.
        currency: The currency of its amounts.
        by: The factor; None if a table has the new prices themselves.
        bands: Its bands.
        overage: Its bands beyond prepaid money.
        own_of: The plan that gets a price of its own in place of this one of its template, by id.
        template: The code of that template.
    """

    record: Record[Any]
    plan: str
    priced: str
    name: str
    currency: str
    by: Decimal | None
    bands: tuple[ScaledBand, ...]
    overage: tuple[ScaledBand, ...] = ()
    own_of: str = ""
    template: str = ""

    @property
    def written(self) -> Record[Any]:
        """The price, or the new one of the plan itself, that changes."""
        if not self.own_of:
            return self.record
        owner = {"plan_id": self.own_of, "plan_template_id": None}
        return replace(self.record, entity=self.record.entity.model_copy(update=owner))

    def to_wire(self) -> dict[str, Any]:
        """The price under camelCase names."""
        segment = getattr(self.record.entity, "segment", None)
        return {
            "kind": resource_of(self.record.entity).name,
            "id": self.record.id,
            "version": self.record.version,
            "plan": self.plan,
            "priced": self.priced,
            "name": self.name,
            **({"segment": segment} if segment else {}),
            "currency": self.currency,
            **({} if self.by is None else {"by": self.by}),
            **({"template": self.template} if self.template else {}),
            "startDate": self.record.entity.start_date,
            "bands": [each.to_wire() for each in self.bands],
            "overageBands": [each.to_wire() for each in self.overage],
        }


class UnchangedPrice(NamedTuple):
    """A price of the plans that stays as it is, and why."""

    record: Record[Any]
    plan: str
    priced: str
    reason: str

    def to_wire(self) -> dict[str, Any]:
        """The price under camelCase names."""
        return {
            "kind": resource_of(self.record.entity).name,
            "id": self.record.id,
            "plan": self.plan,
            "priced": self.priced,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class ScaledPrices:
    """What a scale comes to.

    Attributes:
        start: When the new prices begin.
        day: The day that begins then.
        changed: The prices that change.
        unchanged: The others of the plans.
        rounding: How new prices are rounded, in words.
        templates: Whose prices plans share, and which plans and customers that concerns.
        charges: The charges of the plans that stay as they are.
    """

    start: datetime
    day: date
    changed: tuple[ScaledPrice, ...]
    unchanged: tuple[UnchangedPrice, ...]
    rounding: str
    templates: tuple[SharedTemplate, ...]
    charges: tuple[KeptCharge, ...]

    @property
    def versions(self) -> Mapping[str, int]:
        """The versions of the prices that change, by id."""
        return {each.record.id: each.record.version for each in self.changed}

    def to_wire(self) -> dict[str, Any]:
        """The changes under camelCase names."""
        return {
            "from": self.start,
            "rounding": self.rounding,
            "review": self.review,
            "changed": [each.to_wire() for each in self.changed],
            "unchanged": [each.to_wire() for each in self.unchanged],
            "templates": [each.to_wire() for each in self.templates],
            "charges": [each.to_wire() for each in self.charges],
        }

    @property
    def review(self) -> str:
        """What tells these changes from others: whoever applies them says which ones were looked at."""
        said = [self.start, self.versions, [each.to_wire() for each in self.changed]]
        return sha256(wire.dumps_sorted(wire.to_plain(said)).encode()).hexdigest()[:_MARK]

    def documents(self) -> list[Document]:
        """The same as configuration files say it: prices that end, and prices that begin."""
        content: dict[str, list[Any]] = {}
        looked_at: set[str] = set()
        for each in self.changed:
            kind = resource_of(each.record.entity).name
            bands = {"pricing_bands": tuple(band.new for band in each.bands)}
            if each.overage:
                bands["overage_pricing_bands"] = tuple(band.new for band in each.overage)
            rows = content.setdefault(kind, [])
            if not each.own_of:
                rows.extend(_following(each.record, bands, self.start, self.day))
                continue
            # The template's price stays; that it is named says that it was looked at.
            if each.record.id not in looked_at:
                looked_at.add(each.record.id)
                rows.append({"id": each.record.id, **_wire(each.record.entity)})
            code = each.record.entity.code and f"{each.record.entity.code}-{each.plan}"
            new = {"code": following_code(code, self.day), "start_date": self.start, **bands}
            rows.append(_wire(each.written.entity.model_copy(update=new)))
        return [Document("prices", content)] if content else []


def scale_prices(configuration: Configuration, scale: PriceScale) -> ScaledPrices:
    """Multiply the prices of plans.

    Raises:
        Invalid: A plan or a template does not exist, or nothing says by how much.
    """
    settings = next(configuration.all(OrganizationConfig), None)
    tz = zone(settings.entity.timezone if settings else "UTC")
    start = midnight(scale.start, tz)
    owners = dict(_owners(configuration, scale.plans))
    changed: list[ScaledPrice] = []
    unchanged: list[UnchangedPrice] = []
    found = list(_prices(configuration, owners))
    if scale.own_prices:
        found += _inherited(configuration, owners, start)
    for record, plan, currency, own_of in found:
        priced, name = name_priced(configuration, record.entity)
        change = _change(scale, plan, priced)
        reason = _reason_to_stay(record.entity, change, start)
        if reason:
            unchanged.append(UnchangedPrice(record, plan, priced, reason))
            continue
        bands = _scaled(
            record.entity.pricing_bands, _by_band(change, record.entity), scale.decimals
        )
        overage = _scaled(
            getattr(record.entity, "overage_pricing_bands", ()),
            _BandChange(change.by, {}),
            scale.decimals,
        )
        if all(each.old == each.new for each in (*bands, *overage)):
            unchanged.append(UnchangedPrice(record, plan, priced, "nothing changes"))
            continue
        template = _template_code(configuration, record) if own_of else ""
        changed.append(
            ScaledPrice(
                *(record, plan, priced, name, currency, change.by, bands, overage),
                *(own_of, template),
            )
        )
    decimals = "two decimals more than the old price has"
    if scale.decimals is not None:
        decimals = f"{scale.decimals} decimals"
    rounding = f"half up, to {decimals}"
    return ScaledPrices(
        *(start, scale.start, tuple(changed), tuple(unchanged), rounding),
        tuple(shared_templates(configuration, owners, start)),
        tuple(kept_charges(configuration, owners)),
    )


def _owners(
    configuration: Configuration, names: Sequence[str]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """The plans and templates of some codes: the id, with the code and the currency."""
    for number, name in enumerate(names):
        plan = configuration.find(Plan, name)
        template = configuration.find(PlanTemplate, name)
        if plan is None and template is None:
            rule = "it must be the code of a plan or of a plan template"
            raise Invalid(f"plans[{number}]", name, rule)
        if plan is not None:
            of = configuration.get(PlanTemplate, plan.entity.plan_template_id)
            yield plan.id, (name, of.entity.currency)
        if template is not None:
            yield template.id, (name, template.entity.currency)


class _Price(NamedTuple):
    """A price with the code of its plan, or of the plan that gets its own, and its currency."""

    record: Record[Any]
    plan: str
    currency: str
    own_of: str = ""


def _prices(
    configuration: Configuration, owners: Mapping[str, tuple[str, str]]
) -> Iterator[_Price]:
    """The prices of plans and templates, plan by plan."""
    found: list[Record[Any]] = [*configuration.all(Pricing), *configuration.all(CounterPricing)]
    order = {id_: number for number, id_ in enumerate(owners)}
    owned = [(each.entity.plan_id or each.entity.plan_template_id or "", each) for each in found]
    for id_, each in sorted(
        (pair for pair in owned if pair[0] in owners),
        key=lambda pair: (order[pair[0]], pair[1].entity.start_date, pair[1].id),
    ):
        yield _Price(each, *owners[id_])


def _inherited(
    configuration: Configuration, owners: Mapping[str, tuple[str, str]], start: datetime
) -> Iterator[_Price]:
    """The prices that plans have from templates which are not changed themselves."""
    for plan in configuration.all(Plan):
        if plan.id in owners and plan.entity.plan_template_id not in owners:
            for each in inherited_prices(configuration, plan, start):
                yield _Price(each, *owners[plan.id], plan.id)


def _template_code(configuration: Configuration, price: Record[Any]) -> str:
    found = configuration.get(PlanTemplate, price.entity.plan_template_id)
    return code_of(found.entity) or found.entity.name


def name_priced(configuration: Configuration, price: Pricing | CounterPricing) -> tuple[str, str]:
    """The code and the name of what a price is of."""
    found: Record[Any]
    if isinstance(price, CounterPricing):
        found = configuration.get(Counter, price.counter_id)
    elif price.aggregation_id is not None:
        found = configuration.get(Aggregation, price.aggregation_id)
    else:
        assert price.compound_aggregation_id is not None, price
        found = configuration.get(CompoundAggregation, price.compound_aggregation_id)
    return code_of(found.entity) or found.entity.name, found.entity.name


class _PriceChange(NamedTuple):
    """What a scale says of one price: a factor, and rows with new unit prices by their numbers."""

    by: Decimal | None
    rows: Mapping[int, PriceFactor]


class _BandChange(NamedTuple):
    """What becomes of the bands of one price: new unit prices by lower limit, and a factor for the rest."""

    by: Decimal | None
    unit_prices: Mapping[Decimal, Decimal]


def _change(scale: PriceScale, plan: str, priced: str) -> _PriceChange:
    """What is said of a price: the rows that say most of it decide, the last one of several.

    Raises:
        Invalid: A row has not exactly one of a factor and a unit price.
    """

    def said(row: PriceFactor) -> int:
        return 2 * (row.aggregation is not None) + (row.plan is not None)

    for number, row in enumerate(scale.factors):
        if (row.by is None) == (row.unit_price is None):
            rule = "give exactly one of by and unitPrice"
            raise Invalid(f"factors[{number}].by", row.by, rule)
    fitting = {
        number: row
        for number, row in enumerate(scale.factors)
        if row.plan in {None, plan} and row.aggregation in {None, priced}
    }
    most = max(map(said, fitting.values()), default=0)
    rows = {number: row for number, row in fitting.items() if said(row) == most}
    factors = [row.by for row in rows.values() if row.by is not None]
    values = {number: row for number, row in rows.items() if row.unit_price is not None}
    if factors:
        return _PriceChange(factors[-1], values)
    return _PriceChange(None if values else scale.by, values)


def _by_band(change: _PriceChange, price: Pricing | CounterPricing) -> _BandChange:
    """The new unit prices of a price by the lower limits of its bands.

    Raises:
        Invalid: A row names no band, and there are several, or one that the price has not.
    """
    limits = [each.lower_limit for each in price.pricing_bands]
    found = {}
    for number, row in change.rows.items():
        assert row.unit_price is not None, row
        limit = limits[0] if row.lower_limit is None and len(limits) == 1 else row.lower_limit
        if limit not in limits:
            known = ", ".join(map(plain, limits))
            rule = f"it must be the lower limit of a band of the price: one of {known}"
            raise Invalid(f"factors[{number}].lowerLimit", row.lower_limit, rule)
        found[limit] = row.unit_price
    return _BandChange(change.by, found)


def _reason_to_stay(price: Pricing | CounterPricing, change: _PriceChange, start: datetime) -> str:
    """Why a price is not scaled; empty if it is."""
    if isinstance(price, Pricing) and price.type is not PricingType.DEBIT:
        return "it is a credit"
    if price.end_date is not None and price.end_date <= start:
        return "it has ended by then"
    if price.start_date > start:
        return "it begins later"
    if change.by is None and not change.rows:
        return "no factor is given for it"
    return ""


def _scaled(
    bands: Iterable[PricingBand], change: _BandChange, decimals: int | None
) -> tuple[ScaledBand, ...]:
    found = []
    for each in bands:
        new = {}
        if change.by is not None:
            new["fixed_price"] = _multiplied(each.fixed_price, change.by, decimals)
            new["unit_price"] = _multiplied(each.unit_price, change.by, decimals)
        if each.lower_limit in change.unit_prices:
            new["unit_price"] = change.unit_prices[each.lower_limit]
        found.append(ScaledBand(each, each.model_copy(update=new)))
    return tuple(found)


def _multiplied(old: Decimal, factor: Decimal, decimals: int | None) -> Decimal:
    with exact():
        product = old * factor
    if decimals is None:
        decimals = len(plain(old).partition(".")[2]) + _MORE_DECIMALS
    return round_amount(product, min(decimals, _DECIMALS_MAX), RoundingMode.HALF_UP)


def replacing_price(configuration: Configuration, id: str, change: PriceChange) -> list[Document]:
    """What a file says of a price that has other bands from an instant on.

    Raises:
        NotFound: There is no such price.
        Invalid: The price does not hold then.
    """
    record = configuration.get(Pricing, id)
    start = change.start_date
    require_active(record.entity, start)
    settings = next(configuration.all(OrganizationConfig), None)
    day = local_date(start, zone(settings.entity.timezone if settings else "UTC"))
    rows = list(_following(record, {"pricing_bands": change.pricing_bands}, start, day))
    return [Document("price", {resource_of(record.entity).name: rows})]


def require_active(pricing: Pricing, start: datetime) -> None:
    """Refuse to replace a price at an instant at which it does not hold.

    Raises:
        Invalid: It does not.
    """
    end = pricing.end_date
    if pricing.start_date <= start and (end is None or start < end):
        return
    first = format_instant(pricing.start_date)
    rule = f"the replaced price must hold then: from {first}" + (
        f", before {format_instant(end)}" if end else ""
    )
    raise Invalid("startDate", format_instant(start), rule)


def _following(
    record: Record[Any], bands: Mapping[str, tuple[PricingBand, ...]], start: datetime, day: date
) -> Iterator[dict[str, Any]]:
    """What a file says of a price that changes: the old one with its end, and the new one."""
    entity = record.entity
    if entity.start_date == start:
        yield {"id": record.id, **_wire(entity.model_copy(update=bands))}
        return
    yield {"id": record.id, **_wire(entity.model_copy(update={"end_date": start}))}
    code = following_code(entity.code, day)
    yield _wire(entity.model_copy(update={**bands, "start_date": start, "code": code}))


def following_code(code: str | None, day: date) -> str | None:
    """The code of the price that follows from a day on: two prices do not share one."""
    mark = f"-{day}"
    return code and f"{code[: CODE_MAX - len(mark)].rstrip()}{mark}"


def _wire(entity: Any) -> dict[str, Any]:
    found: dict[str, Any] = wire.loads(wire.dumps(entity.to_wire()))
    return found
