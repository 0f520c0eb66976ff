"""RESOURCES: one row per kind of entity. Reading this file is reading the configuration's surface.

The store, the configuration files and the API walk these rows; a new kind is a new row, and
nothing that walks them has to change for it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from types import MappingProxyType
from typing import Any, Final

from pydantic.alias_generators import to_camel

from meterlake.model import rules, wire
from meterlake.model.access import PermissionPolicy, ServiceUser
from meterlake.model.accounts import Account, AccountPlan
from meterlake.model.catalog import Aggregation, Meter, Product
from meterlake.model.entity import Configuration, Entity, Record
from meterlake.model.errors import NotFound
from meterlake.model.organization import Currency, CustomFields, OrganizationConfig
from meterlake.model.pricing import Plan, PlanTemplate, Pricing
from meterlake.model.rules import Rule

CONFIG: Final = "config"
ACCESS: Final = "access"

Computed = Callable[[Record[Any], Configuration], dict[str, Any]]
_NAME = re.compile(r"[a-z][A-Za-z]*")
_PATH = re.compile(r"[a-z]+(?:/(?:[a-z]+|\{[a-z][A-Za-z]*\}))*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """How a kind of entity appears.

    Attributes:
        name: Its key in configuration files: `planTemplates`.
        path: Its path in the API, below the organization.
        entity: Its class; the class name is the kind that the store knows.
        refs: Fields that hold an id, or several, and the kind that it belongs to. A dotted path
            leads into nested values.
        codes: The same for fields that name another entity by its code.
        key: Fields that identify an entity without a code in configuration files.
        singleton: Every organization has exactly one.
        area: `config` is what configuration files hold; the rest has commands of its own.
        rules: What must hold between the entity and all others.
        computed: Members of a response that no caller writes.
    """

    name: str
    path: str
    entity: type[Entity]
    refs: Mapping[str, type[Entity]] = field(default_factory=lambda: MappingProxyType({}))
    codes: Mapping[str, type[Entity]] = field(default_factory=lambda: MappingProxyType({}))
    key: tuple[str, ...] = ()
    singleton: bool = False
    area: str = CONFIG
    rules: tuple[Rule, ...] = ()
    computed: Computed | None = None

    def __post_init__(self) -> None:
        fields = self.entity.model_fields
        named = {path.partition(".")[0] for path in (*self.refs, *self.codes)} | set(self.key)
        faults = {
            "name": not _NAME.fullmatch(self.name),
            "path": not _PATH.fullmatch(self.path),
            "docstring": not self.entity.__dict__.get("__doc__"),
            f"fields {named - set(fields)}": not named <= set(fields),
            "key of a singleton": self.singleton and bool(self.key),
            "code to refer to": not all(
                "code" in kind.model_fields for kind in self.codes.values()
            ),
        }
        for fault, found in faults.items():
            if found:
                raise ValueError(f"resource {self.name!r}: bad {fault}")

    @property
    def kind(self) -> str:
        """The name under which the store and messages know the entity."""
        return self.entity.__name__


RESOURCES: Final = (
    Resource(
        name="currencies",
        path="picklists/currency",
        entity=Currency,
        rules=(rules.currency_code_stays,),
    ),
    Resource(
        name="organizationConfig",
        path="organizationconfig",
        entity=OrganizationConfig,
        codes={
            "currency": Currency,
            "currency_conversions.from_": Currency,
            "currency_conversions.to": Currency,
        },
        singleton=True,
        rules=(rules.timezone_exists, rules.one_rate_per_pair),
    ),
    Resource(
        name="customFields",
        path="customfields",
        entity=CustomFields,
        singleton=True,
        rules=(rules.custom_fields_not_in_use_stay,),
    ),
    Resource(name="products", path="products", entity=Product, rules=(rules.custom_fields_known,)),
    Resource(
        name="meters",
        path="meters",
        entity=Meter,
        refs={"product_id": Product},
        rules=(
            rules.custom_fields_known,
            rules.field_codes_differ,
            rules.aggregated_fields_stay,
        ),
    ),
    Resource(
        name="aggregations",
        path="aggregations",
        entity=Aggregation,
        refs={"meter_id": Meter, "accounting_product_id": Product},
        rules=(rules.custom_fields_known, rules.target_field_fits),
    ),
    Resource(
        name="planTemplates",
        path="plantemplates",
        entity=PlanTemplate,
        refs={"product_id": Product},
        codes={"currency": Currency},
        rules=(rules.custom_fields_known,),
    ),
    Resource(
        name="plans",
        path="plans",
        entity=Plan,
        refs={
            "plan_template_id": PlanTemplate,
            "account_id": Account,
            "minimum_spend_accounting_product_id": Product,
            "standing_charge_accounting_product_id": Product,
        },
        rules=(rules.custom_fields_known, rules.bespoke_account_stays),
        computed=rules.plan_product,
    ),
    Resource(
        name="pricings",
        path="pricings",
        entity=Pricing,
        refs={
            "plan_id": Plan,
            "plan_template_id": PlanTemplate,
            "aggregation_id": Aggregation,
            "accounting_product_id": Product,
        },
        key=(
            "plan_id",
            "plan_template_id",
            "aggregation_id",
            "compound_aggregation_id",
            "start_date",
            "segment",
        ),
        rules=(
            rules.one_plan_or_template,
            rules.one_aggregation,
            rules.bands_rise,
            rules.ends_after_start,
            rules.aggregation_in_product_scope,
            rules.one_price_at_a_time,
        ),
        computed=rules.pricing_aggregation_type,
    ),
    Resource(
        name="accounts",
        path="accounts",
        entity=Account,
        refs={"parent_account_id": Account},
        codes={"currency": Currency},
        rules=(rules.custom_fields_known,),
    ),
    Resource(
        name="accountPlans",
        path="accountplans",
        entity=AccountPlan,
        refs={"account_id": Account, "plan_id": Plan},
        key=("account_id", "plan_id", "plan_group_id", "start_date"),
        rules=(
            rules.custom_fields_known,
            rules.one_plan_or_group,
            rules.ends_after_start,
            rules.bespoke_plan_for_its_account,
            rules.one_plan_per_product,
        ),
        computed=rules.account_plan_product,
    ),
    Resource(
        name="permissionPolicies",
        path="permissionpolicies",
        entity=PermissionPolicy,
        area=ACCESS,
        computed=rules.policy_managed,
    ),
    Resource(name="serviceUsers", path="serviceusers", entity=ServiceUser, area=ACCESS),
)

BY_ENTITY: Final = {resource.entity: resource for resource in RESOURCES}
BY_KIND: Final = {resource.kind: resource for resource in RESOURCES}
BY_NAME: Final = {resource.name: resource for resource in RESOURCES}
assert len(BY_ENTITY) == len(BY_NAME) == len({r.path for r in RESOURCES}) == len(RESOURCES)


def in_order() -> Iterator[Resource]:
    """Every resource after the ones that it refers to."""
    graph = {
        row.entity: {*row.refs.values(), *row.codes.values()} - {row.entity} for row in RESOURCES
    }
    return (BY_ENTITY[kind] for kind in TopologicalSorter(graph).static_order())


def resource_of(entity: Entity | type[Entity]) -> Resource:
    """The row of an entity or of its class."""
    return BY_ENTITY[entity if isinstance(entity, type) else type(entity)]


def code_of(entity: Entity) -> str | None:
    """The code of an entity, or None if it has none."""
    return getattr(entity, "code", None)


def natural_key(entity: Entity) -> tuple[str, ...] | None:
    """What identifies an entity without a code, or None if its kind has nothing of the sort."""
    key = resource_of(entity).key
    return tuple(wire.dumps_sorted(getattr(entity, name)) for name in key) or None


def values_at(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text at a dotted path through fields and lists, with its place on the wire.

    >>> config = OrganizationConfig(days_before_bill_due=30)
    >>> list(values_at(config, "currency"))
    [('currency', 'USD')]
    """
    step, _, rest = path.partition(".")
    found = getattr(value, step)
    several = isinstance(found, tuple)
    for index, item in enumerate(found if several else (found,)):
        place = wire_name(step) + (f"[{index}]" if several else "")
        if item is None:
            continue
        if not rest:
            yield place, item
            continue
        yield from ((f"{place}.{inner}", text) for inner, text in values_at(item, rest))


def wire_name(attribute: str) -> str:
    """The wire's name of an attribute: `from_` is `from`, `start_date` is `startDate`."""
    return to_camel(attribute).rstrip("_")


def response(record: Record[Any], around: Configuration) -> dict[str, Any]:
    """What the wire shows of a record: its fields, its envelope, and what is computed.

    Raises:
        NotFound: Something that it refers to is missing in `around`.
    """
    computed = resource_of(record.entity).computed
    return {**record.to_wire(), **(computed(record, around) if computed else {})}


def kind_named(name: str) -> type[Entity]:
    """The entity class that the store knows under a name.

    Raises:
        NotFound: There is none.
    """
    if name not in BY_KIND:
        raise NotFound("kind", name)
    return BY_KIND[name].entity
