"""Compound aggregations: what their calculations may name, and what these names are worth."""

from collections.abc import Iterable, Iterator
from typing import Final

from pydantic.alias_generators import to_camel

from meterlake.model.calculation import (
    CalculationScope,
    InvalidCalculation,
    Node,
    Type,
    Value,
    check,
    parse,
)
from meterlake.model.calculation.mistakes import nearest
from meterlake.model.calculation.tree import FunctionCall, Name, walk
from meterlake.model.calculation.types import type_of
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Product
from meterlake.model.configuration.organization import CustomFields, custom_value
from meterlake.model.scopes.plan_fields import PLAN_KINDS
from meterlake.model.scopes.products import product_of_aggregation
from meterlake.model.values.entity import Configuration, Entity, Record

AGGREGATION: Final = "aggregation"
CUSTOM_FIELDS: Final = "customFields"
ACCOUNT: Final = f"{CUSTOM_FIELDS}.account."
# Whose custom fields have another value from account to account.
OWN_KINDS: Final = ("account", *PLAN_KINDS)
# Whose custom fields a calculation may name.
CUSTOM_FIELD_KINDS: Final = (
    *("organization", "product", "meter", "aggregation", "compound_aggregation"),
    *OWN_KINDS,
)


class CompoundScope:
    """What the calculation of one compound aggregation may name, read only where it does."""

    def __init__(self, compound: CompoundAggregation, configuration: Configuration) -> None:
        self.compound = compound
        self.configuration = configuration
        self._defaults: CustomFields | None = None

    def check(self) -> Node:
        """The calculation.

        Raises:
            InvalidCalculation: It is none, names what it must not, or gives no number.
        """
        tree = parse(self.compound.calculation)
        types = {f"{AGGREGATION}.{code}": Type.NUMBER for code in self._codes(tree)}
        for node in walk(tree):
            if isinstance(node, FunctionCall) and node.function == "lookup":
                rule = "lookup is for derived fields of meters: aggregate one that looks up"
                raise InvalidCalculation(rule, node.column)
        kinds = [to_camel(kind) for kind in CUSTOM_FIELD_KINDS]
        for node in _names(tree):
            if node.parts[0] != CUSTOM_FIELDS or len(node.parts) == 1:
                continue
            named = node.parts[1]
            if named not in kinds:
                rule = f"custom fields are those of {', '.join(kinds)}, not of `{named}`"
                raise InvalidCalculation(rule, node.column, nearest(named, kinds))
            if named == "product" and self.compound.product_id is None:
                rule = "custom fields of a product need a compound aggregation of a product"
                raise InvalidCalculation(f"{rule}; this one is global", node.column)
        types |= {name: type_of(value) for name, value in self.constants().items()}
        types |= {name: type_of(value) for name, value in self.own_defaults.items()}
        check(tree, CalculationScope(types), Type.NUMBER)
        return tree

    def parts(self) -> list[Record[Aggregation]]:
        """The aggregations that it reads."""
        found = (
            self.configuration.find(Aggregation, code) for code in self.compound.aggregation_codes
        )
        return [record for record in found if record is not None]

    def constants(self) -> dict[str, Value]:
        """The custom fields that are the same for all accounts, by name.

        A meter's has the organization's value: quantities may come from several meters. So has an
        aggregation's, unless the calculation reads only one aggregation.
        """
        found: dict[str, Value] = {}
        parts = self.parts()
        carriers: dict[str, Entity | None] = {
            "organization": None,
            "meter": None,
            # Of several aggregations none is meant more than the others.
            "aggregation": parts[0].entity if len(parts) == 1 else None,
            "compound_aggregation": self.compound,
        }
        if self.compound.product_id is not None:
            product = self.configuration.get(Product, self.compound.product_id)
            carriers["product"] = product.entity
        for kind, entity in carriers.items():
            for name, default in getattr(self.defaults, kind).items():
                value = default
                if entity is not None:
                    value = custom_value(name, entity, self.defaults, in_compound=True)
                found[f"{CUSTOM_FIELDS}.{to_camel(kind)}.{name}"] = value
        return found

    @property
    def own_defaults(self) -> dict[str, Value]:
        """What the organization says of the custom fields that depend on the account, by name."""
        return {
            f"{CUSTOM_FIELDS}.{to_camel(kind)}.{name}": value
            for kind in OWN_KINDS
            for name, value in getattr(self.defaults, kind).items()
        }

    @property
    def defaults(self) -> CustomFields:
        """The custom fields of the organization."""
        if self._defaults is None:
            record = next(self.configuration.all(CustomFields), None)
            self._defaults = record.entity if record else CustomFields()
        return self._defaults

    def _codes(self, tree: Node) -> Iterator[str]:
        """The codes of aggregations that a calculation names and may read."""
        for node in _names(tree):
            if node.parts[0] != AGGREGATION or len(node.parts) != 2:  # noqa: PLR2004  # a prefix and a code
                continue
            code = node.parts[1]
            record = self.configuration.find(Aggregation, code)
            if record is None:
                raise self._unknown(node, code)
            if self.compound.product_id is not None:
                product_id = product_of_aggregation(record.entity, self.configuration)
                if product_id not in {None, self.compound.product_id}:
                    rule = (
                        f"`{node.key}` is not an aggregation of the same product, or a global one"
                    )
                    raise InvalidCalculation(rule, node.column)
            yield code

    def _unknown(self, node: Name, code: str) -> InvalidCalculation:
        if self.configuration.find(CompoundAggregation, code) is not None:
            rule = f"`{node.key}` is a compound aggregation; a calculation reads simple ones"
            return InvalidCalculation(rule, node.column)
        known = (each.entity.code for each in self.configuration.all(Aggregation))
        like = nearest(code, (each for each in known if each is not None))
        rule = f"`{node.key}` is not the code of an existing Aggregation"
        return InvalidCalculation(rule, node.column, like and f"{AGGREGATION}.{like}")


def names_of(tree: Node) -> frozenset[str]:
    """The names in a calculation, as values have them."""
    return frozenset(node.key for node in _names(tree))


def plan_fields_of(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The custom fields of plans among some names, each with its kind and field."""
    kinds = {f"{CUSTOM_FIELDS}.{to_camel(kind)}.": kind for kind in PLAN_KINDS}
    return {
        name: (kind, name.removeprefix(prefix))
        for name in names
        for prefix, kind in kinds.items()
        if name.startswith(prefix)
    }


def _names(tree: Node) -> Iterator[Name]:
    return (node for node in walk(tree) if isinstance(node, Name))
