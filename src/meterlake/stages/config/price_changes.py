"""Proposed entities → the prices that change, band by band, and the same as if they had held before.

A price that begins where another one of the same thing ends follows it: people see both as one
change. What is asked of such a change is what it would have done to bills that are past.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.catalog.counters import CounterPricing
from meterlake.model.catalog.plans import Plan, PlanTemplate, Pricing, PricingBand
from meterlake.model.resources import code_of, resource_of
from meterlake.model.resources.proposal import Document, Proposal
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Record
from meterlake.stages.config.scale_prices import name_priced
from meterlake.stages.config.template_prices import hidden_price

_PRICES: Final = (Pricing, CounterPricing)
# What may differ between a price and the one that follows it.
_OWN: Final = frozenset({"code", "startDate", "endDate", "pricingBands", "overagePricingBands"})


class ChangedPrice(NamedTuple):
    """A price that changes.

    Attributes:
        old: The price as it is, the one that the new one follows, or the template's that it hides;
            None if there is none.
        new: The price as it would be; None if the old one ends and none follows.
        start: When that begins to hold.
    """

    old: Record[Any] | None
    new: Record[Any] | None
    start: datetime

    @property
    def follows(self) -> bool:
        """Whether the new price begins where another one ends."""
        return self._is_another and not self.hides

    @property
    def hides(self) -> bool:
        """Whether the new price takes the place of one of the plan's template."""
        if not self._is_another:
            return False
        assert self.old is not None, self
        assert self.new is not None, self
        return self.old.entity.plan_id is None and self.new.entity.plan_id is not None

    @property
    def _is_another(self) -> bool:
        return self.old is not None and self.new is not None and self.old.id != self.new.id

    def to_wire(self, after: Configuration) -> dict[str, Any]:
        """The price under camelCase names.

        Args:
            after: The configuration as it would be.
        """
        record = self.new or self.old
        assert record is not None, self
        priced, name = name_priced(after, record.entity)
        segment = getattr(record.entity, "segment", None)
        plan, currency = _owner(after, record.entity)
        return {
            "kind": resource_of(record.entity).name,
            **({} if self.old is None else {"id": self.old.id}),
            "plan": plan,
            "priced": priced,
            "name": name,
            **({"segment": segment} if segment else {}),
            "currency": currency,
            "from": self.start,
            "bands": list(self._bands("pricing_bands")),
            "overageBands": list(self._bands("overage_pricing_bands")),
        }

    def _bands(self, field: str) -> Iterator[dict[str, Any]]:
        old, new = (_by_limit(each, field) for each in (self.old, self.new))
        for limit in sorted(old.keys() | new.keys()):
            was, will = old.get(limit), new.get(limit)
            yield {
                "lowerLimit": limit,
                "fixedPrice": _pair(was, will, "fixed_price"),
                "unitPrice": _pair(was, will, "unit_price"),
            }


def changed_prices(before: Configuration, proposals: Sequence[Proposal]) -> list[ChangedPrice]:
    """The prices that change, in the order of the proposals."""
    mine = [each for each in proposals if isinstance(each.entity, _PRICES) and each.changed]
    # Prices as they would be, by when they end and what they are of.
    stored: list[Record[Any]] = [*before.all(Pricing), *before.all(CounterPricing)]
    changed = [each.record() for each in mine if each.before is not None]
    ending = {
        (_identity(record.entity), record.entity.end_date): record.id
        for record in (*stored, *changed)
    }
    by_id = {each.id: each for each in stored}
    followed: set[str] = set()
    found: list[ChangedPrice] = []
    for each in mine:
        entity: Any = each.entity
        if each.before is None:
            old = by_id.get(ending.get((_identity(entity), entity.start_date), ""))
            followed |= set() if old is None else {old.id}
            old = old or hidden_price(before, entity)
            found.append(ChangedPrice(old, each.record(), entity.start_date))
    found += [
        _changed_in_place(each)
        for each in mine
        if each.before is not None and each.id not in followed
    ]
    order = {each.id: number for number, each in enumerate(mine)}
    return sorted(found, key=lambda each: min(order[r.id] for r in each[:2] if r and r.id in order))


def _changed_in_place(proposal: Proposal) -> ChangedPrice:
    """A price that is changed itself, or that ends."""
    before, entity = proposal.before, proposal.entity
    assert before is not None, proposal
    assert isinstance(entity, _PRICES), proposal
    end = entity.end_date
    if end is not None and end != before.entity.end_date:
        bands = _by_limit(before, "pricing_bands")
        if bands == _by_limit(proposal.record(), "pricing_bands"):
            return ChangedPrice(before, None, end)
    return ChangedPrice(before, proposal.record(), entity.start_date)


def as_if_begun(proposals: Sequence[Proposal], prices: Sequence[ChangedPrice]) -> list[Document]:
    """The changed entities as documents, in which new prices hold since those that they follow began."""
    following = {each.new.id: each for each in prices if each.new and each.follows}
    followed = {each.old.id: each.new for each in prices if each.old and each.new and each.follows}
    hiding = {each.new.id: each.old for each in prices if each.old and each.new and each.hides}
    content: dict[str, list[Any]] = {}
    singletons: dict[str, Any] = {}
    for each in proposals:
        if not each.changed or each.id in following:
            continue
        entity: Any = each.entity
        if each.id in followed and each.before is not None:
            kept = {
                name: getattr(each.before.entity, name)
                for name in ("code", "start_date", "end_date")
            }
            entity = followed[each.id].entity.model_copy(update=kept)
        if each.id in hiding:
            since = {"start_date": hiding[each.id].entity.start_date}
            entity = entity.model_copy(update=since)
        row = wire.loads(wire.dumps(entity.to_wire()))
        if each.resource.singleton:
            singletons[each.resource.name] = row
        else:
            content.setdefault(each.resource.name, []).append({"id": each.id, **row})
    return [Document("proposal", {**singletons, **content})]


def _identity(price: Any) -> str:
    """What prices that follow each other have in common."""
    said = {name: value for name, value in price.to_wire().items() if name not in _OWN}
    return wire.dumps_sorted([type(price).__name__, wire.to_plain(said)])


def _owner(configuration: Configuration, price: Any) -> tuple[str, str]:
    """The code of the plan or template of a price, and the currency of its amounts."""
    template_id, code = price.plan_template_id, None
    if price.plan_id is not None:
        plan = configuration.get(Plan, price.plan_id).entity
        template_id, code = plan.plan_template_id, plan.code
    template = configuration.get(PlanTemplate, template_id).entity
    return code or code_of(template) or template.name, template.currency


def _by_limit(record: Record[Any] | None, field: str) -> dict[Decimal, PricingBand]:
    bands = () if record is None else getattr(record.entity, field, ())
    return {each.lower_limit: each for each in bands}


def _pair(old: PricingBand | None, new: PricingBand | None, field: str) -> dict[str, Decimal]:
    sides = (("old", old), ("new", new))
    return {name: getattr(each, field) for name, each in sides if each is not None}
