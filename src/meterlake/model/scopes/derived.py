"""Derived fields of a meter: what their calculations may name, and what these names are worth."""

from collections.abc import Mapping
from typing import Final

from meterlake.model.calculation import (
    CalculationScope,
    InvalidCalculation,
    LookupSchema,
    Node,
    Type,
    Value,
    check,
    looked_up,
    parse,
)
from meterlake.model.calculation.tree import Name, walk
from meterlake.model.calculation.types import type_of
from meterlake.model.catalog.catalog import DerivedField, Meter, Product
from meterlake.model.catalog.lookups import (
    LookupTable,
    LookupTableRevisionFieldType,
    readable_revision,
)
from meterlake.model.configuration.organization import CustomFields, custom_value
from meterlake.model.values.entity import Configuration, Entity, Record

CUSTOM_FIELDS: Final = "customFields"
ACCOUNT: Final = f"{CUSTOM_FIELDS}.account."
ACCOUNT_CODE: Final = "account.code"

# What every measurement has, whatever the meter; a data field of such a code is hidden by it.
FIXED_NAMES: Final[Mapping[str, Type]] = {
    "ts": Type.INSTANT,
    "ets": Type.INSTANT,
    ACCOUNT_CODE: Type.TEXT,
}
_TYPES: Final = {
    LookupTableRevisionFieldType.STRING: Type.TEXT,
    LookupTableRevisionFieldType.NUMBER: Type.NUMBER,
}


class DerivedScope:
    """What the calculations of one meter's derived fields may name, read only where they do."""

    def __init__(self, meter: Meter, configuration: Configuration) -> None:
        self.meter = meter
        self.configuration = configuration
        self._defaults: Record[CustomFields] | None = None

    def check(self, field: DerivedField) -> Node:
        """The calculation of a derived field.

        Raises:
            InvalidCalculation: It is none, names what it must not, or gives the wrong type.
        """
        tree = parse(field.calculation)
        derived = {field.code for field in self.meter.derived_fields}
        for node in walk(tree):
            if not isinstance(node, Name):
                continue
            if node.parts[:2] == (CUSTOM_FIELDS, "product") and self.meter.product_id is None:
                rule = "custom fields of a product need a meter of a product; this one is global"
                raise InvalidCalculation(rule, node.column)
            if node.key in derived:
                rule = f"`{node.key}` is a derived field; only data fields can be calculated with"
                raise InvalidCalculation(rule, node.column)
        tables = self._tables(tree)
        expected = Type.NUMBER if field.category.numeric else Type.TEXT
        values = {**self.constants(), **self.account_defaults}
        types = {
            **{
                field.code: Type.NUMBER if field.category.numeric else Type.TEXT
                for field in self.meter.data_fields
            },
            **{name: type_of(value) for name, value in values.items()},
            **FIXED_NAMES,
        }
        check(tree, CalculationScope(types, tables), expected)
        return tree

    def constants(self) -> dict[str, Value]:
        """The custom fields that are the same for all measurements, by name."""
        product = self.product()
        carriers: dict[str, Entity | None] = {"organization": None, "meter": self.meter}
        if product is not None:
            carriers["product"] = product.entity
        return {
            f"{CUSTOM_FIELDS}.{kind}.{name}": custom_value(name, entity, self.defaults)
            for kind, entity in carriers.items()
            for name in getattr(self.defaults, kind)
        }

    @property
    def account_defaults(self) -> dict[str, Value]:
        """What the organization says of the custom fields of accounts, by name."""
        return {f"{ACCOUNT}{name}": value for name, value in self.defaults.account.items()}

    @property
    def defaults(self) -> CustomFields:
        """The custom fields of the organization."""
        record = self.defaults_record
        return record.entity if record else CustomFields()

    @property
    def defaults_record(self) -> Record[CustomFields] | None:
        """The same as it is stored; None if nobody wrote it yet."""
        if self._defaults is None:
            self._defaults = next(self.configuration.all(CustomFields), None)
        return self._defaults

    def product(self) -> Record[Product] | None:
        """The product of the meter."""
        product_id = self.meter.product_id
        return None if product_id is None else self.configuration.get(Product, product_id)

    def _tables(self, tree: Node) -> dict[str, LookupSchema]:
        named = list(looked_up(tree))
        if not named:
            return {}
        found = {}
        for table in self.configuration.all(LookupTable):
            revision = readable_revision(table, self.configuration)
            if revision is not None:
                types = {field.name: _TYPES[field.type] for field in revision.entity.fields}
                found[table.entity.code] = LookupSchema(
                    tuple(types[key] for key in revision.entity.keys), types
                )
        for literal in named:
            code = str(literal.value)
            if code not in found and self.configuration.find(LookupTable, code) is not None:
                rule = f"lookup table `{code}` has no published revision, nor one draft"
                raise InvalidCalculation(rule, literal.column)
        return found
