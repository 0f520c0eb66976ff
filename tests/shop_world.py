"""An organization in State that tests write to through the standard verbs, by names."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meterlake.model.catalog.catalog import Product
from meterlake.model.catalog.plans import Plan, PlanTemplate
from meterlake.model.customers.accounts import Account
from meterlake.model.resources import BY_ENTITY
from meterlake.model.resources.listing import FilterValues
from meterlake.model.values.entity import Entity
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.settings import Settings
from meterlake.stores import Organization, Stores
from tests.organizations import Clock, new_organization, open_new
from tests.rule_world import START, TEMPLATE

AUTHOR = "USER_1"


class Shop:
    """`@name` in a document is the id of what was created as `name`."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.org_id = new_organization(stores.state)
        self.ids: dict[str, str] = {}

    @property
    def organization(self) -> Organization:
        """The organization, with its stores."""
        return self.stores.organization(self.org_id)

    def create(self, kind: type[Entity], name: str, /, **document: Any) -> dict[str, Any]:
        """Create an entity and remember its id; the answer."""
        place = ResourceRef(BY_ENTITY[kind], {})
        found = entities.create(self.organization, AUTHOR, place, self.resolved(document))
        self.ids[name] = found["id"]
        return found

    def read(self, kind: type[Entity], name: str) -> dict[str, Any]:
        """The entity of a name as the wire shows it."""
        place = ResourceRef(BY_ENTITY[kind], {}, self.ids[name])
        return entities.retrieve(self.organization, place)

    def delete(self, kind: type[Entity], name: str) -> dict[str, Any]:
        """Delete the entity of a name."""
        place = ResourceRef(BY_ENTITY[kind], {}, self.ids[name])
        return entities.delete(self.organization, AUTHOR, place)

    def resolved(self, document: dict[str, Any]) -> dict[str, Any]:
        """A document with ids for names, and without Nones."""
        return {
            key: self.ids[value[1:]] if isinstance(value, str) and value[:1] == "@" else value
            for key, value in document.items()
            if value is not None
        }

    def wanted(self, kind: type[Entity], **values: Any) -> list[FilterValues]:
        """Filters of a kind's row with values."""
        return [
            FilterValues(each, tuple(given if isinstance(given, list) else [given]))
            for each in BY_ENTITY[kind].filters
            if (given := self.resolved(values).get(each.name)) is not None
        ]

    def names(self, answer: dict[str, Any]) -> list[str]:
        """The names of the entities of a page, in its order."""
        by_id = {id_: name for name, id_ in self.ids.items()}
        return [by_id[each["id"]] for each in answer["data"]]


@contextmanager
def open_shop(home: Path, clock: Clock | None = None) -> Iterator[Shop]:
    """Two products with a plan each, the parent acme and its child bolt."""
    settings = Settings(home=home, _env_file=None)
    with open_new(settings, clock) as stores:
        shop = Shop(stores)
        for product in ("cloud", "shop"):
            shop.create(Product, product, code=product, name=product)
            shop.create(PlanTemplate, f"{product} template", **TEMPLATE, productId=f"@{product}")
            shop.create(
                Plan,
                f"{product} plan",
                code=product,
                name="P",
                planTemplateId=f"@{product} template",
            )
        shop.create(Account, "acme", code="acme", name="A", emailAddress="a@b.example")
        shop.create(
            Account,
            "bolt",
            code="bolt",
            name="B",
            emailAddress="a@b.example",
            parentAccountId="@acme",
        )
        yield shop


def plan_of(account: str, plan: str = "cloud plan", **fields: Any) -> dict[str, Any]:
    """The document of an account plan."""
    return {"accountId": f"@{account}", "planId": f"@{plan}", "startDate": START, **fields}
