"""A small organization in memory that tests change by one entity at a time, by all rules."""

from typing import Any

from meterlake.model.catalog.catalog import Aggregation, Meter, Product
from meterlake.model.catalog.plans import Plan, PlanTemplate, Pricing
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.errors import NotFound
from meterlake.model.resources import BY_ENTITY
from meterlake.model.resources.proposal import Proposal
from meterlake.model.values.entity import Configuration, Entity
from meterlake.model.values.ids import derived_id
from meterlake.stages.config.check import check
from tests.organizations import empty

START = "2026-01-01T00:00:00Z"
GB = {"category": "MEASURE", "code": "gb", "name": "Sent"}
REGION = {"category": "WHERE", "code": "region", "name": "Region"}
TIER = {"category": "WHAT", "code": "tier", "name": "Tier"}
KEY = {"category": "METADATA", "code": "key", "name": "Key"}
DERIVED = [
    {"category": "COST", "code": "cost", "name": "Cost", "calculation": "gb * 2"},
    {"category": "OTHER", "code": "place", "name": "Place", "calculation": "region + tier"},
]
AGGREGATION = {
    "name": "Egress",
    "targetField": "gb",
    "aggregation": "SUM",
    "rounding": "NONE",
    "quantityPerUnit": 1,
    "unit": "GB",
}
COMPOUND = {"name": "Compound", "rounding": "UP", "quantityPerUnit": 1, "unit": "GB"}
TEMPLATE = {"name": "Template", "currency": "USD", "standingCharge": 0, "billFrequency": "MONTHLY"}


def bands(*lowers: int) -> list[dict[str, int]]:
    """Bands at some lower limits."""
    return [{"lowerLimit": lower, "fixedPrice": 0, "unitPrice": 1} for lower in lowers]


PRICING = {"startDate": START, "pricingBands": bands(0)}


class World:
    """The organization; `@name` in a document is the id of the entity that was put as `name`."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.configuration = configuration or empty()

    def put(self, kind: type[Entity], name: str, /, **document: Any) -> "World":
        """Create or replace one entity; raises what its rules, or those of others, raise."""
        id_ = derived_id(name)
        try:
            before = self.configuration.get(kind, id_)
        except NotFound:
            before = None
        entity = kind.from_wire(_resolved(document))
        proposal = Proposal(name, BY_ENTITY[kind], id_, entity, before, ())
        self.configuration = check(self.configuration, [proposal])
        return self

    def has(self, kind: type[Entity], name: str) -> Any:
        """The record that was put under a name."""
        return self.configuration.get(kind, derived_id(name))

    def change(self, kind: type[Entity], name: str, /, **fields: Any) -> "World":
        """Replace some fields of an entity; None takes one away."""
        document = self.has(kind, name).entity.to_wire() | fields
        return self.put(kind, name, **document)


def _resolved(value: Any) -> Any:
    match value:
        case str():
            return derived_id(value[1:]) if value.startswith("@") else value
        case list():
            return [_resolved(item) for item in value]
        case dict():
            return {key: _resolved(item) for key, item in value.items()}
        case _:
            return value


def market() -> World:
    """Two products with a plan each, a meter of one of them, a global meter, two accounts."""
    world = World()
    for product in ("cloud", "shop"):
        world.put(Product, product, code=product, name=product)
        world.put(PlanTemplate, f"{product} template", **TEMPLATE, productId=f"@{product}")
        world.put(
            Plan, f"{product} plan", code=product, name="P", planTemplateId=f"@{product} template"
        )
    meter = {"name": "M", "dataFields": [GB, REGION, TIER, KEY], "derivedFields": DERIVED}
    world.put(Meter, "egress", **meter, code="egress", productId="@cloud")
    world.put(Meter, "calls", **meter, code="calls")
    world.put(Aggregation, "egress_gb", **AGGREGATION, code="egress_gb", meterId="@egress")
    world.put(Aggregation, "calls_gb", **AGGREGATION, code="calls_gb", meterId="@calls")
    for account in ("acme", "bolt"):
        world.put(Account, account, code=account, name=account, emailAddress="a@b.example")
    return world


def subscribed() -> World:
    """The market, with the account acme on the plan of cloud, and a price for its egress."""
    world = market()
    world.put(
        Pricing, "price", **PRICING, code="p", planId="@cloud plan", aggregationId="@egress_gb"
    )
    return world.put(
        AccountPlan, "acme cloud", accountId="@acme", planId="@cloud plan", startDate=START
    )
