"""Rules of compound aggregations: what their calculations read."""

from collections.abc import Iterable, Iterator
from typing import Any

from meterlake.model.calculation import InvalidCalculation
from meterlake.model.catalog.catalog import QUOTED, Aggregation, CompoundAggregation, Product
from meterlake.model.configuration.organization import CustomFields
from meterlake.model.errors import Invalid
from meterlake.model.rules.catalog.plans import segments_of_compound
from meterlake.model.rules.proposed import Proposed, changes, check_dependents
from meterlake.model.scopes.compound import CUSTOM_FIELD_KINDS, CUSTOM_FIELDS, CompoundScope
from meterlake.model.scopes.products import product_of_aggregation
from meterlake.model.values.entity import Configuration, Record


def compound_segments(
    record: Record[CompoundAggregation], configuration: Configuration
) -> dict[str, Any]:
    """The segments that a compound aggregation takes over from what it reads."""
    segments = segments_of_compound(record.entity, configuration)
    return {"segments": list(segments)} if segments else {}


def calculation_is_whole(new: Proposed[CompoundAggregation]) -> None:
    """A calculation says something, and all its quotes and parentheses are closed."""
    calculation = new.entity.calculation
    rest = QUOTED.sub(" ", calculation)
    if not calculation.strip():
        raise Invalid("calculation", calculation, "it must be a formula, not only spaces")
    if '"' in rest:
        raise Invalid(
            "calculation", calculation, "it must have a closing quote for every opening one"
        )
    if not _is_balanced(rest):
        raise Invalid(
            "calculation", calculation, "it must have a closing parenthesis for every opening one"
        )


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def compound_fits(new: Proposed[CompoundAggregation]) -> None:
    """A calculation can be read, names what it may, and gives a number."""
    try:
        CompoundScope(new.entity, new.configuration).check()
    except InvalidCalculation as error:
        raise error.as_invalid("calculation", new.entity.calculation) from None


def compounds_keep_custom_fields(new: Proposed[CustomFields]) -> None:
    """A custom field that a compound aggregation names stays, and stays a number or a text."""
    if changes(new, *CUSTOM_FIELD_KINDS):
        compounds = new.configuration.all(CompoundAggregation)
        check_dependents(
            _naming(compounds), compound_fits, new.configuration, CUSTOM_FIELDS, "changed"
        )


def compounds_keep_product_fields(new: Proposed[Product]) -> None:
    """A product's own custom fields still fit the compound aggregations that name them."""
    if changes(new, "custom_fields"):
        compounds = new.configuration.where(CompoundAggregation, "product_id", new.id)
        check_dependents(
            _naming(compounds), compound_fits, new.configuration, CUSTOM_FIELDS, "changed"
        )


def compounds_keep_aggregation_fields(new: Proposed[Aggregation]) -> None:
    """An aggregation's own custom fields still fit the compound aggregations that name them."""
    if changes(new, "custom_fields"):
        compounds = compounds_of(new.entity, new.configuration)
        check_dependents(
            _naming(compounds), compound_fits, new.configuration, CUSTOM_FIELDS, "changed"
        )


def _naming(
    compounds: Iterable[Record[CompoundAggregation]],
) -> Iterator[Record[CompoundAggregation]]:
    return (each for each in compounds if CUSTOM_FIELDS in each.entity.calculation)


def aggregations_in_reach(new: Proposed[CompoundAggregation]) -> None:
    """A calculation reads aggregations that exist; one for a product only its own and global ones."""
    for code in new.entity.aggregation_codes:
        found = new.configuration.find(Aggregation, code)
        name = f"aggregation.{code}"
        if found is None:
            raise Invalid("calculation", name, "it must be the code of an existing Aggregation")
        product_id = product_of_aggregation(found.entity, new.configuration)
        if new.entity.product_id is not None and product_id not in {None, new.entity.product_id}:
            raise Invalid(
                "calculation",
                name,
                "it must be an aggregation of the same product, or a global one",
            )


def compounds_of(
    aggregation: Aggregation, configuration: Configuration
) -> Iterator[Record[CompoundAggregation]]:
    """The compound aggregations that read an aggregation."""
    for record in configuration.all(CompoundAggregation) if aggregation.code else ():
        if aggregation.code in record.entity.aggregation_codes:
            yield record
